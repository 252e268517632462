"""One test per row of the table "crash of each actor".

Each test puts a bug into one actor of the whole app. It checks the view of other people: they are
answered, the message concerned has one outcome, and the actor table shows the crash. Rows of other
actors are in the tests of those actors.
"""

from typing import cast

import pytest
import trio

from elwood.agent.channels.messages import OutboxMail, Post
from elwood.agent.conversation.inbound import Inbound, Principal, Taken
from elwood.agent.conversation.message import Completion
from elwood.agent.conversation.route import Route
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Replied
from elwood.agent.session.messages import SessionsMail
from elwood.features.telegram.intake import PAIRING
from elwood.foundation.runtime import Mailbox
from tests.fake_telegram import OWNER
from tests.journeys.home import (
    EPOCH,
    MINE,
    OTHER,
    Body,
    Home,
    Life,
    OutboxBody,
    follow_message,
    newest_message,
)

# Virtual seconds for an answer while another part is broken.
PROMPTLY = 2.0


class Bug(Exception):
    """A programming error."""


def crash() -> None:
    raise Bug("a mistake")


async def check_others(h: Home, life: Life, within: float = PROMPTLY) -> None:
    """Check that another person gets an answer promptly."""
    before, began = len(h.texts(OTHER)), trio.current_time()
    h.fake.say("are you there?", chat=OTHER, user=OTHER)
    await life.until(lambda: len(h.texts(OTHER)) > before, 60)
    assert h.texts(OTHER)[-1] == "re: are you there?"
    assert trio.current_time() - began <= within


def check_crash(life: Life, name: str, times: int = 1, why: str = "Bug: a mistake") -> None:
    """Check that the actor table, and so `elwood inspect`, shows only the crash of *name*."""
    actors = {actor.name: actor for actor in life.inspect().actors}
    assert actors[name].restarts == times
    assert why in (actors[name].last_crash or "")
    assert {n for n, actor in actors.items() if actor.last_crash} == {name}


def restarts(life: Life, name: str) -> int:
    status = life.actor_table.statuses.get(name)
    return status.restarts if status is not None else 0


async def test_an_intake_crash_loses_no_update(h: Home) -> None:
    """Restarted; unconfirmed updates arrive again, known ids are ignored."""
    fall = trio.Event()

    async def intake(mailbox: Mailbox[None], body: Body) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(body, mailbox)
            if not fall.is_set():
                await fall.wait()
                crash()

    h.intake = intake
    h.disk.at("before sync received", h.hold_disk)
    async with h.life() as life:
        h.disk.at("after sync received", fall.set)
        h.fake.say("hello")
        await life.until(fall.is_set)
        assert h.fake.unconfirmed == [1000]
        h.release_disk()
        await life.wait_until_idle()
        await check_others(h, life)
        check_crash(life, "telegram")
    assert h.names().count("received") == 1
    assert h.texts() == ["re: hello"]


async def test_an_outbox_crash_repeats_the_message_with_a_mark(h: Home) -> None:
    """The current message may have been sent: it is posted again, with a mark."""
    falls = iter([True])

    async def outbox(mailbox: Mailbox[OutboxMail], body: OutboxBody) -> None:
        if next(falls, False):
            async for mail in mailbox:
                if isinstance(mail, Post):
                    crash()
        await body(mailbox)

    h.outbox = outbox
    async with h.life() as life:
        await life.say("hello")
        await check_others(h, life)
        check_crash(life, "outbox telegram")
    assert h.texts() == ["(again) re: hello"]
    assert h.broken_promises() == []


async def test_a_pool_crash_wakes_sessions_with_work(h: Home) -> None:
    """Running turns are interrupted; the pool wakes sessions with work left."""
    async with h.life() as life:
        h.fake.say("call look there")
        await life.until(lambda: "turn" in h.names())
        # A message that no pool accepts.
        life.address("sessions").offer(cast("SessionsMail", "nonsense"))
        await life.wait_until_idle()
        await check_others(h, life)
        check_crash(life, "sessions", why="AttributeError")
        assert h.texts() == ["re: saw there\n\n— What I actually did —\n✓ look there"]
        assert h.names().count("turn") == 2
        assert h.broken_promises() == []


