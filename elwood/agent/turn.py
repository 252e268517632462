"""One turn: ask the model, run its calls, take in what is said meanwhile, until there is an answer.

Everything that happens is recorded as it happens; after a crash the same function goes on from
what the log holds (architecture §9).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import attrs
import trio

from elwood.agent.gate import Gate
from elwood.core.compaction import cut
from elwood.core.conversation import Assistant, Completion, Prompt
from elwood.core.limits import TurnSettings
from elwood.core.loops import Loops
from elwood.core.reaction import (
    Continue,
    Decline,
    Enlarge,
    Fail,
    Finish,
    Nudge,
    Resend,
    RunCalls,
    Shrink,
    Tally,
    react,
    without_calls,
)
from elwood.core.replay import Session
from elwood.core.session import Compacted, Entry, Joined, Noticed, Prompted, Received, Rewound, Said
from elwood.core.turns import Turn
from elwood.core.work import inputs
from elwood.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    ModelUnavailable,
)
from elwood.runtime import ActorUnavailable

Record = Callable[..., Awaitable[None]]

# How often a model call may be begun anew because another message came before anything was shown.
MAX_RESTARTS = 5
# Seconds before the deadline of a model call (at most a tenth of it) at which those who make the
# call end it themselves: they know what it failed of.
TO_SAY_WHY = 10.0


@attrs.frozen(kw_only=True)
class Means:
    """What a turn acts with.

    *prompt* is what the session's documents and tools amount to now; *max_tokens* the limit of an
    answer; *render* writes inputs as the model sees them; *show* offers the text so far to the
    channel and says whether it has one that shows it; *arrival* waits for the next message.
    """

    session_id: str
    session: Session
    role: str
    prompt: Prompt
    max_tokens: int
    settings: TurnSettings
    gate: Gate
    record: Record
    complete: Callable[[Complete], Awaitable[Completed]]
    render: Callable[[Sequence[Received]], str]
    show: Callable[[str], bool]
    arrival: Callable[[], Awaitable[None]]


@attrs.frozen
class Answer:
    """How a turn ended.  *entries* must be recorded together with the reply."""

    text: str
    failed: bool = False
    entries: tuple[Entry, ...] = ()


async def run_turn(means: Means) -> Answer:
    """Bring the session's open turn to its answer; the caller sets the deadline."""
    return await _TurnRun(means).run()


