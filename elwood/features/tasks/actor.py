"""The two actors of tasks: the timetable stores tasks, the scheduler runs them.

They are separate because sessions ask the timetable, and the scheduler asks sessions.  A resumed
run repeats the same two requests: a session accepts a message once, by its id, and has one answer.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

import attrs
import trio
from msgspec.structs import replace

from elwood.agent.approvals.messages import Decided
from elwood.agent.conversation.inbound import CommandResult, Inbound, Principal, Refused
from elwood.agent.conversation.route import NOWHERE, Route
from elwood.agent.conversation.run import MESSAGE, PRINCIPAL, SESSION, RunBounds
from elwood.agent.parts import Do, Report
from elwood.agent.session.client import RunClient
from elwood.agent.session.log.state import RunResult
from elwood.agent.session.messages import Interrupt, SessionsMail
from elwood.features.tasks import rules, texts
from elwood.features.tasks.messages import (
    Adopt,
    Change,
    FinishRun,
    GetAgenda,
    ListTasks,
    NewsDelivered,
    PlanTask,
    StartRun,
    TimetableChanged,
    TimetableMail,
    WhichCancelled,
)
from elwood.features.tasks.rules import Agenda, Decision, DueRun, Outcome, Telling, WatchedState
from elwood.features.tasks.state import (
    NewsPosting,
    NewsTold,
    PlannedRun,
    RunFinished,
    RunStarted,
    TaskRemoved,
    Timetable,
    TimetableEntry,
    is_cancelled,
)
from elwood.features.tasks.task import CURRENT, Result, Task, TaskStatus, session_of, with_session
from elwood.foundation.log import bind, event
from elwood.foundation.runtime import (
    Address,
    Halt,
    Mailbox,
    clear_error,
    report_done,
    report_error,
    report_warning,
)
from elwood.foundation.settings import BadSetting
from elwood.foundation.storage.disk import write_or_report
from elwood.foundation.storage.journal import Journal
from elwood.foundation.text.lines import one_line

log = logging.getLogger("elwood.tasks")

RUNS = "writing the run logs"
HEARTBEAT = "heartbeat"
RECORD, ADOPT = "writing the timetable", "loading the tasks of"
CLOCK = "the clock was set back"
# Concurrent runs of tasks, each maybe half an hour with a model, and as many concurrent reminders,
# which are short.  A session's mailbox holds 16.
MAX_RUNS = 8
# Most seconds until the scheduler notices a suspend or a changed wall clock.
LOOK = 60.0
# Seconds until a failed write, or failed news to the owner, is retried.
RECORD_AGAIN, TELL_AGAIN = 10.0, 600.0
# Seconds for a run: a turn may take 15 minutes, and may wait for another one.
RUN_LIMIT = 1_800.0
# Seconds for a session to stop a run at that limit and record it.
STOP_LIMIT = 60.0
# Seconds to add a note to the conversation of the route; the run is done without it.
NOTE_LIMIT = 60.0
# Replaces the words of a failed run that strangers may have steered.
HIDDEN_FAILURE = (
    "the reason may contain text from strangers, so it is not repeated here; "
    "elwood session show {} shows it"
)

Tell = Callable[[str, tuple[str, ...], bool], Awaitable[bool]]
"""Post a text with buttons to the owner, maybe marked as a repeat; return True if it arrived."""


@attrs.define(eq=False)
class TimetableActor:
    """Owner of the timetable: it answers requests and records changes.

    *hint* wakes the scheduler, and must not wait.  *log_runs* writes lines by task for people; its
    failure is only reported.  *clock* returns Unix time, *zone* is the owner's.  Tasks of
    conversations do not get *reserved* ids.  Runs planned before *restored_at* may have been done
    by the state that a backup replaced.
    """

    _journal: Journal[TimetableEntry, Timetable]
    _hint: Callable[[TimetableChanged], bool]
    _log_runs: Callable[[Mapping[str, str]], Awaitable[None]]
    _clock: Callable[[], float]
    _zone: str
    _reserved: Collection[str] = ()
    _restored_at: float | None = None

    async def run(self, mailbox: Mailbox[TimetableMail]) -> None:
        """Replay, then answer until stopped."""
        await self._journal.open()
        if self._restored_at is not None:
            # Close runs that may have been done before answering requests.
            found = rules.close_restored(self._table, self._restored_at, self._zone)
            while True:
                if await self._record(found):
                    break
                await trio.sleep(RECORD_AGAIN)
        async for message in mailbox:
            await self._handle(message)

    async def _handle(self, message: TimetableMail) -> None:
        match message:
            case PlanTask():
                message.reply.set(await self._schedule(message.task))
            case ListTasks(chores=chores):
                message.reply.set(rules.task_list(self._table, self._clock(), chores=chores))
            case WhichCancelled(runs=runs):
                known = self._table.cancelled
                message.reply.set(frozenset(run for run in runs if is_cancelled(known, *run)))
            case Change():
                message.reply.set(await self._change(message))
            case Adopt():
                await self._adopt(message)
                message.reply.set(None)
            case GetAgenda(now=now):
                message.reply.set(await self._get_agenda(now))
            case StartRun():
                message.reply.set(await self._start_run(message))
            case FinishRun():
                message.reply.set(await self._end(message))
            case NewsDelivered(upto=upto):
                if self._table.news and self._table.news[0].seq <= upto:
                    await self._record([NewsTold(upto)])
                message.reply.set(None)
            case _:
                assert_never(message)

    @property
    def _table(self) -> Timetable:
        return self._journal.state

    async def _schedule(self, task: Task) -> TaskStatus | CommandResult:
        now = self._clock()
        task, decision = rules.schedule(self._table, task, now, self._reserved)
        if not decision.ok:
            return CommandResult(decision.words, ok=False)
        if not await self._record_decision(decision, task.id):
            return CommandResult("the disk is full", ok=False)
        return rules.task_status(self._table.tasks[task.id], now)

    async def _change(self, change: Change) -> CommandResult:
        decision = rules.change(
            self._table, change.id, change.verb, change.by, self._clock(), own=change.own
        )
        if not await self._record_decision(decision, change.id):
            return CommandResult("The disk is full, so I could not save that.", ok=False)
        return CommandResult(decision.words, decision.ok)

    async def _adopt(self, adopt: Adopt) -> None:
        decision, problems = rules.adopt(self._table, adopt.origin, adopt.tasks, self._clock())
        if problems:
            report_error(f"{ADOPT} {rules.FILES[adopt.origin]}", "; ".join(problems))
        else:
            clear_error(f"{ADOPT} {rules.FILES[adopt.origin]}")
        await self._record_decision(decision, adopt.origin)

    async def _record_decision(self, decision: Decision, about: str) -> bool:
        """Record a decision and wake the scheduler; False if the disk is full."""
        cancelled = [
            self._table.tasks[entry.task].task
            for entry in decision.entries
            if isinstance(entry, TaskRemoved) and entry.cancelled
        ]
        if not await self._record(decision.entries):
            return False
        if decision.entries or decision.stop:
            kinds = [type(entry).__name__ for entry in decision.entries]
            log.info("tasks changed", extra={"of": about, "entries": kinds})
            stop = [Interrupt(f"{SESSION}{decision.stop}")] if decision.stop else []
            # Sessions may wait for an approval that is now void.
            self._hint(
                TimetableChanged((*stop, *(Decided(session_of(task)) for task in cancelled)))
            )
        return True

    async def _get_agenda(self, now: float) -> Agenda:
        """Record missed runs and return the agenda; if the disk is full, without new runs."""
        if behind := rules.clock_behind(self._table, now, self._zone):
            report_warning(CLOCK, behind)
        else:
            clear_error(CLOCK)
        settled = await self._record(rules.close_missed(self._table, now, self._zone))
        if settled:
            await self._record(rules.remove_finished(self._table, now))
        agenda = rules.agenda(self._table, now)
        if agenda.tell is not None and not agenda.tell.again:
            settled = await self._record([NewsPosting(agenda.tell.upto)]) and settled
        if not settled:
            return Agenda(tuple(run for run in agenda.runs if run.begun))
        return agenda

    async def _start_run(self, begin: StartRun) -> bool:
        one, run = self._table.tasks.get(begin.run.task), begin.run
        if one is None:
            return False
        if one.run is not None:
            return one.run.planned == run
        may = rules.may_begin(one, run, self._clock())
        return may and await self._record([RunStarted(run, begin.seen, begin.session)])

    async def _end(self, end: FinishRun) -> bool:
        one, run = self._table.tasks.get(end.run.task), end.run
        if one is None:
            return True
        if one.run is not None and one.run.planned == run:
            entries = rules.on_run_finished(one, run, end.outcome, self._clock(), self._zone)
            return await self._record(entries, last_words=True)
        if end.outcome.result == "unchanged" and rules.may_begin(one, run, self._clock()):
            # Not journaled, so an unchanged watch writes nothing; checking it again after a restart
            # is harmless.
            self._table.apply(0, self._clock(), RunFinished(run, "unchanged"))
        return True

    async def _record(self, entries: Sequence[TimetableEntry], *, last_words: bool = False) -> bool:
        lines = rules.run_log(self._table, entries, self._clock(), self._zone)
        append = self._journal.append
        if entries and not await write_or_report(RECORD, append(*entries, last_words=last_words)):
            return False
        if lines:
            try:
                await self._log_runs(lines)
            except OSError as error:
                report_error(RUNS, f"{type(error).__name__}: {error}")
            else:
                clear_error(RUNS)
        return True


@attrs.define(eq=False)
class TaskRunner:
    """Carry out runs by *sessions* and *chores*.

    *watching* returns the fingerprint of a task's watch.  *route* returns the route of its answer,
    None if unknown; *home* the session of a route, if any, which gets a note of each answer so that
    people can reply.  *refusal* returns the reason if a task may not use a model now.  *now*
    returns Unix time, *zone* is the owner's.
    """

    _sessions: Address[SessionsMail]
    _chores: Mapping[str, Do]
    _watching: Callable[[Task], Awaitable[WatchedState]]
    _route: Callable[[Task], Route | None]
    _home: Callable[[Route], str | None]
    _refusal: Callable[[Task], Awaitable[str]]
    _now: Callable[[], float]
    _zone: str

    async def read_watched(self, task: Task) -> WatchedState | Outcome:
        """Return the state of the watch of *task*; the fingerprint is "" if it has none."""
        if task.watch is None:
            return WatchedState()
        try:
            return await self._watching(task)
        except Halt:
            raise
        except BadSetting as wrong:
            return Outcome("failed", str(wrong))
        except Exception as error:  # a bug there must not stop the scheduler
            log.exception("watching failed", extra={"task": task.id})
            return Outcome("failed", f"I could not check the watched files and pages: {error}")

    async def carry_out(self, run: DueRun) -> Outcome:
        """Start or resume a run and return its outcome."""
        with trio.move_on_after(RUN_LIMIT):
            return await self._follow_up(run, await self._carry_out(run))
        return await self._stop(run)

    def hint(self, hint: Interrupt | Decided) -> None:
        """Forward a hint to its session."""
        self._sessions.offer(hint)

    def session(self, task: Task) -> str:
        """Return the session of a task with `CURRENT`, else ""."""
        if task.session != CURRENT:
            return ""
        route = self._route(task)
        home = self._home(route) if route is not None else None
        return home or f"{SESSION}{task.id}"

    async def _stop(self, run: DueRun) -> Outcome:
        """Stop a run at its limit, and its follow-up; return the recorded outcome."""
        took = f"took longer than {RUN_LIMIT / 60:.0f} minutes"
        session, done = session_of(run.task), None
        with trio.move_on_after(STOP_LIMIT):
            for part in (run, replace(run, follows=True)):
                why = f"The run {took}"
                done = await RunClient(self._sessions).stop(session, _message_of(part), why) or done
        if done is not None and done.failed:
            return await self._report_end(run, done)
        # The run may have acted.  Only a chore may be repeated.
        return Outcome("failed", f"it {took}", acted=not run.task.chore)

    async def _follow_up(self, run: DueRun, outcome: Outcome) -> Outcome:
        """Run the task's follow-up for this outcome, if any, in the same session."""
        task, failed = run.task, outcome.result == "failed"
        prompt = task.on_failure if failed else task.on_success
        is_again = failed and run.planned.attempt > 1
        if not prompt or is_again or outcome.result not in ("done", "failed"):
            return outcome
        asking = replace(task, prompt=prompt, tool="", session=session_of(task))
        trouble = outcome.words if failed else ""
        following = replace(run, task=asking, trouble=trouble, follows=True, looks=())
        done = await self._carry_out(following)
        # A run that was done is not repeated because its follow-up failed.
        return outcome if failed else replace(done, acted=done.result == "failed")

    async def _carry_out(self, run: DueRun) -> Outcome:
        task = run.task
        if run.begun and isinstance(done := await self._wait_result(run), RunResult):
            return await self._report_end(run, done)
        prompt = task.prompt
        if task.chore:
            report = await self._run_chore(task, run)
            if report.failed or not report.prompt:
                return Outcome("failed" if report.failed else "done", report.words)
            prompt = report.prompt
        if prompt and (why := await self._refusal(task)):
            return Outcome("spent", why)
        route = self._route(task)
        if task.message and route is None:
            return Outcome(
                "failed", "I do not know yet where to send it; write to me in a chat first"
            )
        now = self._now()
        frame = partial(texts.frame_prompt, prompt, run.trouble, run.said)
        make_words = (
            texts.format_reminder
            if task.message
            else texts.format_tool_call
            if task.tool
            else frame
        )
        words = make_words(task, run.planned.due, now, self._zone)
        taken = await RunClient(self._sessions).begin(
            partial(self._inbound, run, words, route, now)
        )
        if isinstance(taken, Refused):
            return Outcome("failed", taken.why, acted=run.begun)
        done = await self._wait_result(run)
        if done is None:
            return Outcome("failed", "its conversation has no record of this run", acted=True)
        if route is None:
            log.info("answer has no route", extra={"task": task.id, "text": done.text})
        return await self._report_end(run, done)

    async def _run_chore(self, task: Task, run: DueRun) -> Report:
        chore = self._chores.get(task.chore)
        if chore is None:
            return Report(f"there is no chore {task.chore!r}", failed=True)
        try:
            return await chore(run.good)
        except Halt:
            raise
        except Exception as error:  # a bug in a chore must not stop the scheduler
            log.exception("chore failed", extra={"task": task.id})
            return Report(
                f"an error in Elwood itself: {type(error).__name__}: {error}", failed=True
            )

    def _inbound(self, run: DueRun, words: str, route: Route | None, now: float) -> Inbound:
        task = run.task
        silent = task.silent or route is None
        return Inbound(
            session=session_of(task),
            id=_message_of(run),
            principal=Principal(
                f"{PRINCIPAL}{task.id}", one_line(task.title) or task.id, owner=not task.untrusted
            ),
            route=route or NOWHERE,
            text=words,
            sent_at=now,
            looks=run.looks,
            untrusted=task.untrusted,
            bounds=RunBounds(
                task.id,
                task.role,
                task.tools,
                task.budget,
                fresh=not task.session,
                says="text" if task.message else "silent" if silent else "answer",
                series=run.planned.series,
                follows=task.route is None,
                tool=task.tool,
                arguments=task.arguments,
            ),
        )

    async def _report_end(self, run: DueRun, done: RunResult) -> Outcome:
        """Note the answer in the conversation of its route; return the outcome of the run."""
        route = done.told
        home = self._home(route) if route is not None else None
        if home is not None and route is not None and home != session_of(run.task):
            with trio.move_on_after(NOTE_LIMIT) as scope:
                await RunClient(self._sessions).begin(partial(self._note, run, done, route, home))
            if scope.cancelled_caught:
                log.warning(
                    "answer not noted in its conversation",
                    extra={"task": run.task.id, "home": home},
                )
        result: Result = "failed" if done.failed else "waiting" if done.waiting else "done"
        words = done.text
        # A failure that was posted to a group is also reported to the owner.
        told = done.failed and route is not None and route.private
        thinks = not (run.task.message or run.task.tool)
        if done.failed and thinks and (why := await self._refusal(run.task)):
            return Outcome("spent", why, done.acted, told)  # it used up its budget
        if done.failed and done.label.untrusted and not run.task.untrusted:
            # The words go to the next try, in a conversation without this label.
            words = HIDDEN_FAILURE.format(session_of(run.task))
        # A heartbeat must not repeat its last answer.
        repeats = result == "done" and run.task.origin == "heartbeat" and done.told is not None
        said = done.text if repeats and not done.label.untrusted else ""
        return Outcome(result, words, done.acted, told, said, done.denied)

    def _note(self, run: DueRun, done: RunResult, route: Route, home: str) -> Inbound:
        made = self._inbound(run, done.text, route, self._now())
        return replace(
            made,
            session=home,
            id=f"{made.id}:note",
            looks=(),
            untrusted=made.untrusted or done.label.untrusted,
            bounds=RunBounds(run.task.id, says="note", private=done.label.private),
        )

    async def _wait_result(self, run: DueRun) -> RunResult | None:
        return await RunClient(self._sessions).wait(session_of(run.task), _message_of(run))