async def test_a_session_that_crashes_three_times_apologises(h: Home) -> None:
    """Replayed with the same inputs; the third time it apologises and continues."""
    async with h.life() as life:
        h.disk.at("before write said", crash)
        await life.say("hello")
        check_crash(life, f"sessions/{MINE}")
        assert h.texts() == ["re: hello"]
        for _ in range(2):
            h.disk.at("before write said", crash, file=f"{MINE}.jsonl")
        h.fake.say("poison")
        await life.until(lambda: restarts(life, f"sessions/{MINE}") == 2)
        await check_others(h, life)
        await life.wait_until_idle()
        assert h.texts()[-1].startswith("I tried this several times and was cut off")
        assert (await life.say("and now?")) == "re: and now?"
        assert h.broken_promises() == []


@pytest.mark.parametrize("name", ["tea.tmp", "tea.jsonl", "open"])
async def test_sessions_of_all_names_are_woken(h: Home, name: str) -> None:
    message = Inbound(
        session=name,
        id="1",
        principal=Principal(f"tg:{OWNER}", "me", owner=True),
        route=Route("telegram", str(OWNER)),
        text="hello",
        sent_at=EPOCH,
    )
    h.kill("before write said")
    async with h.life() as life:
        assert await life.address("sessions").ask(message) == Taken()
        await life.wait_for_kill()
    async with h.life() as life:
        await life.wait_until_idle()
    assert h.texts() == ["re: hello"]


async def test_a_model_crash_is_retried_then_reported(h: Home) -> None:
    """The turn retries once, then fails politely; others wait at most for the restart."""
    falls: list[str] = ["hello"]

    def buggy(request: ModelRequest) -> Completion:
        if newest_message(request) in falls:
            falls.remove(newest_message(request))
            crash()
        return follow_message(request)

    h.think = buggy
    async with h.life() as life:
        await life.say("hello")
        check_crash(life, "models")
        assert h.texts() == ["re: hello"]
        falls += ["poison"] * 2
        await life.say("poison")
        await check_others(h, life, within=PROMPTLY + 2.0)  # the delay of the third restart
        assert h.texts()[-1].startswith("I cannot answer now: models crashed")
    assert h.broken_promises() == []


async def test_an_approvals_crash_posts_open_questions_again(h: Home) -> None:
    """Asked again; open prompts are posted again, and people can answer."""
    async with h.life() as life:
        h.disk.at("before write asked", crash)
        h.fake.say("let me in", chat=77, user=77)
        await check_others(h, life)
        await life.until(lambda: [m for m in h.fake.sent if m.buttons])
        check_crash(life, "approvals")
        [asked] = [m for m in h.fake.sent if m.buttons]
        code = asked.buttons[0].split(":")[1]
        h.disk.at("before write answered", crash)
        h.fake.press(asked.buttons[0])
        await life.until(lambda: len(h.fake.texts(77)) == 2 and not h.fake.unconfirmed)
        told, welcome = h.fake.texts(77)
        assert told == PAIRING.format(code)
        assert welcome.startswith("You can talk to me now")
        await life.say("hello", chat=77)
        assert h.fake.texts(77)[-1] == "re: hello"


async def test_too_many_crashes_stop_elwood(h: Home) -> None:
    """Everything stops in order; systemd would restart Elwood, and work continues."""

    def buggy(request: ModelRequest) -> Completion:
        crash()
        raise AssertionError

    h.think = buggy
    async with h.life() as life:
        for number in range(3):
            h.fake.say(f"message {number}")
            await trio.sleep(5)
        await life.until(life.over.is_set, 300)
        assert life.escalated is not None
        assert str(life.escalated) == "models: crashed too often: Bug: a mistake"
        states = {status.name: status.state for status in life.actor_table.statuses.values()}
        assert states.pop("models") == "given up"
        assert set(states.values()) == {"stopped"}
        assert any("models: crashed" in alarm for alarm in h.alarms())
    h.think = follow_message
    async with h.life() as life:
        await life.say("and now?")
    assert h.texts()[-1] == "re: and now?"
    replies = [entry for entry in h.entries() if isinstance(entry, Replied)]
    assert all(reply.failed for reply in replies[:-1])
    assert h.broken_promises() == []
