"""Accept messages of other programs over the control socket, and return the answers.

Answers are read from the conversation's log, so no state here can be lost.
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

# The program acts for the owner on the owner's machine; its text may come from anywhere.
PROGRAM, ROUTE = Principal("an MCP client", "", owner=True), Route("mcp")
# Seconds that one request waits for an answer, less than the timeout of the control socket.
WAIT = 2.0
OFF = "Elwood accepts no questions here. Set ask = true in [mcp_serve] of config.toml; restart it."
NOT_HERE = "another program reads this conversation, and gets only the final answer: say it there"


async def build(core: Core, others: Gathered) -> Parts:
    # An app for one message would exit before it could answer another one.
    is_on = core.config.get(McpServeSettings).ask and core.stays
    control = [ControlCommand(name=ASK, run=partial(_handle_ask, core) if is_on else _refuse)]
    if not is_on:
        return Parts(control=control)
    post: Mailbox[OutboxMail] = Mailbox("outbox mcp", 64)
    channel = Channel(
        name=ROUTE.channel, outbox=post.address, owners=frozenset({PROGRAM.id}), sessions="mcp-"
    )
    outbox = Actor(step=1, mailbox=post, body=_acknowledge_all, policy=WORLD)
    return Parts(channels=[channel], actors=[outbox], control=control)


async def _acknowledge_all(mailbox: Mailbox[OutboxMail]) -> None:
    """Acknowledge everything: programs read the answer from the log and see nothing else."""
    async for message in mailbox:
        if isinstance(message, Post):
            message.reply.set(Sent("kept") if message.is_reply else Undeliverable(NOT_HERE))


async def _refuse(words: Sequence[str]) -> CommandResult:
    await trio.lowlevel.checkpoint()
    return CommandResult(OFF, ok=False)


async def _handle_ask(core: Core, words: Sequence[str]) -> CommandResult:
    """Accept a message once, and return the state of its answer."""
    answer = ProgramAnswer(doing="waiting for its turn")
    try:
        message = msgspec.json.decode("".join(words), type=ProgramMessage)
        with trio.move_on_after(WAIT):
            match await core.sessions.ask(_make_inbound(message)):
                case Busy(waiting):
                    why = f"{waiting} messages are already waiting in {message.session}"
                    return CommandResult(why, ok=False)
                case Refused(why) | NotNow(why):
                    return CommandResult(why, ok=False)
            while not (answer := await _find_answer(core, message)).is_answered:
                await core.live.wait_change()
    except ActorUnavailable as error:  # it may have been accepted; the next request will show that
        answer = ProgramAnswer(doing=str(error))
    except (msgspec.DecodeError, JournalDamaged, OSError) as error:
        return CommandResult(str(error), ok=False)
    return CommandResult(msgspec.json.encode(answer).decode(), ok=True)


async def _find_answer(core: Core, message: ProgramMessage) -> ProgramAnswer:
    state = core.live.states.get(message.session, Session())
    inputs = [] if state.turn is None else [one.id for one in state.turn.inputs]
    if message.id in (*inputs, *state.waiting):
        doing = "about to begin" if state.turn is None else state.turn.under_way
        return ProgramAnswer(doing=core.redactor(doing))
    path = core.paths.state / "sessions" / f"{message.session}.jsonl"
    replied = await core.environment.blocking(partial(_find_reply, path, message.id))
    if replied is None:
        return ProgramAnswer(doing="about to begin")
    text = "\n\n".join(filter(None, (replied.text, replied.footer)))
    if len(text) > MAX_ANSWER:
        text = f"{text[:MAX_ANSWER]}\n[cut: elwood session show {message.session}]"
    return ProgramAnswer(text, replied.failed, is_answered=True)


def _make_inbound(message: ProgramMessage) -> Inbound:
    return Inbound(
        session=message.session,
        id=message.id,
        principal=PROGRAM,
        route=ROUTE,
        text=message.text,
        sent_at=message.sent_at,
        untrusted=True,
    )


def _find_reply(path: Path, id_: str) -> Replied | None:
    """Return the answer to a message in the log at *path*, searching from the end.  Blocks."""
    for log in (read_since(path, Entry, Session, inf)[1], entries_of(path, Entry)):
        replies = [e for _, _, e in log if isinstance(e, Replied) and id_ in e.inputs]
        if replies:
            return replies[-1]
    return None
