"""Access of people and groups: the part of the approvals actor for pairing and roles."""

import logging
from collections import Counter
from datetime import tzinfo
from typing import Literal, assert_never

import attrs
import trio

from elwood.agent.channels.channel import Channels
from elwood.agent.channels.questions import OwnerQuestions, Record, RequestsShown
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.people.messages import (
    EndAccess,
    Known,
    ListPeople,
    Meet,
    MovedGroups,
    MoveGroup,
    RemovedPeople,
    Stranger,
)
from elwood.agent.people.state import (
    CODE_LASTS,
    CODE_LENGTH,
    AccessDecided,
    AccessEnded,
    AccessRequested,
    GroupMoved,
    KnownPerson,
    People,
    PeopleEntry,
    RoleChanged,
)
from elwood.agent.people.text import access_buttons, access_question, access_settled
from elwood.foundation.environment import Environment
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.markdown import Rich

log = logging.getLogger("elwood.approvals")

# Maximum of open questions about people, and of those about groups.  A channel can send so many
# messages in a row, and an answer to the owner too.
MAX_ASKED = 3

NO_ROOM = CommandResult("The disk is full; nothing was changed.", ok=False)
NOT_A_PERSON = CommandResult("Only a person can be a member or a guest.", ok=False)
NOBODY = CommandResult(
    "No person or group has that name or id. List them with /people, or elwood pair list. "
    "Owners are set in config.toml.",
    ok=False,
)
CONFIGURED = "Their access comes from {} in config.toml. Change it there and restart Elwood."
NAMESAKES = CommandResult("Several people have that name. Use the id that /people shows.", ok=False)
WELCOME_GROUP = "I answer here now: mention me, reply to me, or write a command with my name."
WELCOME = "You can talk to me now. Please write again: I did not keep your earlier messages."


