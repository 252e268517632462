"""Decides who may talk to us and what may be done: the only writer of the approvals journal."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import attrs
import msgspec
import trio

from elwood.agent.approvals import decisions
from elwood.agent.approvals.decisions import EXPIRED, Clocks, Step
from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ApprovePairing,
    ButtonPressed,
    CommandResult,
    Decided,
    DecideRequest,
    FindPerson,
    Known,
    ListApprovals,
    LookUpDecision,
    Meet,
    MoveChat,
    MovedChats,
    Pending,
    RequestApproval,
    RevokePermission,
    Stranger,
    TrustDomain,
    Verdict,
    WithdrawRequests,
)
from elwood.agent.approvals.people import (
    CODE_LASTS,
    CODE_LENGTH,
    AccessDecided,
    AccessRequested,
    ChatMoved,
    People,
    access_button,
    access_pressed,
)
from elwood.agent.approvals.prompt_text import (
    button_pressed,
    buttons,
    group_buttons,
    group_messages,
    packs,
    request_messages,
)
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import (
    TYPED_LENGTH,
    ApprovalBook,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequest,
    ApprovalRequested,
    ApprovalState,
    PermissionEntry,
    Question,
    RequestsGrouped,
    RequestsShown,
    gist,
    where_to_ask,
)
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.channels.pacing import Budget, Window
from elwood.agent.channels.post_until_delivered import PostUntilDelivered
from elwood.agent.conversation.calls import OwnerAnswer
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import PRINCIPAL
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import Address, Mailbox, clear_error, report_error
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.journal import Journal
from elwood.foundation.text.characters import normal_code, utf16_length
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.markdown import Entity, Rich

log = logging.getLogger(__name__)

RECORD = "recording an approval"
# Seconds for which questions are collected once there are too many to come one by one.
GATHER = 5.0
# Seconds at most between two looks at the clock while the owner sleeps: it may be set meanwhile.
LOOK = 60.0
# Seconds between two tries to give a session a hint.
HINT_PAUSE = 1.0
# Seconds until it is written once more that a question was shown, while the disk is full.
SHOWN_PAUSE = 5.0
# Wrong codes and buttons of one person before all of theirs are refused for a while (AP-20).
GUESSES = (Window(20, 60.0),)

NOT_YOURS = CommandResult("This is not yours to decide.", ok=False)
NO_ROOM = CommandResult("The disk is full; nothing was changed.", ok=False)
TOO_MANY = CommandResult("Too many wrong codes. Try again in a minute.", ok=False)
NO_SUCH = CommandResult("No call waits with this code. See /approvals.", ok=False)
ELSEWHERE = CommandResult("This button counts only where I asked. Type the code instead.", ok=False)
NO_SUCH_CODE = CommandResult(
    "Nobody waits with this code. It may be mistyped, older than an hour, or decided already; "
    "after an hour whoever still writes to me gets a new one.",
    ok=False,
)
WELCOME = "You were let in. Write to me again: I have kept nothing of what you wrote before."


@attrs.define(eq=False)
class _Watch:
    """An open request of this process: since when it is open by the steady clock, and its end."""

    since: float
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class Approvals:
    """Records who was let in and what was allowed, by whom, and which chats moved.

    *owners* are the principals who may decide; *owner_routes* is where they are asked, if there
    are such places, by *outboxes*, under the names of their channels.  *hint* tells a session that
    its call was decided, and must not wait.  *redact* takes secrets out.  *when_awake* says when
    the owner may be asked about what tasks want, at a Unix time.
    """

    def __init__(
        self,
        journal: Journal[ApprovalEntry, ApprovalBook],
        outboxes: Mapping[str, Address[OutboxMail]],
        environment: Environment,
        *,
        owners: frozenset[str],
        owner_routes: Sequence[Route],
        hint: Callable[[Decided], bool],
        redact: Callable[[str], str],
        settings: ApprovalSettings,
        when_awake: Callable[[float], float] = lambda now: now,
    ) -> None:
        self._journal = journal
        self._post = PostUntilDelivered(outboxes)
        self._environment = environment
        self._owners = owners
        self._owner_routes = owner_routes
        self._hint = hint
        self._redact = redact
        self._settings = settings
        self._when_awake = when_awake

    async def run(self, mailbox: Mailbox[ApprovalsMail]) -> None:
        """Replay, ask again what is open, then answer until stopped."""
        await self._journal.open()
        # Held by whoever decides: what expires must not be decided meanwhile (AP-05).
        self._deciding = trio.Lock()
        self._watches: dict[str, _Watch] = {}
        self._batches: dict[tuple[Route, bool], list[str]] = {}
        self._guesses: dict[str, Budget] = {}
        async with trio.open_nursery() as self._tasks:
            for asked in self._people.open(self._environment.now()):
                self._tasks.start_soon(self._prompt_for_access, asked)
            await self._resume()
            async for message in mailbox:
                await self._answer(message)
            self._tasks.cancel_scope.cancel()

    async def _answer(self, message: ApprovalsMail) -> None:
        match message:
            case Meet():
                message.reply.set(await self._meet(message))
            case FindPerson(principal=principal):
                message.reply.set(self._people.known.get(principal))
            case ButtonPressed():
                message.reply.set(await self._press(message))
            case ApprovePairing(code=code):
                result = await self._let_in(code, True, "console")
                message.reply.set(NO_SUCH_CODE if result is EXPIRED else result)
            case MoveChat(old=old, new=new):
                if new not in self._people.moved:
                    await self._record(ChatMoved(old, new))
                message.reply.set(None)
            case MovedChats():
                message.reply.set(dict(self._people.moved))
            case RequestApproval(question=question):
                async with self._deciding:
                    message.reply.set(await self._request(question))
            case LookUpDecision(session=session, call=call, plan=plan):
                found = decisions.look_up(self._state, session, call, plan, self._clocks())
                message.reply.set(found)
            case WithdrawRequests(session=session, calls=calls, anew=anew):
                async with self._deciding:
                    now = self._environment.now()
                    entries = decisions.withdraw(self._state, session, calls, anew, now)
                    message.reply.set(await self._write(*entries))
            case DecideRequest(code=code, answer=answer, by=by):
                message.reply.set(await self._decide_typed(code, answer, by))
            case TrustDomain() | RevokePermission() | ListApprovals():
                message.reply.set(await self._change_permissions(message))
            case _:
                assert_never(message)

    @property
    def _people(self) -> People:
        return self._journal.state.people

    @property
    def _state(self) -> ApprovalState:
        return self._journal.state.calls

    def _clocks(self) -> Clocks:
        now = trio.current_time()
        ages = {id: now - watch.since for id, watch in self._watches.items()}
        return Clocks(self._environment.now(), ages)

    async def _record(self, *entries: ApprovalEntry) -> bool:
        """Write *entries* in one line; False if there is no room for them."""
        try:
            await self._journal.append(*entries)
        except DiskFull as error:
            report_error(RECORD, str(error))
            return False
        clear_error(RECORD)
        return True

    # --- who may talk to us ----------------------------------------------------------------------

    async def _meet(self, meet: Meet) -> Known | Stranger:
        if meet.principal in self._owners or meet.principal in self._people.known:
            return Known()
        if not self._people.may_ask(meet.principal, self._environment.now()):
            return Stranger(None)
        code = self._environment.new_code(CODE_LENGTH)
        while code in self._people.requests:
            code = self._environment.new_code(CODE_LENGTH)
        asked = AccessRequested(code, meet.principal, one_line(meet.name), meet.route)
        if not await self._record(asked):
            return Stranger(None)
        log.info("stranger met", extra={"principal": meet.principal})
        self._tasks.start_soon(self._prompt_for_access, asked)
        return Stranger(code)

    async def _let_in(self, code: str, approved: bool, by: str) -> CommandResult:
        """Decide about *code* if it is still open: found, recorded and closed in one go."""
        asked = self._people.find(code, self._environment.now())
        if asked is None:
            return EXPIRED
        if not await self._record(AccessDecided(asked.code, approved, by)):
            return NO_ROOM
        who = f"{asked.name} ({asked.principal})"
        log.info("stranger decided", extra={"principal": asked.principal, "approved": approved})
        if not approved:
            return CommandResult(f"{who} stays out.", ok=True)
        self._tasks.start_soon(self._post, asked.route, (Rich(WELCOME),))
        return CommandResult(f"{who} may talk to me now.", ok=True)

    async def _prompt_for_access(self, asked: AccessRequested) -> None:
        """Show the owner who asks, as long as the code is valid."""
        if not self._owner_routes:
            return  # `elwood pair` remains
        yes = ("Approve", access_button(asked.code, "y"))
        no = ("Deny", access_button(asked.code, "n"))
        with trio.move_on_after(CODE_LASTS):
            await self._post(self._owner_routes[0], (_access_question(asked),), (yes, no))

    # --- what may be done: asked, decided, over --------------------------------------------------

    async def _request(self, question: Question) -> Pending | Verdict:
        """Find the decision about a call, or ask for one; repeating it changes nothing."""
        step = decisions.find(self._state, question, self._clocks())
        if step.answer is not None:
            await self._write(*step.entries)  # it holds as well if there is no room to write it
            return step.answer
        question = msgspec.structs.replace(
            question, subject=self._redact(question.subject), why=self._redact(question.why)
        )
        place = where_to_ask(question, self._owner_routes)
        refused = decisions.why_not_asked(self._state, question, place)
        if refused is not None:
            await self._write(*step.entries)
            return Verdict("denied", "", why=refused)
        code = self._environment.new_code(TYPED_LENGTH)
        while self._state.of_code(code) is not None:
            code = self._environment.new_code(TYPED_LENGTH)
        id, lasts = self._environment.new_id(), self._settings.expires
        requested = ApprovalRequested(id, code, question, lasts, held=self._is_held(question))
        if not await self._write(*step.entries, requested):
            return Verdict("denied", "", why=decisions.DISK_FULL)
        return Pending()

    async def _press(self, press: ButtonPressed) -> CommandResult:
        by = press.principal
        if (access := access_pressed(press.data)) is not None:
            if by not in self._owners:
                log.warning("press by somebody else", extra={"principal": by})
                return NOT_YOURS
            return await self._let_in(*access, by)
        if (refused := self._refused(by)) is not None:
            return refused
        found = button_pressed(press.data)
        if found is None:
            return self._guessed(by, EXPIRED)
        kind, id, answer = found
        async with self._deciding:
            members = self._state.groups.get(id, ()) if kind == "g" else (id,)
            known = self._state.requests
            requests = [known[member] for member in members if member in known]
            if not requests:
                return self._guessed(by, EXPIRED)
            asked = [where_to_ask(one.question, self._owner_routes) for one in requests]
            if press.route is None or not any(r and _same_chat(r, press.route) for r in asked):
                log.warning("press in another chat", extra={"principal": by})
                return ELSEWHERE
            if kind == "g":
                return await self._take(
                    decisions.decide_group(requests, answer, by, self._clocks())
                )
            return await self._decide(requests[0], answer, by)

    async def _decide_typed(self, code: str, answer: OwnerAnswer, by: str) -> CommandResult:
        if (refused := self._refused(by)) is not None:
            return refused
        async with self._deciding:
            request = self._state.of_code(normal_code(code))
            if request is None:
                return self._guessed(by, NO_SUCH)
            return await self._decide(request, answer, by)

    async def _decide(
        self, request: ApprovalRequest, answer: OwnerAnswer, by: str
    ) -> CommandResult:
        clocks, lasts = self._clocks(), self._settings.standing
        return await self._take(
            decisions.decide_request(self._state, request, answer, by, clocks, lasts)
        )

    async def _change_permissions(
        self, message: TrustDomain | RevokePermission | ListApprovals
    ) -> CommandResult:
        if message.by not in self._owners:
            return NOT_YOURS
        async with self._deciding:
            state, clocks = self._state, self._clocks()
            match message:
                case TrustDomain(host=host, by=by):
                    lasts = self._settings.standing
                    return await self._take(decisions.trust(state, host, by, clocks, lasts))
                case RevokePermission(number=number, by=by):
                    return await self._take(decisions.revoke(state, number, by, clocks.wall))
                case ListApprovals():
                    return decisions.list_all(state, clocks)

    async def _take(self, step: Step[CommandResult]) -> CommandResult:
        written = await self._write(*step.entries)
        return step.answer if written or not step.answer.ok else NO_ROOM

    async def _write(self, *entries: PermissionEntry) -> bool:
        """Record *entries* and see to what follows; False if there is no room for them.

        For those who hold the lock and have seen that what they decide is open.
        """
        if not entries:
            return True
        before = {id: self._state.requests.get(id) for id in _decided(entries)}
        if not await self._record(*entries):
            return False
        for entry in entries:
            match entry:
                case ApprovalRequested(id=id, question=question, held=held):
                    about = {"question": gist(question), "session": question.session}
                    log.info("owner asked", extra=about)
                    if not held:
                        self._watch(self._state.requests[id], 0.0)
                    self._prompt(self._state.requests[id])
                case RequestsShown(ids=ids):
                    for id in ids:
                        self._watch(self._state.requests[id], 0.0)
                case ApprovalDecided(id=id):
                    if (request := before[id]) is not None:
                        self._ended(request.question, entry)
                case _:
                    log.info("permissions changed", extra={"entry": repr(entry)})
        return True

    def _ended(self, question: Question, decided: ApprovalDecided) -> None:
        about = {"question": gist(question), "as": decided.ruling, "by": decided.by}
        log.info("call decided", extra=about)
        watch = self._watches.pop(decided.id, None)
        if watch is not None:
            watch.scope.cancel()
        if decided.ruling != "withdrawn":  # those who withdraw know it
            self._tasks.start_soon(self._tell, question.session)

    async def _tell(self, session: str) -> None:
        while True:
            if self._hint(Decided(session)):
                return
            await trio.sleep(HINT_PAUSE)

    def _watch(self, request: ApprovalRequest, age: float) -> None:
        """Let *request*, *age* seconds old, end when its time is up."""
        watch = self._watches[request.id] = _Watch(trio.current_time() - age)
        self._tasks.start_soon(self._expire, request, watch)

    async def _expire(self, request: ApprovalRequest, watch: _Watch) -> None:
        """Close *request* when its time is up, so that its session need not ask for that."""
        with watch.scope:
            await trio.sleep_until(watch.since + request.lasts)
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
        self._guesses[by] = self._guesses.get(by, Budget(GUESSES)).spend(trio.current_time())
        return answer

    # --- putting requests before the owner -------------------------------------------------------
    #
    # After `group_after` requests within `group_within` seconds further ones wait for a moment and
    # come as one message (AP-21).  Those of tasks are held until the owner is awake, and come then
    # together (AP-25); only then their time begins.

    async def _resume(self) -> None:
        """Take up what the journal says: expire, post again, tell what was decided of late."""
        clocks = self._clocks()
        async with self._deciding:
            for request in [request for request in self._state.open() if not request.held]:
                self._watch(request, clocks.first_age(request))
                if self._clocks().is_over(request):
                    await self._write(decisions.close(request, "expired"))
        lately = clocks.wall - self._settings.expires
        known = self._state.requests.values()
        decided = [one for one in known if one.ruling is not None and one.decided_at > lately]
        for session in {request.question.session for request in decided}:
            self._tasks.start_soon(self._tell, session)
        self._prompt_again()

    def _prompt_again(self) -> None:
        """Have everything open posted anew, marked as a repeat."""
        left = {request.id: request for request in self._state.open()}
        placed = {id: place for id, one in left.items() if (place := self._place(one)) is not None}
        # They would be open for ever, if nobody can be asked any more.
        lost = [request for id, request in left.items() if id not in placed]
        self._tasks.start_soon(self._shown, lost)
        left = {id: request for id, request in left.items() if id in placed}
        for group, members in self._state.groups.items():
            requests = [left.pop(member) for member in members if member in left]
            if requests:
                route = _bare(placed[requests[0].id])
                self._tasks.start_soon(self._post_group, route, group, requests, True)
        for request in [one for one in left.values() if self._is_held(one.question)]:
            self._gather(placed[request.id], left.pop(request.id), held=True)
        if len(left) <= self._settings.group_after:
            for request in left.values():
                self._tasks.start_soon(self._post_one, placed[request.id], request, True)
            return
        by_route: dict[Route, list[ApprovalRequest]] = {}
        for request in left.values():
            by_route.setdefault(_bare(placed[request.id]), []).append(request)
        for route, requests in by_route.items():
            self._tasks.start_soon(self._post_packs, route, requests, True)

    def _place(self, request: ApprovalRequest) -> Route | None:
        return where_to_ask(request.question, self._owner_routes)

    def _is_held(self, question: Question) -> bool:
        """Tell whether *question* waits until the owner is awake."""
        return question.principal.startswith(PRINCIPAL) and self._seconds_asleep() > 0

    async def _until_awake(self) -> None:
        while True:
            left = self._seconds_asleep()
            if left <= 0:
                return
            await trio.sleep(min(left, LOOK))

    def _seconds_asleep(self) -> float:
        now = self._environment.now()
        return self._when_awake(now) - now

    def _prompt(self, request: ApprovalRequest) -> None:
        """Have *request* posted, at once or with others."""
        route = self._place(request)
        if route is None:
            return
        recent = self._state.recent(self._environment.now(), self._settings.group_within)
        if request.held or recent > self._settings.group_after:
            self._gather(route, request, held=request.held)
        else:
            self._tasks.start_soon(self._post_one, route, request, False)

    def _gather(self, route: Route, request: ApprovalRequest, *, held: bool) -> None:
        key = _bare(route), held
        batch = self._batches.setdefault(key, [])
        batch.append(request.id)
        if len(batch) == 1:
            self._tasks.start_soon(self._post_batch, *key)

    async def _post_batch(self, route: Route, held: bool) -> None:
        """Wait for more, or until the owner is awake, and put all before them together."""
        if held:
            await self._until_awake()
        else:
            await trio.sleep(GATHER)
        ids = self._batches.pop((route, held))
        requests = [self._state.requests[id] for id in ids if self._is_open(id)]
        await self._post_packs(route, requests, False)

    async def _post_packs(
        self, route: Route, requests: Sequence[ApprovalRequest], repeat: bool
    ) -> None:
        for pack in packs(requests):
            id = self._environment.new_id()
            grouped = RequestsGrouped(id, tuple(request.id for request in pack))
            if len(pack) > 1 and await self._record(grouped):
                await self._post_group(route, id, pack, repeat)
            else:
                for request in pack:
                    await self._post_one(route, request, repeat)

    async def _post_one(self, route: Route, request: ApprovalRequest, repeat: bool) -> None:
        await self._post(
            route,
            request_messages(request, route),
            buttons(request),
            repeat=repeat,
            wanted=lambda: self._is_open(request.id),
        )
        # Also what can never arrive: it would be open for ever.
        await self._shown((request,))

    async def _post_group(
        self, route: Route, id: str, requests: Sequence[ApprovalRequest], repeat: bool
    ) -> None:
        await self._post(
            route,
            group_messages(requests),
            group_buttons(id, len(requests)),
            repeat=repeat,
            wanted=lambda: any(self._is_open(request.id) for request in requests),
        )
        await self._shown(requests)

    async def _shown(self, requests: Sequence[ApprovalRequest]) -> None:
        """Let the time of those of *requests* run that were held; that may wait for the disk."""
        ids = {request.id for request in requests}
        while True:
            async with self._deciding:
                held = [one.id for one in self._state.open() if one.held and one.id in ids]
                if not held or await self._write(RequestsShown(tuple(held))):
                    return
            await trio.sleep(SHOWN_PAUSE)

    def _is_open(self, id: str) -> bool:
        request = self._state.requests.get(id)
        return request is not None and request.ruling is None


def _decided(entries: Sequence[PermissionEntry]) -> list[str]:
    return [entry.id for entry in entries if isinstance(entry, ApprovalDecided)]


def _same_chat(one: Route, other: Route) -> bool:
    return (one.channel, one.chat) == (other.channel, other.chat)


def _bare(route: Route) -> Route:
    """Return *route* without the message that it answers: a list answers many."""
    return msgspec.structs.replace(route, reply_to=None)


def _access_question(asked: AccessRequested) -> Rich:
    """Ask about a stranger; the name is theirs, so it stands as code: no link, no mention."""
    before, name = "Somebody wants to talk to me: ", asked.name or "somebody"
    span = Entity("code", utf16_length(before), utf16_length(name))
    text = (
        f"{before}{name} ({asked.principal})\n"
        f"Their code is {asked.code}. Approve only if they gave it to you themselves."
    )
    return Rich(text, (span,))
