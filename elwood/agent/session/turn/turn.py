"""One turn: ask the model, run its calls, add new messages, until there is an answer.

Each event is recorded when it happens. After a crash the same function continues from the log.
"""

from collections.abc import Awaitable, Callable

import attrs
import msgspec
import trio

from elwood.agent.conversation.message import (
    Assistant,
    Completion,
    Prompt,
    Results,
    Text,
    ToolCall,
    Usage,
    sees_too_much,
)
from elwood.agent.conversation.run import RunBounds
from elwood.agent.conversation.settings import OwnerClock, TurnSettings
from elwood.agent.models import messages as models
from elwood.agent.models.messages import Complete, Completed, ask_model
from elwood.agent.session.delivery import Showing
from elwood.agent.session.log import entries
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.reading.receipts import HEAD, activity
from elwood.agent.session.turn.compaction import ContextLimits, make_room
from elwood.agent.session.turn.gate import Gate
from elwood.agent.session.turn.prompt import render
from elwood.foundation.runtime import ActorDown, ActorUnavailable, Reply
from elwood.foundation.text.characters import well_formed
from elwood.foundation.text.lines import close_fence

# Seconds to wait for a restart of the models actor (its delay is 8 s at most, the grace at a stop
# 20), and between two tries.
AWAY, LOOK_EVERY = 15.0, 0.25
# How often in one start of a turn a message may interrupt a model call, and the largest prompt in
# tokens for that. The prompt is paid for again each time: at 3 dollars per million tokens, 20,000
# cost 6 cents.
MAX_RESTARTS, MAX_REPEATED = 2, 20_000
# How often in one turn a history is shortened because the model rejects its length.
MAX_SHRUNK = 3
# How often a cut answer is continued (LLM-16) and a paused one resumed (LLM-19).
MAX_CONTINUED = 2
MAX_PAUSED = 5
# Calls of one response that are run, and the notice for the model if there are more.
MAX_CALLS = 64
LEFT_OUT = "Only the first {1} of the {0} calls in your response were run: the limit is reached."
# Characters of a result that is itself the answer: one message of any channel.
MAX_ALONE = 3_500
CONTINUE = "Your answer was cut off by the length limit. Continue exactly where it stopped."
NUDGE = "You ended without any text. Describe the result in a sentence or two."
# Notice for the model after each round, before it may write its answer.
RECORDS = "The reader will see these records below your answer:\n{}"
REFUSED = (
    "The model rejected our conversation: {}\n\nI left nothing out of it. /undo takes back your "
    "last message, /compact shortens the conversation, /new starts another one."
)
# End of a stopped answer in the history.
STOPPED = "[My answer ends here. {}]"
CUT_MARK = "\n\n[cut off: the answer was too long]"


class TurnResult(msgspec.Struct, frozen=True):
    """How a turn ended.  *entries* must be recorded together with the reply.

    *end*: why the text ends early; it is shown below the text.
    """

    text: str
    failed: bool = False
    entries: tuple[Entry, ...] = ()
    end: str = ""


