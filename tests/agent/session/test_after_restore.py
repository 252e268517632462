"""The records of a restored conversation about earlier work."""

import pytest

from elwood.agent.channels.channel import Channels
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import RunBounds
from elwood.agent.session.log.entries import Posting, Received, Replied, TurnStarted
from elwood.agent.session.restored import closing_entries
from tests.agent.session.test_replay import fold

HERE = Route("telegram", chat="1")


def make_received(id_: str, text: str = "hello") -> Received:
    return Received(id_, text, "tg:1", HERE, 0.0)


def test_an_unposted_answer_may_have_arrived() -> None:
    session = fold(make_received("a"), Replied("a", None, ("a",), HERE, "the answer"))
    assert session.undelivered["a"].attempts == {}
    assert closing_entries(session, "then", Channels().get_by_route) == (Posting("a", 0, 1),)


def test_everything_waiting_is_answered_once() -> None:
    session = fold(make_received("a"), make_received("b", "/undo"))
    [replied] = closing_entries(session, "2026-11-22 10:00", Channels().get_by_route)
    assert isinstance(replied, Replied)
    assert replied.inputs == ("a", "b")
    assert (replied.failed, "2026-11-22 10:00" in replied.text) == (True, True)
    session.apply(3, 3.0, replied)
    assert not session.waiting


@pytest.mark.parametrize("started", ["", "a", "run"])
def test_a_run_is_answered_like_a_message(started: str) -> None:
    """A run may have no route for its answer."""
    run = Received(
        "run", "look", "task:x", Route("nowhere"), 0.0, bounds=RunBounds("x", says="silent")
    )
    session = fold(make_received("a"), run)
    if started:
        session.apply(3, 3.0, TurnStarted("t1", (started,), 1, "…"))
    entries = closing_entries(session, "then", Channels().get_by_route)
    for seq, entry in enumerate(entries, 4):
        session.apply(seq, 4.0, entry)
    assert not session.waiting
    assert session.turn is None
    assert session.runs["run"].failed
    [told] = session.undelivered.values()
    assert set(told.replied.inputs) == {"a", "run"}
    assert told.replied.route == HERE


def test_an_idle_conversation_gets_no_notice() -> None:
    session = fold(make_received("a"), Replied("a", None, ("a",), HERE, ""))
    assert closing_entries(session, "then", Channels().get_by_route) == ()
