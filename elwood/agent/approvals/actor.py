"""Decides who may talk to us and what may be done: the only writer of the approvals journal."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import trio

from elwood.agent.approvals.asking import Asking
from elwood.agent.approvals.deciding import (
    EXPIRED,
    NO_ROOM,
    NOT_YOURS,
    Deciding,
)
from elwood.agent.approvals.grants import (
    CODE_LASTS,
    CODE_LENGTH,
    Answered,
    Asked,
    Grants,
    Moved,
    button,
    pressed,
)
from elwood.agent.approvals.messages import (
    ApprovalsMail,
    Decided,
    Known,
    Learn,
    Meet,
    Migrate,
    Migrations,
    Pair,
    Pressed,
    Recognise,
    Revoke,
    Rule,
    Seek,
    Settled,
    Standing,
    Stranger,
    Trust,
    Withdraw,
)
from elwood.agent.approvals.permissions import ApprovalEntry, Book
from elwood.agent.approvals.prompts import QuestionPosts
from elwood.agent.approvals.requests import Cases
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.channels.post_until_delivered import Posting
from elwood.agent.conversation.identity import flatten
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import (
    Address,
    Mailbox,
    clear_error,
    report_error,
)
from elwood.foundation.storage.journal import Journal
from elwood.foundation.storage.syscalls import DiskFull
from elwood.foundation.text.characters import utf16_length
from elwood.foundation.text.markdown import Entity, Rich

log = logging.getLogger(__name__)

RECORD = "recording an approval"
NO_SUCH_CODE = Settled(
    "Nobody waits with this code. It may be mistyped, older than an hour, or decided already; "
    "after an hour whoever still writes to me gets a new one.",
    ok=False,
)
WELCOME = "You were let in. Write to me again: I have kept nothing of what you wrote before."


class Approvals:
    """Records who was let in and what was allowed, by whom, and which chats moved.

    *owners* are the principals who may decide; *owner_routes* is where they are asked, if there
    are such places, by *outboxes*, under the names of their channels.  *hint* tells a session that
    its call was decided, and must not wait.  *new_id* makes 128 random bits as text, *new_code* a
    code of the given length that can be typed; *clock* tells Unix time; *redact* takes secrets out.
    *awake* says when the owner may be asked about what tasks want, at a Unix time.
    """

    def __init__(
        self,
        journal: Journal[ApprovalEntry, Book],
        outboxes: Mapping[str, Address[OutboxMail]],
        *,
        owners: frozenset[str],
        owner_routes: Sequence[Route],
        hint: Callable[[Decided], bool],
        new_id: Callable[[], str],
        new_code: Callable[[int], str],
        clock: Callable[[], float],
        redact: Callable[[str], str],
        settings: ApprovalSettings,
        awake: Callable[[float], float] = lambda now: now,
    ) -> None:
        self._journal = journal
        self._owners = owners
        self._owner_routes = owner_routes
        self._new_code = new_code
        self._clock = clock
        self._post = Posting(outboxes)
        self._cases = Cases(
            lambda: journal.state.calls, self._record, hint=hint, now=clock, settings=settings
        )
        self._questions = QuestionPosts(
            self._cases, self._post, owners=owner_routes, new_id=new_id, awake=awake
        )
        self._asking = Asking(
            self._cases, self._questions, new_id=new_id, new_code=new_code, redact=redact
        )
        self._deciding = Deciding(self._cases, self._questions, owners)

    async def run(self, mailbox: Mailbox[ApprovalsMail]) -> None:
        """Replay, ask again what is open, then answer until stopped."""
        await self._journal.open()
        async with trio.open_nursery() as tasks:
            for asked in self._people.open(self._clock()):
                tasks.start_soon(self._prompt, asked)
            await self._cases.begin(tasks)
            self._questions.ask_again()
            async for message in mailbox:
                await self._answer(message, tasks)
            tasks.cancel_scope.cancel()

    async def _answer(self, message: ApprovalsMail, tasks: trio.Nursery) -> None:
        match message:
            case Meet():
                await self._meet(message, tasks)
            case Recognise(principal=principal):
                message.reply.set(self._people.known.get(principal))
            case Pressed():
                message.reply.set(await self._press(message, tasks))
            case Pair(code=code):
                settled = await self._let_in(code, True, "console", tasks)
                message.reply.set(NO_SUCH_CODE if settled is EXPIRED else settled)
            case Migrate():
                await self._migrate(message)
            case Migrations():
                message.reply.set(dict(self._people.moved))
            case Seek(question=question):
                message.reply.set(await self._asking.seek(question))
            case Learn(session=session, call=call, plan=plan):
                message.reply.set(self._asking.learn(session, call, plan))
            case Withdraw(session=session, calls=calls, anew=anew):
                message.reply.set(await self._asking.withdraw(session, calls, anew))
            case Rule(code=code, answer=answer, by=by):
                message.reply.set(await self._deciding.rule(code, answer, by))
            case Trust(host=host, by=by):
                message.reply.set(await self._deciding.trust(host, by))
            case Revoke(number=number, by=by):
                message.reply.set(await self._deciding.revoke(number, by))
            case Standing(by=by):
                message.reply.set(self._deciding.standing(by))
            case _:
                assert_never(message)

    @property
    def _people(self) -> Grants:
        return self._journal.state.people

    async def _meet(self, meet: Meet, tasks: trio.Nursery) -> None:
        if meet.principal in self._owners or meet.principal in self._people.known:
            meet.reply.set(Known())
            return
        if not self._people.may_ask(meet.principal, self._clock()):
            meet.reply.set(Stranger(None))
            return
        code = self._new_code(CODE_LENGTH)
        while code in self._people.requests:
            code = self._new_code(CODE_LENGTH)
        asked = Asked(code, meet.principal, flatten(meet.name), meet.route)
        if not await self._record(asked):
            meet.reply.set(Stranger(None))
            return
        log.info("stranger met", extra={"principal": meet.principal})
        tasks.start_soon(self._prompt, asked)
        meet.reply.set(Stranger(code))

    async def _press(self, press: Pressed, tasks: trio.Nursery) -> Settled:
        found = pressed(press.data)
        if found is None:
            return await self._deciding.press(press.data, press.principal, press.route)
        if press.principal not in self._owners:
            log.warning("press by somebody else", extra={"principal": press.principal})
            return NOT_YOURS
        return await self._let_in(*found, press.principal, tasks)

    async def _let_in(self, code: str, approved: bool, by: str, tasks: trio.Nursery) -> Settled:
        """Decide about *code* if it is still open: found, recorded and closed in one go."""
        asked = self._people.find(code, self._clock())
        if asked is None:
            return EXPIRED
        if not await self._record(Answered(asked.code, approved, by)):
            return NO_ROOM
        who = f"{asked.name} ({asked.principal})"
        log.info("stranger decided", extra={"principal": asked.principal, "approved": approved})
        if not approved:
            return Settled(f"{who} stays out.", ok=True)
        tasks.start_soon(self._post, asked.route, (Rich(WELCOME),))
        return Settled(f"{who} may talk to me now.", ok=True)

    async def _migrate(self, migrate: Migrate) -> None:
        if migrate.new not in self._people.moved:
            await self._record(Moved(migrate.old, migrate.new))
        migrate.reply.set(None)

    async def _record(self, *entries: ApprovalEntry) -> bool:
        try:
            await self._journal.append(*entries)
        except DiskFull as error:
            report_error(RECORD, str(error))
            return False
        clear_error(RECORD)
        return True

    async def _prompt(self, asked: Asked) -> None:
        """Show the owner who asks, as long as the code is valid."""
        if not self._owner_routes:
            return  # `elwood pair` remains
        yes = ("Approve", button(asked.code, "y"))
        no = ("Deny", button(asked.code, "n"))
        with trio.move_on_after(CODE_LASTS):
            await self._post(self._owner_routes[0], (_question(asked),), (yes, no))


def _question(asked: Asked) -> Rich:
    """Ask about a stranger; the name is theirs, so it stands as code: no link, no mention."""
    before, name = "Somebody wants to talk to me: ", asked.name or "somebody"
    span = Entity("code", utf16_length(before), utf16_length(name))
    text = (
        f"{before}{name} ({asked.principal})\n"
        f"Their code is {asked.code}. Approve only if they gave it to you themselves."
    )
    return Rich(text, (span,))
