"""One turn: ask the model, run its calls, take in what is said meanwhile, until there is an answer.

Everything that happens is recorded as it happens; after a crash the same function goes on from
what the log holds (architecture §9).
"""

from typing import Literal

import attrs
import trio

from elwood.agent.conversation.message import Assistant, Completion, Notice
from elwood.agent.models.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    ModelUnavailable,
)
from elwood.agent.session.log.entries import (
    Compacted,
    Entry,
    Joined,
    Noticed,
    Prompted,
    Rewound,
    Said,
)
from elwood.agent.session.log.state import inputs
from elwood.agent.session.log.turns import Turn
from elwood.agent.session.turn.compaction import without_summary
from elwood.agent.session.turn.deps import Answer, Means
from elwood.agent.session.turn.loops import Loops
from elwood.agent.session.turn.on_completion import (
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
from elwood.agent.session.turn.summarize import make_room
from elwood.foundation.runtime import ActorUnavailable

# How often a model call may be begun anew because another message came before anything was shown.
MAX_RESTARTS = 5
# How often in one turn a history is shortened because the model says that it does not fit.
MAX_SHRUNK = 3
# Seconds before the deadline of a model call (at most a tenth of it) at which those who make the
# call end it themselves: they know what it failed of.
TO_SAY_WHY = 10.0


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
        self._mended = 0
        self._shrunk = 0
        self._restarts = 0
        self._loops = Loops()

    async def run(self) -> Answer:
        means, turn = self._means, self._turn
        if means.session.prompt != means.prompt:
            await means.record(Prompted(means.prompt))
        if means.hint and not turn.rounds and not self._is_told(means.hint):
            await means.record(Noticed(turn.id, means.hint))
        await self._perform()
        while True:
            await self._join()
            if turn.rounds >= means.settings.max_rounds:
                return Answer(
                    f"I stopped after {turn.rounds} rounds of tool calls without an answer.",
                    failed=True,
                )
            made = await self._make_room(means.settings.context_tokens)
            if isinstance(made, BudgetSpent):
                return Answer(made.why, failed=True)
            if made:
                continue  # somebody may have said more meanwhile
            completed = await self._ask()
            answer = None if completed is None else await self._take(completed)
            if answer is not None:
                return answer

    def _is_told(self, text: str) -> bool:
        path = self._means.session.path
        return any(node.message == Notice(text) for node in path if node.seq >= self._turn.start)

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
        return Answer(text, entries=(self._entry(completion, message),))

    async def _said(self, completion: Completion, message: Assistant, *more: Entry) -> None:
        if message.blocks:
            await self._means.record(self._entry(completion, message), *more)
        elif more:
            await self._means.record(*more)

    def _entry(self, completion: Completion, message: Assistant) -> Said:
        limit = self._max_tokens or self._means.max_tokens
        return Said(self._turn.id, message, completion.usage, limit)

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

    async def _make_room(self, context: int | None) -> BudgetSpent | bool:
        """Shorten the history if it is to be; False if it stays as it is."""
        means = self._means
        made = await make_room(means.session_id, means.session, means.complete, context)
        if isinstance(made, Compacted):
            await means.record(made)
        return made if isinstance(made, BudgetSpent) else made is not None

    async def _shrink(self) -> bool:
        """Make it shorter than what the model says is too long; False if that cannot be."""
        self._shrunk += 1
        return self._shrunk <= MAX_SHRUNK and bool(await self._make_room(None))

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
            return True
        why = "the model did not accept the conversation"
        start = self._turn.start
        old = [node for node in self._means.session.path if node.seq < start]
        await self._means.record(Compacted(without_summary(old), start, why))
        return True
