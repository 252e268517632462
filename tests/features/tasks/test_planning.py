"""Decisions of the timetable: runs, missed times, retries, and reports."""

import pytest
from msgspec.structs import replace

from elwood.agent.conversation.settings import Hours
from elwood.features.tasks import rules, texts
from elwood.features.tasks.rules import BACKOFF, OFF, PAUSE_AFTER, TELL_AFTER
from elwood.features.tasks.state import (
    NewsPosting,
    PlannedRun,
    RunFinished,
    RunsMissed,
    RunStarted,
    TaskPaused,
    TaskRemoved,
    Timetable,
    TimetableEntry,
)
from elwood.features.tasks.task import MAX_TASKS, Task
from elwood.features.tasks.when import Cron, Every, Once
from tests.features.tasks.book import ZONE, Book

HOUR, DAY = 3600.0, 86_400.0
HOURLY = Task("t", "title", Every(HOUR), prompt="p")


def test_only_the_newest_missed_time_runs() -> None:
    book = Book(HOURLY)
    settled, (run,) = book.at(5 * HOUR + 60)
    line = texts.format_missed(HOURLY, HOUR, 4 * HOUR, 4, OFF, ZONE)
    assert settled == [RunsMissed("t", HOUR, 4 * HOUR, 4, "missed", OFF, line)]
    assert run.planned.due == 5 * HOUR


def test_a_watching_task_looks_once_for_all_missed_times() -> None:
    book = Book(replace(HOURLY, watch=(), ends=40 * HOUR))
    for hours, due in ((5, 5), (35, 35), (44, 40)):
        settled, (run,) = book.at(hours * HOUR)
        assert (settled, run.planned.due) == ([], due * HOUR)
        assert rules.task_status(book.table.tasks["t"], hours * HOUR).next == hours * HOUR
    assert book.at(60 * HOUR) == ([], [])
    book = Book(replace(HOURLY, when=Every(7 * DAY), watch=(), catch_up=30 * DAY))
    assert [run.planned.due for run in book.at(17 * DAY)[1]] == [14 * DAY]
    book = Book(replace(HOURLY, watch=()))
    book.end(book.at(HOUR)[1][0])
    assert book.at(HOUR + 60) == ([], [])
    assert book.next() == 2 * HOUR


def test_a_missed_time_waits_for_the_active_hours() -> None:
    """The machine was off at the planned time, and on again at night."""
    book = Book(replace(HOURLY, hours=Hours("20:00", "22:00"), catch_up=DAY))
    settled, runs = book.at(23 * HOUR)
    assert [(entry.first, entry.last) for entry in passed(settled)] == [(20 * HOUR, 20 * HOUR)]
    assert runs == []
    assert book.next() == 44 * HOUR
    settled, (run,) = book.at(44 * HOUR)
    assert run.planned.due == 44 * HOUR
    assert [entry.first for entry in passed(settled)] == [21 * HOUR]


def test_a_year_without_power_is_one_entry() -> None:
    book = Book(Task("t", "t", Cron("* * * * *"), prompt="p"))
    settled, (run,) = book.at(365.5 * DAY)
    (entry,) = passed(settled)
    assert (entry.first, entry.last) == (60.0, 365.5 * DAY - 60)
    assert "over 10,000 times" in entry.tell
    assert run.planned.due == 365.5 * DAY


def test_a_failing_task_backs_off_then_is_reported_then_paused() -> None:
    book = Book(Task("t", "t", Cron("0 0 * * *"), prompt="p"))
    now, told = DAY, []
    for number in range(1, PAUSE_AFTER + 1):
        (run,) = book.at(now)[1]
        assert run.planned == PlannedRun("t", DAY, number, 1)
        assert bool(run.trouble) == (number > 1)
        entries = book.end(run, "failed")
        told += [
            number
            for entry in entries
            if isinstance(entry, RunFinished | TaskPaused) and entry.tell
        ]
        if number < PAUSE_AFTER:
            now += BACKOFF[number - 1]
            assert book.at(now - 1)[1] == []
            assert book.next() == now
    assert told == [TELL_AFTER, PAUSE_AFTER]
    assert book.table.tasks["t"].paused
    assert book.table.news[-1].button == "/tasks resume t"
    assert book.at(9 * DAY) == ([], [])
    book.change("resume")
    assert book.at(9 * DAY) == ([], [])
    (run,) = book.at(10 * DAY)[1]
    assert (run.planned.due, run.planned.attempt) == (10 * DAY, 1)


