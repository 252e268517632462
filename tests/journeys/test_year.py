"""A year of planned times, with crashes, power cuts, and clock changes."""

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import trio.testing
from msgspec.structs import replace

from elwood.agent.conversation.inbound import Busy, Inbound, NotNow
from elwood.agent.conversation.settings import Hours
from elwood.agent.parts import Report
from elwood.agent.session.log.state import RunResult
from elwood.features.tasks.rules import Verb
from elwood.features.tasks.state import RunFinished, RunStarted
from elwood.features.tasks.task import Origin, Task
from elwood.features.tasks.when import Cadence, Cron, Every, Once
from elwood.foundation.storage.journal import segments, verify
from tests.journeys.outcomes import Judge
from tests.journeys.year import Event, House, World

# 2026-03-28 00:00 UTC. Daylight saving begins in Berlin on the 29th, and ends in Auckland, Santiago
# and on Lord Howe (by half an hour) on 5 April; a whole year has both for all of them.
BEGIN = 1_774_656_000.0
DAY, HOUR = 86_400.0, 3_600.0
YEAR = 365 * DAY
# Seconds at the end without events, so that all pending work can run.
REST = 3 * DAY
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
    "America/Santiago",
    "Asia/Kolkata",
)
# Numbers for a year; a shorter run has a share of them.
DEATHS, JUMPS, DOINGS, REMINDERS = 200, 20, 60, 20


def tasks(end: float) -> list[Task]:
    """Create forty tasks of all kinds."""
    made = [
        Task("beat", "", Every(1800.0), prompt="p", watch=(), hours=Hours("07:00", "23:00")),
        Task("backup", "", Cadence("daily"), chore="backup", origin="house"),
        Task("sweep", "", Cron("@hourly"), chore="sweep", origin="house"),
        Task("month", "", Cadence("monthly"), prompt="p", hours=Hours("20:00", "06:00", (4, 5))),
    ]
    waking = Hours("08:00", "22:00")
    for number, zone in enumerate(ZONES):
        half = (BEGIN + end) / 2
        origin: Origin = "talk" if number % 2 else "config"
        kinds = (
            Task("morning", "", Cron("0 8 * * *"), prompt="p"),
            Task("gap", "", Cron("30 2 * * *"), prompt="p", catch_up=2 * HOUR),
            Task("steps", "", Cron("*/45 * * * *"), prompt="p", catch_up=120.0),
            Task("awake", "", Every(1800.0, 600.0 * number), prompt="p", hours=waking),
            Task("day", "", Cadence("daily"), message="m", catch_up=2 * DAY),
            Task("hour", "", Cadence("hourly"), prompt="p", ends=half, untrusted=True),
        )
        made += [replace(one, id=f"{one.id}-{number}", zone=zone, origin=origin) for one in kinds]
    return [replace(one, title=one.id, origin=one.origin) for one in made]


def outcome(world: World, asked: Inbound) -> tuple[RunResult, float]:
    """Let a run end somehow, after seconds or, rarely, after hours."""
    chance = world.random
    seconds = chance.expovariate(1 / 30) if chance.random() < 0.98 else chance.uniform(600, 2_500)
    failed = chance.random() < (0.6 if asked.session == "task-gap-1" else 0.07)
    acted = chance.random() < 0.3
    return RunResult("", failed, acted, waiting=not failed and chance.random() < 0.02), seconds


def refusal(world: World) -> Busy | NotNow | None:
    """Be full now and then."""
    number = world.random.random()
    return Busy(20) if number < 0.01 else NotNow("full") if number < 0.02 else None


def stay_off(world: World) -> float:
    """Stay off for a second, minutes, hours or days."""
    return world.random.choice([1.0, 1.0, 60.0, 600.0, HOUR, 6 * HOUR, 1.5 * DAY])


def chore(world: World, name: str, since: float) -> Report:
    """Do a chore; sometimes it fails, crashes, or needs a model."""
    number = world.random.random()
    if number < 0.02:
        raise ValueError("a bug in a chore")
    return Report("", failed=number < 0.1, prompt="think" if number > 0.9 else "")


def die(world: World, house: House) -> None:
    """Die within the next steps."""
    world.disk.deaths = [len(world.disk.names) + world.random.randint(1, 12)]


async def set_clock(world: World, house: House) -> None:
    """Set the wall clock wrong, or right again."""
    await trio.testing.wait_all_tasks_blocked()  # not between reading the clock and writing the log
    # Times skipped by a clock that was ahead rest until the owner resumes the task.
    ahead = (0.0, 0.0, 0.0, 30.0, 600.0, HOUR, 6 * HOUR, DAY)
    behind = (*ahead, 3 * DAY, 40 * DAY, YEAR)
    is_ahead = world.random.choice((True, False))
    world.skew = world.random.choice(ahead) if is_ahead else -world.random.choice(behind)


