"""The name of a skill, typed as a command, is a message like any other."""

from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.agent.session.log.entries import Entry, Received
from elwood.agent.session.log.state import Session
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal
from tests.agent.session.scene import ROUTE, World, house


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_it_goes_to_the_model_in_words(world: World, autojump_clock: object) -> None:
    async with house(world) as h:
        for text in ("/cook an egg", "/retry", "/undo", "/burn it"):
            await h.say(text)
            await h.quiet()

    assert world.said[:2] == ["re: Use the skill cook: an egg"] * 2
    assert "“Use the skill cook: an egg”" in world.said[2]
    assert world.said[3].startswith("I do not know /burn.")
    assert len(world.asked) == 2


async def test_a_crash_before_it_is_put_into_words_loses_nothing(
    world: World, autojump_clock: object
) -> None:
    disk = Disk(blocking=inline, clock=lambda: 0.0)
    journal: Journal[Entry, Session] = Journal(
        world.folder / "sessions/s.jsonl", Entry, Session, disk
    )
    await journal.open()
    now = trio.current_time()
    await journal.append(Received("a", "/cook an egg", "other", ROUTE, now, untrusted=True))
    (world.folder / "sessions/open").mkdir(parents=True, exist_ok=True)
    (world.folder / "sessions/open" / "s").touch()
    async with house(world) as h:
        await trio.testing.wait_all_tasks_blocked()
        await h.quiet()
        assert h.states["s"].taint.label.untrusted  # whose words they are stays

    assert world.said == ["re: Use the skill cook: an egg"]