def test_a_requested_run_is_not_retried() -> None:
    book = Book(HOURLY)
    book.change("run")
    (run,) = book.at(60.0)[1]
    (ended,) = book.end(run, "failed")
    assert isinstance(ended, RunFinished)
    assert (ended.again, bool(ended.tell)) == (None, True)


def test_a_late_retry_is_skipped_and_reported() -> None:
    book = Book(Task("t", "t", Once(HOUR), prompt="p", catch_up=BACKOFF[0] + BACKOFF[1] - 1))
    book.end(book.at(HOUR)[1][0], "failed")
    (ended,) = book.end(book.at(HOUR + BACKOFF[0])[1][0], "failed")
    assert isinstance(ended, RunFinished)
    assert (ended.again, bool(ended.tell)) == (None, True)


def test_the_next_planned_time_replaces_a_retry() -> None:
    book = Book(replace(HOURLY, when=Every(600.0)))
    for number in (1, 2, 3):
        (run,) = book.at(600.0 + sum(BACKOFF[: number - 1]))[1]
        entries = book.end(run, "failed")
    assert [entry.again for entry in entries if isinstance(entry, RunFinished)] == [None]
    (run,) = book.at(1200.0)[1]
    assert (run.planned.due, run.planned.attempt) == (1200.0, 1)


def test_a_run_that_acted_before_its_budget_ended_is_reported() -> None:
    book = Book(HOURLY)
    for hour, acted, tells in ((1, False, True), (2, False, False), (3, True, True)):
        [ended] = book.end(book.at(hour * HOUR)[1][0], "spent", acted=acted)
        assert isinstance(ended, RunFinished)
        assert (bool(ended.tell), texts.ACTED in ended.tell) == (tells, acted)
    assert book.table.tasks["t"].failures == 0


def test_a_once_task_resumed_late_runs_immediately() -> None:
    book = Book(Task("t", "t", Once(HOUR), prompt="p"))
    book.change("pause")
    book.at(2 * HOUR)
    assert book.change("resume").words == "It has no planned time left, so it starts now."
    (run,) = book.at(2 * HOUR)[1]
    assert run.planned.is_requested


def test_a_requested_run_ignores_the_active_hours() -> None:
    book = Book(replace(HOURLY, hours=Hours("08:00", "10:00")), now=60.0)
    assert book.change("run").ok
    assert not book.change("run").ok
    (run,) = book.at(60.0)[1]
    book.end(run)
    assert book.table.tasks["t"].mark == 60.0
    book.now = 0.0  # the clock is set back
    book.change("run")
    (again,) = book.at(0.0)[1]
    assert again.planned.due > run.planned.due


def test_a_failure_after_an_effect_is_reported_immediately() -> None:
    """Its answer, with receipts of its effects, is not sent, and it is not retried."""
    book = Book(HOURLY)
    _, (run,) = book.at(HOUR)
    (entry,) = book.end(run, "failed", acted=True)
    assert isinstance(entry, RunFinished)
    assert entry.again is None
    assert entry.tell == f'Failed: "title": why.{texts.ACTED}'


def running(task: Task, **changed: object) -> Book:
    """Return a book with a task made in a conversation, whose run is in progress."""
    book = Book()
    task = replace(task, id="t", **changed)
    book.write(*rules.schedule(book.table, task, 0.0)[1].entries)
    book.write(RunStarted(book.at(HOUR)[1][0].planned))
    return book


def test_only_a_started_run_is_stopped() -> None:
    book = running(HOURLY)
    stopped = book.change("stop")
    assert (stopped.words, stopped.ok, stopped.stop, stopped.entries) == ("Stopped.", True, "t", ())
    book.write(RunFinished(PlannedRun("t", HOUR, series=1), "done"))
    over = book.change("stop")
    assert (over.words, over.ok, over.stop) == ("It is not running.", False, "")


@pytest.mark.parametrize("kind", ["message", "chore"])
def test_reminders_and_chores_are_not_reported_as_stopped(kind: str) -> None:
    book = Book(replace(HOURLY, prompt="", **{kind: "tea"}))
    book.write(RunStarted(book.at(HOUR)[1][0].planned))
    said = book.change("stop")
    assert "Anything else in progress will finish" in said.words
    assert bool(said.stop) is (kind == "chore"), "a model may work on the result"