class _TurnRun:
    def __init__(self, means: Means) -> None:
        self._means = means
        turn = means.session.turn
        assert turn is not None, "run_turn needs an open turn"
        self._turn: Turn = turn
        self._tally = Tally(used_tools=bool(turn.receipts))
        self._text: list[str] = []
        self._max_tokens: int | None = None
        self._no_thinking = False
        self._mended = 0
        self._restarts = 0
        self._loops = Loops()

    async def run(self) -> Answer:
        means, turn = self._means, self._turn
        if means.session.prompt != means.prompt:
            await means.record(Prompted(means.prompt))
        await self._perform()
        while True:
            await self._join()
            if turn.rounds >= means.settings.max_rounds:
                return Answer(
                    f"I stopped after {turn.rounds} rounds of tool calls without an answer.",
                    failed=True,
                )
            if means.session.tokens > means.settings.context_tokens:
                await self._shrink()
            completed = await self._ask()
            answer = None if completed is None else await self._take(completed)
            if answer is not None:
                return answer

    async def _take(self, completed: Completed) -> Answer | None:
        match completed:
            case Completion():
                return await self._react(completed)
            case BudgetSpent(why):
                return Answer(why, failed=True)
            case ModelUnavailable(why):
                return Answer(f"I cannot answer now: {why}", failed=True)
            case ContextTooLong(why):
                if await self._shrink():
                    return None
                return Answer(f"This conversation is too long for the model: {why}", failed=True)
            case BadHistory(problem, why):
                if await self._mend(problem):
                    return None
                return Answer(f"The model does not accept the conversation: {why}", failed=True)

    async def _react(self, completion: Completion) -> Answer | None:
        tally = self._tally
        message = completion.message
        match react(completion, tally):
            case RunCalls():
                await self._said(completion, message)
                self._tally = attrs.evolve(tally, used_tools=True)
                await self._perform()
            case Finish(text):
                self._text.append(text)
                return self._finish(completion)
            case Continue(notice):
                self._text.append(message.text)
                await self._said(completion, message, Noticed(self._turn.id, notice))
                self._tally = attrs.evolve(tally, continued=tally.continued + 1)
            case Resend():
                await self._said(completion, without_calls(message))
                self._tally = attrs.evolve(tally, paused=tally.paused + 1)
            case Enlarge():
                self._max_tokens = 2 * self._means.max_tokens
                self._tally = attrs.evolve(tally, enlarged=True)
            case Nudge(notice):
                await self._means.record(Noticed(self._turn.id, notice))
                self._tally = attrs.evolve(tally, nudged=True)
            case Shrink():
                if not await self._shrink():
                    return Answer("This conversation is too long for the model.", failed=True)
            case Decline(text):
                return Answer(text, failed=True, entries=(Rewound(self._turn.start - 1),))
            case Fail(text):
                return Answer("".join([*self._text, "\n\n" if self._text else "", text]), True)
        return None

    def _finish(self, completion: Completion) -> Answer:
        message = without_calls(completion.message)
        text = "".join(self._text)
        if not message.blocks:
            return Answer(text)
        return Answer(text, entries=(Said(self._turn.id, message, completion.usage),))

    async def _said(self, completion: Completion, message: Assistant, *more: Entry) -> None:
        if message.blocks:
            await self._means.record(Said(self._turn.id, message, completion.usage), *more)
        elif more:
            await self._means.record(*more)

    async def _perform(self) -> None:
        calls = list(self._turn.calls.values())
        if not calls:
            return
        await self._means.gate.perform(self._turn.id, calls)
        notice = self._loops.notice(calls)
        if notice:
            await self._means.record(Noticed(self._turn.id, notice))

    async def _join(self) -> None:
        """Take what people said meanwhile into the turn (steering)."""
        joining = inputs(self._means.session)
        if joining:
            ids = tuple(received.id for received in joining)
            text = self._means.render(joining)
            await self._means.record(Joined(self._turn.id, ids, text))

    async def _ask(self) -> Completed | None:
        """Ask the model; None if another message came before anything was shown."""
        means = self._means
        shown = False
        early = False
        completed: Completed | None = None
        progress, seen = trio.open_memory_channel[str](1)

        async def show() -> None:
            nonlocal shown
            async for text in seen:
                if text.strip() and means.show(text):
                    shown = True

        async def watch() -> None:
            nonlocal early
            await means.arrival()
            if not shown and self._restarts < MAX_RESTARTS:
                early = True
                self._restarts += 1
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(show)
            nursery.start_soon(watch)
            completed = await self._complete(progress)
            nursery.cancel_scope.cancel()
        return None if early and completed is None else completed

    async def _complete(self, progress: trio.MemorySendChannel[str]) -> Completed:
        means = self._means
        now = trio.current_time()
        limit = min(means.settings.model_deadline, trio.current_effective_deadline() - now)
        for last in (False, True):
            request = Complete(
                session=means.session_id,
                role=means.role,
                prompt=means.prompt,
                messages=means.session.messages,
                progress=progress,
                max_tokens=self._max_tokens,
                no_thinking=self._no_thinking,
                until=now + limit - min(TO_SAY_WHY, limit / 10),
            )
            try:
                with trio.fail_at(now + limit):
                    return await means.complete(request)
            except ActorUnavailable as error:
                if last:
                    return ModelUnavailable(str(error))
            except trio.TooSlowError:
                return ModelUnavailable(f"the model gave no answer within {limit:.0f} s")
        raise AssertionError("unreachable")

    async def _shrink(self) -> bool:
        """Leave the older half of the history out; False if there is none to leave out."""
        at = cut([(node.seq, node.message) for node in self._means.session.path], self._turn.start)
        if at is None:
            return False
        await self._means.record(Compacted(CUT_NOTICE, at))
        return True

    async def _mend(
        self, problem: Literal["pairing", "thinking", "image", "tools", "other"]
    ) -> bool:
        """Change what the provider objects to, more each time (LLM-28, 29, 36); False at the end.

        First old thinking and provider content are left out for good, by a new epoch; then all
        that came before this turn.
        """
        self._mended += 1
        if problem == "tools" or self._mended > 2:
            return False
        if self._mended == 1:
            await self._means.record(Prompted(self._means.prompt))
            self._no_thinking = True
            return True
        await self._means.record(Compacted(CUT_NOTICE, self._turn.start))
        return True


CUT_NOTICE = (
    "Earlier messages of this conversation were left out here because they did not fit. "
    "If something from before is needed, say so."
)
