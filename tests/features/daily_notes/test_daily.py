"""The daily note: written after each turn, and read in the first turn of a day."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.agent.conversation.inbound import Inbound, Principal
from elwood.agent.conversation.message import Human, remove_opening
from elwood.agent.conversation.route import Route
from elwood.agent.models.messages import Complete
from elwood.agent.session.extension import SessionExtension
from elwood.agent.session.log.entries import Received, Replied, TurnStarted
from elwood.agent.session.log.session_log import SessionLog
from elwood.features.daily_notes.parts import GATHER, NOTE, DailyNotesExtension
from elwood.features.daily_notes.store import DailyNotes
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.agent.session.scene import ROUTE, Process, World, run_process
from tests.agent.session.test_actor import wake_up

DAY = 86_400.0


async def no_records() -> str:
    return ""


@pytest.fixture
def world(tmp_path: Path, virtual_time: None) -> World:
    world = World(tmp_path / "state")
    world.folder.mkdir()
    world.archive = 30 * 86_400.0  # these conversations span days

    def extend(one: Process) -> list[Callable[[SessionLog], SessionExtension]]:
        notes = DailyNotes(Root(tmp_path), world.zone, inline, str, no_records)
        return [lambda log: DailyNotesExtension(notes, world.now, log)]

    world.extend = extend
    return world


def note(tmp_path: Path, day: str = "1970-01-01") -> str:
    return (tmp_path / "threads" / "daily" / f"{day}.md").read_text()


def heard(request: Complete) -> list[str]:
    return [m.text for m in request.messages if isinstance(m, Human)]


async def test_only_the_first_turn_of_a_day_includes_recent_days(world: World) -> None:
    async with run_process(world) as h:
        await h.talk("one", "two")
        await trio.sleep(DAY)
        await h.talk("three", "four")

    texts = heard(world.asked[-1])
    assert [text.startswith("<threads") for text in texts] == [False, False, True, False]
    assert "s/t2: `two`" in texts[2]
    assert remove_opening(texts[2]).split("\n")[1] == "three"


async def test_a_restart_sends_the_logged_notes(world: World) -> None:
    """A restart sends the same bytes, even if the notes have changed."""
    async with run_process(world) as h:
        await h.talk("one")
        await trio.sleep(DAY)
        await h.talk("two")
    before = heard(world.asked[-1])
    async with run_process(world) as h:
        await h.talk("three")

    assert heard(world.asked[-1])[:2] == before


async def test_notes_are_shown_only_to_the_owner(world: World) -> None:
    async def say(h: Process, session: str, route: Route, owner: bool) -> None:
        await h.sessions.address.insist(
            lambda: Inbound(
                session=session,
                id=session,
                principal=Principal("somebody", "Some", owner=owner),
                route=route,
                text="what did you do?",
                sent_at=trio.current_time(),
            )
        )
        await h.quiet()

    async with run_process(world) as h:
        await h.talk("a secret plan")
        await trio.sleep(2 * GATHER)
        await say(h, "guest", ROUTE, owner=False)
        await say(h, "group", Route("chat", private=False), owner=True)
        await say(h, "mine", ROUTE, owner=True)

    assert ["plan" in repr(one.messages) for one in world.asked] == [True, False, False, True]


async def test_a_crash_before_the_note_loses_nothing(world: World, tmp_path: Path) -> None:
    begun = TurnStarted("t1", ("a",), 1, "hello")
    ended = Replied("t1", "t1", ("a",), ROUTE, "Hello.")
    await wake_up(world, Received("a", "hello", "me", ROUTE, 0.0), begun, ended)
    await wake_up(world)

    assert note(tmp_path).count("s/t1: `hello`") == 1


async def test_an_unwritable_note_does_not_block_turns(world: World, tmp_path: Path) -> None:
    (tmp_path / "threads").write_text("not a folder")
    async with run_process(world) as h:
        await h.talk("one")
        await trio.sleep(2 * GATHER)
        assert any(NOTE in status.troubles for status in h.actor_table.statuses.values())
        await h.talk("two")

    assert world.said == ["re: one", "re: two"]