async def do(verb: Verb, id_: str, world: World, house: House) -> None:
    """Change a task as people do; a task resting after a clock change runs when it is resumed."""
    if verb != "resume" or await house.is_paused(id_):
        await house.change(id_, verb)


async def remind(number: int, world: World, house: House) -> None:
    """Create a reminder."""
    at = world.now() + world.random.choice((HOUR, DAY, 7 * DAY))
    await house.schedule(Task(f"once-{number}", "once", Once(at), message="m", catch_up=DAY))


def touch(world: World, house: House) -> None:
    """Change a file that the heartbeat watches."""
    world.files["beat"] = str(world.random.random())


def rewrite(world: World, house: House) -> None:
    """Edit the configuration: one task gets other times, another one other text."""
    first, second, *rest = world.tasks["config"]
    minute = world.random.randint(0, 59)
    first = replace(first, when=Cron(f"{minute} 9 * * *"))
    world.tasks["config"] = (replace(second, prompt=f"p{minute}"), first, *rest)


def erase(world: World, house: House) -> None:
    """Remove a task from the configuration, and add it again."""
    world.tasks["config"], gone = world.tasks["config"][:-1], world.tasks["config"][-1]
    world.events.append((world.true_time() + 3 * DAY, partial(_restore, gone)))
    world.events.sort(key=lambda event: event[0])


def _restore(task: Task, world: World, house: House) -> None:
    world.tasks["config"] = (*world.tasks["config"], task)


async def begin(made: Sequence[Task], world: World, house: House) -> None:
    """Create the tasks that conversations create."""
    for task in made:
        await house.schedule(task)


def events(world: World, ids: Sequence[str], share: float) -> list[Event]:
    """Return the events with their times."""
    chance, found = world.random, list[Event]()

    def at() -> float:
        return chance.uniform(BEGIN + HOUR, world.end - REST)

    found += [(at(), die) for _ in range(round(DEATHS * share))]
    found += [(at(), set_clock) for _ in range(round(JUMPS * share))]
    found += [(at(), touch) for _ in range(10)]
    found += [(at(), rewrite) for _ in range(4)]
    found += [(at(), erase) for _ in range(2)]
    found += [(at(), partial(remind, number)) for number in range(REMINDERS)]
    for _ in range(round(DOINGS * share)):
        id_, when = chance.choice(ids), at()
        found.append((when, partial(do, "run", chance.choice(ids))))
        found.append((when, partial(do, "pause", id_)))
        found.append((when + chance.uniform(0, 2 * DAY), partial(do, "resume", id_)))
    found.append((at(), partial(do, "cancel", "gap-3")))
    right = (world.end - REST, set_right)
    return sorted([*found, right], key=lambda event: event[0])


async def set_right(world: World, house: House) -> None:
    """Set the clock right, and let everything succeed from here."""
    await trio.testing.wait_all_tasks_blocked()
    world.skew = 0.0
    world.outcome = lambda world, asked: (RunResult(""), 1.0)
    world.chore = lambda world, name, since: Report()


def test_every_planned_time_has_one_outcome(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    days = float(pytestconfig.getoption("--year-days"))
    share = max(0.2, min(1.0, days / 365))
    world = World(
        tmp_path, random.Random(pytestconfig.getoption("--year-seed")), BEGIN, BEGIN + days * DAY
    )
    made = tasks(world.end)
    talk = [task for task in made if task.origin == "talk"]
    for origin in ("config", "house"):
        world.tasks[origin] = tuple(task for task in made if task.origin == origin)
    world.chore_names = ("backup", "sweep")
    world.outcome, world.refusal, world.chore = outcome, refusal, chore
    world.off = lambda world: stay_off(world) * min(1.0, 5 * days / 365)
    world.look = 1_800.0
    ids = [task.id for task in made]
    world.events = [(BEGIN, partial(begin, talk)), *events(world, ids, share)]

    world.live()

    log = world.entries()
    judge = Judge(log, world.end - REST)
    judge.judge_news(log, world.told)
    print(
        f"\n{days:.0f} days, {world.lives} lives, {len(world.disk.names)} steps, {len(log)} entries"
    )
    assert not judge.broken, "\n".join(judge.broken[:20])
    assert max(world.effects.values()) == 1
    asked = [work.asked.id for work in world.works.values()]
    assert len(asked) == len(set(asked))
    assert world.lives > DEATHS * share / 2
    # Changes were seen; a look at unchanged files writes nothing.
    seen = [e.seen for _, _, e in log if isinstance(e, RunStarted) and e.run.task == "beat"]
    assert seen[-1] == world.files["beat"]
    assert not any(isinstance(e, RunFinished) and e.result == "unchanged" for _, _, e in log)
    # Logs were closed in between, and no entry is lost or duplicated.
    path = tmp_path / "schedule.jsonl"
    assert len(segments(path)) > days / 4
    found = verify(path)
    assert (found.entries, found.gone) == (len(log), 0)
    assert path.stat().st_size < 200_000
