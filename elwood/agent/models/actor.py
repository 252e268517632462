"""The actor that sends requests to models: keys, budgets, retries, fallbacks."""

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import assert_never
from zoneinfo import ZoneInfo

import attrs
import msgspec
import trio

from elwood.agent.conversation.message import (
    Completion,
    Message,
    Usage,
    get_visible_files,
    rough,
    texts,
)
from elwood.agent.conversation.run import Budget
from elwood.agent.models.client import EmbeddingFailed, ModelFailure, ModelRequest, Provider, Shown
from elwood.agent.models.embeddings import Embedder
from elwood.agent.models.ledger import (
    MAX_JOBS,
    Caller,
    Charged,
    Ledger,
    Spent,
    charge,
    day_of,
    price_of,
    spent,
)
from elwood.agent.models.limits import PlannedCall, affordable, limit_reached, warnings
from elwood.agent.models.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    Delayed,
    Embed,
    Embeddings,
    MayAsk,
    ModelsMail,
    ModelUnavailable,
    Progress,
    Spending,
)
from elwood.agent.models.routing import (
    PAUSES,
    FailureKind,
    Fault,
    GivenUp,
    describe,
    give_up,
    patience,
    retry_in,
    split_name,
)
from elwood.agent.models.settings import Limits, ModelRole, ModelSettings, PriceSettings
from elwood.foundation.log import bind, event
from elwood.foundation.runtime import Lock, Mailbox, report_done, report_error, show_wait
from elwood.foundation.storage.disk import write_or_report
from elwood.foundation.storage.journal import Journal
from elwood.foundation.text.tokens import estimate

log = logging.getLogger("elwood.models")
# Requests and responses; at debug, since they may be private.
payloads = logging.getLogger("elwood.models.payloads")

# Maximum of calls that run or wait for a slot; more are refused immediately.
MAX_CALLS = 2_000
# Seconds without a connection, or of failures, after which the waiting person is informed.
TELL_AFTER = 3.0
# Failures of one call after which the waiting person is informed in any case.
TELL_AT = 3
# Seconds of trouble with a provider after which it is reported (LLM-01).
SHOW_AFTER = 30.0
# Seconds after which a response is reported as stuck: the longest ones take five minutes.
LONGEST = 330.0
# Seconds to record the cost of a cancelled call.
LAST_NOTE = 5.0
# Seconds in which a warning about a limit should reach the owner, and the same after a stop.
TELLING, LAST_TELLING = 3_600.0, 2.0
# Failures of the provider rather than of one request: all calls wait until one of them succeeds
# (LLM-44).
_SHARED: frozenset[FailureKind] = frozenset(
    {"rate_limit", "overloaded", "offline", "bad_key", "forbidden", "spend_limit"}
)
# Vectors serve all conversations, so only the limits of a day and a month count them.
NOBODY = Caller("")
DAMAGED = (
    "My record of model costs, usage.jsonl, is damaged: a disk fault, or someone edited it. I "
    "renamed it to {} and continue with its intact lines. My limits do not count the damaged ones."
)
NO_ROOM = "the disk is full, so I cannot record the cost: please free some space"
ALL_TAKEN = Fault("rate_limit", "all connections to it are in use")


