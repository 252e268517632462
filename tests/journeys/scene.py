"""Sessions with everything around them bare: a scripted model, an outbox that keeps what it gets.

A `Kill` stands for kill -9: it goes through everything, and the disk takes nothing more.
"""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TypeVar

import trio

from elwood.agent.approvals.messages import Decided
from elwood.agent.channels.messages import (
    Attachment,
    Draft,
    OutboxMail,
    Post,
    Sent,
    Typing,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.brought_along import without_days
from elwood.agent.conversation.identity import Principal
from elwood.agent.conversation.inbound import Inbound, Reception, Refused
from elwood.agent.conversation.message import Human, Prompt, Results
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.messages import (
    Complete,
    Completed,
    Embed,
    MayAsk,
    ModelsMail,
    Unembedded,
)
from elwood.agent.models.spending.report import Spent, Used
from elwood.agent.session.actor import SessionActor
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.session.messages import Interrupt, SessionsMail
from elwood.agent.session.turn.gate import Gate
from elwood.agent.session.turn.surroundings import Surroundings
from elwood.agent.tools.tool import Hands
from elwood.foundation.runtime import (
    ActorTable,
    Blocking,
    Child,
    Mailbox,
    PoolPolicy,
    RestartPolicy,
    inline,
    run_pool,
    supervise,
)
from elwood.foundation.secrets.redaction import redact_partial
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.journal import Journal
from tests.agent.session.gates import FREE, Approver, Typed, gate_for
from tests.agent.session.scripted import Effects, answer

H = TypeVar("H", bound="House")
ME = Principal("me", "Me", owner=True)
ROUTE = Route("chat")
ALWAYS = RestartPolicy(first_delay=0.1, max_crashes=None)


class World:
    """What lies outside of the process and survives it: the disk, the reader, the effects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: Callable[[], Calls] = Calls
        self.posts: list[Post] = []
        self.decided: list[Typed] = []
        self.drafts: list[str] = []
        self.typing = 0
        self.outcomes: list[Sent | Unsure | Unsent | Undeliverable] = []
        self.effects = Effects()
        self.model: Callable[[Complete], Awaitable[Completed]] = echo
        self.asked: list[Complete] = []
        self.spent = Spent(today="1970-01-01", session=Used(), day=Used(), month=Used())
        self.numbers = itertools.count(1)
        self.settings = TurnSettings()
        self.idle = 600.0
        self.zone: tzinfo = UTC
        self.archive = 86_400.0
        self.exported: dict[str, tuple[str, bool]] = {}
        self.dry_run = False
        self.rules = FREE
        self.around: Callable[[House, Surroundings], Surroundings] = lambda house, given: given
        self.blocking: Blocking = inline
        # Unix time: goes on from life to life, which Trio's clock does not.
        self.now: Callable[[], float] = trio.current_time
        self.before_post: Callable[[Post], Awaitable[None]] = nothing
        self.after_post: Callable[[Post], Awaitable[None]] = nothing

    @property
    def said(self) -> list[str]:
        """What the reader has been sent, in order; a repeat is marked."""
        return [("(again) " if post.repeat else "") + post.part.text for post in self.posts]

    async def export(self, file: Attachment, route: Route, untrusted: bool, again: bool) -> str:
        """Keep what is exported."""
        await trio.lowlevel.checkpoint()
        self.exported[file.name] = (file.data.decode(), untrusted)
        return f"It is in exports/{file.name}"


async def nothing(post: Post) -> None:
    """Do nothing before a message is sent."""


async def echo(request: Complete) -> Completed:
    """Answer with what was said since the last answer."""
    await trio.lowlevel.checkpoint()
    words = []
    for message in reversed(request.messages):
        if isinstance(message, Results):
            words += [result.text for result in message.results]
        elif isinstance(message, Human):
            words.append(without_days(message.text).split("\n", 1)[-1])
        else:
            break
    return answer("re: " + " | ".join(reversed(words)))


class House:
    """One process: its sessions, alive until the scope ends."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sessions: Mailbox[SessionsMail] = Mailbox("sessions", 256)
        self.models: Mailbox[ModelsMail] = Mailbox("models", 32)
        self.outbox: Mailbox[OutboxMail] = Mailbox("outbox", 64)
        self.states: dict[str, Session] = {}
        self.actor_table = ActorTable(trio.current_time)
        self.stop = trio.Event()
        self.disk = Disk(blocking=world.blocking, clock=world.now, calls=world.calls())
        self.changed = trio.Event()
        self.approver = Approver(self.world.decided)
        self.approver.hint = lambda: self.sessions.address.offer(Decided("s"))

    async def say(self, text: str, id_: str | None = None, **named: str) -> Reception:
        """Say something as the channel does: again and again until it is taken."""
        number = next(self.world.numbers)

        def make() -> Inbound:
            return Inbound(
                session="s",
                id=id_ or f"m{number}",
                principal=ME,
                route=ROUTE,
                text=text,
                sent_at=self.world.now(),
                message=named.get("message"),
                edits=named.get("edits"),
                quote=named.get("quote"),
            )

        return await self.sessions.address.insist(make)

    def interrupt(self) -> None:
        """Press the stop button."""
        assert self.sessions.address.offer(Interrupt("s"))

    async def quiet(self) -> None:
        """Wait until every session has nothing left to do."""
        while any(not state.is_idle for state in self.states.values()):
            await self.changed.wait()

    def children(self) -> Sequence[Child]:
        """All actors, the lowest first."""
        return (
            Child(self.outbox, self._outbox, ALWAYS),
            Child(self.models, self._models, ALWAYS),
            Child(self.approver.mailbox, self.approver.run, ALWAYS),
            Child(self.sessions, self._sessions, ALWAYS, grace=20.0),
        )

    async def _outbox(self, mailbox: Mailbox[OutboxMail]) -> None:
        async for message in mailbox:
            match message:
                case Post():
                    await self.world.before_post(message)
                    outcome = self.world.outcomes.pop(0) if self.world.outcomes else Sent("1")
                    if isinstance(outcome, Sent | Unsure):
                        self.world.posts.append(message)
                    await self.world.after_post(message)
                    message.reply.set(outcome)
                case Draft():
                    self.world.drafts.append(message.text)
                case Typing():
                    self.world.typing += 1

    async def _models(self, mailbox: Mailbox[ModelsMail]) -> None:
        async with trio.open_nursery() as nursery:
            async for message in mailbox:
                if isinstance(message, Complete):
                    nursery.start_soon(self._complete, message)
                elif isinstance(message, MayAsk):
                    message.reply.set("")
                elif isinstance(message, Embed):
                    message.reply.set(Unembedded("nobody makes vectors here"))
                else:
                    message.reply.set(self.world.spent)

    async def _complete(self, request: Complete) -> None:
        self.world.asked.append(request)
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                await request.reply.wait_abandoned()
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_up)
            request.reply.set(await self.world.model(request))
            nursery.cancel_scope.cancel()

    async def _sessions(self, mailbox: Mailbox[SessionsMail]) -> None:
        open_ = self.world.folder / "open"

        async def wake() -> list[str]:
            await trio.lowlevel.checkpoint()
            return sorted(path.name for path in open_.glob("*"))

        async def mark(id_: str, live: bool) -> None:
            await trio.lowlevel.checkpoint()
            open_.mkdir(exist_ok=True)
            (open_ / id_).touch() if live else (open_ / id_).unlink()

        def publish(id_: str, state: Session | None) -> None:
            if state is None:
                self.states.pop(id_, None)
            else:
                self.states[id_] = state
            self.changed.set()
            self.changed = trio.Event()

        async def prompt() -> Prompt:
            await trio.lowlevel.checkpoint()
            return Prompt("be good", tuple(tool.spec for tool in self.world.effects.tools()))

        async def expand_skill_command(command: str) -> str:
            await trio.lowlevel.checkpoint()
            word, _, rest = command.partition(" ")
            return f"Use the skill cook: {rest}" if word == "/cook" else ""

        async def status(id_: str, owner: bool) -> str:
            await trio.lowlevel.checkpoint()
            return "The house is well."

        def gate(id_: str, log: SessionLog) -> Gate:
            return gate_for(
                lambda: log.state,
                self.world.effects.tools(),
                Hands(self.world.folder, inline),
                log.record,
                approver=self.approver,
                rules=self.world.rules,
                dry_run=self.world.dry_run,
                session=id_,
                now=self.world.now,
            )

        surroundings = Surroundings(
            redact=lambda text: text.replace("hunter2", "***"),
            redact_partial=lambda text: redact_partial(text, []),
            models=self.models.address,
            outboxes={"chat": self.outbox.address},
            prompt=prompt,
            expand_skill_command=expand_skill_command,
            approvals=self.approver.mailbox.address,
            gate=gate,
            mark=mark,
            publish=publish,
            status=status,
            blocking=inline,
            now=self.world.now,
            zone=self.world.zone,
            turns=self.world.settings,
            max_tokens=1000,
            idle=self.world.idle,
            archive=self.world.archive,
            export=self.world.export,
        )

        around = self.world.around(self, surroundings)

        async def body(id_: str, box: Mailbox[SessionsMail]) -> None:
            path = self.world.folder / f"{id_}.jsonl"
            journal: Journal[Entry, Session] = Journal(path, Entry, Session, self.disk)
            await SessionActor(id_, journal, around).run(box)

        def refuse(message: SessionsMail, why: str) -> None:
            if isinstance(message, Inbound):
                message.reply.set(Refused(why))

        await run_pool(
            mailbox,
            key=lambda message: message.session,
            body=body,
            wake=wake,
            refuse=refuse,
            policy=PoolPolicy(),
            listener=lambda event: None,
            actor_table=self.actor_table,
        )


@asynccontextmanager
async def house(world: World) -> AsyncIterator[House]:
    """Run a house; leaving the block is SIGTERM."""
    async with living(House(world)) as one:
        yield one


@asynccontextmanager
async def living(one: H) -> AsyncIterator[H]:
    """Run *one*; leaving the block is SIGTERM."""
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await supervise(
                one.children(),
                stop=one.stop,
                listener=lambda event: None,
                actor_table=one.actor_table,
            )
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        yield one
        one.stop.set()
