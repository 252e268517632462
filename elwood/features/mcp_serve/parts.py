"""Takes in what other programs ask over the control socket, and finds the answers.

An answer is read from the log of its conversation: nothing is kept here that could be lost.
"""

from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path

import msgspec
import trio

from elwood.agent.channels.channel import Channel
from elwood.agent.channels.messages import OutboxMail, Post, Sent, Undeliverable
from elwood.agent.conversation.inbound import (
    Busy,
    CommandResult,
    Inbound,
    NotNow,
    Principal,
    Refused,
)
from elwood.agent.conversation.route import Route
from elwood.agent.parts import WORLD, Actor, ControlCommand, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import Entry, Replied
from elwood.agent.session.log.state import Session
from elwood.features.mcp_serve.messages import ASK, MAX_ANSWER, ProgramAnswer, ProgramMessage
from elwood.features.mcp_serve.settings import McpServeSettings
from elwood.foundation.runtime import ActorUnavailable, Mailbox
from elwood.foundation.storage.journal import JournalDamaged, entries_of, read_since

# It runs in the owner's name on the owner's machine; what it says may come from anywhere.
PROGRAM, ROUTE = Principal("an MCP client", "", owner=True), Route("mcp")
# Seconds that one request waits for an answer: less than the patience of the control socket.
LOOK = 2.0
OFF = "This Elwood takes no questions: set ask = true in [mcp_serve] of config.toml, restart it."
NOT_HERE = "another program asks here, and is given the answer of the turn only: say it there"


async def build(core: Core, others: Gathered) -> Parts:
    # An app of one message would be gone before it has answered another one.
    is_on = core.config.of(McpServeSettings).ask and core.stays
    control = [ControlCommand(name=ASK, run=partial(_ask, core) if is_on else _refuse)]
    if not is_on:
        return Parts(control=control)
    post: Mailbox[OutboxMail] = Mailbox("outbox mcp", 64)
    channel = Channel(
        name=ROUTE.channel, outbox=post.address, owners=frozenset({PROGRAM.id}), sessions="mcp-"
    )
    outbox = Actor(step=1, mailbox=post, body=_outbox, policy=WORLD)
    return Parts(channels=[channel], actors=[outbox], control=control)


async def _outbox(mailbox: Mailbox[OutboxMail]) -> None:
    """Answers stand in the log, where whoever asked finds them; nothing else is shown to them."""
    async for message in mailbox:
        if isinstance(message, Post):
            message.reply.set(Sent("kept") if message.is_reply else Undeliverable(NOT_HERE))


async def _refuse(words: Sequence[str]) -> CommandResult:
    await trio.lowlevel.checkpoint()
    return CommandResult(OFF, ok=False)


async def _ask(core: Core, words: Sequence[str]) -> CommandResult:
    """Take a message in, unless that was done before, and say how it goes."""
    found = ProgramAnswer(doing="it waits for its turn")
    try:
        asked = msgspec.json.decode("".join(words), type=ProgramMessage)
        with trio.move_on_after(LOOK):
            match await core.sessions.ask(_inbound(asked)):
                case Busy(waiting):
                    why = f"{waiting} messages wait in {asked.session} already"
                    return CommandResult(why, ok=False)
                case Refused(why) | NotNow(why):
                    return CommandResult(why, ok=False)
            while not (found := await _look(core, asked)).is_answered:
                await core.live.wait_change()
    except ActorUnavailable as error:  # perhaps it was taken in: that is for the next time
        found = ProgramAnswer(doing=str(error))
    except (msgspec.DecodeError, JournalDamaged, OSError) as error:
        return CommandResult(str(error), ok=False)
    return CommandResult(msgspec.json.encode(found).decode(), ok=True)


async def _look(core: Core, asked: ProgramMessage) -> ProgramAnswer:
    state = core.live.states.get(asked.session, Session())
    inputs = [] if state.turn is None else [one.id for one in state.turn.inputs]
    if asked.id in (*inputs, *state.waiting):
        doing = "it is about to begin" if state.turn is None else state.turn.under_way
        return ProgramAnswer(doing=core.redactor(doing))
    path = core.paths.state / "sessions" / f"{asked.session}.jsonl"
    replied = await core.environment.blocking(partial(_reply_to, path, asked.id))
    if replied is None:
        return ProgramAnswer(doing="it is about to begin")
    text = "\n\n".join(filter(None, (replied.text, replied.footer)))
    if len(text) > MAX_ANSWER:
        text = f"{text[:MAX_ANSWER]}\n[cut: elwood session show {asked.session}]"
    return ProgramAnswer(text, replied.failed, is_answered=True)


def _inbound(asked: ProgramMessage) -> Inbound:
    return Inbound(
        session=asked.session,
        id=asked.id,
        principal=PROGRAM,
        route=ROUTE,
        text=asked.text,
        sent_at=asked.sent_at,
        untrusted=True,
    )


def _reply_to(path: Path, id_: str) -> Replied | None:
    """Find the answer to a message in the log at *path*, most likely at its end.  Blocks."""
    for log in (read_since(path, Entry, Session, inf)[1], entries_of(path, Entry)):
        found = [e for _, _, e in log if isinstance(e, Replied) and id_ in e.inputs]
        if found:
            return found[-1]
    return None
