"""The actor that asks models: keys, budgets, retries, fallbacks."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import assert_never

import attrs
import trio

from elwood.agent.conversation.message import Completion
from elwood.agent.models import routing
from elwood.agent.models.attempt import UnderWay
from elwood.agent.models.budget import No
from elwood.agent.models.catalogue import check_models
from elwood.agent.models.circuit_breaker import SHARED, Lane, Ticket
from elwood.agent.models.embeddings import Embedder
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
from elwood.agent.models.paid_embeddings import PaidEmbedding
from elwood.agent.models.provider import ModelFailure, ModelRequest, Provider
from elwood.agent.models.routing import PAUSES, Fault, GiveUp, NextModel, Reaction, Wait, split_name
from elwood.agent.models.settings import ModelSettings, candidates
from elwood.agent.models.usage_book import Caller, UsageBook
from elwood.foundation.runtime import (
    Mailbox,
    clear_error,
    report_error,
    waiting,
)
from elwood.foundation.text.tokens import rough

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
        self._lanes = {name: Lane(in_flight[name]) for name in providers}
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
                            verdict = self._book.allowed(Caller(session, job, purse))
                            message.reply.set(verdict.why if isinstance(verdict, No) else "")
                        case Spending(session=session, purses=purses):
                            message.reply.set(self._book.spent(session, purses))
                        case _:
                            assert_never(message)
                checks.cancel()
            tellings.cancel_scope.deadline = trio.current_time() + LAST_TELLING

    async def _check_models(self, scope: trio.CancelScope) -> None:
        with scope:
            await check_models(self._settings, self._providers)

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
        way = UnderWay(ask, model, tuple(others))
        troubles: list[str] = []
        while True:
            result = await self._ask(way)
            match result:
                case NextModel(following, why):
                    log.warning("model changed", extra={"why": why, "model": following})
                    troubles.append(why)
                    way.move_on(following)
                case GiveUp(why, permanent):
                    log.warning("model gave up", extra={"why": why, "model": way.model})
                    return ModelUnavailable("; ".join([*troubles, why]), permanent)
                case _:
                    return result

    async def _ask(self, way: UnderWay) -> Completed | NextModel | GiveUp:
        """Ask one model until it answers, or until another should be tried."""
        name, _ = split_name(way.model)
        lane = self._lanes.get(name)
        if lane is None:
            why = f"there is no provider {name!r} in the configuration"
            return NextModel(way.rest[0], why) if way.rest else GiveUp(why, permanent=True)
        attempts = Counter[routing.FailureKind]()
        while True:
            ticket = await self._enter(way, lane, name)
            if not isinstance(ticket, Ticket):
                return ticket
            try:
                if not await self._book.settle():
                    return ModelUnavailable("the disk is full, no cost can be noted: make room")
                verdict = self._book.allowed(way.caller)
                if isinstance(verdict, No):
                    return BudgetSpent(verdict.why)
                return await self._attempt(way, lane)
            except ModelFailure as error:
                if error.kind == "too_long":
                    return ContextTooLong(str(error))
                if error.kind == "history":
                    return BadHistory(error.problem, str(error))
                fault = Fault(error.kind, error.detail, error.retry_after, error.should_retry)
                attempts[fault.kind] += 1
                reaction = self._judge(way, lane, ticket, fault, attempts[fault.kind])
            finally:
                lane.leave(ticket)
            if not isinstance(reaction, Wait):
                return reaction
            if fault.kind not in SHARED:  # else the lane holds us back, together with the others
                await trio.sleep(reaction.seconds)

    async def _enter(self, way: UnderWay, lane: Lane, name: str) -> Ticket | NextModel | GiveUp:
        """Wait for a place, but not longer than there is hope."""
        while True:
            fault, left = lane.fault, lane.not_before - trio.current_time()
            if fault is not None and left > 0:
                reaction = way.react(attrs.evolve(fault, retry_after=left))
                if not isinstance(reaction, Wait):
                    return reaction
            kind = fault.kind if fault is not None else "rate_limit"
            limit = routing.patience(kind, way.model, way.rest)
            with (
                trio.move_on_at(min(way.since + limit, way.ask.until)) as patience,
                waiting(f"a place at {name}", limit=limit),
            ):
                ticket = await lane.enter()
                if ticket is not None:
                    return ticket
            if patience.cancelled_caught:
                fault = lane.fault or Fault("rate_limit", "all its places are taken")
                reaction = way.react(attrs.evolve(fault, retry_after=limit + 1.0))
                if not isinstance(reaction, Wait):
                    return reaction

    def _judge(
        self, way: UnderWay, lane: Lane, ticket: Ticket, fault: Fault, attempt: int
    ) -> Reaction:
        is_shared = fault.kind in SHARED
        if is_shared:
            attempt = lane.failed(ticket, fault)
        reaction = way.react(fault, attempt=attempt, jitter=self._jitter())
        seconds = reaction.seconds if isinstance(reaction, Wait) else fault.retry_after or 0.0
        if is_shared:
            lane.hold(max(seconds, PAUSES.get(fault.kind, 0.0)))
        why = routing.describe(way.model, fault)
        log.info("attempt failed", extra={"why": why, "attempt": attempt, "then": str(reaction)})
        if not isinstance(reaction, Wait) or way.elapsed + seconds > SHOW_AFTER:
            report_error(split_name(way.model)[0], why, times=attempt)
        return reaction

    async def _attempt(self, way: UnderWay, lane: Lane) -> Completion:
        ask = way.ask
        name, model = split_name(way.model)
        told: str | None = None
        completion: Completion | None = None
        failure = ModelFailure(name, "stalled", "it was not done when time was up")

        def on_text(text: str) -> None:
            nonlocal told
            if told is None:
                lane.well()
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
            what = f"a response of {way.model}"
            with trio.move_on_at(ask.until), waiting(what, limit=LONGEST):
                completion = await self._providers[name].complete(request, on_text)
        except ModelFailure as error:
            failure = error
        except trio.Cancelled:
            if told is not None:
                guess = rough(ask.prompt, ask.messages, told)
                with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_NOTE):
                    await self._book.note(way.caller, way.model, guess)
            raise
        if completion is None:
            if told is not None and failure.kind in _BILLED:
                guess = rough(ask.prompt, ask.messages, told)
                await self._book.note(way.caller, way.model, guess)
            raise failure
        lane.well()
        clear_error(name)
        self._book.owe(way.caller, way.model, completion.usage)
        return completion
