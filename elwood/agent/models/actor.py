"""The actor that asks models: keys, budgets, retries, fallbacks."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import assert_never

import attrs
import msgspec
import trio

from elwood.agent.conversation.message import Completion, rough
from elwood.agent.models import routing
from elwood.agent.models.circuit_breaker import SHARED, CircuitBreaker, Ticket
from elwood.agent.models.embeddings import Embedder, PaidEmbedding
from elwood.agent.models.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    Embed,
    MayAsk,
    ModelsMail,
    ModelUnavailable,
    Spending,
)
from elwood.agent.models.provider import Catalogued, ModelFailure, ModelRequest, Provider
from elwood.agent.models.routing import (
    PAUSES,
    Fault,
    GiveUp,
    NextModel,
    Reaction,
    TryAgain,
    on_failure,
    split_name,
    warnings,
)
from elwood.agent.models.settings import ModelSettings, candidates
from elwood.agent.models.spending.store import Caller, UsageBook
from elwood.foundation.runtime import Mailbox, clear_error, report_error, waiting

log = logging.getLogger("elwood.models")

# Calls that may be under way or wait for their place; more are turned away at once.
MAX_CALLS = 2_000
# Seconds of trouble with a provider after which it is shown (LLM-01).
SHOW_AFTER = 30.0
# Seconds after which a response shows as stuck: the longest ones take five minutes.
LONGEST = 330.0
# Seconds given to note what a call cost that was broken off.
LAST_NOTE = 5.0
# Seconds in which a warning about a limit should reach the owner, and those left to it at the stop.
TELLING, LAST_TELLING = 3_600.0, 2.0
# Failures of a response that had begun, and is billed all the same.
_BILLED = {"cut", "stalled", "nonsense"}


@attrs.define
class ModelAttempt:
    """An *ask*, and how it goes: the *model* asked now, *since* when, and the *rest* to try."""

    ask: Complete
    model: str
    rest: tuple[str, ...]
    since: float = attrs.field(factory=trio.current_time)

    @property
    def caller(self) -> Caller:
        """For whom it is asked."""
        return Caller(self.ask.session, self.ask.job, self.ask.purse)

    @property
    def elapsed(self) -> float:
        """Seconds that the present model has been tried for."""
        return trio.current_time() - self.since

    def move_on(self, model: str) -> None:
        """Try *model* next."""
        self.rest = self.rest[self.rest.index(model) + 1 :]
        self.model = model
        self.since = trio.current_time()

    def on_failure(self, fault: Fault, *, times: int = 1, jitter: float = 0.0) -> Reaction:
        """Decide what is done about *fault*, the *times*-th of its kind."""
        return on_failure(
            fault,
            model=self.model,
            rest=self.rest,
            times=times,
            elapsed=self.elapsed,
            jitter=jitter,
            left=self.ask.until - trio.current_time(),
        )


class Models:
    """The only holder of keys (in *providers*) and writer of the usage book.

    *in_flight* calls at once go to each provider; *jitter* gives random numbers from 0 to 1.
    *tell* tells the owner of limits, however long that takes; *embedder* makes vectors, if there is
    one.
    """

    def __init__(
        self,
        *,
        book: UsageBook,
        providers: Mapping[str, Provider],
        settings: ModelSettings,
        in_flight: Mapping[str, int],
        jitter: Callable[[], float],
        tell: Callable[[str], Awaitable[bool]],
        embedder: Embedder | None = None,
    ) -> None:
        self._book = book
        self._embedding = PaidEmbedding(embedder, book)
        self._tell_owner = tell
        self._providers = providers
        self._settings = settings
        self._jitter = jitter
        self._breakers = {name: CircuitBreaker(in_flight[name]) for name in providers}
        self._calls = 0

    async def run(self, mailbox: Mailbox[ModelsMail]) -> None:
        """Answer until stopped; calls under way may finish within the grace."""
        await self._book.open()
        async with trio.open_nursery() as tellings:
            self._book.on_warning(lambda text: tellings.start_soon(self._tell, text))
            async with trio.open_nursery() as calls:
                checks = trio.CancelScope()
                calls.start_soon(self._check_models, checks)
                async for message in mailbox:
                    match message:
                        case Complete():
                            self._take(message, calls)
                        case Embed():
                            calls.start_soon(self._embedding.answer, message)
                        case MayAsk(session=session, job=job, purse=purse):
                            why = self._book.limit_reached(Caller(session, job, purse))
                            message.reply.set(why or "")
                        case Spending(session=session, purses=purses):
                            message.reply.set(self._book.spent(session, purses))
                        case _:
                            assert_never(message)
                checks.cancel()
            tellings.cancel_scope.deadline = trio.current_time() + LAST_TELLING

    async def _check_models(self, scope: trio.CancelScope) -> None:
        with scope:
            await _check_models(self._settings, self._providers)

    async def _tell(self, warning: str) -> None:
        """Tell the owner of a limit; what is not told in time stands in the log."""
        log.warning("limit near", extra={"why": warning})
        with trio.move_on_after(TELLING):
            await self._tell_owner(warning)

    def _take(self, ask: Complete, calls: trio.Nursery) -> None:
        if ask.reply.is_settled:
            return
        if self._calls >= MAX_CALLS:
            ask.reply.set(ModelUnavailable("too many conversations wait for a model already"))
            return
        self._calls += 1
        calls.start_soon(self._serve, ask)

    async def _serve(self, ask: Complete) -> None:
        try:
            async with trio.open_nursery() as race:
                race.start_soon(self._drop_when_abandoned, ask, race.cancel_scope)
                ask.reply.set(await self._answer(ask))
                race.cancel_scope.cancel()
            await self._book.settle()  # beside what the session does next, before any next call
        finally:
            self._calls -= 1

    async def _drop_when_abandoned(self, ask: Complete, scope: trio.CancelScope) -> None:
        await ask.reply.wait_abandoned()
        scope.cancel()

    async def _answer(self, ask: Complete) -> Completed:
        model, *others = candidates(self._settings, ask.role)
        attempt = ModelAttempt(ask, model, tuple(others))
        troubles: list[str] = []
        while True:
            result = await self._ask(attempt)
            match result:
                case NextModel(following, why):
                    log.warning("model changed", extra={"why": why, "model": following})
                    troubles.append(why)
                    attempt.move_on(following)
                case GiveUp(why, permanent):
                    log.warning("model gave up", extra={"why": why, "model": attempt.model})
                    return ModelUnavailable("; ".join([*troubles, why]), permanent)
                case _:
                    return result

    async def _ask(self, attempt: ModelAttempt) -> Completed | NextModel | GiveUp:
        """Ask one model until it answers, or until another should be tried."""
        name, _ = split_name(attempt.model)
        breaker = self._breakers.get(name)
        if breaker is None:
            why = f"there is no provider {name!r} in the configuration"
            return NextModel(attempt.rest[0], why) if attempt.rest else GiveUp(why, permanent=True)
        failures = Counter[routing.FailureKind]()
        while True:
            ticket = await self._enter(attempt, breaker, name)
            if not isinstance(ticket, Ticket):
                return ticket
            try:
                if not await self._book.settle():
                    return ModelUnavailable("the disk is full, no cost can be noted: make room")
                if (limit := self._book.limit_reached(attempt.caller)) is not None:
                    return BudgetSpent(limit)
                return await self._send(attempt, breaker)
            except ModelFailure as error:
                if error.kind == "too_long":
                    return ContextTooLong(str(error))
                if error.kind == "history":
                    return BadHistory(error.problem, str(error))
                fault = Fault(error.kind, error.detail, error.retry_after, error.should_retry)
                failures[fault.kind] += 1
                reaction = self._decide(attempt, breaker, ticket, fault, failures[fault.kind])
            finally:
                breaker.leave(ticket)
            if not isinstance(reaction, TryAgain):
                return reaction
            if fault.kind not in SHARED:  # else the breaker holds us back, together with the others
                await trio.sleep(reaction.seconds)

    async def _enter(
        self, attempt: ModelAttempt, breaker: CircuitBreaker, name: str
    ) -> Ticket | NextModel | GiveUp:
        """Wait for a place, but not longer than there is hope."""
        while True:
            fault, left = breaker.fault, breaker.not_before - trio.current_time()
            if fault is not None and left > 0:
                reaction = attempt.on_failure(msgspec.structs.replace(fault, retry_after=left))
                if not isinstance(reaction, TryAgain):
                    return reaction
            kind = fault.kind if fault is not None else "rate_limit"
            limit = routing.patience(kind, attempt.model, attempt.rest)
            with (
                trio.move_on_at(min(attempt.since + limit, attempt.ask.until)) as patience,
                waiting(f"a place at {name}", limit=limit),
            ):
                ticket = await breaker.enter()
                if ticket is not None:
                    return ticket
            if patience.cancelled_caught:
                fault = breaker.fault or Fault("rate_limit", "all its places are taken")
                reaction = attempt.on_failure(
                    msgspec.structs.replace(fault, retry_after=limit + 1.0)
                )
                if not isinstance(reaction, TryAgain):
                    return reaction

    def _decide(
        self,
        attempt: ModelAttempt,
        breaker: CircuitBreaker,
        ticket: Ticket,
        fault: Fault,
        times: int,
    ) -> Reaction:
        is_shared = fault.kind in SHARED
        if is_shared:
            times = breaker.failed(ticket, fault)
        reaction = attempt.on_failure(fault, times=times, jitter=self._jitter())
        seconds = reaction.seconds if isinstance(reaction, TryAgain) else fault.retry_after or 0.0
        if is_shared:
            breaker.hold(max(seconds, PAUSES.get(fault.kind, 0.0)))
        why = routing.describe(attempt.model, fault)
        log.info("attempt failed", extra={"why": why, "times": times, "then": str(reaction)})
        if not isinstance(reaction, TryAgain) or attempt.elapsed + seconds > SHOW_AFTER:
            report_error(split_name(attempt.model)[0], why, times=times)
        return reaction

    async def _send(self, attempt: ModelAttempt, breaker: CircuitBreaker) -> Completion:
        ask = attempt.ask
        name, model = split_name(attempt.model)
        told: str | None = None
        completion: Completion | None = None
        failure = ModelFailure(name, "stalled", "it was not done when time was up")

        def on_text(text: str) -> None:
            nonlocal told
            if told is None:
                breaker.succeeded()
            told = text
            if text and ask.progress is not None:
                # Progress is lossy by contract.
                with suppress(trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
                    ask.progress.send_nowait(text)

        request = ModelRequest(
            model=model,
            prompt=ask.prompt,
            messages=ask.messages,
            max_tokens=ask.max_tokens or self._settings.max_tokens,
            no_thinking=ask.no_thinking,
        )
        try:
            what = f"a response of {attempt.model}"
            with trio.move_on_at(ask.until), waiting(what, limit=LONGEST):
                completion = await self._providers[name].complete(request, on_text)
        except ModelFailure as error:
            failure = error
        except trio.Cancelled:
            if told is not None:
                guess = rough(ask.prompt, ask.messages, told)
                with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_NOTE):
                    await self._book.note(attempt.caller, attempt.model, guess)
            raise
        if completion is None:
            if told is not None and failure.kind in _BILLED:
                guess = rough(ask.prompt, ask.messages, told)
                await self._book.note(attempt.caller, attempt.model, guess)
            raise failure
        breaker.succeeded()
        clear_error(name)
        self._book.owe(attempt.caller, attempt.model, completion.usage)
        return completion


async def _check_models(settings: ModelSettings, providers: Mapping[str, Provider]) -> None:
    """Warn of configured models that are retired or unknown; failing to is no failure."""
    names = dict.fromkeys((settings.default, settings.summarizer, *settings.fallbacks))
    for provider, client in providers.items():
        if not isinstance(client, Catalogued):
            continue
        try:
            found = warnings(names, provider, await client.offers())
        except ModelFailure as error:
            level = logging.WARNING if error.kind in PAUSES else logging.INFO
            log.log(level, "models not checked", extra={"why": str(error)})
            continue
        for model, why in found.items():
            log.warning("model at risk", extra={"model": model, "why": why})
            report_error(f"model {model}", why)
