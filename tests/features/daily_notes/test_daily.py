"""The daily note: written turn by turn, and read at the first turn of a day."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.agent.conversation.inbound import Inbound, Principal
from elwood.agent.conversation.labels import CLEAN
from elwood.agent.conversation.message import Human, without_days
from elwood.agent.conversation.route import Route
from elwood.agent.models.messages import Complete
from elwood.agent.session.extension import SessionExtension
from elwood.agent.session.log.entries import Entry, Received, Replied, TurnStarted
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.features.daily_notes.parts import GATHER, NOTE, DailyNotesExtension
from elwood.features.daily_notes.store import DailyNotes
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.journal import Journal
from tests.agent.session.scene import ROUTE, House, World, house

DAY = 86_400.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "state")
    world.folder.mkdir()
    world.archive = 30 * 86_400.0  # these conversations go on over days

    def extend(one: House) -> list[Callable[[SessionLog], SessionExtension]]:
        notes = DailyNotes(Root(tmp_path), world.zone, inline, str)
        return [lambda log: DailyNotesExtension(notes, world.now, log)]

    world.extend = extend
    return world


def note(tmp_path: Path, day: str = "1970-01-01") -> str:
    return (tmp_path / "threads" / "daily" / f"{day}.md").read_text()


def heard(request: Complete) -> list[str]:
    return [m.text for m in request.messages if isinstance(m, Human)]


async def test_the_first_turn_of_a_day_begins_with_the_days_before_and_no_other_does(
    world: World, autojump_clock: object
) -> None:
    async with house(world) as h:
        for text in ("one", "two"):
            await h.say(text)
            await h.quiet()
        await trio.sleep(DAY)
        for text in ("three", "four"):
            await h.say(text)
            await h.quiet()

    one, two, three, four = heard(world.asked[-1])
    assert [text.startswith("<threads") for text in (one, two, three, four)] == [
        False,
        False,
        True,
        False,
    ]
    assert "s/t2: `two`" in three
    assert without_days(three).split("\n")[1] == "three"


async def test_what_was_sent_is_what_the_log_says(world: World, autojump_clock: object) -> None:
    """A restart sends the same bytes, whatever the notes say by then."""
    async with house(world) as h:
        await h.say("one")
        await h.quiet()
        await trio.sleep(DAY)
        await h.say("two")
        await h.quiet()
    before = heard(world.asked[-1])
    async with house(world) as h:
        await h.say("three")
        await h.quiet()

    assert heard(world.asked[-1])[:2] == before


async def test_nobody_else_is_told_what_the_owner_did(world: World, autojump_clock: object) -> None:
    async def say(h: House, session: str, route: Route, owner: bool) -> None:
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

    async with house(world) as h:
        await h.say("a secret plan")
        await h.quiet()
        await trio.sleep(2 * GATHER)
        await say(h, "guest", ROUTE, owner=False)
        await say(h, "group", Route("chat", private=False), owner=True)
        await say(h, "mine", ROUTE, owner=True)

    assert ["plan" in repr(one.messages) for one in world.asked] == [True, False, False, True]


async def test_a_crash_between_the_answer_and_the_note_costs_nothing(
    world: World, tmp_path: Path, autojump_clock: object
) -> None:
    journal: Journal[Entry, Session] = Journal(
        world.folder / "sessions/s.jsonl", Entry, Session, Disk(blocking=inline, clock=lambda: 0.0)
    )
    await journal.open()
    await journal.append(
        Received("a", "hello", "me", ROUTE, 0.0),
        TurnStarted("t1", ("a",), 1, "hello"),
        Replied("t1", "t1", ("a",), ROUTE, "Hello."),
    )
    assert journal.state.done is not None
    assert journal.state.done.label == CLEAN
    (world.folder / "sessions/open").mkdir(parents=True, exist_ok=True)
    (world.folder / "sessions/open" / "s").touch()
    for _ in range(2):
        async with house(world) as h:
            await trio.testing.wait_all_tasks_blocked()
            await h.quiet()
        (world.folder / "sessions/open" / "s").touch()

    assert note(tmp_path).count("s/t1: `hello`") == 1


async def test_a_note_that_cannot_be_written_holds_nobody_up(
    world: World, tmp_path: Path, autojump_clock: object
) -> None:
    (tmp_path / "threads").write_text("not a folder")
    async with house(world) as h:
        await h.say("one")
        await h.quiet()
        await trio.sleep(2 * GATHER)
        assert any(NOTE in status.troubles for status in h.actor_table.statuses.values())
        await h.say("two")
        await h.quiet()

    assert world.said == ["re: one", "re: two"]
