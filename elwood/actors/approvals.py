"""Lets people in: the only writer of the approvals journal."""

import logging
from collections.abc import Callable
from functools import partial
from typing import assert_never

import trio

from elwood.core.characters import utf16_length
from elwood.core.grants import (
    CODE_LASTS,
    Answered,
    Asked,
    GrantEntry,
    Grants,
    Moved,
    button,
    pressed,
)
from elwood.core.identity import flatten
from elwood.core.markdown import Entity, Rich
from elwood.core.session import Route
from elwood.messages import (
    ApprovalsMail,
    Button,
    Known,
    Meet,
    Migrate,
    Migrations,
    OutboxMail,
    Pair,
    Post,
    Pressed,
    Recognise,
    Revoke,
    Rule,
    Seek,
    Sent,
    Settled,
    Standing,
    Stranger,
    Trust,
    Undeliverable,
    Unsent,
    Unsure,
    Withdraw,
)
from elwood.runtime import Address, Mailbox, trouble, well
from elwood.store.calls import DiskFull
from elwood.store.journal import Journal

log = logging.getLogger(__name__)

# Seconds for one try to post something, and between two tries, doubling up to the last.
POST_LIMIT = 60.0
FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0
RECORD = "recording an approval"
NO_SUCH_CODE = Settled(
    "Nobody waits with this code. It may be mistyped, older than an hour, or decided already; "
    "after an hour whoever still writes to me gets a new one.",
    ok=False,
)
EXPIRED = Settled("This has expired or is decided already.", ok=False)
NOT_YOURS = Settled("This is not yours to decide.", ok=False)
NO_ROOM = Settled("The disk is full; nothing was changed.", ok=False)
WELCOME = "You were let in. Write to me again: I have kept nothing of what you wrote before."


class Approvals:
    """Records who asked, who was let in and by whom, and which chats moved.

    *owners* are the principals who may decide; *owner_route* is where they are asked, if there
    is such a place.  *new_code* makes pairing codes, *clock* tells Unix time.
    """

    def __init__(
        self,
        journal: Journal[GrantEntry, Grants],
        outbox: Address[OutboxMail],
        *,
        owners: frozenset[str],
        owner_route: Route | None,
        new_code: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._outbox = outbox
        self._owners = owners
        self._owner_route = owner_route
        self._new_code = new_code
        self._clock = clock

    async def run(self, mailbox: Mailbox[ApprovalsMail]) -> None:
        """Replay, ask again what is open, then answer until stopped."""
        await self._journal.open()
        async with trio.open_nursery() as posts:
            for asked in self._grants.open(self._clock()):
                posts.start_soon(self._prompt, asked)
            async for message in mailbox:
                match message:
                    case Meet():
                        await self._meet(message, posts)
                    case Recognise():
                        message.reply.set(self._grants.known.get(message.principal))
                    case Pressed():
                        message.reply.set(await self._press(message, posts))
                    case Pair():
                        settled = await self._decide(message.code, True, "console", posts)
                        message.reply.set(NO_SUCH_CODE if settled is EXPIRED else settled)
                    case Migrate():
                        await self._migrate(message)
                    case Migrations():
                        message.reply.set(dict(self._grants.moved))
                    case Seek() | Withdraw() | Rule() | Standing() | Trust() | Revoke():
                        raise NotImplementedError  # no tool asks yet
                    case _:
                        assert_never(message)
            posts.cancel_scope.cancel()

    @property
    def _grants(self) -> Grants:
        return self._journal.state

    async def _meet(self, meet: Meet, posts: trio.Nursery) -> None:
        if meet.principal in self._owners or meet.principal in self._grants.known:
            meet.reply.set(Known())
            return
        if not self._grants.may_ask(meet.principal, self._clock()):
            meet.reply.set(Stranger(None))
            return
        code = self._new_code()
        while code in self._grants.requests:
            code = self._new_code()
        asked = Asked(code, meet.principal, flatten(meet.name), meet.route)
        if not await self._record(asked):
            meet.reply.set(Stranger(None))
            return
        log.info("stranger met", extra={"principal": meet.principal})
        posts.start_soon(self._prompt, asked)
        meet.reply.set(Stranger(code))

    async def _press(self, press: Pressed, posts: trio.Nursery) -> Settled:
        if press.principal not in self._owners:
            log.warning("press by somebody else", extra={"principal": press.principal})
            return NOT_YOURS
        found = pressed(press.data)
        return EXPIRED if found is None else await self._decide(*found, press.principal, posts)

    async def _decide(self, code: str, approved: bool, by: str, posts: trio.Nursery) -> Settled:
        """Decide about *code* if it is still open: found, recorded and closed in one go."""
        asked = self._grants.find(code, self._clock())
        if asked is None:
            return EXPIRED
        if not await self._record(Answered(asked.code, approved, by)):
            return NO_ROOM
        who = f"{asked.name} ({asked.principal})"
        log.info("stranger decided", extra={"principal": asked.principal, "approved": approved})
        if not approved:
            return Settled(f"{who} stays out.", ok=True)
        posts.start_soon(self._post, asked.route, Rich(WELCOME), ())
        return Settled(f"{who} may talk to me now.", ok=True)

    async def _migrate(self, migrate: Migrate) -> None:
        if migrate.new not in self._grants.moved:
            await self._record(Moved(migrate.old, migrate.new))
        migrate.reply.set(None)

    async def _record(self, entry: GrantEntry) -> bool:
        try:
            await self._journal.append(entry)
        except DiskFull as error:
            trouble(RECORD, str(error))
            return False
        well(RECORD)
        return True

    async def _prompt(self, asked: Asked) -> None:
        """Show the owner who asks, as long as the code is valid."""
        if self._owner_route is None:
            return  # `elwood pair` remains
        yes = Button("Approve", button(asked.code, "y"))
        no = Button("Deny", button(asked.code, "n"))
        with trio.move_on_after(CODE_LASTS):
            await self._post(self._owner_route, _question(asked), (yes, no))

    async def _post(self, route: Route, part: Rich, buttons: tuple[Button, ...]) -> None:
        """Post until it has arrived or never can."""
        repeat, pause = False, FIRST_PAUSE
        while True:
            sent: Sent | Unsure | Unsent | Undeliverable = Unsure("nobody answered")
            with trio.move_on_after(POST_LIMIT):
                sent = await self._outbox.insist(
                    partial(Post, route=route, part=part, repeat=repeat, buttons=buttons)
                )
            match sent:
                case Sent():
                    return
                case Undeliverable(why):
                    log.warning("not deliverable", extra={"chat": route.chat, "why": why})
                    return
                case Unsure():
                    repeat = True
                case Unsent():
                    pass
            await trio.sleep(pause)
            pause = min(LAST_PAUSE, 2 * pause)


def _question(asked: Asked) -> Rich:
    """Ask about a stranger; the name is theirs, so it stands as code: no link, no mention."""
    before, name = "Somebody wants to talk to me: ", asked.name or "somebody"
    span = Entity("code", utf16_length(before), utf16_length(name))
    text = (
        f"{before}{name} ({asked.principal})\n"
        f"Their code is {asked.code}. Approve only if they gave it to you themselves."
    )
    return Rich(text, (span,))
