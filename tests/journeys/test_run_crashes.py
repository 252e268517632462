"""A run that dies between every two steps: it is done once, and has one outcome."""

import random
from pathlib import Path

import pytest

from elwood.agent.conversation.inbound import Inbound
from elwood.agent.feature import Report
from elwood.agent.session.log.state import RunResult
from elwood.features.tasks.state import RunFinished, RunsMissed
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every, Once
from tests.journeys.outcomes import Judge
from tests.journeys.year import World

BEGIN, HOUR = 1_774_656_000.0, 3_600.0
KINDS = {
    "prompt": Task("t", "t", Once(BEGIN + HOUR), prompt="p"),
    "message": Task("t", "t", Once(BEGIN + HOUR), message="m"),
    "fails once": Task("t", "t", Once(BEGIN + HOUR), prompt="p"),
    "watch": Task("t", "t", Every(HOUR, BEGIN - 2 * HOUR), prompt="p", watch=()),
    "chore": Task("t", "t", Once(BEGIN + HOUR), chore="look"),
}


def lived(folder: Path, kind: str, *deaths: int) -> World:
    """Live through one run, dying at the steps *deaths*, each counted from the one before."""
    folder.mkdir()
    world = World(folder, random.Random(0), BEGIN - 2 * HOUR, BEGIN + 1.5 * HOUR)
    world.look = HOUR / 2
    task = KINDS[kind]
    world.tasks["config"] = (task,)
    world.chore_names = ("look",)
    world.chore = lambda world, name, since: Report(prompt="think")
    left = list(deaths)

    def outcome(world: World, asked: Inbound) -> tuple[RunResult, float]:
        return RunResult("", failed=kind == "fails once" and asked.id.endswith(":1")), 5.0

    def off(world: World) -> float:
        world.steps.at = [world.steps.count + left.pop(0)] if left else []
        return 1.0

    world.outcome, world.off = outcome, off
    world.steps.at = [left.pop(0)] if left else []
    return world.live()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_done_once_wherever_it_dies(kind: str, tmp_path: Path) -> None:
    steps = lived(tmp_path / "whole", kind).steps.count
    seeds = random.Random(1)
    pairs = [(seeds.randint(1, steps), seeds.randint(1, steps)) for _ in range(20)]
    trials = [*((step,) for step in range(1, steps + 1)), *pairs]
    for number, deaths in enumerate(trials):
        world = lived(tmp_path / str(number), kind, *deaths)
        check(world, kind)
        assert world.lives > 1 or deaths[0] > steps - 3


def check(world: World, kind: str) -> None:
    """Find one outcome, one beginning of each try, and one effect."""
    log = world.entries()
    judge = Judge(log, world.end - 60)
    assert not judge.broken, judge.broken
    assert max(judge.begun.values()) == 1
    assert max(world.effects.values()) == 1
    ended = [entry for _, _, entry in log if isinstance(entry, RunFinished)]
    good = [entry for entry in ended if entry.result == "done"]
    assert len(good) == 1
    assert sum(entry.result == "unchanged" for entry in ended) == (2 if kind == "watch" else 0)
    assert not [entry for _, _, entry in log if isinstance(entry, RunsMissed)]
    assert sum(world.effects.values()) == (2 if kind == "fails once" else 1)
