"""The approvals actor with fakes: an outbox that records its messages, and hints."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing

from elwood.agent.approvals.actor import Approvals
from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ButtonPressed,
    Decided,
    DecideRequest,
    Pending,
    RequestApproval,
    Verdict,
)
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import CONTROL, ApprovalBook, ApprovalEntry, Question
from elwood.agent.channels.messages import (
    Edit,
    OutboxMail,
    Post,
    Sent,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.calls import OwnerAnswer
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.route import Route
from elwood.agent.people.messages import ApprovePairing, Known, Meet, Stranger
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import ActorTable, Child, Crashed, Event, Mailbox, inline, supervise
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.journal import Journal, decoder
from tests.channels import two_channels

OWNER = "tg:1"
OWNER_ROUTE = Route("telegram", "1")
CODES = [f"ABCD22{a}{b}" for a in "23456789" for b in "23456789"]


def question(call: str = "t1/c1", **more: Any) -> Question:
    """Return a question about a command, by default in the owner's own chat."""
    given: dict[str, Any] = {
        "session": "tg-1",
        "call": call,
        "tool": "run_command",
        "plan": f"plan of {call}",
        "exact": f"exact {call}",
        "subject": f"make {call}",
        "why": "it is not on the list of safe commands",
        "route": OWNER_ROUTE,
        "principal": OWNER,
        "offered": ("conversation", "always"),
    }
    return Question(**(given | more))


@attrs.define
class World:
    """Everything that survives a restart: the disk, the time, the unused codes."""

    path: Path
    now: float = 1_000_000.0
    codes: list[str] = attrs.field(factory=lambda: list(reversed(CODES)))
    posts: list[Post] = attrs.field(factory=list)
    edits: list[Edit] = attrs.field(factory=list)
    # None: people are shown by their ids.
    sent: Callable[[Post | Edit], Sent | Unsure | Unsent | Undeliverable] | None = None
    calls: Calls = attrs.field(factory=Calls)
    hints: list[str] = attrs.field(factory=list)
    takes_hints: bool = True
    settings: ApprovalSettings = attrs.field(factory=ApprovalSettings)
    secret: str = "hunter2"
    awake: Callable[[float], float] = lambda now: now
    confined: bool = True

    def texts(self, chat: int) -> list[str]:
        return [post.part.text for post in self.posts if post.route.chat == str(chat)]

    def entries(self) -> list[ApprovalEntry]:
        """Return the entries of the journal."""
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        return [e for line in lines for e in decoder(ApprovalEntry).decode(line).entries]

    def hint(self, decided: Decided) -> bool:
        if self.takes_hints:
            self.hints.append(decided.session)
        return self.takes_hints


@attrs.define
class Asker:
    box: Mailbox[ApprovalsMail]

    async def meet(self, number: int, name: str = "Eve") -> Known | Stranger:
        route = Route("telegram", str(number))
        return await self.box.address.ask(Meet(principal=f"tg:{number}", name=name, route=route))

    async def press(
        self, data: str, by: str = OWNER, route: Route | None = OWNER_ROUTE, message: str = ""
    ) -> CommandResult:
        press = ButtonPressed(principal=by, data=data, route=route, message=message)
        result = await self.box.address.ask(press)
        await trio.testing.wait_all_tasks_blocked()
        return result

    async def pair(self, code: str) -> CommandResult:
        return await self.box.address.ask(ApprovePairing(code=code))

    async def seek(self, asked: Question) -> Pending | Verdict:
        answer = await self.box.address.ask(RequestApproval(question=asked))
        await trio.testing.wait_all_tasks_blocked()
        return answer

    async def rule(self, code: str, answer: OwnerAnswer, by: str = OWNER) -> CommandResult:
        return await self.box.address.ask(DecideRequest(code=code, answer=answer, by=by))


@asynccontextmanager
async def run_approvals(world: World, *owner_routes: Route) -> AsyncIterator[Asker]:
    """Run the actor until the end of the block; it must not crash."""
    actor_table, events, stop = ActorTable(trio.current_time), list[Event](), trio.Event()
    box = Mailbox[ApprovalsMail]("approvals", 64)
    outbox = Mailbox[OutboxMail]("outbox", 64)
    disk = Disk(blocking=inline, clock=lambda: world.now, calls=world.calls)
    journal = Journal[ApprovalEntry, ApprovalBook](world.path, ApprovalEntry, ApprovalBook, disk)
    actor = Approvals(
        journal,
        two_channels(*owner_routes, outbox=outbox.address),
        Environment(now=lambda: world.now, new_code=lambda length: world.codes.pop()[-length:]),
        owners=frozenset({OWNER, CONTROL}),
        hint=world.hint,
        redact=lambda text: text.replace(world.secret, "***"),
        settings=world.settings,
        when_awake=lambda now: world.awake(now),
        confined=world.confined,
    )

    async def serve_outbox(mailbox: Mailbox[OutboxMail]) -> None:
        async for mail in mailbox:
            assert isinstance(mail, Post | Edit)
            (world.posts if isinstance(mail, Post) else world.edits).append(mail)  # type: ignore[arg-type]
            mail.reply.set(world.sent(mail) if world.sent else Sent(str(len(world.posts))))

    async def supervise_children() -> None:
        children = [Child(outbox, serve_outbox), Child(box, actor.run)]
        await supervise(children, stop=stop, listener=events.append, actor_table=actor_table)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervise_children)
        yield Asker(box)
        await trio.testing.wait_all_tasks_blocked()
        stop.set()
    assert not [event for event in events if isinstance(event, Crashed)]