class UsageBook:
    """Records each call, and checks the limits.

    *now* is the Unix clock; a day begins at midnight in *zone* (IANA name).  *prices* are the
    owner's own.
    """

    def __init__(
        self,
        journal: Journal[Charged, Ledger],
        limits: Limits,
        zone: str,
        now: Callable[[], float],
        prices: Mapping[str, PriceSettings] | None = None,
    ) -> None:
        self._journal = journal
        self._limits = limits
        self._zone = zone
        self._now = now
        self._prices = prices or {}
        self._owed: list[tuple[Charged, Budget | None]] = []
        # The maximum cost of each running call, by ticket.
        self._held: dict[Ticket, Charged] = {}
        self._released = trio.lowlevel.ParkingLot()
        # Why a job was refused on a day: it need not be started again on that day.
        self._refused: dict[tuple[str, str], str] = {}
        self._writing = Lock()
        # Warns the owner that a limit is near; must not wait.
        self.warn: Callable[[str], None] = log.warning

    async def open(self) -> str:
        """Read the journal; return a notice for the owner if it was damaged, or "".

        Lost entries only affect the counting, so they must not stop all conversations.
        Raises JournalBroken, DiskFull.
        """
        aside = await self._journal.open_sound()
        return "" if aside is None else DAMAGED.format(aside.name)

    def spent(self, session: str) -> Spent:
        return spent(self._journal.state, session, self._now(), self._zone)

    def limit_reached(self, caller: Caller) -> str | None:
        ledger, now = self._journal.state, self._now()
        refused = self._refused.get((day_of(now, self._zone), caller.job)) if caller.job else None
        return refused or limit_reached(self._limits, ledger, caller, now, self._zone)

    async def reserve(
        self, ticket: "Ticket", caller: Caller, model: str, prompt: int, wanted: int
    ) -> int | str:
        """Reserve the maximum cost of a call; return the tokens of its response, or a refusal.

        Waits for the reserves of running calls: most of them cost far less.  `release` ends the
        reserve.
        """
        call = PlannedCall(caller, model, price_of(model, self._prices), prompt, wanted)
        while True:
            owed, now = [entry for entry, _ in self._owed], self._now()
            rules = (self._limits, self._journal.state)
            alone = affordable(*rules, owed, call, now, self._zone)
            if isinstance(alone, str):
                if len(self._refused) >= MAX_JOBS:
                    self._refused.clear()
                self._refused[day_of(now, self._zone), caller.job] = alone
                return alone
            held = (*owed, *self._held.values())
            if affordable(*rules, held, call, now, self._zone) == alone:
                self._held[ticket] = self._charge(caller, model, call.at_most(alone))
                return alone
            await self._released.park()

    def release(self, ticket: "Ticket") -> None:
        """End the reserve of a call: it has failed, or its cost is recorded."""
        if self._held.pop(ticket, None) is not None:
            self._released.unpark_all()

    def clock_time(self) -> str:
        return f"{datetime.fromtimestamp(self._now(), ZoneInfo(self._zone)):%H:%M}"

    def record(self, caller: Caller, model: str, usage: Usage) -> Charged:
        """Record and return the cost of a call, in memory until `write` writes it."""
        entry = self._charge(caller, model, usage)
        self._owed.append((entry, caller.budget))
        return entry

    def _charge(self, caller: Caller, model: str, usage: Usage) -> Charged:
        price = price_of(model, self._prices)
        return charge(caller, model, price, usage, now=self._now(), zone=self._zone)

    async def write(self) -> bool:
        """Write the recorded costs; False if the disk is full, and then no call may be made.

        One line for all who wait here.  It is not synced: the conversation also has the cost of a
        turn, so a power cut only loses some of the counting.
        """
        async with self._writing:
            batch = tuple(self._owed)
            if not batch:
                return True
            notices = warnings(self._limits, self._journal.state, batch, self._zone)
            entries = (entry for entry, _ in batch)
            write = self._journal.append(*entries, last_words=True, synced=bool(notices))
            if not await write_or_report("usage journal", write):
                return False
            del self._owed[: len(batch)]
            for text in notices:
                self.warn(text)
            return True


class Ticket:
    """The right to make one call."""


