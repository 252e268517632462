"""Counts of Trio steps, threads and syncs in a plain turn; they do not depend on the machine."""

from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from elwood.agent.models.providers import make_provider
from elwood.agent.models.settings import Providers
from elwood.app.build import build
from elwood.app.config.load import load
from elwood.app.main import CHANNELS, FEATURES
from elwood.foundation.environment import Environment
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import in_thread
from elwood.foundation.storage.disk import Calls
from tests.bench.rig import KEYS, run_server, run_telegram, write_config

T = TypeVar("T")
TURNS = 5
# Counts of a turn: the aim, and the asserted limit.  The app's timer adds to some turns, so the
# lowest of all turns counts.
AIMS = {"steps": 40, "threads": 2, "syncs": 2}
BOUNDS = {"steps": 40, "threads": 3, "syncs": 2}

# Set in all tasks of the app, and only there.
_is_ours: ContextVar[bool] = ContextVar("is_ours", default=False)


class Steps(trio.abc.Instrument):
    """Counts the steps of the app's tasks."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.context.get(_is_ours):
            self._counts["steps"] += 1


class CountedCalls(Calls):
    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def sync(self, fd: int) -> None:
        self._counts["syncs"] += 1
        super().sync(fd)


@pytest.mark.bench
async def test_a_plain_turn_takes_few_steps_threads_and_syncs(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()

    async def blocking(fn: Callable[[], T], /) -> T:
        counts["threads"] += 1
        return await in_thread(fn)

    environment = Environment(blocking=blocking, calls=partial(CountedCalls, counts))
    with (
        run_server("tests.fake_models", tmp_path / "models") as models,
        run_telegram(tmp_path / "telegram") as telegram,
    ):
        config = load(write_config(tmp_path, telegram, models, 1), dict(KEYS))
        settings = config.get(Providers).by_name["anthropic"]
        async with trio.open_nursery() as nursery:
            stops: list[trio.Event] = []

            async def live() -> None:
                _is_ours.set(True)
                async with aclosing(Client()) as client:
                    provider = make_provider(
                        "anthropic", settings, client=client, new_id=environment.new_id
                    )
                    features, providers = (*CHANNELS, *FEATURES), {"anthropic": provider}
                    async with build(config, environment, features, providers) as app:
                        stops.append(app.core.stop)
                        await app.run()

            nursery.start_soon(live)
            say = partial(telegram.turn, 1, "What shall we have for dinner tonight?")
            await trio.to_thread.run_sync(say)  # starts the conversation
            trio.lowlevel.add_instrument(Steps(counts))
            costs = []
            for _ in range(TURNS):
                await trio.sleep(1.1)
                counts.clear()
                await trio.to_thread.run_sync(say)
                await trio.sleep(0.3)  # the work after the answer
                costs.append(counts.copy())
            stops[0].set()
    print(f"\n{'a plain turn takes':20}{'least':>6}{'aim':>6}")
    for what, aim in AIMS.items():
        least = min(cost[what] for cost in costs)
        print(f"{what:20}{least:6}{aim:6}   {[cost[what] for cost in costs]}")
        assert least <= BOUNDS[what]
