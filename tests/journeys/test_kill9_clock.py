"""kill -9 of real processes while tasks run: no planned time twice, and none without an outcome.

The time of a real process cannot be made faster, and nothing may be planned more often than each
minute.  So tasks are planned between two lives, by the real timetable, for the next moments.
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import CallEnded, Entry, Received, Replied
from elwood.agent.session.log.state import Nothing, Session, next_work
from elwood.features.tasks import rules
from elwood.features.tasks.messages import PlanTask
from elwood.features.tasks.run import message_of
from elwood.features.tasks.state import RunFinished, RunStarted, Timetable, TimetableEntry
from elwood.features.tasks.task import Task, TaskStatus
from elwood.features.tasks.when import Once
from elwood.foundation.storage.journal import decoder, is_sound
from tests.fake_model_rules import Json
from tests.fake_models import Say, Step
from tests.fake_telegram import OWNER
from tests.features.tasks.timetables import keeping
from tests.journeys.judging import AGAIN, NEWS, broken
from tests.journeys.outcomes import Judge
from tests.journeys.service import FRIENDS, Town, town
from tests.journeys.test_kill9 import shuffled
from tests.journeys.test_kill9_asking import alive, careful, commands

# Rounds, unless --kills says otherwise.
KILLS = 20
# Rounds in which everything must have happened at least once.
MANY = 20
# Tasks that are planned for one life: a chat gets no more than about one message in a second.
MOST = 3
# Lives of each kind, in each eight of them.
LIVES = {"start": 2, "work": 3, "act": 3}
# What is planned: a plain reminder, and runs that only answer, act once, or run a command.
KINDS = {"": 2, "tell": 2, "act": 4, "run": 1}
FREE = ("act", "run_command")
EVERY_MINUTE = """
[[tasks]]
title = "tea"
when = "every minute"
message = "Time for tea."
[[tasks]]
title = "news"
when = "every minute"
prompt = "tell m9001"
[[tasks]]
title = "mail"
when = "every minute"
prompt = "tell m9002"
silent = true
[backup]
every = 0
"""
Log = Sequence[tuple[int, float, TimetableEntry]]


class Planner:
    """Plans something for each life, while nobody lives."""

    def __init__(self, here: Town, chance: random.Random) -> None:
        self.planned: dict[str, str] = {}
        self._here = here
        self._chance = chance

    async def plan(self, count: int) -> None:
        """Plan for the next moments."""
        async with keeping(self._here.state, time.time) as timetable:
            for _ in range(count):
                mark = f"m{len(self.planned):04}"
                [kind] = self._chance.choices([*KINDS], [*KINDS.values()])
                when = Once(time.time() + self._chance.uniform(0.2, 0.9))
                route = Route("telegram", self._chance.choice(FRIENDS))
                task = Task("", mark, when, prompt=f"{kind} {mark}", route=route)
                if not kind:
                    task = Task("", mark, when, message=f"Remember {mark}.", route=route)
                seen = await timetable.ask(PlanTask(task=task))
                assert isinstance(seen, TaskStatus), seen
                self.planned[mark] = kind


def log_of(here: Town) -> Log:
    """Read schedule.jsonl, but for a torn end: number, time, entry."""
    raw = (here.state / "schedule.jsonl").read_bytes().splitlines(keepends=True)
    lines = [decoder(TimetableEntry).decode(line) for line in raw if is_sound(line)]
    return [
        (line.seq + n, line.at, entry) for line in lines for n, entry in enumerate(line.entries)
    ]


def table_of(here: Town) -> Timetable:
    """What it adds up to."""
    table = Timetable()
    for seq, at, entry in log_of(here):
        table.apply(seq, at, entry)
    return table


def is_settled(here: Town) -> bool:
    """Tell whether nothing is left to do, but for tries that are to be made later."""
    table = table_of(here)
    agenda = rules.agenda(table, time.time())
    late = [row for row in table.tasks.values() if row.task.origin == "talk" and row.retry is None]
    idle = [is_idle(entries) for entries in here.journals().values()]
    return not (late or agenda.runs or agenda.tell or not all(idle))


def is_idle(entries: Sequence[Entry]) -> bool:
    """Tell whether a session has nothing left to do."""
    state = Session()
    for seq, entry in enumerate(entries, 1):
        state.apply(seq, 0.0, entry)
    return state.is_idle and isinstance(next_work(state), Nothing)


def wrong(here: Town, planned: dict[str, str], until: float) -> list[str]:
    """List what is wrong with the planned times: what became of them, and who was told."""
    log = log_of(here)
    judge = Judge(log, until)
    texts = [(text.removeprefix(AGAIN), text) for text in here.said(OWNER)]
    judge.judge_news(log, [(bare, bare != text) for bare, text in texts if bare.startswith(NEWS)])
    entries = [entry for journal in here.journals().values() for entry in journal]
    received = Counter(e.id for e in entries if isinstance(e, Received))
    found = [f"{id_} was taken {n} times" for id_, n in received.items() if n > 1]
    runs = {message_of(e.run) for _, _, e in log if isinstance(e, RunStarted)}
    runs = {run for run in runs if not run.startswith(("task:sweep", "task:memory"))}
    asked = {id_ for id_ in received if not id_.endswith(":note")}
    found += [f"began or was taken only: {id_}" for id_ in runs ^ asked]
    answers = {id_: e for e in entries if isinstance(e, Replied) for id_ in e.inputs}
    for _, _, entry in log:
        answer = answers.get(message_of(entry.run)) if isinstance(entry, RunFinished) else None
        if (
            isinstance(entry, RunFinished)
            and answer
            and answer.failed != (entry.result == "failed")
        ):
            found.append(f"{entry} in the timetable, {answer} in the session")
    said = "\n".join(here.said())
    later = {row.task.title for row in table_of(here).tasks.values() if row.retry is not None}
    found += [f"never heard of: {mark}" for mark in planned.keys() - later if mark not in said]
    return [*judge.broken, *found, *commands(here, entries)]


async def test_kills_while_tasks_run_break_no_promise(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = request.config.getoption("--kills") or KILLS
    seed = request.config.getoption("--kill-seed")
    seed = random.randrange(10**6) if seed is None else seed
    print(f"to repeat this: --kills {kills} --kill-seed {seed}")
    chance = random.Random(seed)
    mark = f"elwood-test-{random.randrange(10**12)}"

    def thoughtful(body: Json) -> Step:
        step = careful(body, mark)
        assert isinstance(step, Say)
        return attrs.evolve(step, delay=chance.uniform(0.0, 0.06))

    async with town(tmp_path / "town", effectful=True, free=FREE, more=EVERY_MINUTE) as here:
        here.models.otherwise = thoughtful
        here.state.mkdir()
        planner, lives = Planner(here, chance), shuffled(LIVES, chance)
        left, polls = set[str](), here.telegram.polls
        for _ in range(kills):
            here.telegram.faults.clear()
            if chance.random() < 0.3:
                kind = chance.choice(["swallow", "hang", "lose", "drop"])
                here.telegram.fault("sendMessage", kind)
            await planner.plan(chance.randint(1, MOST))
            await one_life(here, chance, next(lives))
            if here.telegram.polls > polls:  # it was up, and so had ended what was left
                assert not left & alive(mark)
            await here.kill()
            left, polls = alive(mark), here.telegram.polls
        here.telegram.faults.clear()
        await here.start()
        await here.eventually(lambda: is_settled(here))
        until = time.time() - 1.0
        await here.stop()

        found = [*broken(here, {}), *wrong(here, planner.planned, until)]
        assert found == [], "\n".join(found)
        assert alive(mark) == set()
        assert here.running() == []
        await here.verify()
    ended = Counter(e.result for _, _, e in log_of(here) if isinstance(e, RunFinished))
    entries = [entry for journal in here.journals().values() for entry in journal]
    calls = Counter(entry.outcome for entry in entries if isinstance(entry, CallEnded))
    print(f"{kills} kills, {len(planner.planned)} tasks; runs ended {dict(ended)}")
    print(f"calls ended {dict(calls)}")
    assert ended["done"] > kills / 2
    assert kills < MANY or (calls["ok"] and calls["unknown"])


async def one_life(here: Town, chance: random.Random, kind: str) -> None:
    """Live for a while: only start, or work, or until something has just been done."""
    match kind:
        case "start":
            await here.spawn()
            await trio.sleep(chance.uniform(0.0, 0.5))
        case "work":
            await here.start()
            await trio.sleep(chance.uniform(0.0, 0.5))
        case _:
            await here.start()
            before = len(here.effects)
            with trio.move_on_after(0.7):
                await here.eventually(lambda: len(here.effects) > before)
            await trio.sleep(chance.uniform(0.0, 0.08))


async def test_of_processes_that_start_together_one_runs(tmp_path: Path) -> None:
    """All of them before the time has come; which one is the kernel's choice."""
    async with town(tmp_path / "town", effectful=True, free=FREE, more=EVERY_MINUTE) as here:
        here.models.otherwise = lambda body: careful(body, "")
        here.state.mkdir()
        planner = Planner(here, random.Random(7))
        await planner.plan(MOST)
        together = [await here._begin() for _ in range(3)]
        await here.eventually(lambda: sum(one.poll() is not None for one in together) == 2)
        [here.process] = [one for one in together if one.poll() is None]
        assert sorted(one.returncode or 0 for one in together) == [0, 1, 1]
        assert here.stderr.read_text().count("already uses the state folder") == 2
        await here.eventually(lambda: is_settled(here))
        until = time.time() - 1.0
        await here.stop()
        assert [*broken(here, {}), *wrong(here, planner.planned, until)] == []
        assert len(here.effects) == len(set(here.effects))
