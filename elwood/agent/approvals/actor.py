"""Access and approval of calls.  This actor is the only writer of the approvals journal."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from functools import partial

import attrs
import msgspec
import trio

from elwood.agent.approvals import decisions
from elwood.agent.approvals.decisions import Step
from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ButtonPressed,
    CallReported,
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
    format_decision,
    format_outcome,
    request_messages,
    view_buttons,
)
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import (
    CONTROL,
    MAX_OPEN,
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
# Maximum seconds between two checks while the owner sleeps: the clock may be set.
LOOK = 60.0
# Seconds between two attempts to send a hint to a session.
HINT_PAUSE = 1.0
# Wrong codes and buttons of a person, before theirs are refused for a while (AP-20).
GUESSES = Bucket(20 / 60, 20)

NOT_YOURS = CommandResult("Only my owner can decide this.", ok=False)
TOO_MANY = CommandResult("Too many wrong codes. Try again in a minute.", ok=False)
IN_CHAT = CommandResult(
    "Commands run without a sandbox here (sandbox.kind), so one of them could send this decision. "
    "Decide in the chat with the question: press a button or type /allow CODE.",
    ok=False,
)
NO_SUCH = CommandResult(
    "No question has this code. List them with /approvals, or elwood approve.", ok=False
)
ELSEWHERE = CommandResult("This button works only where I asked. Type the code instead.", ok=False)
NO_SUCH_CODE = CommandResult(
    "No one is waiting with this code. It may be mistyped, older than an hour, or already decided. "
    "Anyone who writes to me again after an hour gets a new code.",
    ok=False,
)
# Maximum of open questions that one /approvals repeats.
MAX_SHOWN_AGAIN = 5
SHOWN_AGAIN = Rich("I asked this again below.")


@attrs.define(eq=False, slots=False)
class Approvals:
    """Records access, decisions about calls, and new ids of groups.

    *owners* are the principals that can decide; *channels* send the questions.  *hint* notifies
    a session of a decision, and must not wait.  *redact* removes secrets.  *when_awake* returns the
    Unix time from which questions of tasks may be sent; *zone* is the owner's.  *at_work* lists
    the busy sessions.  Unless commands are *confined*, the control socket decides nothing: a
    command could read the codes on the disk and use the socket.
    """

    _journal: Journal[ApprovalEntry, ApprovalBook]
    _channels: Channels
    _environment: Environment
    _owners: frozenset[str]
    _hint: Callable[[Decided], bool]
    _redact: Callable[[str], str]
    _settings: ApprovalSettings
    _when_awake: Callable[[float], float] = lambda now: now
    _at_work: Callable[[], Iterable[str]] = lambda: ()
    _zone: tzinfo = UTC
    _confined: bool = True

    async def run(self, mailbox: Mailbox[ApprovalsMail]) -> None:
        """Replay the journal, repeat the open questions, then serve requests until stopped."""
        await self._journal.open()
        book = self._journal.state
        self._people, self._state, self._messages = book.people, book.calls, book.messages
        # Held during a decision, so that an expired question cannot be decided (AP-05).
        self._deciding = trio.Lock()
        # Cancels the timer of an open request.
        self._timers: dict[str, trio.CancelScope] = {}
        self._guesses: dict[str, Bucket] = {}
        # Where to report the result of a call that was allowed in another conversation's chat.
        self._reports: dict[str, Route] = {}
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
                    await self._handle(message)
            self._tasks.cancel_scope.cancel()

    async def _handle(self, message: ApprovalsMail) -> None:
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
                message.reply.set(await self._handle_press(message))
            case CallReported():
                self._report_outcome(message)
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
                message.reply.set(self._describe_request(code, by))
            case RevokePermission(number=number, by=by):
                message.reply.set(await self._apply_step(decisions.revoke(state, number, by, now)))
            case ListApprovals(route=route):
                message.reply.set(decisions.list_all(state, now))
                if route is not None:
                    self._show_again(route)
            case _:
                await self._pairing.answer(message)

    async def _record(self, *entries: ApprovalEntry) -> bool:
        """Write *entries* in one line; return False if the disk is full."""
        return await write_or_report(RECORD, self._journal.append(*entries))

    # --- ask, decide, expire ----------------------------------------------------------------------

    async def _request(self, question: Question) -> Pending | Verdict:
        """Return the decision about a call, or ask for one; repeating it changes nothing."""
        step = decisions.find_decision(self._state, question, self._environment.now())
        if step.answer is not None:
            await self._write(*step.entries)  # the answer is valid even if the disk is full
            return step.answer
        question = decisions.redact_question(question, self._redact)
        place = self._find_route(question)
        refused = decisions.why_not_asked(self._state, question, place)
        if refused is not None:
            await self._write(*step.entries)
            return Verdict("denied", "", why=refused)
        code = self._environment.new_code(TYPED_LENGTH)
        while self._state.of_code(code) is not None:
            code = self._environment.new_code(TYPED_LENGTH)
        # A question asked at night can be answered for its full time from the morning on (AP-25).
        lasts = self._settings.expires + self._seconds_asleep(question)
        requested = ApprovalRequested(self._environment.new_id(), code, question, lasts)
        if not await self._write(*step.entries, requested):
            return Verdict("denied", "", why=decisions.DISK_FULL)
        return Pending()

    async def _handle_press(self, press: ButtonPressed) -> CommandResult:
        if (refused := self._why_refused(press.principal)) is not None:
            return refused
        if (access := access_pressed(press.data)) is not None:
            id, is_yes = access
            result = await self._pairing.let_in(id, is_yes, press.principal) or decisions.EXPIRED
        else:
            id, answer = button_pressed(press.data) or ("", "denied")
            result = await self._decide_pressed(press, id, answer)
        # A copy, or a message that was never recorded as shown, must lose its buttons here.
        known = self._messages.get(id)
        is_copy = known is None or known.message != press.message
        is_open = self._state.is_open(id) or self._people.find(id, self._environment.now())
        if is_copy and not is_open and press.route is not None and press.message:
            self._tasks.start_soon(self._questions.edit, press.route, press.message)
        return result

    async def _decide_pressed(
        self, press: ButtonPressed, id: str, answer: OwnerAnswer | View
    ) -> CommandResult:
        by = press.principal
        if (request := self._state.requests.get(id)) is None:
            return self._count_guess(by, decisions.EXPIRED)
        shown = self._messages.get(id)
        asked = shown.route if shown else self._find_route(request.question)
        if asked is None or press.route is None or not asked.is_same_chat(press.route):
            log.warning("button pressed in another chat", extra={"principal": by})
            return ELSEWHERE
        if answer == "details" or answer == "question":
            if request.ruling is not None:
                return decisions.EXPIRED
            self._tasks.start_soon(self._show_view, request, press.route, press.message, answer)
            return CommandResult("", ok=True)
        return await self._decide(request, answer, by)

    async def _decide_typed(
        self, code: str, answer: OwnerAnswer, by: str, guest: bool
    ) -> CommandResult:
        if (refused := self._why_refused(by)) is not None:
            return refused
        if by == CONTROL and not self._confined:
            return IN_CHAT
        request = self._state.of_code(normal_code(code))
        if request is None:
            let_in = await self._pairing.let_in(code, answer != "denied", by, guest)
            return let_in or self._count_guess(by, NO_SUCH)
        if guest:
            return NOT_A_PERSON
        return await self._decide(request, answer, by)

    async def _decide(
        self, request: ApprovalRequest, answer: OwnerAnswer, by: str
    ) -> CommandResult:
        now, lasts = self._environment.now(), self._settings.lasts
        return await self._apply_step(
            decisions.decide_request(self._state, request, answer, by, now, lasts)
        )

    async def _apply_step(self, step: Step[CommandResult]) -> CommandResult:
        written = await self._write(*step.entries)
        return step.answer if written or not step.answer.ok else NO_ROOM

    async def _write(self, *entries: ApprovalEntry) -> bool:
        """Record *entries* and act on them; return False if the disk is full.

        The caller holds the lock and has checked that the requests are open.
        """
        if not entries:
            return True
        # The complete requests: the state shortens those that are decided.
        finished = [self._state.requests[e.id] for e in entries if isinstance(e, ApprovalDecided)]
        if not await self._record(*entries):
            return False
        for entry in entries:
            match entry:
                case ApprovalRequested(id=id, question=question, lasts=lasts):
                    with bind(session=question.session, message=question.message):
                        log.info("owner asked", extra={"question": gist(question)})
                        self._tasks.start_soon(self._prompt, self._state.requests[id])
                    self._start_timer(lasts, self._state.requests[id])
                case ApprovalDecided():
                    self._finish_request(finished.pop(0), entry)
                case _:
                    log.info("permissions changed", extra={"entry": repr(entry)})
        return True

    def _finish_request(self, request: ApprovalRequest, decided: ApprovalDecided) -> None:
        question, ruling, by = request.question, decided.ruling, decided.by
        about = {"question": gist(question), "decision": ruling, "by": by}
        took = self._environment.now() - request.at
        with bind(session=question.session, message=question.message):
            success = allows(ruling)
            event(log, "approval", about, success=success, seconds=took, level=logging.INFO)
        if decided.id in self._timers:
            self._timers.pop(decided.id).cancel()
        if ruling != "withdrawn":  # the session that withdraws needs no hint
            self._tasks.start_soon(self._hint_session, question.session)
        shown, here = self._messages.get(decided.id), question.route
        if shown is not None and allows(ruling):
            at = shown.route
            if not here.is_same_chat(at) or here.thread != at.thread:
                self._reports[decided.id] = at
                while len(self._reports) > MAX_OPEN:
                    del self._reports[next(iter(self._reports))]
        now = self._environment.now()
        settled = msgspec.structs.replace(request, ruling=ruling, by=by, decided_at=now)
        self._tasks.start_soon(self._close_message, settled)

    def _report_outcome(self, report: CallReported) -> None:
        """Report the result of a call where the owner allowed it, if that is elsewhere."""
        request = self._state.of_call(report.session, report.call)
        place = self._reports.pop(request.id, None) if request is not None else None
        if request is not None and place is not None:
            part = format_outcome(request.question, report.outcome)
            self._tasks.start_soon(self._questions.post, place, (part,))

    async def _change_access(self, change: ChangeAccess) -> CommandResult:
        """Remove a person, or change their role."""
        if change.by not in self._owners:
            return NOT_YOURS
        person = self._pairing.find_person(change.who)
        if isinstance(person, CommandResult):
            return person
        if change.role is not None:
            return await self._pairing.change_role(person, change.role, change.by)
        removed = decisions.remove(self._state, person, change.by, self._environment.now())
        result = await self._apply_step(removed)
        if result.ok:
            log.info("person removed", extra={"principal": person.principal, "by": change.by})
            for session in self._at_work():
                self._tasks.start_soon(self._hint_session, session)
        return result

    async def _hint_session(self, session: str) -> None:
        while True:
            if self._hint(Decided(session)):
                return
            await trio.sleep(HINT_PAUSE)

    def _start_timer(self, left: float, request: ApprovalRequest) -> None:
        """Expire *request* in *left* seconds, so that its session need not poll."""
        scope = self._timers[request.id] = trio.CancelScope()
        self._tasks.start_soon(self._expire, left, request, scope)

    async def _expire(self, left: float, request: ApprovalRequest, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(left)
            async with self._deciding:
                await self._write(decisions.close(request, "expired"))

    def _why_refused(self, by: str) -> CommandResult | None:
        """Return why a decision by *by* is refused now, or None."""
        if by not in self._owners:
            log.warning("refused decision of another person", extra={"principal": by})
            return NOT_YOURS
        guesses = self._guesses.get(by)
        return TOO_MANY if guesses is not None and guesses.delay(trio.current_time()) else None

    def _count_guess(self, by: str, answer: CommandResult) -> CommandResult:
        self._guesses[by] = self._guesses.get(by, GUESSES).spend(trio.current_time())
        return answer

    # --- ask the owner ----------------------------------------------------------------------------

    async def _resume(self) -> None:
        """Resume from the journal: expire or repeat requests, send hints about recent decisions."""
        now = self._environment.now()
        for request in self._state.open():
            age = now - request.at
            left = request.lasts - max(0.0, age)
            if left <= 0 or age < -STEP_BACK:  # a clock set far back: the age is unknown
                await self._write(decisions.close(request, "expired"))
            else:
                self._start_timer(left, request)
        lately = now - self._settings.expires
        known = self._state.requests.values()
        decided = [one for one in known if one.ruling is not None and one.decided_at > lately]
        for session in {request.question.session for request in decided}:
            self._tasks.start_soon(self._hint_session, session)
        for request in self._state.open():
            if request.id not in self._messages:
                self._tasks.start_soon(self._prompt, request, True)
        for id in self._messages:
            if self._people.find(id, now) is None:
                self._tasks.start_soon(self._close_if_decided, id)
        self._pairing.resume()

    def _find_route(self, question: Question) -> Route | None:
        return where_to_ask(question, self._channels.owner_routes())

    def _seconds_asleep(self, question: Question) -> float:
        """Return the seconds until *question* may be sent; only tasks must wait."""
        if not question.principal.startswith(PRINCIPAL):
            return 0.0
        now = self._environment.now()
        return max(0.0, self._when_awake(now) - now)

    async def _prompt(self, request: ApprovalRequest, repeat: bool = False) -> None:
        """Send *request* to the owner; if it is of a task, wait until they are awake (AP-25)."""
        question = request.question
        route = self._find_route(question)
        if route is None:
            return
        while self._state.is_open(request.id) and (left := self._seconds_asleep(question)):
            repeat = False
            await trio.sleep(min(left, LOOK))
        if request.id not in self._messages:
            await self._ask(request, route, repeat)

    def _show_again(self, route: Route) -> None:
        """Repeat the open questions of this chat."""
        for request in self._state.open()[-MAX_SHOWN_AGAIN:]:
            place = self._find_route(request.question)
            if place is not None and place.is_same_chat(route):
                self._tasks.start_soon(self._ask, request, route)

    async def _ask(self, request: ApprovalRequest, route: Route, repeat: bool = False) -> None:
        """Send *request* as a message with buttons, and close an earlier message about it.

        If it cannot arrive at *route*, try the other chats of owners; but a question from an
        owner's private chat is not for another owner of that channel.
        """
        routes, here = self._channels.owner_routes(), request.question.route
        own = here.channel if here.is_same_chat(route) else None
        others = [one for one in routes if not one.is_same_chat(route) and one.channel != own]
        for place in (route, *others):
            sent = await self._questions.post(
                place,
                request_messages(request, place, self._channels, self._people),
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
        await self._close_if_decided(request.id)

    async def _show_view(
        self, request: ApprovalRequest, at: Route, message: str, view: View
    ) -> None:
        part = request_messages(request, at, self._channels, self._people)[-1]
        if view == "details":
            part = details_message(request, self._channels.get_by_route(at).size)
        keys, wanted = view_buttons(request, view), partial(self._state.is_open, request.id)
        await self._questions.edit(at, message, part, keys, wanted)

    def _describe_request(self, code: str, by: str) -> CommandResult:
        if (refused := self._why_refused(by)) is not None:
            return refused
        request = self._state.of_code(normal_code(code))
        if request is None or request.ruling is not None:
            return self._count_guess(by, NO_SUCH)
        return CommandResult(details_message(request, STANDARD).text, ok=True)

    async def _close_if_decided(self, id: str) -> None:
        """Close the message if the request was decided while it was sent, or before a crash."""
        if (request := self._state.requests.get(id)) is None:
            await self._questions.close_message(id)
        elif request.ruling is not None:
            await self._close_message(request)

    async def _close_message(self, request: ApprovalRequest) -> None:
        await self._questions.close_message(
            request.id, lambda at: format_decision(request, at, self._channels, self._zone)
        )