@attrs.define(eq=False, kw_only=True)
class Pairing:
    """Grants and ends access; *owners* decide, and *record* writes into *people*.

    An instance belongs to one run of the actor, whose *tasks* send the *questions*.
    """

    _people: People
    _record: Record[PeopleEntry | RequestsShown]
    _questions: OwnerQuestions
    _channels: Channels
    _environment: Environment
    _owners: frozenset[str]
    _zone: tzinfo
    _tasks: trio.Nursery
    # Requests with an open question, by code.
    _asked: dict[str, AccessRequested] = attrs.field(factory=dict, init=False)

    def resume(self) -> None:
        """Wait again for answers to open questions, and send those that did not arrive."""
        now = self._environment.now()
        for code in self._questions.messages:
            if (asked := self._people.find(code, now)) is not None:
                self._asked[code] = asked
                self._tasks.start_soon(self._expire_request, asked)
        self._ask_about_strangers(repeat=True)

    async def answer(
        self, message: Meet | EndAccess | ListPeople | RemovedPeople | MoveGroup | MovedGroups
    ) -> None:
        match message:
            case Meet():
                message.reply.set(await self._meet(message))
            case EndAccess(principal=principal):
                is_known = principal in self._people.known
                message.reply.set(not is_known or await self._record(AccessEnded(principal)))
            case ListPeople():
                message.reply.set(self._list())
            case RemovedPeople():
                message.reply.set(frozenset(self._people.removed))
            case MoveGroup(old=old, new=new):
                if new not in self._people.moved:
                    await self._record(GroupMoved(old, new))
                message.reply.set(None)
            case MovedGroups():
                message.reply.set({new: str(old) for new, old in self._people.moved.items()})
            case _:
                assert_never(message)

    async def let_in(
        self, code: str, approved: bool, by: str, guest: bool = False
    ) -> CommandResult | None:
        """Decide about *code* and close its question; return None if it is not open."""
        asked = self._people.find(code, self._environment.now())
        if asked is None:
            return None
        decided = AccessDecided(asked.code, approved, by, guest)
        if not await self._record(decided):
            return NO_ROOM
        self._tasks.start_soon(self._settle_access, asked, decided)
        self._asked.pop(asked.code, None)
        self._ask_about_strangers()
        who = f"{asked.name} ({asked.principal})"
        log.info(
            "decided about a stranger", extra={"principal": asked.principal, "approved": approved}
        )
        yes, no = f"{who} may talk to me now.", f"{who} may not talk to me."
        if asked.is_group:
            yes, no = f"I answer in {who} now.", f"I stay silent in {who}."
        if approved:
            welcome = Rich(WELCOME_GROUP if asked.is_group else WELCOME)
            self._tasks.start_soon(self._questions.post, asked.route, (welcome,))
        return CommandResult(yes if approved else no, ok=True)

    def _list(self) -> tuple[KnownPerson, ...]:
        return self._people.list_people(self._channels.is_group, self._channels.allowed)

    def find_person(self, who: str) -> KnownPerson | CommandResult:
        """Return the person with the principal or the unique name *who*, to change their access."""
        found = [one for one in self._list() if who in (one.principal, one.name)]
        if len(found) != 1:
            return NAMESAKES if found else NOBODY
        [person] = found
        if person.setting:
            return CommandResult(CONFIGURED.format(person.setting), ok=False)
        return person

    async def change_role(
        self, person: KnownPerson, role: Literal["member", "guest"], by: str
    ) -> CommandResult:
        if self._channels.is_group(person.principal):
            return NOT_A_PERSON
        changed = RoleChanged(person.principal, role == "guest", by)
        text = f"{person.name or 'Someone'} ({person.principal}) is a {role} now."
        return CommandResult(text, ok=True) if await self._record(changed) else NO_ROOM

    async def _meet(self, meet: Meet) -> Known | Stranger:
        if meet.principal in self._owners:
            return Known("admin")
        if (role := self._people.role(meet.principal)) is not None:
            return Known(role)
        by, now = meet.brought, self._environment.now()
        insists = by is not None and by.id in self._owners
        id_ = "" if by is None else by.id
        may_ask = self._people.may_ask(meet.principal, now, by=id_, insists=insists)
        if not (meet.asks and may_ask):
            return Stranger(None)
        code = self._environment.new_code(CODE_LENGTH)
        while code in self._people.requests:
            code = self._environment.new_code(CODE_LENGTH)
        who = "" if by is None else f"{one_line(by.name)} ({by.id})"
        asked = AccessRequested(code, meet.principal, one_line(meet.name), meet.route, who)
        if not await self._record(asked):
            return Stranger(None)
        log.info("stranger wrote", extra={"principal": meet.principal})
        self._ask_about_strangers()
        return Stranger(code)

    def _ask_about_strangers(self, repeat: bool = False) -> None:
        """Ask about the newest requests, few at a time: a crowd must not flood the owner.

        Other requests have valid codes without a question.
        """
        if not self._channels.rank_owner_routes:  # `elwood pair` remains
            return
        count = Counter(one.is_group for one in self._asked.values())
        for one in reversed(self._people.open(self._environment.now())):
            is_owners = any(map(one.is_brought_by, self._owners))
            if one.code in self._asked or (count[one.is_group] >= MAX_ASKED and not is_owners):
                continue
            count[one.is_group] += 1
            self._asked[one.code] = one
            self._tasks.start_soon(self._ask_about, one, repeat)

    async def _ask_about(self, asked: AccessRequested, repeat: bool) -> None:
        where, sent = self._channels.owner_routes()[0], None
        with trio.move_on_after(CODE_LASTS):
            question, keys = access_question(asked), access_buttons(asked)
            sent = await self._questions.post(where, (question,), keys, repeat=repeat)
        if sent is not None and sent.message:
            await self._record(RequestsShown((asked.code,), sent.message, where))
        await self._expire_request(asked)

    async def _expire_request(self, asked: AccessRequested) -> None:
        """Close the access request when its code expires."""
        await trio.sleep(self._people.seconds_left(asked.code, self._environment.now()))
        if self._asked.pop(asked.code, None) is not None:
            self._ask_about_strangers()
            await self._settle_access(asked, None)
        else:  # it may have been decided while the question was being sent
            await self._questions.close_message(asked.code)

    async def _settle_access(self, asked: AccessRequested, decided: AccessDecided | None) -> None:
        now, zone = self._environment.now(), self._zone
        await self._questions.close_message(
            asked.code, lambda at: access_settled(asked, decided, at, self._channels, now, zone)
        )
