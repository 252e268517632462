"""Turns: the open turn with its calls, undelivered replies, and finished turns."""

from collections.abc import Collection, Iterable

import msgspec

from elwood.agent.conversation.calls import Ruling
from elwood.agent.conversation.labels import CLEAN, Label, addresses
from elwood.agent.conversation.message import (
    INTERRUPTED,
    Assistant,
    Message,
    Notice,
    Result,
    Results,
    ToolCall,
)
from elwood.agent.conversation.route import NOWHERE, Route
from elwood.agent.conversation.run import RunBounds, without_quiet
from elwood.agent.session.log import entries
from elwood.agent.session.log.entries import Received
from elwood.foundation.text.lines import one_line

# Texts for the model about calls that waited, and about a turn without an answer.
REFUSED = {
    "denied": "The owner denied the call that waited: {}. Do not repeat it unless you are asked.",
    "expired": "The owner did not answer in time, so the call that waited will not run: {}.",
    "withdrawn": "The call that waited was withdrawn and will not run: {}.",
}
# Texts for the model about messages that the person received without it.
TOLD = {
    "text": "The person received the reminder that they had asked for: {}",
    "note": "One of your scheduled runs, in a separate conversation, sent the person this: {}",
}
# Prefixes of notices about results and answers that arrive after their calls and runs.
_ALLOWED = "The owner allowed the call that waited: "
RESULTS_LATER = (_ALLOWED, *(text.partition("{")[0] for text in TOLD.values()))
UNANSWERED = (
    "That turn ended without an answer from you. Do not continue it unless you are asked again. "
    "The person received this: {}"
)


# Answer of a scheduled run that has no text, when its outcome is uncertain.
UNCERTAIN = "I was cut off in a scheduled run. I do not know whether I finished it."


class OpenCall(msgspec.Struct):
    """A call of the running turn: proposed, perhaps pending, decided, started, ended."""

    key: str  # its name within the turn
    call: ToolCall
    pending: entries.CallPending | None = None
    decided: entries.CallDecided | None = None
    decided_at: float = 0.0  # Unix time
    started: entries.CallStarted | None = None
    ended: entries.CallEnded | None = None
    number: int = 0  # its number in the conversation
    outer: "OpenCall | None" = None  # the call that made it
    within: int = 0  # number of calls made within it
    brought: Label = CLEAN  # label of their results
    origin: str = ""  # where that label comes from
    acts: list[entries.CallEnded] = []  # calls made within it that had an effect

    @property
    def ruling(self) -> str:
        """Who allowed or denied it and how: ``once tg:1``; empty if no decision was needed.

        A denial without a name is Elwood's own: there was no room to ask.
        """
        decided = self.decided
        if decided is None or (decided.ruling == "denied" and not decided.by):
            return ""
        return f"{decided.ruling} {decided.by}".strip()


class WaitingCall(msgspec.Struct, frozen=True, rename={"bounds": "errand"}):
    """A call whose turn continued without it. It runs when the owner allows it."""

    call: ToolCall
    pending: entries.CallPending
    principal: str
    route: Route
    decided: entries.CallDecided | None = None
    decided_at: float = 0.0  # Unix time
    origins: tuple[str, ...] = ()  # of a conversation that was archived, with *private*
    private: bool = False
    bounds: RunBounds | None = None  # of the run that proposed it, if any
    message: str = ""  # id of the message that began the work
    number: int = 0

    def open(self, key: str) -> OpenCall:
        """Return it as a call of the running turn, named *key* there."""
        known = self.pending, self.decided, self.decided_at
        return OpenCall(key, self.call, *known, number=self.number)

    def refused(self, ruling: Ruling) -> str:
        return REFUSED[ruling].format(f"{self.pending.tool} {self.pending.target}".strip())