def message_of(run: PlannedRun) -> str:
    """Return the permanent message id of a run."""
    due = int(run.due) if run.due.is_integer() else repr(run.due)
    return f"{MESSAGE}{run.task}:{run.series}:{due}:{run.attempt}"


def _message_of(run: DueRun) -> str:
    return f"{message_of(run.planned)}{':then' if run.follows else ''}"


@attrs.define(eq=False)
class Scheduler:
    """Get the agenda from the timetable, carry out its runs, and report their outcomes.

    *refresh* is called before each agenda: it reads files that people edit.  *now* returns Unix
    time.  *full* returns the reason if no new work is accepted: runs then wait.  *look* is the
    most seconds between two agendas.
    """

    _timetable: Address[TimetableMail]
    _runner: TaskRunner
    _refresh: Callable[[], Awaitable[None]]
    _tell: Tell
    _now: Callable[[], float]
    _full: Callable[[], str] = lambda: ""
    _look: float = LOOK
    _busy: set[str] = attrs.field(factory=set, init=False)
    _room: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(MAX_RUNS), init=False)
    _reminders: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(MAX_RUNS), init=False)
    _telling: bool = attrs.field(default=False, init=False)

    async def run(self, mailbox: Mailbox[TimetableChanged]) -> None:
        """Work until stopped.  Sessions keep runs in progress; the next start resumes them."""
        self._telling = False
        async with trio.open_nursery() as nursery:
            wake = mailbox.address
            while True:
                await self._refresh()
                now = self._now()
                agenda = await self._timetable.insist(partial(GetAgenda, now=now))
                self._start(agenda, nursery, wake)
                pause = self._look
                if agenda.next is not None:
                    pause = min(pause, max(0.0, agenda.next - self._now()))
                if not await self._pause(mailbox, pause):
                    break
            nursery.cancel_scope.cancel()

    def _start(
        self, agenda: Agenda, nursery: trio.Nursery, wake: Address[TimetableChanged]
    ) -> None:
        full = self._full()
        for run in agenda.runs:
            if full and not run.begun:
                continue  # a session would refuse it, and five failures pause a task
            if run.task.id not in self._busy:
                self._busy.add(run.task.id)
                nursery.start_soon(self._carry_out, run, wake)
        if agenda.tell is not None and not self._telling:
            self._telling = True
            nursery.start_soon(self._send_news, agenda.tell, wake)

    async def _carry_out(self, run: DueRun, wake: Address[TimetableChanged]) -> None:
        """Start a run, or resume it after a restart."""
        try:
            async with self._reminders if run.task.message else self._room:
                await self._start_or_resume(run)
        finally:
            self._busy.discard(run.task.id)
        wake.offer(TimetableChanged())

    async def _start_or_resume(self, run: DueRun) -> None:
        failure: Outcome | None = None
        begin = partial(StartRun, run=run.planned)
        if not run.begun:
            found = await self._runner.read_watched(run.task)
            if isinstance(found, Outcome):
                failure, found = found, WatchedState()
            seen = found.fingerprint
            if seen and seen == run.seen and not run.planned.is_requested:
                if run.task.origin == "heartbeat":
                    report_done(HEARTBEAT, "unchanged")
                await self._end(run, Outcome("unchanged"))
                return
            session = self._runner.session(run.task)
            begin = partial(begin, seen=seen, session=session)
            looks = found.receipts(run.unchanged)
            run = replace(run, task=with_session(run.task, session), looks=looks)
        # Also for a resumed run: it may have ended since the agenda was made.
        if not await self._timetable.insist(begin):
            if not run.begun:
                await trio.sleep(RECORD_AGAIN)
            return
        about = {"task": run.task.id, "due": run.planned.due, "attempt": run.planned.attempt}
        began = trio.current_time()
        with bind(message=message_of(run.planned)):
            log.info("run resumed" if run.begun else "run started", extra=about)
            outcome = failure or await self._runner.carry_out(run)
            about["result"], took = outcome.result, trio.current_time() - began
            success = outcome.result in ("done", "waiting")
            is_heartbeat = run.task.origin == "heartbeat"
            if is_heartbeat:
                report_done(HEARTBEAT, outcome.result)
            kind = "heartbeat" if is_heartbeat else "task"
            event(log, kind, about, success=success, seconds=took)
        await self._end(run, outcome)

    async def _end(self, run: DueRun, outcome: Outcome) -> None:
        end = partial(FinishRun, run=run.planned, outcome=outcome)
        while True:
            if await self._timetable.insist(end):
                return
            await trio.sleep(RECORD_AGAIN)

    async def _send_news(self, news: Telling, wake: Address[TimetableChanged]) -> None:
        if await self._tell(news.text, news.buttons, news.again):
            await self._timetable.insist(partial(NewsDelivered, upto=news.upto))
        else:
            await trio.sleep(TELL_AGAIN)
        self._telling = False
        wake.offer(TimetableChanged())

    async def _pause(self, mailbox: Mailbox[TimetableChanged], seconds: float) -> bool:
        """Wait for *seconds* or a wake; return False if the mailbox is closed."""
        with trio.move_on_after(seconds), suppress(trio.WouldBlock):
            try:
                woken = await mailbox.receive()
                while True:  # merge all pending wakes
                    for hint in woken.hints:
                        self._runner.hint(hint)
                    woken = mailbox.receive_nowait()
            except trio.EndOfChannel:
                return False
        return True