@attrs.define(kw_only=True, slots=False)
class TurnRun:
    """Brings the session's open turn to its answer; the caller sets the deadline."""

    log: SessionLog
    gate: Gate
    ask: Callable[[Complete], Awaitable[Completed]]  # sends a request to the models
    prompt: Prompt  # of the session's present documents and tools
    settings: TurnSettings
    max_tokens: int  # of an answer
    clock: OwnerClock
    showing: Showing | None = None  # shows the partial text, if a person waits for it
    # fetches pending files and shows their inputs to the model
    fetch: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint
    # makes the prompt again when a search has found tools
    renew: Callable[[], Awaitable[Prompt]] | None = None

    def __attrs_post_init__(self) -> None:
        self._turn = turn = self.log.turn
        self._text = ""
        self._doubled: int | None = None  # the limit after a cut call
        self._used_tools = bool(turn.receipts)
        self._nudged = False
        self._listed = 0
        self._mended = False
        self._continued = self._paused = self._shrunk = self._restarts = 0
        self._call: trio.CancelScope | None = None
        self._is_shown = False  # whether any of the response is shown
        self._partial = ""  # the text of the running response that is shown

    async def run(self) -> TurnResult:
        turn = self._turn
        opened = {*self.log.state.opened}
        if self.log.state.prompt != self.prompt:
            await self.log.stage(entries.Prompted(self.prompt))
        if turn.calls:
            await self.gate.perform()
        await self._list_records()  # a crash may have lost them
        while True:
            if self.renew is not None and opened != self.log.state.opened.keys():
                opened, self.prompt = {*self.log.state.opened}, await self.renew()
                await self.log.stage(entries.Prompted(self.prompt))
            await self._join()
            if sees_too_much(node.message for node in self.log.state.path):
                await self.log.stage(entries.Prompted(self.prompt))
            for done, most, of in (
                (turn.rounds, self.settings.max_rounds, "rounds of tool calls"),
                (turn.made, self.settings.max_calls, "tool calls"),
            ):
                if done >= most:
                    text = f"I stopped after {done} {of} without an answer."
                    return TurnResult(text, failed=True)
            made = await self._make_room(self.settings.context_tokens)
            if isinstance(made, models.BudgetSpent):
                return TurnResult(made.why, failed=True)
            if made:
                continue  # another message may have arrived
            completed = await self._ask()
            answer = None if completed is None else await self._take(completed)
            if answer is not None:
                return answer

    async def _take(self, completed: Completed) -> TurnResult | None:
        match completed:
            case Completion():
                return await self._react(completed)
            case models.BudgetSpent(why):
                return TurnResult(why, failed=True)
            case models.ModelUnavailable(why):
                return TurnResult(f"I cannot answer now: {why}", failed=True)
            case models.ContextTooLong(why):
                if await self._shrink():
                    return None
                return TurnResult(
                    f"This conversation is too long for the model: {why}", failed=True
                )
            case models.BadHistory(why):
                if await self._mend():
                    return None
                return TurnResult(REFUSED.format(why), failed=True)

    async def _react(self, completion: Completion) -> TurnResult | None:
        """Act on a whole response; calls run only after `tools`."""
        turn, message = self._turn, completion.message
        text = message.text.strip()
        match completion.stop:
            case "tools":
                if self.showing is not None:
                    self.showing.show_response(message.text)
                # A round that only reads is one line with its results: it may be repeated.
                given = len(message.calls)
                run = min(given, MAX_CALLS, self.settings.max_calls - turn.made)
                message = _first_calls(message, run)
                reads = all(map(self.gate.only_reads, message.calls))
                entry = self._entry(completion, message, left_out=given - run)
                await (self.log.stage(entry) if reads else self.log.keep(entry))
                self._used_tools = True
                await self.gate.perform()
                await self._list_records()
                if run < given:
                    await self.log.stage(entries.Noticed(turn.id, LEFT_OUT.format(given, run)))
            case "cut" if message.calls:  # ask once more, with twice the limit (LLM-15)
                if self._doubled is not None:
                    why = "The model's tool call was longer than the limit allows"
                    return self._build_failure(f"{why}, so I did not run it.")
                self._doubled = 2 * self.max_tokens
            case "cut":
                if not text:
                    return self._build_failure(
                        "The model reached its length limit without an answer."
                    )
                if self._continued == MAX_CONTINUED:
                    return self._build_result(completion, message.text + CUT_MARK)
                self._continued += 1
                self._text += message.text
                notice = entries.Noticed(turn.id, CONTINUE)
                await self.log.keep(self._entry(completion, message), notice)
            case "window":  # LLM-17
                if not await self._shrink():
                    return TurnResult(
                        "This conversation is too long for the model. /new starts another one.",
                        failed=True,
                    )
            case "refused":  # the turn leaves the history (LLM-18)
                why = f" ({completion.detail})" if completion.detail else ""
                said = f"The model declined to answer this{why}."
                return TurnResult(said, failed=True, entries=(entries.Rewound(turn.start - 1),))
            case "paused":  # everything goes back unchanged (LLM-19, LLM-20)
                if self._paused == MAX_PAUSED:
                    why = "The model paused several times and did not finish."
                    return self._build_failure(why)
                self._paused += 1
                if (said_so_far := _first_calls(message, 0)).blocks:
                    await self.log.keep(self._entry(completion, said_so_far))
            case "end" | "unknown":
                if text:
                    return self._build_result(completion, text)
                if self._nudged or not self._used_tools:
                    return self._build_failure("The model returned no text.")
                self._nudged = True  # LLM-22
                await self.log.stage(entries.Noticed(turn.id, NUDGE))
        return None

    async def _list_records(self) -> None:
        """Tell the model what its last calls did, if it has only their results."""
        turn, path = self._turn, self.log.state.path
        if path and isinstance(path[-1].message, Results):
            told = activity(turn.receipts[self._listed :], self.clock.zone)
            told = told.removeprefix(HEAD).strip()
            await self.log.stage(entries.Noticed(turn.id, RECORDS.format(told)))
        self._listed = len(turn.receipts)

    def _build_result(self, completion: Completion, text: str) -> TurnResult:
        entry = self._entry(completion, _first_calls(completion.message, 0))
        return TurnResult(self._text + text, entries=(entry,))

    def _build_failure(self, why: str) -> TurnResult:
        return TurnResult(f"{self._text}\n\n{why}" if self._text else why, failed=True)

    def _entry(self, completion: Completion, message: Assistant, left_out: int = 0) -> entries.Said:
        return entries.Said(self._turn.id, message, completion.usage, left_out)

    async def _join(self) -> None:
        """Add new messages of people to the turn (steering)."""
        joining = self.log.inputs()
        if joining:
            ids = tuple(received.id for received in joining)
            is_pending = any(received.pending for received in joining)
            text = "" if is_pending else render(joining, self.clock)
            await self.log.stage(entries.Joined(self._turn.id, ids, text))
            if is_pending:
                await self.fetch()

    async def _ask(self) -> Completed | None:
        """Query the model; return None if a message interrupted the call and can join the turn."""
        self._is_shown = False
        completed: Completed | None = None
        with trio.CancelScope() as self._call:
            self.notify_arrival()  # for a message since the last check
            completed = await self._complete()
        self._call, self._partial = None, ""
        return completed

    def cut(self, end: TurnResult, redact: Callable[[str], str]) -> TurnResult:
        """Return the outcome of a turn that was stopped: the text shown so far, then *end*.

        *redact* also removes a secret that is not complete yet.
        """
        partial = redact(well_formed(self._partial)).rstrip()
        if not (self._text or partial):
            return end
        marked = Text(f"{partial}\n\n{STOPPED.format(end.text)}".lstrip())
        message = Assistant((marked,), "", self.log.state.calibration.model, msgspec.Raw(b"null"))
        entry, text = entries.Said(self._turn.id, message, Usage()), self._text + partial
        return TurnResult(close_fence(text), end.failed, (entry,), end.text)

    def notify_arrival(self) -> None:
        """Interrupt the model call for a message that can join the turn, if that is cheap."""
        call = self._call
        if call is None or call.cancel_called or self._is_shown or not self.log.inputs():
            return
        if self._is_cheap_to_repeat():
            self._restarts += 1
            call.cancel()

    def _show(self, said: models.Progress) -> None:
        is_text = self.showing is not None and self.showing.take(said)
        if is_text and isinstance(said, str):
            self._is_shown, self._partial = True, said

    def _is_cheap_to_repeat(self) -> bool:
        """Return True if a message may interrupt the model call; else it joins after the call."""
        state = self.log.state
        limits = ContextLimits(
            context=MAX_REPEATED, prompt=state.prompt_tokens, ratio=state.calibration.ratio
        )
        is_small = limits.size(state.tokens) <= limits.context
        return is_small and self._restarts < MAX_RESTARTS

    async def _request(self, request: Complete) -> Completed:
        """Send a request to the models; wait if they are being restarted.

        All requests in the run of a task are charged to it, also for summaries. Raises ActorCrashed
        if the models crash because of the request, and ActorDown if they stay away.
        """
        if (run := self._turn.bounds) is not None:
            request = msgspec.structs.replace(request, job=run.owner, budget=run.budget)
        patience = trio.current_time() + AWAY
        while True:
            try:
                return await self.ask(request)
            except ActorDown:
                if trio.current_time() > patience:
                    raise
                await trio.sleep(LOOK_EVERY)

    async def _complete(self) -> Completed:
        chosen = self.log.state.model
        limit = trio.current_time() + self.settings.model_deadline
        request = Complete(
            session=self.log.account,
            role=self._turn.bounds.role if self._turn.bounds else chosen or "default",
            prompt=self.prompt,
            messages=self.log.state.messages,
            progress=self._show,
            max_tokens=self._doubled,
        )
        deadline = min(limit, trio.current_effective_deadline())
        return await ask_model(self._request_twice, request, deadline)

    async def _request_twice(self, request: Complete) -> Completed:
        """Send the request again if the models crash: the crash may have had another cause."""
        try:
            return await self._request(request)
        except ActorUnavailable:
            return await self._request(msgspec.structs.replace(request, reply=Reply()))

    async def _make_room(self, context: int | None) -> models.BudgetSpent | bool:
        """Shorten the history if necessary; return False if it stays as it is."""
        made = await make_room(self.log.account, self.log.state, self._request, context)
        if isinstance(made, entries.Compacted):
            await self.log.keep(made)
        return made if isinstance(made, models.BudgetSpent) else made is not None

    async def _shrink(self) -> bool:
        """Make the history shorter than the rejected one; return False if impossible."""
        self._shrunk += 1
        return self._shrunk <= MAX_SHRUNK and bool(await self._make_room(None))

    async def _mend(self) -> bool:
        """Begin a new epoch without parts that a provider may reject; return False the second time.

        It leaves out old thinking, provider content and viewed files (LLM-28, 29, 36). It keeps all
        words: providers reject words only for their length, and then say so.
        """
        if self._mended:
            return False
        self._mended = True
        await self.log.stage(entries.Prompted(self.prompt, blind=True))
        return True


async def call_alone(log: SessionLog, gate: Gate, run: RunBounds) -> TurnResult:
    """Make the single call that *run* names, without a model; its result is the answer."""
    turn = log.turn
    if not (turn.calls or turn.receipts):
        call = ToolCall(f"{turn.id}-task", run.tool, run.arguments)
        message = Assistant((call,), "", "", msgspec.Raw(b"null"))
        await log.keep(entries.Said(turn.id, message, Usage()))
    await gate.perform()
    ended = turn.receipts[-1]
    if ended.outcome == "waiting":
        return TurnResult("")  # the owner has the question
    text = ended.text
    if len(text) > MAX_ALONE:
        text = f"{text[:MAX_ALONE]}\n[cut: {len(text) - MAX_ALONE} more characters]"
    return TurnResult(text, failed=ended.outcome not in ("ok", "dry run"))


def _first_calls(message: Assistant, most: int) -> Assistant:
    """Remove all calls of a response that may not run, and its native form."""
    run = {call.id for call in message.calls[:most]}
    if len(run) == len(message.calls):
        return message
    blocks = tuple(one for one in message.blocks if isinstance(one, Text) or one.id in run)
    return Assistant(blocks, "", message.model, msgspec.Raw(b"null"))