class Turn(msgspec.Struct):
    """The turn that has no answer yet."""

    id: str
    inputs: list[Received]
    start: int
    attempts: int = 1  # starts in a row without progress
    rounds: int = 0
    calls: dict[str, OpenCall] = {}  # of the last response
    nested: dict[str, OpenCall] = {}  # running calls made by calls
    within: int = 0  # number of nested calls that ended
    receipts: list[entries.CallEnded] = []  # what really happened in this turn
    denied: list[str] = []  # plans that the owner denied in it
    kept: list[WaitingCall] = []  # the waiting calls that it was started for
    cut: str = ""  # why parts that were left out have no summary
    left_out: int = 0  # calls beyond the limit, which were not run
    acted: bool = False  # something began that must not be repeated without asking
    shown: int = 0  # number of inputs shown; the others wait for their files

    @property
    def hidden(self) -> list[Received]:
        """The inputs that the model has not been shown yet."""
        return self.inputs[self.shown :]

    @property
    def bounds(self) -> RunBounds | None:
        """The bounds of the run; None if a person typed the message."""
        return self.inputs[-1].bounds if self.inputs else self.kept[-1].bounds

    @property
    def route(self) -> Route:
        """The route of the answer: where the newest input came from."""
        return self.inputs[-1].route if self.inputs else self.kept[-1].route

    @property
    def message(self) -> str:
        """The id of the message that began the work."""
        return self.inputs[0].id if self.inputs else self.kept[0].message

    @property
    def principal(self) -> str:
        """Who is responsible: the last speaker of those with the fewest rights."""
        inputs = [one for one in self.inputs if one.untrusted] or self.inputs
        return inputs[-1].principal if inputs else self.kept[-1].principal

    @property
    def is_owners_alone(self) -> bool:
        """Whether it has only the owner's own words, from a private chat."""
        is_theirs = bool(self.inputs) and not any(one.untrusted for one in self.inputs)
        return is_theirs and self.route.private

    def is_only_of(self, people: Collection[str]) -> bool:
        """Return True if only *people* asked for it; in a group, only members' words count.

        Anybody may talk in a group, and the owner has approved the calls that waited there.
        """
        said = ((one.principal, one.route.private or one.member) for one in self.inputs)
        kept = ((one.principal, one.route.private) for one in self.kept)
        return all(whose in people and counts for whose, counts in (*said, *kept))

    @property
    def named(self) -> frozenset[str]:
        """URLs and hosts that the owner wrote in this turn."""
        own = (one for one in self.inputs if not (one.untrusted or one.parent))
        return frozenset(name for received in own for name in addresses(received.text))

    @property
    def made(self) -> int:
        """The number of the model's calls that ended."""
        return len(self.receipts) - self.within

    def open_call(self, key: str) -> OpenCall | None:
        return self.calls.get(key) or self.nested.get(key)

    @property
    def unended(self) -> list[OpenCall]:
        """The calls without an end, of the model and nested ones."""
        return [one for one in (*self.calls.values(), *self.nested.values()) if one.ended is None]

    @property
    def running(self) -> str:
        """The running calls, or the file being fetched; empty if nothing runs."""
        open_ = [call.started for call in self.unended]
        running = [f"{one.tool} {one.target}".strip() for one in open_ if one is not None]
        files = [file.progress for one in self.inputs for file in one.pending]
        return ", ".join(running or files[:1])

    @property
    def asking(self) -> str:
        """The calls that wait for the owner's answer; empty if none does."""
        open_ = [call.pending for call in self.unended]
        return ", ".join(f"{one.tool} {one.target}".strip() for one in open_ if one is not None)

    @property
    def under_way(self) -> str:
        """A short description of its present activity: "I am …"."""
        if self.asking and not self.running:
            return f"waiting for your answer about “{self.asking}”"
        if not self.running:
            return "writing the answer"
        is_call = any(call.started for call in self.unended)
        return f"running “{self.running}”" if is_call else self.running

    @property
    def cut_off(self) -> str:
        """A sentence about the activity that a stop ends."""
        if self.asking and not self.running:
            return f"I took back my question about “{self.asking}”, so it will not run."
        return f"I was still {self.under_way}."


class Undelivered(msgspec.Struct):
    """A reply being delivered: sent parts, attempts, and the *message* that it began with."""

    replied: entries.Replied
    posted: dict[int, str] = {}
    attempts: dict[int, int] = {}
    message: str = ""


def filter_tools(tools: Iterable[str], turn: Turn | None) -> list[str]:
    """Return those of *tools* that may be used in *turn*. A run may be limited to some."""
    only = turn.bounds.tools if turn is not None and turn.bounds is not None else None
    return [tool for tool in tools if only is None or tool in only]


def call_key(turn: str, call: str) -> str:
    """Return the permanent name of a call in its session: providers reuse ids in other turns."""
    return f"{turn}/{call}"


def is_answer(message: Message) -> bool:
    """Return True if *message* is text of the model that ends a turn."""
    return isinstance(message, Assistant) and not message.calls


def result_of(call: OpenCall) -> Result:
    """Return the result of *call* for the model; an open one was interrupted or not run."""
    if call.ended is None:
        text = INTERRUPTED if call.started else "not run: the turn was stopped"
        return Result(call.call.id, text, failed=True)
    ended = call.ended
    return Result(call.call.id, ended.text, ended.outcome != "ok", ended.files)


def late_result(call: OpenCall) -> str:
    """Return the text for the model about a call that waited longer than its turn."""
    result = result_of(call)
    what = f"{call.call.name} {call.pending.target if call.pending else ''}".strip()
    head = f"{_ALLOWED}{what}."
    return f"{head} Its result{' (failed)' if result.failed else ''}, as data:\n{result.text}"


