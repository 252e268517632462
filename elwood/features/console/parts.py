import signal
import socket
from collections.abc import Callable, Sequence

import attrs
import msgspec
import trio

from elwood.agent.channels.channel import Channel
from elwood.agent.channels.frames import Mode
from elwood.agent.channels.messages import OutboxMail, Post
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.route import Route
from elwood.agent.media.client import file_keeper
from elwood.agent.media.settings import MediaSettings
from elwood.agent.parts import (
    WORLD,
    Actor,
    Connected,
    ControlCommand,
    Gathered,
    Interruption,
    Parts,
)
from elwood.agent.session.attached import SessionClients
from elwood.agent.session.core import Core
from elwood.agent.session.log.state import Session
from elwood.agent.session.messages import Interrupt
from elwood.features.console.intake import OWNER, ROUTE, Terminals, describe_absence, route_to
from elwood.foundation.command_line import CliFailure
from elwood.foundation.runtime import Mailbox
from elwood.foundation.text.markdown import MAX_MARKDOWN, Rich

# Runs a terminal at a socket, in a session, with the slash commands.
Frontend = Callable[[socket.socket, str, dict[str, str]], object]


class ConsoleChannel(Channel, frozen=True, kw_only=True):
    """The console: it has all sessions whose names no other channel reserves."""

    clients: SessionClients

    def session(self, route: Route) -> str | None:
        return self.clients.session_at(route)

    def to_markdown(self, text: str, footer: str, *, hide_targets: bool) -> str | None:
        # A terminal shows the address of each link.
        return text if len(text) <= MAX_MARKDOWN else None


async def join(core: Core, others: Gathered) -> Parts:
    """Build the console of a service, which terminals can join."""
    return _build_console(core, others)[-1]


def _build_console(core: Core, others: Gathered) -> tuple[SessionClients, Terminals, Parts]:
    """Build the channel whose clients are terminals."""

    async def list_commands(words: Sequence[str]) -> CommandResult:
        return CommandResult(msgspec.json.encode(commands(others)).decode(), ok=True)

    media, blocking = core.config.get(MediaSettings), core.environment.blocking
    keeper = file_keeper(media, core.workspace, core.paths.state, blocking)
    clients = SessionClients(core, keeper, ROUTE.channel, OWNER, route_to, describe_absence)
    terminals = Terminals(core, clients)
    post: Mailbox[OutboxMail] = Mailbox("outbox console", 256)
    channel = ConsoleChannel(
        name=ROUTE.channel,
        people=OWNER.id,
        presence="at the console",
        clients=clients,
        outbox=post.address,
        owner=(ROUTE,),
        owners=frozenset({OWNER.id}),
        fleeting=True,
    )
    return (
        clients,
        terminals,
        Parts(
            channels=[channel],
            actors=[Actor(step=1, mailbox=post, body=clients.attached.run, policy=WORLD)],
            control=[
                ControlCommand(name="attach", run=terminals.attach),
                ControlCommand(name="commands", run=list_commands),
            ],
        ),
    )


async def sit(core: Core, others: Gathered, session: str, mode: Mode, frontend: Frontend) -> Parts:
    """Build a console that runs *frontend* for *session*, in a thread, at a socket pair.

    Elwood stops when *frontend* returns: the user has left, or the other end was closed.
    """
    clients, terminals, parts = _build_console(core, others)
    connected = await terminals.admit(session, mode)
    if not isinstance(connected, Connected):
        raise CliFailure(connected.text)
    [channel], [posts] = parts.channels, parts.actors

    async def post(mailbox: Mailbox[OutboxMail]) -> None:
        # A conversation that continues may post before the terminal is attached.
        await clients.attached.has_first.wait()
        await clients.attached.run(mailbox)

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await connected.serve(stream)

    async def run(mailbox: Mailbox[None]) -> None:
        if not core.stop.is_set():  # after a crash of the frontend its input must not be repeated
            await run_frontend(mailbox)
        async for _ in mailbox:
            pass

    async def run_frontend(mailbox: Mailbox[None]) -> None:
        here, there = socket.socketpair()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve, trio.SocketStream(trio.socket.from_stdlib_socket(here)))
                nursery.start_soon(_cancel_when_closed, mailbox, nursery.cancel_scope)
                # It ends with the stream, so the terminal is always restored before we exit.
                await trio.to_thread.run_sync(frontend, there, connected.text, commands(others))
                nursery.cancel_scope.cancel()
        finally:
            core.stop.set()
            clients.attached.has_first.set()

    last, signals = "", 0

    def interrupt(number: int) -> Interruption:
        """Stop the answer at a Ctrl-C; end at the second one without a message in between."""
        nonlocal last
        state = core.live.states.get(connected.text) or Session()
        before, last = last, next(reversed(state.seen), "nothing")
        if number != signal.SIGINT or last == before:
            return "end"
        if state.turn or state.waiting:
            core.sessions.offer(Interrupt(connected.text))
        hint = Post(route=route_to(connected.text), part=Rich("Press Ctrl-C again to quit."))
        return "taken" if channel.outbox.offer(hint) else "end"

    def cancel(number: int) -> Interruption:
        """Stop the answer; leave at the second signal if the stop is recorded, else at the third.

        Until it is recorded, which takes milliseconds, a later Elwood would ask the model again.
        """
        nonlocal signals
        signals += 1
        if not core.up.is_set() or clients.has_stopped or signals > 2:
            return "leave"
        if signals == 1:
            clients.stop(number)
        return "taken"

    return attrs.evolve(
        parts,
        channels=[msgspec.structs.replace(channel, only="" if mode == "talk" else connected.text)],
        actors=[
            attrs.evolve(posts, body=post),
            Actor(step=6, mailbox=Mailbox("console", 16), body=run, policy=WORLD, grace=1.0),
        ],
        interrupt=interrupt if mode == "talk" else cancel,
    )


def commands(others: Gathered) -> dict[str, str]:
    """Return the slash commands with their texts for /help, and the other completions."""
    found = {one.name: one.about for one in others.commands if one.menu != "nobody"}
    for complete in others.completions:
        found |= complete()
    return found


async def _cancel_when_closed(mailbox: Mailbox[None], scope: trio.CancelScope) -> None:
    async for _ in mailbox:
        pass
    scope.cancel()
