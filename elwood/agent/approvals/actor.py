"""Decides who may talk to us and what may be done: the only writer of the approvals journal."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import partial
from hmac import compare_digest
from typing import assert_never

import msgspec
import trio

from elwood.agent.approvals import decisions
from elwood.agent.approvals.decisions import EXPIRED, Step
from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ApprovePairing,
    ButtonPressed,
    ChangeAccess,
    CommandResult,
    Decided,
    DecideRequest,
    EndAccess,
    Known,
    ListApprovals,
    ListPeople,
    LookUpDecision,
    Meet,
    MovedGroups,
    MoveGroup,
    Pending,
    RemovedPeople,
    RequestApproval,
    RevokePermission,
    ShowDetails,
    Stranger,
    Verdict,
    WithdrawRequests,
)
from elwood.agent.approvals.prompt_text import (
    MAX_CROWD,
    Kind,
    View,
    access_buttons,
    access_question,
    access_settled,
    button_pressed,
    crowd_message,
    details_message,
    request_messages,
    settled_message,
    view_buttons,
)
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import (
    CODE_LASTS,
    CODE_LENGTH,
    CONTROL,
    NEW_CODES,
    STEP_BACK,
    TYPED_LENGTH,
    AccessDecided,
    AccessEnded,
    AccessRequested,
    ApprovalBook,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequest,
    ApprovalRequested,
    ApprovalState,
    GroupMoved,
    People,
    Question,
    QuestionMessage,
    RequestSettled,
    RequestsShown,
    RoleChanged,
    gist,
    where_to_ask,
)
from elwood.agent.channels.channel import Channels
from elwood.agent.channels.client import edit_until_done, post_until_delivered
from elwood.agent.channels.messages import Button, Edit
from elwood.agent.channels.pacing import Bucket
from elwood.agent.conversation.calls import OwnerAnswer, allows
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import PRINCIPAL
from elwood.foundation.environment import Environment
from elwood.foundation.log import bind, event
from elwood.foundation.runtime import Mailbox, Signal
from elwood.foundation.storage.disk import write_or_report
from elwood.foundation.storage.journal import Journal
from elwood.foundation.text.characters import normal_code
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.markdown import Rich
from elwood.foundation.text.splitting import STANDARD

log = logging.getLogger("elwood.approvals")

RECORD = "recording an approval"
# Seconds at most between two looks at the clock while the owner sleeps: it may be set meanwhile.
LOOK = 60.0
# Seconds between two tries to give a session a hint.
HINT_PAUSE = 1.0
# Seconds between one notice of strangers and the next while more of them come.
CROWD = (0.0, 60.0, 600.0)
# Wrong codes and buttons of one person before all of theirs are refused for a while (AP-20).
GUESSES = Bucket(20 / 60, 20)

NOT_YOURS = CommandResult("This is not yours to decide.", ok=False)
NO_ROOM = CommandResult("The disk is full; nothing was changed.", ok=False)
TOO_MANY = CommandResult("Too many wrong codes. Try again in a minute.", ok=False)
IN_CHAT = CommandResult(
    "Commands are not confined here (sandbox.kind), so this decides only by the long code that "
    "stands in the chat with the question; or decide there, by a button or /allow.",
    ok=False,
)
NO_SUCH = CommandResult(
    "No call waits with this code. /approvals, or elwood approve, lists them.", ok=False
)
ELSEWHERE = CommandResult("This button counts only where I asked. Type the code instead.", ok=False)
NO_SUCH_CODE = CommandResult(
    "Nobody waits with this code. It may be mistyped, older than an hour, or decided already; "
    "after an hour whoever still writes to me gets a new one.",
    ok=False,
)
NOT_A_PERSON = CommandResult("Only a person can be a member or a guest.", ok=False)
NOBODY = CommandResult(
    "I know nobody of that name or number; /people, or elwood pair list, names all. "
    "Owners stand in config.toml.",
    ok=False,
)
NAMESAKES = CommandResult(
    "Several people have that name. Use the id, as /people shows it.", ok=False
)
WELCOME_GROUP = "I answer here now: mention me, reply to me, or write a command with my name."
# Open questions that one /approvals shows again.
MAX_SHOWN_AGAIN = 5
SHOWN_AGAIN = Rich("I have asked this again below.")
WELCOME = "You were let in. Write to me again: I have kept nothing of what you wrote before."


def sealed(seal: str, code: str) -> str:
    """Say what is put behind *code* for the control socket; nothing without a *seal*."""
    digest = hashlib.sha256(f"{seal} {normal_code(code)}".encode()).hexdigest()
    return digest[:8] if seal else ""


class Approvals:
    """Records who was let in and what was allowed, by whom, and which groups have a new id.

    *owners* are the principals who may decide; they are asked by *channels*.  *hint* tells a
    session that its call was decided, and must not wait.  *redact* takes secrets out.
    *when_awake* says when the owner may be asked about what tasks want, at a Unix time; *zone* is
    theirs; *at_work* which sessions have something to do.  With a *seal*, a secret of this process,
    the control socket decides by longer codes only, made by it: commands that are not confined can
    read the disk, and ask the socket, but not read the chat.
    """

    def __init__(
        self,
        journal: Journal[ApprovalEntry, ApprovalBook],
        channels: Channels,
        environment: Environment,
        *,
        owners: frozenset[str],
        hint: Callable[[Decided], bool],
        redact: Callable[[str], str],
        settings: ApprovalSettings,
        when_awake: Callable[[float], float] = lambda now: now,
        at_work: Callable[[], Iterable[str]] = lambda: (),
        zone: tzinfo = UTC,
        seal: str = "",
    ) -> None:
        self._seal = seal
        self._journal = journal
        self._channels = channels
        self._post = partial(post_until_delivered, channels.outboxes)
        self._environment = environment
        self._owners = owners
        self._hint = hint
        self._redact = redact
        self._settings = settings
        self._when_awake = when_awake
        self._at_work = at_work
        self._zone = zone

    async def run(self, mailbox: Mailbox[ApprovalsMail]) -> None:
        """Replay, ask again what is open, then answer until stopped."""
        await self._journal.open()
        # Held by whoever decides: what expires must not be decided meanwhile (AP-05).
        self._deciding = trio.Lock()
        # Each ends the wait for the end of an open request.
        self._timers: dict[str, trio.CancelScope] = {}
        self._guesses: dict[str, Bucket] = {}
        now = self._environment.now()
        waiting = [one for one in self._people.requests.values() if one.is_fresh(now)]
        self._newcomers = [one.asked for one in waiting if not one.shown]
        self._has_newcomers = Signal()
        self._new_codes = Bucket(NEW_CODES / 3600, NEW_CODES)
        async with trio.open_nursery() as self._tasks:
            self._tasks.start_soon(self._prompt_for_access, bool(self._newcomers))
            async with self._deciding:
                await self._resume()
            async for message in mailbox:
                async with self._deciding:
                    await self._answer(message)
            self._tasks.cancel_scope.cancel()

    async def _answer(self, message: ApprovalsMail) -> None:
        state, now = self._state, self._environment.now()
        match message:
            case Meet():
                message.reply.set(await self._meet(message))
            case EndAccess(principal=principal):
                is_known = principal in self._people.known
                message.reply.set(not is_known or await self._record(AccessEnded(principal)))
            case ListPeople():
                message.reply.set(self._people.listed(self._channels.is_group))
            case RemovedPeople():
                message.reply.set(frozenset(self._people.removed))
            case ChangeAccess():
                message.reply.set(await self._change_access(message))
            case ButtonPressed():
                message.reply.set(await self._press(message))
            case ApprovePairing(code=code, guest=guest):
                if self._seal:
                    message.reply.set(IN_CHAT)
                    return
                result = await self._let_in(code, True, "console", guest)
                message.reply.set(NO_SUCH_CODE if result is EXPIRED else result)
            case MoveGroup(old=old, new=new):
                if new not in self._people.moved:
                    await self._record(GroupMoved(old, new))
                message.reply.set(None)
            case MovedGroups():
                message.reply.set({new: str(old) for new, old in self._people.moved.items()})
            case RequestApproval(question=question):
                message.reply.set(await self._request(question))
            case LookUpDecision(session=session, call=call, plan=plan):
                message.reply.set(decisions.look_up(state, session, call, plan, now))
            case WithdrawRequests(session=session, calls=calls, anew=anew):
                entries = decisions.withdraw(state, session, calls, anew, now)
                message.reply.set(await self._write(*entries))
            case DecideRequest(code=code, answer=answer, by=by, guest=guest):
                message.reply.set(await self._decide_typed(code, answer, by, guest))
            case RevokePermission() | ListApprovals() if message.by not in self._owners:
                message.reply.set(NOT_YOURS)
            case ShowDetails(code=code, by=by):
                message.reply.set(self._details(code, by))
            case RevokePermission(number=number, by=by):
                message.reply.set(await self._take(decisions.revoke(state, number, by, now)))
            case ListApprovals(route=route):
                message.reply.set(decisions.list_all(state, now))
                if route is not None:
                    self._show_again(route)
            case _:
                assert_never(message)

    @property
    def _people(self) -> People:
        return self._journal.state.people

    @property
    def _messages(self) -> Mapping[str, QuestionMessage]:
        return self._journal.state.messages

    @property
    def _state(self) -> ApprovalState:
        return self._journal.state.calls

    async def _record(self, *entries: ApprovalEntry) -> bool:
        """Write *entries* in one line; False if there is no room for them."""
        return await write_or_report(RECORD, self._journal.append(*entries))

    # --- who may talk to us ----------------------------------------------------------------------

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
        if self._new_codes.delay(trio.current_time()):
            return Stranger(None)
        self._new_codes = self._new_codes.spend(trio.current_time())
        code = self._environment.new_code(CODE_LENGTH)
        while code in self._people.requests:
            code = self._environment.new_code(CODE_LENGTH)
        who = "" if by is None else f"{one_line(by.name)} ({by.id})"
        asked = AccessRequested(code, meet.principal, one_line(meet.name), meet.route, who)
        if not await self._record(asked):
            return Stranger(None)
        log.info("stranger met", extra={"principal": meet.principal})
        self._newcomers.append(asked)
        self._has_newcomers.give()
        return Stranger(code)

    async def _let_in(
        self, code: str, approved: bool, by: str, guest: bool = False
    ) -> CommandResult:
        """Decide about *code* if it is still open: found, recorded and closed in one go."""
        asked = self._people.find(code, self._environment.now())
        if asked is None:
            return EXPIRED
        decided = AccessDecided(asked.code, approved, by, guest)
        if not await self._record(decided):
            return NO_ROOM
        if asked.code in self._timers:
            self._timers.pop(asked.code).cancel()
        self._tasks.start_soon(self._settle_access, asked, decided)
        who = f"{asked.name} ({asked.principal})"
        log.info("stranger decided", extra={"principal": asked.principal, "approved": approved})
        yes, no = f"{who} may talk to me now.", f"{who} stays out."
        if asked.is_group:
            yes, no = f"I answer in {who} now.", f"I stay silent in {who}."
        if approved:
            welcome = Rich(WELCOME_GROUP if asked.is_group else WELCOME)
            self._tasks.start_soon(self._post, asked.route, (welcome,))
        return CommandResult(yes if approved else no, ok=True)

    async def _change_access(self, change: ChangeAccess) -> CommandResult:
        """Remove somebody, or give them another role; a name must be that of one only."""
        if change.by not in self._owners:
            return NOT_YOURS
        found = [
            one
            for one in self._people.listed(self._channels.is_group)
            if change.who in (one.principal, one.name)
        ]
        if len(found) != 1:
            return NAMESAKES if found else NOBODY
        [person] = found
        if change.role is None:
            removed = decisions.remove(self._state, person, change.by, self._environment.now())
            result = await self._take(removed)
            if result.ok:
                log.info("person removed", extra={"principal": person.principal, "by": change.by})
                for session in self._at_work():
                    self._tasks.start_soon(self._tell, session)
            return result
        if self._channels.is_group(person.principal):
            return NOT_A_PERSON
        changed = RoleChanged(person.principal, change.role == "guest", change.by)
        text = f"{person.name or 'Somebody'} ({person.principal}) is a {change.role} now."
        return CommandResult(text, ok=True) if await self._record(changed) else NO_ROOM

    async def _prompt_for_access(self, repeat: bool) -> None:
        """Show the owner who asks, as long as the codes are valid; a crowd comes together.

        The first notice is a *repeat* if it may have been sent before the start.
        """
        pause = 0.0
        while self._channels.places:  # without, `elwood pair` remains
            while not self._newcomers:
                await self._has_newcomers.wait()
            open_ = self._people.open(self._environment.now())
            asked = [one for one in self._newcomers if one in open_]
            self._newcomers.clear()
            where = self._channels.owner_routes()[0]
            with trio.move_on_after(CODE_LASTS):
                singly = [one for one in asked if one.is_group][:MAX_CROWD]
                people = [one for one in asked if not one.is_group]
                if len(people) > 1:
                    if await self._post(where, (crowd_message(people),), repeat=repeat):
                        await self._record(RequestsShown(tuple(one.code for one in people)))
                    people = []
                for one in (*people, *singly):
                    question, keys = access_question(one), access_buttons(one)
                    sent = await self._post(where, (question,), keys, repeat=repeat)
                    if sent is not None and sent.message:
                        await self._record(RequestsShown((one.code,), sent.message, where))
                        self._tasks.start_soon(self._lapse, one)
            repeat = False
            pause = CROWD[min(CROWD.index(pause) + 1, len(CROWD) - 1)]
            await trio.sleep(pause)
            pause = pause if self._newcomers else 0.0

    async def _lapse(self, asked: AccessRequested) -> None:
        """Let the question about a stranger end when the code is over, or is already."""
        if asked not in self._people.open(self._environment.now()):
            await self._settle(asked.code)
            return
        with trio.CancelScope() as self._timers[asked.code]:
            await trio.sleep(asked.lasts)
            del self._timers[asked.code]
            await self._settle_access(asked, None)

    async def _settle_access(self, asked: AccessRequested, decided: AccessDecided | None) -> None:
        now, zone = self._environment.now(), self._zone
        await self._settle(
            asked.code, lambda at: access_settled(asked, decided, at, self._channels, now, zone)
        )

    # --- what may be done: asked, decided, over --------------------------------------------------

    async def _request(self, question: Question) -> Pending | Verdict:
        """Find the decision about a call, or ask for one; repeating it changes nothing."""
        step = decisions.find(self._state, question, self._environment.now())
        if step.answer is not None:
            await self._write(*step.entries)  # it holds as well if there is no room to write it
            return step.answer
        question = decisions.redacted(question, self._redact)
        place = where_to_ask(question, self._channels.owner_routes())
        refused = decisions.why_not_asked(self._state, question, place)
        if refused is not None:
            await self._write(*step.entries)
            return Verdict("denied", "", why=refused)
        code = self._environment.new_code(TYPED_LENGTH)
        while self._state.of_code(code) is not None:
            code = self._environment.new_code(TYPED_LENGTH)
        # What is asked at night has its whole time from the morning on (AP-25).
        lasts = self._settings.expires + self._seconds_asleep(question)
        requested = ApprovalRequested(self._environment.new_id(), code, question, lasts)
        if not await self._write(*step.entries, requested):
            return Verdict("denied", "", why=decisions.DISK_FULL)
        return Pending()

    async def _press(self, press: ButtonPressed) -> CommandResult:
        by, found = press.principal, button_pressed(press.data)
        if (refused := self._refused(by)) is not None:
            return refused
        kind, id, answer = found or ("a", "", "denied")
        result = await self._pressed(press, kind, id, answer)
        # Under a copy, or what was never recorded as shown, nobody else takes the buttons away.
        known = self._messages.get(id)
        is_copy = known is None or known.message != press.message
        is_open = self._state.is_open(id) or self._people.find(id, self._environment.now())
        if is_copy and not is_open and press.route is not None and press.message:
            self._tasks.start_soon(self._edit, QuestionMessage(press.route, press.message))
        return result

    async def _pressed(
        self, press: ButtonPressed, kind: Kind, id: str, answer: OwnerAnswer | View
    ) -> CommandResult:
        by = press.principal
        if kind == "p":
            return await self._let_in(id, answer == "once", by)
        if (request := self._state.requests.get(id)) is None:
            return self._guessed(by, EXPIRED)
        shown = self._messages.get(id)
        asked = (
            shown.route if shown else where_to_ask(request.question, self._channels.owner_routes())
        )
        if asked is None or press.route is None or not asked.is_same_chat(press.route):
            log.warning("press in another chat", extra={"principal": by})
            return ELSEWHERE
        if answer == "details" or answer == "question":
            if request.ruling is not None:
                return EXPIRED
            at = QuestionMessage(press.route, press.message)
            self._tasks.start_soon(self._show, request, at, answer)
            return CommandResult("", ok=True)
        return await self._decide(request, answer, by)

    async def _decide_typed(
        self, code: str, answer: OwnerAnswer, by: str, guest: bool
    ) -> CommandResult:
        if (refused := self._refused(by)) is not None:
            return refused
        if self._seal and by == CONTROL:
            code, _, ending = code.partition("-")
            if not compare_digest(ending.lower().encode(), sealed(self._seal, code).encode()):
                return self._guessed(by, IN_CHAT)
        request = self._state.of_code(normal_code(code))
        if request is None:
            let_in = await self._let_in(code, answer != "denied", by, guest)
            return self._guessed(by, NO_SUCH) if let_in is EXPIRED else let_in
        if guest:
            return NOT_A_PERSON
        return await self._decide(request, answer, by)

    async def _decide(
        self, request: ApprovalRequest, answer: OwnerAnswer, by: str
    ) -> CommandResult:
        now, lasts = self._environment.now(), self._settings.lasts
        return await self._take(
            decisions.decide_request(self._state, request, answer, by, now, lasts)
        )

    async def _take(self, step: Step[CommandResult]) -> CommandResult:
        written = await self._write(*step.entries)
        return step.answer if written or not step.answer.ok else NO_ROOM

    async def _write(self, *entries: ApprovalEntry) -> bool:
        """Record *entries* and see to what follows; False if there is no room for them.

        For those who hold the lock and have seen that what they decide is open.
        """
        if not entries:
            return True
        # As they were asked: of a decided one the whole is not kept.
        ended = [self._state.requests[e.id] for e in entries if isinstance(e, ApprovalDecided)]
        if not await self._record(*entries):
            return False
        for entry in entries:
            match entry:
                case ApprovalRequested(id=id, question=question, lasts=lasts):
                    with bind(session=question.session, message=question.message):
                        log.info("owner asked", extra={"question": gist(question)})
                        self._tasks.start_soon(self._prompt, self._state.requests[id])
                    self._end_in(lasts, self._state.requests[id])
                case ApprovalDecided():
                    self._ended(ended.pop(0), entry)
                case _:
                    log.info("permissions changed", extra={"entry": repr(entry)})
        return True

    def _ended(self, request: ApprovalRequest, decided: ApprovalDecided) -> None:
        question, ruling, by = request.question, decided.ruling, decided.by
        about = {"question": gist(question), "decision": ruling, "by": by}
        took = self._environment.now() - request.at
        with bind(session=question.session, message=question.message):
            success = allows(ruling)
            event(log, "approval", about, success=success, seconds=took, level=logging.INFO)
        if decided.id in self._timers:
            self._timers.pop(decided.id).cancel()
        if ruling != "withdrawn":  # those who withdraw know it
            self._tasks.start_soon(self._tell, question.session)
        now = self._environment.now()
        settled = msgspec.structs.replace(request, ruling=ruling, by=by, decided_at=now)
        self._tasks.start_soon(self._settle_request, settled)

    async def _tell(self, session: str) -> None:
        while True:
            if self._hint(Decided(session)):
                return
            await trio.sleep(HINT_PAUSE)

    def _end_in(self, left: float, request: ApprovalRequest) -> None:
        """Let *request* end in *left* seconds, so that its session need not ask for that."""
        scope = self._timers[request.id] = trio.CancelScope()
        self._tasks.start_soon(self._expire, left, request, scope)

    async def _expire(self, left: float, request: ApprovalRequest, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(left)
            async with self._deciding:
                await self._write(decisions.close(request, "expired"))

    def _refused(self, by: str) -> CommandResult | None:
        """Say why nothing that *by* presses or types counts now; None if it does."""
        if by not in self._owners:
            log.warning("decision by somebody else", extra={"principal": by})
            return NOT_YOURS
        guesses = self._guesses.get(by)
        return TOO_MANY if guesses is not None and guesses.delay(trio.current_time()) else None

    def _guessed(self, by: str, answer: CommandResult) -> CommandResult:
        self._guesses[by] = self._guesses.get(by, GUESSES).spend(trio.current_time())
        return answer

    # --- putting requests before the owner -------------------------------------------------------

    async def _resume(self) -> None:
        """Take up what the journal says: expire, post again, tell what was decided of late."""
        now = self._environment.now()
        for request in self._state.open():
            age = now - request.at
            left = request.lasts - max(0.0, age)
            if left <= 0 or age < -STEP_BACK:  # by a clock set back far nobody knows its age
                await self._write(decisions.close(request, "expired"))
            else:
                self._end_in(left, request)
        lately = now - self._settings.expires
        known = self._state.requests.values()
        decided = [one for one in known if one.ruling is not None and one.decided_at > lately]
        for session in {request.question.session for request in decided}:
            self._tasks.start_soon(self._tell, session)
        for request in self._state.open():
            if request.id not in self._messages:
                self._tasks.start_soon(self._prompt, request, True)
        for id in self._messages:
            if (asked := self._people.find(id, now)) is not None:
                self._tasks.start_soon(self._lapse, asked)
            else:
                self._tasks.start_soon(self._settle_if_over, id)

    def _seconds_asleep(self, question: Question) -> float:
        """Say in how many seconds the owner may be asked *question*: what tasks want can wait."""
        if not question.principal.startswith(PRINCIPAL):
            return 0.0
        now = self._environment.now()
        return max(0.0, self._when_awake(now) - now)

    async def _prompt(self, request: ApprovalRequest, repeat: bool = False) -> None:
        """Put *request* before the owner; if a task wants it, when they are awake (AP-25)."""
        question = request.question
        route = where_to_ask(question, self._channels.owner_routes())
        if route is None:
            return
        while self._state.is_open(request.id) and (left := self._seconds_asleep(question)):
            repeat = False
            await trio.sleep(min(left, LOOK))
        if request.id not in self._messages:
            await self._ask(request, route, repeat)

    def _show_again(self, route: Route) -> None:
        """Ask once more what was asked in this chat, as far as it is open."""
        for request in self._state.open()[-MAX_SHOWN_AGAIN:]:
            place = where_to_ask(request.question, self._channels.owner_routes())
            if place is not None and place.is_same_chat(route):
                self._tasks.start_soon(self._ask, request, route)

    async def _ask(self, request: ApprovalRequest, route: Route, repeat: bool = False) -> None:
        """Send *request* as a message with buttons; the only one, if it was sent before.

        If it cannot arrive at *route*, send it to the next place of an owner.
        """
        routes = self._channels.owner_routes()
        others = [one for one in routes if not one.is_same_chat(route)]
        for place in (route, *others):
            sent = await self._post(
                place,
                request_messages(request, place, self._channels, sealed(self._seal, request.code)),
                view_buttons(request, "question"),
                repeat=repeat,
                wanted=lambda: self._state.is_open(request.id),
            )
            if sent is not None or not self._state.is_open(request.id):
                break
        if sent is None or not sent.message:
            return
        before = self._messages.get(request.id)
        await self._record(RequestsShown((request.id,), sent.message, place))
        if before is not None:
            await self._edit(before, SHOWN_AGAIN)
        await self._settle_if_over(request.id)

    async def _show(self, request: ApprovalRequest, at: QuestionMessage, view: View) -> None:
        ending = sealed(self._seal, request.code)
        part = request_messages(request, at.route, self._channels, ending)[-1]
        if view == "details":
            part = details_message(request, self._channels.at(at.route).size, ending)
        keys = view_buttons(request, view)
        await self._edit(at, part, keys, lambda: self._state.is_open(request.id))

    def _details(self, code: str, by: str) -> CommandResult:
        if (refused := self._refused(by)) is not None:
            return refused
        request = self._state.of_code(normal_code(code))
        if request is None or request.ruling is not None:
            return self._guessed(by, NO_SUCH)
        details = details_message(request, STANDARD, sealed(self._seal, request.code))
        return CommandResult(details.text, ok=True)

    async def _settle_if_over(self, id: str) -> None:
        """Settle what was decided while its message was sent, or before a crash."""
        if (request := self._state.requests.get(id)) is None:
            await self._settle(id)
        elif request.ruling is not None:
            await self._settle_request(request)

    async def _settle_request(self, request: ApprovalRequest) -> None:
        await self._settle(
            request.id, lambda at: settled_message(request, at, self._channels, self._zone)
        )

    async def _settle(self, id: str, part: Callable[[Route], Rich] | None = None) -> None:
        """Let the message that asked *id* say *part*, without buttons, and record that it does."""
        if (shown := self._messages.get(id)) is None:
            return
        if await self._edit(shown, part and part(shown.route)):
            await self._record(RequestSettled(id, shown.message))

    async def _edit(
        self,
        at: QuestionMessage,
        part: Rich | None = None,
        buttons: Sequence[Button] = (),
        wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        edit = partial(Edit, route=at.route, message=at.message, part=part, buttons=tuple(buttons))
        return await edit_until_done(self._channels.outboxes, edit, wanted)