class CircuitBreaker:
    """Allow *in_flight* calls; while *fault* is set, only one probe, from *not_before* on.

    *failures* counts consecutive failed probes; ten calls that fail together count once.  Times
    are of Trio's clock.
    """

    def __init__(self, in_flight: int) -> None:
        self.fault: Fault | None = None
        self.failures = 0
        self.failed_at = -math.inf
        self.not_before = 0.0
        self._slots = trio.Semaphore(in_flight)
        self._probe: Ticket | None = None
        self._changed = trio.Event()

    async def enter(self) -> Ticket | None:
        """Wait for a slot, which `leave` returns; None if the state has changed.

        After None, check *fault* before entering again.
        """
        if self.fault is None:
            await self._slots.acquire()
            if self.fault is None:
                return Ticket()
            self._slots.release()
            return None
        if self._probe is not None:
            await self._changed.wait()
            return None
        ticket = self._probe = Ticket()
        try:
            await trio.sleep_until(self.not_before)
            await self._slots.acquire()
        except trio.Cancelled:
            self._end_probe(ticket)
            raise
        return ticket

    def leave(self, ticket: Ticket) -> None:
        self._slots.release()
        self._end_probe(ticket)

    def note_success(self) -> None:
        """Close the circuit: the provider has begun to answer."""
        if self.fault is not None:
            self.fault = None
            self.failures = 0
            self._probe = None
            self._wake()

    def note_failure(self, ticket: Ticket, fault: Fault) -> int:
        """Record a failure of the provider; return the number of consecutive ones."""
        if self.fault is None or self._probe is ticket:
            self.fault = fault
            self.failed_at = trio.current_time()
            self.failures += 1
        return self.failures

    def hold(self, seconds: float) -> None:
        """Allow no calls for so many seconds."""
        self.not_before = max(self.not_before, trio.current_time() + seconds)

    def _end_probe(self, ticket: Ticket) -> None:
        if self._probe is ticket:
            self._probe = None
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class ModelAttempt(msgspec.Struct, frozen=True):
    """An attempt of *ask* with one *model* of its *role*, *since* a time; the *rest* are fallbacks.

    No model is retried for more than *most* seconds.  *failures* counts those so far.
    """

    ask: Complete
    role: ModelRole
    model: str
    rest: tuple[str, ...]
    most: float
    since: float = msgspec.field(default_factory=trio.current_time)
    failures: Counter[FailureKind] = msgspec.field(default_factory=Counter[FailureKind])

    @property
    def caller(self) -> Caller:
        return Caller(self.ask.session, self.ask.job, self.ask.budget)

    @property
    def provider(self) -> str:
        return split_name(self.model)[0]

    def may_have_mended(self, breaker: CircuitBreaker) -> bool:
        """Return True for a person's request that came after a failure that people can fix.

        False while another model can answer it.
        """
        fault = breaker.fault
        if fault is None or fault.kind not in PAUSES or self.give_up(fault).rest:
            return False
        is_persons = self.ask.role == "default" or "/" in self.ask.role
        return is_persons and not self.ask.job and breaker.failed_at < self.since

    def end(self, fault: Fault) -> float:
        """Return the time until which to retry after *fault*."""
        limit = min(self.most, patience(fault.kind, self.model, self.rest))
        return min(self.since + limit, self.ask.until)

    def give_up(self, fault: Fault) -> GivenUp:
        """Stop retrying the model; use others only before the deadline."""
        rest = self.rest if trio.current_time() < self.ask.until else ()
        return give_up(fault, self.model, rest)

    def show(self, said: Progress) -> None:
        """Send progress to the requester: the text so far, or why there is none."""
        if self.ask.progress is not None:
            self.ask.progress(said)

    def log(self, *, success: bool, level: int | None = None, **about: object) -> None:
        took, retries = trio.current_time() - self.since, self.failures.total()
        about = {"model": self.model, "retries": retries, **about}
        event(log, "llm_call", about, success=success, seconds=took, level=level)

    def wait(self, fault: Fault, until: float, failures: int = 0) -> None:
        """Inform the requester of the fault, if the wait is long or failures are many."""
        if until - self.since > TELL_AFTER or failures >= TELL_AT:
            self.show(Delayed(f"{describe(self.model, fault)}; trying again"))


