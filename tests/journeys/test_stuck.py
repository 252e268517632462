"""Stuck states of the whole app (P6): inspect shows each, and the owner gets a notice within 60 s.

The 60 seconds count from the limit that makes a state a stuck one: *after* virtual seconds.
"""

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from elwood.agent.channels.messages import OutboxMail, Post
from elwood.agent.conversation.message import Completion
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.client import ModelRequest
from elwood.agent.tools.tool import Tool, ToolContext
from elwood.foundation.runtime import Mailbox
from tests.agent.session.scripted import Named
from tests.journeys.home import MINE, OTHER, OTHERS, Home, OutboxBody

WITHIN = 60.0


class Bug(Exception):
    """A programming error."""


def crash() -> None:
    raise Bug("a mistake")


Arrange = Callable[[Home], Awaitable[None] | None]
KINDS: dict[str, "Kind"] = {}


@attrs.frozen
class Kind:
    """A stuck state: how to cause it, when it counts, and its report."""

    arrange: Arrange
    after: float
    text: str


def kind(name: str, after: float, text: str) -> Callable[[Arrange], Arrange]:
    def keep(arrange: Arrange) -> Arrange:
        KINDS[name] = Kind(arrange, after, text)
        return arrange

    return keep


@kind("the poll hangs", 120, "waits for Telegram to answer a poll, ")
async def _(h: Home) -> None:
    await h.fake.until(lambda: h.fake.polling)
    h.fake.fault("getUpdates", "hang", times=10_000)


@kind("the poll fails with one error", 60, "telegram: polling Telegram failed 3 times")
async def _(h: Home) -> None:
    await h.fake.until(lambda: h.fake.polling)
    h.fake.fault("getUpdates", times=10_000)
    h.fake.say("wake it")


@kind("somebody else polls", 60, "another program polls with this token")
async def _(h: Home) -> None:
    await h.fake.until(lambda: h.fake.polling)
    conflict = "Conflict: terminated by other getUpdates request"
    h.fake.fault("getUpdates", code=409, description=conflict, times=10_000)
    h.fake.say("wake it")


@kind("a delivery hangs", 60, "waits for delivery of t1")
def _(h: Home) -> None:
    h.fake.fault("sendMessage", "hang", times=10_000, chat=OTHER)
    h.fake.say("hello", chat=OTHER, user=OTHER)


@kind("a delivery fails", 60, "sending to Telegram failed")
def _(h: Home) -> None:
    h.fake.fault("sendMessage", times=10_000, chat=OTHER)
    h.fake.say("hello", chat=OTHER, user=OTHER)


@kind("a turn does not end", 390, "waits for turn t1, ")
def _(h: Home) -> None:
    h.fake.say("call deaf it")


@kind("the model is silent", 330, "waits for a response from scripted/m, ")
def _(h: Home) -> None:
    async def silent(request: ModelRequest) -> Completion:
        await trio.sleep_forever()
        raise AssertionError

    h.think = silent
    h.fake.say("hello")


@kind("the disk is full", 10, "writing the conversation's log failed 3 times: no space")
async def _(h: Home) -> None:
    h.fake.say("hello")
    await trio.sleep(3)
    h.disk.at("before write said", h.disk.fill)
    h.fake.say("call act something")


@kind("a session gave up", 10, f"sessions/{MINE}: gave up: Bug: a mistake")
def _(h: Home) -> None:
    for _ in range(4):
        h.disk.at("before write received", crash)
    h.fake.say("hello")


@kind("a journal is damaged", 30, "line 1 is damaged")
def _(h: Home) -> None:
    h.journal(OTHERS).parent.mkdir(parents=True, exist_ok=True)
    h.journal(OTHERS).write_bytes(b"{}\n{}\n")
    h.fake.say("hello", chat=OTHER, user=OTHER)


@kind("the outbox crashes again and again", 10, "outbox telegram: crashed 3 times in a row")
def _(h: Home) -> None:
    h.fake.say("hello", chat=OTHER, user=OTHER)


@kind("the control socket cannot be made", 10, "control: the control socket failed 3 times")
def _(h: Home) -> None:
    h.runtime.write_text("in the way")


async def be_deaf(given: Named, context: ToolContext) -> str:
    with trio.CancelScope(shield=True):  # the bug
        await trio.sleep(450)
    return "at last"


async def crash_of_others(mailbox: Mailbox[OutboxMail], body: OutboxBody) -> None:
    """An outbox that crashes for every message to OTHER."""
    inner = Mailbox[OutboxMail]("inner", 64)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(body, inner)
        async for mail in mailbox:
            if isinstance(mail, Post) and mail.route.chat == str(OTHER):
                crash()
            await inner.address.tell(mail)
        inner.close()


@pytest.mark.parametrize("name", KINDS)
async def test_each_stuck_state_is_reported(h: Home, name: str) -> None:
    kind = KINDS[name]
    h.settings["turn"] = TurnSettings(deadline=1000.0, model_deadline=600.0, tool_deadline=1000.0)
    if name == "a turn does not end":
        h.settings["turn"] = TurnSettings(deadline=90.0, tool_deadline=1000.0)
        h.more_tools = (Tool("deaf", "Be deaf.", Named, be_deaf, timeout=1000.0),)
    if name == "the outbox crashes again and again":
        h.outbox = crash_of_others
    if name == "the control socket cannot be made":
        h.runtime.write_text("in the way")
    async with h.life() as life:
        began = trio.current_time()
        arranging = kind.arrange(h)
        if arranging is not None:
            await arranging
        seen: list[float] = []

        def shown() -> bool:
            if any(kind.text in stuck for stuck in life.stuck_actors()):
                seen.append(trio.current_time())
            return any(kind.text in alarm for alarm in h.alarms())

        await life.until(shown, kind.after + WITHIN + 10)
        took = trio.current_time() - began
        assert seen, "the actor table did not show it"
        assert took <= kind.after + WITHIN
        h.disk.clear()
        h.fake.faults.clear()
        life.kill()