def test_cancelling_a_task_stops_its_run() -> None:
    book = running(HOURLY)
    own = rules.change(book.table, "t", "cancel", "me", book.now, own=True)
    assert (own.words, own.stop) == ("Cancelled.", "")
    cancelled = book.change("cancel")
    assert (cancelled.words, cancelled.stop) == ("Cancelled. Stopped.", "t")
    assert book.table.tasks["t"].removed


def test_a_restore_drops_retries() -> None:
    """The state that the backup replaced may have run it."""
    book = Book(HOURLY)
    _, (run,) = book.at(HOUR)
    book.end(run, "failed")
    (missed,) = book.write(*rules.close_restored(book.table, HOUR + 30, ZONE))
    assert isinstance(missed, RunFinished)
    assert (missed.result, missed.run.attempt, missed.tell != "") == ("missed", 2, True)
    assert book.at(HOUR + 300) == ([], [])
    assert rules.close_restored(book.table, HOUR + 30, ZONE) == []


def test_news_are_delivered_in_pieces_and_repeated_with_a_mark() -> None:
    book = Book(*(replace(HOURLY, id=f"t{n}", title="x" * 80) for n in range(60)))
    book.at(20 * HOUR)
    first = rules.build_news(book.table)
    assert first is not None
    assert len(first.text) < 4000
    book.write(NewsPosting(first.upto))
    again = rules.build_news(book.table)
    assert again is not None
    assert (again.text, again.upto, again.again) == (first.text, first.upto, True)


# --- changes by people and files -----------------------------------------------------------------


def test_the_same_task_is_added_once() -> None:
    book = Book()
    wanted = replace(HOURLY, id="", title="Check the build")
    task, decision = rules.schedule(book.table, wanted, 0.0)
    assert task.id == "check-the-build"
    book.write(*decision.entries)
    assert rules.schedule(book.table, wanted, 0.0) == (task, rules.Decision())
    other, _ = rules.schedule(book.table, replace(wanted, prompt="q"), 0.0)
    assert other.id == "check-the-build-2"


@pytest.mark.parametrize("title", ["Backup", "memory", "Heartbeat", "Heartbeat news"])
def test_a_task_cannot_take_a_reserved_name(title: str) -> None:
    """Otherwise those tasks could not be added later."""
    wanted, chores = replace(HOURLY, id="", title=title), ("backup", "memory")
    task, decision = rules.schedule(Timetable(), wanted, 0.0, chores)
    assert decision.ok
    assert task.id.startswith("my-")


def test_a_past_task_is_refused() -> None:
    _, decision = rules.schedule(Timetable(), replace(HOURLY, when=Once(5.0)), 10.0)
    assert (decision.ok, decision.words[:20]) == (False, "that time has passed")


def test_the_number_of_tasks_is_bounded() -> None:
    tasks = [replace(HOURLY, id=f"t{n}") for n in range(MAX_TASKS)]
    book = Book()
    book.write(*rules.adopt(book.table, "config", tasks, 0.0)[0].entries)
    _, decision = rules.schedule(book.table, HOURLY, 0.0)
    assert "cancel one first" in decision.words
    more, problems = rules.adopt(book.table, "heartbeat", [HOURLY], 0.0)
    assert (more.entries, len(problems)) == ((), 1)


def test_a_new_schedule_starts_now_and_new_text_keeps_the_schedule() -> None:
    book = Book(HOURLY)
    book.at(HOUR)
    config = replace(HOURLY, origin="config")
    decision, _ = rules.adopt(book.table, "config", [replace(config, prompt="q")], 1.5 * HOUR)
    book.write(*decision.entries)
    assert book.at(1.5 * HOUR)[1][0].planned.due == HOUR
    later = replace(config, when=Every(2 * HOUR))
    decision, _ = rules.adopt(book.table, "config", [later], 1.5 * HOUR)
    book.write(*decision.entries)
    assert [entry.count for entry in passed(list(decision.entries))] == [1]
    assert book.at(1.9 * HOUR) == ([], [])
    assert book.at(2 * HOUR)[1][0].planned.due == 2 * HOUR


def test_tasks_removed_from_their_file_are_removed() -> None:
    book = Book(HOURLY)
    assert rules.adopt(book.table, "heartbeat", [], 1.0)[0].entries == ()
    (left,) = rules.adopt(book.table, "config", [], 1.0)[0].entries
    assert isinstance(left, TaskRemoved)
    _, problems = rules.adopt(book.table, "heartbeat", [HOURLY], 1.0)
    assert "config.toml" in problems[0]


def passed(entries: list[TimetableEntry]) -> list[RunsMissed]:
    return [entry for entry in entries if isinstance(entry, RunsMissed)]
