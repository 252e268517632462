"""Decides who may talk to us and what may be done: the only writer of the approvals journal."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from functools import partial

import msgspec
import trio

from elwood.agent.approvals import decisions
from elwood.agent.approvals.decisions import Step
from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ButtonPressed,
    Decided,
    DecideRequest,
    ListApprovals,
    LookUpDecision,
    Pending,
    RequestApproval,
    RevokePermission,
    ShowDetails,
    Verdict,
    WithdrawRequests,
)
from elwood.agent.approvals.prompt_text import (
    View,
    button_pressed,
    details_message,
    request_messages,
    settled_message,
    view_buttons,
)
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import (
    CONTROL,
    TYPED_LENGTH,
    ApprovalBook,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequest,
    ApprovalRequested,
    Question,
    gist,
    where_to_ask,
)
from elwood.agent.channels.channel import Channels
from elwood.agent.channels.pacing import Bucket
from elwood.agent.channels.questions import STEP_BACK, OwnerQuestions, RequestsShown
from elwood.agent.conversation.calls import OwnerAnswer, allows
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import PRINCIPAL
from elwood.agent.people.actor import NO_ROOM, NOT_A_PERSON, Pairing
from elwood.agent.people.messages import ApprovePairing, ChangeAccess
from elwood.agent.people.text import access_pressed
from elwood.foundation.environment import Environment
from elwood.foundation.log import bind, event
from elwood.foundation.runtime import Mailbox
from elwood.foundation.storage.disk import write_or_report
from elwood.foundation.storage.journal import Journal
from elwood.foundation.text.characters import normal_code
from elwood.foundation.text.markdown import Rich
from elwood.foundation.text.splitting import STANDARD

log = logging.getLogger("elwood.approvals")

RECORD = "recording an approval"
# Seconds at most between two looks at the clock while the owner sleeps: it may be set meanwhile.
LOOK = 60.0
# Seconds between two tries to give a session a hint.
HINT_PAUSE = 1.0
# Wrong codes and buttons of one person before all of theirs are refused for a while (AP-20).
GUESSES = Bucket(20 / 60, 20)

NOT_YOURS = CommandResult("This is not yours to decide.", ok=False)
TOO_MANY = CommandResult("Too many wrong codes. Try again in a minute.", ok=False)
IN_CHAT = CommandResult(
    "Commands are not confined here (sandbox.kind), so one of them could ask for this. Decide in "
    "the chat with the question, by a button or /allow CODE.",
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
# Open questions that one /approvals shows again.
MAX_SHOWN_AGAIN = 5
SHOWN_AGAIN = Rich("I have asked this again below.")


class Approvals:
    """Records who was let in and what was allowed, by whom, and which groups have a new id.

    *owners* are the principals who may decide; they are asked by *channels*.  *hint* tells a
    session that its call was decided, and must not wait.  *redact* takes secrets out.
    *when_awake* says when the owner may be asked about what tasks want, at a Unix time; *zone* is
    theirs; *at_work* which sessions have something to do.  Unless commands are *confined*, the
    control socket decides nothing: they can read the codes on the disk, and ask the socket.
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
        confined: bool = True,
    ) -> None:
        self._confined = confined
        self._journal = journal
        self._channels = channels
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
        book = self._journal.state
        self._people, self._state, self._messages = book.people, book.calls, book.messages
        # Held by whoever decides: what expires must not be decided meanwhile (AP-05).
        self._deciding = trio.Lock()
        # Each ends the wait for the end of an open request.
        self._timers: dict[str, trio.CancelScope] = {}
        self._guesses: dict[str, Bucket] = {}
        self._questions = OwnerQuestions(self._channels, self._messages, self._record)
        async with trio.open_nursery() as self._tasks:
            self._pairing = Pairing(
                people=self._people,
                record=self._record,
                questions=self._questions,
                channels=self._channels,
                environment=self._environment,
                owners=self._owners,
                zone=self._zone,
                tasks=self._tasks,
            )
            async with self._deciding:
                await self._resume()
            async for message in mailbox:
                async with self._deciding:
                    await self._answer(message)
            self._tasks.cancel_scope.cancel()

    async def _answer(self, message: ApprovalsMail) -> None:
        state, now = self._state, self._environment.now()
        match message:
            case ChangeAccess():
                message.reply.set(await self._change_access(message))
            case ApprovePairing() if not self._confined:
                message.reply.set(IN_CHAT)
            case ApprovePairing(code=code, guest=guest):
                result = await self._pairing.let_in(code, True, CONTROL, guest)
                message.reply.set(result or NO_SUCH_CODE)
            case ButtonPressed():
                message.reply.set(await self._press(message))
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
                await self._pairing.answer(message)

    async def _record(self, *entries: ApprovalEntry) -> bool:
        """Write *entries* in one line; False if there is no room for them."""
        return await write_or_report(RECORD, self._journal.append(*entries))

    # --- asked, decided, over ---------------------------------------------------------------------

    async def _request(self, question: Question) -> Pending | Verdict:
        """Find the decision about a call, or ask for one; repeating it changes nothing."""
        step = decisions.find(self._state, question, self._environment.now())
        if step.answer is not None:
            await self._write(*step.entries)  # it holds as well if there is no room to write it
            return step.answer
        question = decisions.redacted(question, self._redact)
        place = self._place(question)
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
        if (refused := self._refused(press.principal)) is not None:
            return refused
        if (access := access_pressed(press.data)) is not None:
            id, is_yes = access
            result = await self._pairing.let_in(id, is_yes, press.principal) or decisions.EXPIRED
        else:
            id, answer = button_pressed(press.data) or ("", "denied")
            result = await self._pressed(press, id, answer)
        # Under a copy, or what was never recorded as shown, nobody else takes the buttons away.
        known = self._messages.get(id)
        is_copy = known is None or known.message != press.message
        is_open = self._state.is_open(id) or self._people.find(id, self._environment.now())
        if is_copy and not is_open and press.route is not None and press.message:
            self._tasks.start_soon(self._questions.edit, press.route, press.message)
        return result

    async def _pressed(
        self, press: ButtonPressed, id: str, answer: OwnerAnswer | View
    ) -> CommandResult:
        by = press.principal
        if (request := self._state.requests.get(id)) is None:
            return self._guessed(by, decisions.EXPIRED)
        shown = self._messages.get(id)
        asked = shown.route if shown else self._place(request.question)
        if asked is None or press.route is None or not asked.is_same_chat(press.route):
            log.warning("press in another chat", extra={"principal": by})
            return ELSEWHERE
        if answer == "details" or answer == "question":
            if request.ruling is not None:
                return decisions.EXPIRED
            self._tasks.start_soon(self._show, request, press.route, press.message, answer)
            return CommandResult("", ok=True)
        return await self._decide(request, answer, by)

    async def _decide_typed(
        self, code: str, answer: OwnerAnswer, by: str, guest: bool
    ) -> CommandResult:
        if (refused := self._refused(by)) is not None:
            return refused
        if by == CONTROL and not self._confined:
            return IN_CHAT
        request = self._state.of_code(normal_code(code))
        if request is None:
            let_in = await self._pairing.let_in(code, answer != "denied", by, guest)
            return let_in or self._guessed(by, NO_SUCH)
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

    async def _change_access(self, change: ChangeAccess) -> CommandResult:
        """Remove somebody, or give them another role."""
        if change.by not in self._owners:
            return NOT_YOURS
        person = self._pairing.find_person(change.who)
        if isinstance(person, CommandResult):
            return person
        if change.role is not None:
            return await self._pairing.change_role(person, change.role, change.by)
        removed = decisions.remove(self._state, person, change.by, self._environment.now())
        result = await self._take(removed)
        if result.ok:
            log.info("person removed", extra={"principal": person.principal, "by": change.by})
            for session in self._at_work():
                self._tasks.start_soon(self._tell, session)
        return result

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
            if self._people.find(id, now) is None:
                self._tasks.start_soon(self._settle_if_over, id)
        self._pairing.resume()

    def _place(self, question: Question) -> Route | None:
        return where_to_ask(question, self._channels.owner_routes())

    def _seconds_asleep(self, question: Question) -> float:
        """Say in how many seconds the owner may be asked *question*: what tasks want can wait."""
        if not question.principal.startswith(PRINCIPAL):
            return 0.0
        now = self._environment.now()
        return max(0.0, self._when_awake(now) - now)

    async def _prompt(self, request: ApprovalRequest, repeat: bool = False) -> None:
        """Put *request* before the owner; if a task wants it, when they are awake (AP-25)."""
        question = request.question
        route = self._place(question)
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
            place = self._place(request.question)
            if place is not None and place.is_same_chat(route):
                self._tasks.start_soon(self._ask, request, route)

    async def _ask(self, request: ApprovalRequest, route: Route, repeat: bool = False) -> None:
        """Send *request* as a message with buttons; the only one, if it was sent before.

        If it cannot arrive at *route*, send it to the next place of an owner.
        """
        routes = self._channels.owner_routes()
        others = [one for one in routes if not one.is_same_chat(route)]
        for place in (route, *others):
            sent = await self._questions.post(
                place,
                request_messages(request, place, self._channels),
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
            await self._questions.edit(before.route, before.message, SHOWN_AGAIN)
        await self._settle_if_over(request.id)

    async def _show(self, request: ApprovalRequest, at: Route, message: str, view: View) -> None:
        part = request_messages(request, at, self._channels)[-1]
        if view == "details":
            part = details_message(request, self._channels.at(at).size)
        keys, wanted = view_buttons(request, view), partial(self._state.is_open, request.id)
        await self._questions.edit(at, message, part, keys, wanted)

    def _details(self, code: str, by: str) -> CommandResult:
        if (refused := self._refused(by)) is not None:
            return refused
        request = self._state.of_code(normal_code(code))
        if request is None or request.ruling is not None:
            return self._guessed(by, NO_SUCH)
        return CommandResult(details_message(request, STANDARD).text, ok=True)

    async def _settle_if_over(self, id: str) -> None:
        """Settle what was decided while its message was sent, or before a crash."""
        if (request := self._state.requests.get(id)) is None:
            await self._questions.settle(id)
        elif request.ruling is not None:
            await self._settle_request(request)

    async def _settle_request(self, request: ApprovalRequest) -> None:
        await self._questions.settle(
            request.id, lambda at: settled_message(request, at, self._channels, self._zone)
        )