def results_message(turn: Turn) -> Message:
    """Return the model's message with the results of all calls of the last response of *turn*."""
    kept = {call_key(one.pending.turn, one.pending.call) for one in turn.kept}
    if kept.isdisjoint(turn.calls):
        return Results(tuple(result_of(call) for call in turn.calls.values()))
    # Their results were "waiting"; a second one for the same call would be refused.
    return Notice("\n\n".join(map(late_result, turn.calls.values())))


def get_answer(turn: Turn, text: str, *, failed: bool) -> tuple[str, bool]:
    """Return the answer of *turn*, and True if it is stored without being sent.

    The planner of a run reports lasting failures itself. But if there is a recipient, they learn
    immediately that something may have happened, or that an approved call failed: no other message
    reports these.

    >>> run = Received("1", "look", "task:t", Route("chat"), 0.0, bounds=RunBounds("t"))
    >>> cut = entries.CallEnded("t1", "c", "water", "unknown", "interrupted")
    >>> get_answer(Turn("t1", [run], 0, receipts=[cut]), "HEARTBEAT_OK", failed=False)[0][:29]
    'I was cut off in a scheduled '
    """
    bounds = turn.bounds
    if bounds is None:
        return text, False
    text = without_quiet(text)
    is_uncertain = any(one.outcome == "unknown" for one in turn.receipts)
    is_in_vain = failed and not turn.inputs
    if turn.route != NOWHERE and (is_uncertain or is_in_vain):
        return text or UNCERTAIN, False
    # A child answers its parent. Later results of an approved call go to the person.
    is_parents = bool(bounds.parent and turn.inputs)
    return text, is_parents or bounds.says == "silent" or failed or not text


# Upper limits of a daily note: messages of a turn, calls, and characters of each.
MAX_ASKED, MAX_CALLS, MAX_WORDS = 3, 20, 1000
_QUOTE = "[replying to"


class FinishedTurn(msgspec.Struct, frozen=True):
    """A turn that has its answer, as a daily note describes it."""

    turn: str
    at: float
    asked: tuple[str, ...] = ()  # the owner's words
    others: int = 0  # number of messages of other people
    # with the beginning of their results, unless they only read
    calls: tuple[entries.CallEnded, ...] = ()
    more: int = 0  # number of further calls
    failed: bool = False
    label: Label = Label(untrusted=True)  # of the conversation at that time
    forgets: bool = False  # about words that must not be stored: *answer* and results are left out
    answer: str = ""  # empty if *forgets*, or if strangers' words were read


def summarize_turn(
    at: float,
    inputs: Iterable[Received],
    receipts: Iterable[entries.CallEnded],
    replied: entries.Replied,
    label: Label,
) -> FinishedTurn | None:
    """Summarize a turn that was answered by *replied* at Unix time *at*.

    Return None for a run that did nothing and had nothing to report: there are many.
    """
    given, calls = list(inputs), list(receipts)
    if replied.quiet and not calls:
        return None
    own = [one for one in given if not one.untrusted and (one.text.strip() or one.files)]
    forgets = any(one.forgets for one in calls)
    tells = not (forgets or label.untrusted)
    return FinishedTurn(
        turn=replied.turn or "",
        at=at,
        asked=tuple(describe_message(one) for one in own[:MAX_ASKED]),
        others=sum(one.untrusted for one in given),
        calls=tuple(
            msgspec.structs.replace(
                one, text=one.text[:MAX_WORDS] if tells and not one.looked else ""
            )
            for one in calls[:MAX_CALLS]
        ),
        more=len(calls[MAX_CALLS:]),
        failed=replied.failed,
        label=label,
        forgets=forgets,
        answer=plain_words(replied.text) if tells else "",
    )


def describe_message(received: Received) -> str:
    """Return the words of a message as a short line, without the message that it replies to."""
    if received.bounds is not None:
        of = received.bounds.parent
        return f"(a child run of {of})" if of else f"(the task {received.bounds.owner})"
    words = plain_words(_strip_quotation(received.text)) or received.missing
    return words or ("(a file)" if received.files else "")


def _strip_quotation(text: str) -> str:
    """Remove the quoted message of a reply, which may be anybody's words."""
    return text.rpartition("]\n")[2] if text.startswith(_QUOTE) else text


def plain_words(text: str, most: int = MAX_WORDS) -> str:
    """Return *text* in one line of *most* characters that fits between backticks.

    >>> plain_words("`a`\\n\\n# b")
    "'a' # b"
    """
    return one_line(text[: 4 * most].replace("`", "'"), most)