@attrs.define(eq=False, kw_only=True)
class Models:
    """The only owner of the keys (in *providers*) and writer of the usage book.

    At most *in_flight* calls run at each provider; *jitter* returns random numbers from 0 to 1.
    *tell* sends warnings about limits to the owner, and may take long; *embedder* makes vectors,
    if configured.  A failing model is retried for at most *patience* seconds.  *look* reads the
    files that models see (`look_at`).
    """

    _book: UsageBook
    _providers: Mapping[str, Provider]
    _settings: ModelSettings
    _in_flight: Mapping[str, int]
    _jitter: Callable[[], float]
    _tell: Callable[[str], Awaitable[bool]]
    _embedder: Embedder | None = None
    _patience: float = math.inf
    _look: Callable[[Sequence[Message]], Awaitable[Mapping[str, str]]] | None = None
    _breakers: dict[str, CircuitBreaker] = attrs.field(init=False)
    _calls: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._breakers = {one: CircuitBreaker(self._in_flight[one]) for one in self._providers}

    async def run(self, mailbox: Mailbox[ModelsMail]) -> None:
        """Serve requests until stopped; running calls may finish within the grace period."""
        damage = await self._book.open()
        async with trio.open_nursery() as tellings:
            self._book.warn = lambda text: tellings.start_soon(self._warn_owner, text)
            if damage:
                self._book.warn(damage)
            async with trio.open_nursery() as calls:
                async for message in mailbox:
                    match message:
                        case Complete():
                            calls.start_soon(self._serve, message)
                        case Embed():
                            calls.start_soon(self._make_vectors, message)
                        case MayAsk(session=session, job=job, budget=budget):
                            why = self._book.limit_reached(Caller(session, job, budget))
                            message.reply.set(why or "")
                        case Spending(session=session):
                            message.reply.set(self._book.spent(session))
                        case _:
                            assert_never(message)
            tellings.cancel_scope.deadline = trio.current_time() + LAST_TELLING

    async def _warn_owner(self, warning: str) -> None:
        """Warn the owner of a limit or of damage; the log has every warning."""
        event(log, "budget", {"why": warning}, success=True, level=logging.WARNING)
        with trio.move_on_after(TELLING):
            await self._tell(warning)

    async def _serve(self, ask: Complete) -> None:
        if self._calls >= MAX_CALLS:
            ask.reply.set(ModelUnavailable("too many conversations already wait for a model"))
            return
        self._calls += 1
        try:
            with ask.reply.while_wanted(), bind(**dict(ask.cause)):
                ask.reply.set(await self._answer(ask))
            await self._book.write()  # while the session continues, before any next call
        finally:
            self._calls -= 1

    async def _answer(self, ask: Complete) -> Completed:
        role = self._settings.role(ask.role)
        models = (role.models[1:] if ask.others_first else ()) or role.models
        troubles: list[str] = []
        while True:
            attempt = ModelAttempt(ask, role, models[0], models[1:], self._patience)
            result = await self._ask(attempt)
            if isinstance(result, BudgetSpent):
                event(log, "budget", {"why": result.why}, success=False)
            elif not isinstance(result, Completion):
                level = logging.ERROR if result == GivenUp(result.why, ()) else None
                attempt.log(success=False, level=level, why=result.why)
            if not isinstance(result, GivenUp):
                return result
            models = result.rest
            troubles.append(result.why)
            if not models:
                return ModelUnavailable("; ".join(troubles))

    async def _ask(self, attempt: ModelAttempt) -> Completed | GivenUp:
        """Call one model until it answers, or until a fallback should be tried."""
        breaker = self._breakers.get(attempt.provider)
        if breaker is None:
            why = f"the configuration has no provider {attempt.provider!r}"
            return GivenUp(why, attempt.rest)
        while True:
            ticket = await self._enter(attempt, breaker)
            if not isinstance(ticket, Ticket):
                return ticket
            try:
                if not await self._book.write():
                    return ModelUnavailable(NO_ROOM)
                most = await self._reserve(attempt, ticket)
                if isinstance(most, str):
                    return BudgetSpent(most)
                return await self._send(attempt, breaker, most)
            except ModelFailure as error:
                fault = error.fault
                if fault.kind == "too_long":
                    return ContextTooLong(str(error))
                if fault.kind == "history":
                    return BadHistory(str(error))
                attempt.failures[fault.kind] += 1
                times = attempt.failures[fault.kind]
                again = self._record_failure(attempt, breaker, ticket, fault, times)
            finally:
                self._book.release(ticket)
                breaker.leave(ticket)
            if again is None or attempt.failures.total() > self._settings.retries:
                return attempt.give_up(self._add_time(fault))
            attempt.wait(fault, again, attempt.failures.total())
            if fault.kind not in _SHARED:  # else the breaker delays all calls
                await trio.sleep_until(again)

    async def _enter(self, attempt: ModelAttempt, breaker: CircuitBreaker) -> Ticket | GivenUp:
        """Wait for a slot, at most until the end of the retries."""
        while True:
            fault = breaker.fault or ALL_TAKEN
            end = attempt.end(fault)
            if attempt.may_have_mended(breaker):
                breaker.not_before = trio.current_time()
            if breaker.fault is not None and breaker.not_before > trio.current_time():
                if breaker.not_before > end or retry_in(fault, 1, 0.0) is None:
                    return attempt.give_up(fault)
                attempt.wait(fault, breaker.not_before)
            limit = end - trio.current_time()
            with (
                trio.move_on_at(end) as waited,
                show_wait(f"a free connection to {attempt.provider}", limit=limit),
            ):
                ticket = await breaker.enter()
                if ticket is not None:
                    return ticket
            if waited.cancelled_caught:
                return attempt.give_up(breaker.fault or ALL_TAKEN)

    def _record_failure(
        self,
        attempt: ModelAttempt,
        breaker: CircuitBreaker,
        ticket: Ticket,
        fault: Fault,
        times: int,
    ) -> float | None:
        """Record the *times*-th failure of its kind; return when to retry, or None."""
        is_shared = fault.kind in _SHARED
        if is_shared:
            # A response that was cut has begun, which is a success for the breaker.
            times = max(times, breaker.note_failure(ticket, self._add_time(fault)))
        now = trio.current_time()
        pause = retry_in(fault, times, self._jitter())
        again = None if pause is None or now + pause > attempt.end(fault) else now + pause
        if is_shared:
            held = fault.retry_after or 0.0 if again is None else again - now
            breaker.hold(max(held, PAUSES.get(fault.kind, 0.0)))
        why = describe(attempt.model, fault)
        again_in = None if again is None else round(again - now, 1)
        log.warning("attempt failed", extra={"why": why, "times": times, "again_in": again_in})
        if again is None or again - attempt.since > SHOW_AFTER:
            report_error(f"reaching {attempt.provider}", why, times=times)
        return again

    def _add_time(self, fault: Fault) -> Fault:
        """Add the time of the attempt, if it is not repeated soon."""
        if fault.kind not in PAUSES:
            return fault
        detail = f"{fault.detail.rstrip('.')}; tried at {self._book.clock_time()}".lstrip("; ")
        return msgspec.structs.replace(fault, detail=detail)

    async def _reserve(self, attempt: ModelAttempt, ticket: Ticket) -> int | str:
        """Reserve the maximum cost of *attempt*; a text is the reason of a refusal."""
        ask, wanted = attempt.ask, attempt.ask.max_tokens or attempt.role.max_tokens
        prompt = rough(ask.prompt, ask.messages, "").input
        end = attempt.end(ALL_TAKEN)
        limit = end - trio.current_time()
        with trio.move_on_at(end), show_wait("the rest of a spending limit", limit=limit):
            return await self._book.reserve(ticket, attempt.caller, attempt.model, prompt, wanted)
        return "Other requests in progress may use up a limit. Try again when they have finished."

    async def _send(self, attempt: ModelAttempt, breaker: CircuitBreaker, most: int) -> Completion:
        ask = attempt.ask
        name, model = split_name(attempt.model)
        streamed: str | None = None

        def show(shown: Shown) -> None:
            nonlocal streamed
            if streamed is None:
                breaker.note_success()
            streamed = shown if isinstance(shown, str) else shown.text
            if shown:
                attempt.show(shown)

        files: Mapping[str, str] = {}
        if self._look is not None and any(map(get_visible_files, ask.messages)):
            files = await self._look(ask.messages)
        request = ModelRequest(
            model=model,
            prompt=ask.prompt,
            messages=ask.messages,
            max_tokens=most,
            files=files,
            thinking=attempt.role.thinking,
        )
        try:
            what = f"a response from {attempt.model}"
            with trio.move_on_at(ask.until), show_wait(what, limit=LONGEST):
                completion = await self._providers[name].complete(request, show)
                breaker.note_success()
                report_done(f"reaching {name}")
                cost = self._book.record(attempt.caller, attempt.model, completion.usage).usd
                used = completion.usage
                tokens = {"input": used.input, "output": used.output, "cached": used.cache_read}
                attempt.log(success=True, **tokens, cost=cost, stop=completion.stop)
                if payloads.isEnabledFor(logging.DEBUG):
                    asked, said = ask.messages[-1:], (completion.message,)
                    shown = {"asked": [*map(texts, asked)], "answered": [*map(texts, said)]}
                    payloads.debug("response", extra=shown)
                return completion
            raise ModelFailure(name, Fault("stalled", "it did not finish in time"))
        except (ModelFailure, trio.Cancelled):
            if streamed is not None:  # it has begun, so it is billed
                guess = rough(ask.prompt, ask.messages, streamed)
                self._book.record(attempt.caller, attempt.model, guess)
                with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_NOTE):
                    await self._book.write()
            raise

    async def _make_vectors(self, ask: Embed) -> None:
        """Answer *ask*, even if it was abandoned: it is billed in any case."""
        ask.reply.set(await self._embed(ask.texts))
        await self._book.write()

    async def _embed(self, texts: tuple[str, ...]) -> Embeddings | EmbeddingFailed:
        if self._embedder is None:
            return EmbeddingFailed("no embedding model is configured")
        if not await self._book.write():
            return EmbeddingFailed(NO_ROOM)
        if (why := self._book.limit_reached(NOBODY)) is not None:
            return EmbeddingFailed(f"{why} Until then I search notes by words only.")
        try:
            made = await self._embedder.embed(texts)
        except EmbeddingFailed as error:
            return error
        usage = Usage(input=made.tokens or sum(map(estimate, texts)), estimated=not made.tokens)
        self._book.record(NOBODY, self._embedder.model, usage)
        return made
