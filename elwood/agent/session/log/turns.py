"""A turn: while it runs, with its calls; what is on its way; and what is kept when it has ended."""

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

# What the model is told of a call that waited, and of a turn that it did not answer.
REFUSED = {
    "denied": "The owner denied the call that waited: {}. Do not try it again unasked.",
    "expired": "The owner did not answer in time, so the call that waited will not run: {}.",
    "withdrawn": "The call that waited was withdrawn and will not run: {}.",
}
# What the model is told of what the person was sent without it.
TOLD = {
    "text": "The person was sent the reminder that they had asked for: {}",
    "note": "A scheduled run of yours, in a conversation of its own, told the person: {}",
}
# What begins the words about results and answers that come later than their calls and runs.
_ALLOWED = "The owner allowed the call that waited: "
RESULTS_LATER = (_ALLOWED, *(text.partition("{")[0] for text in TOLD.values()))
UNANSWERED = (
    "That turn ended without an answer of yours; do not go on with it unless you are asked again. "
    "The person was told: {}"
)


# What is said of the run of a task that had nothing to tell but what its records say.
UNCERTAIN = "I was cut off in a scheduled run, and do not know whether all of it was done."


class OpenCall(msgspec.Struct):
    """A call of the running turn: proposed, maybe pending, decided, started, ended.

    *key* names it within the turn, *number* in the conversation.  *decided_at* is in Unix time.
    One that is made by another call has that as *outer*.  Of the calls made within it: *within* is
    how many, *brought* the label of their results, from *origin*, *acts* those that did more than
    look.
    """

    key: str
    call: ToolCall
    pending: entries.CallPending | None = None
    decided: entries.CallDecided | None = None
    decided_at: float = 0.0
    started: entries.CallStarted | None = None
    ended: entries.CallEnded | None = None
    number: int = 0
    outer: "OpenCall | None" = None
    within: int = 0
    brought: Label = CLEAN
    origin: str = ""
    acts: list[entries.CallEnded] = []

    @property
    def ruling(self) -> str:
        """Who allowed or denied it and how: ``once tg:1``; empty if nobody had to, or could.

        A denial that is nobody's is Elwood's own: there was no room to ask.
        """
        decided = self.decided
        if decided is None or (decided.ruling == "denied" and not decided.by):
            return ""
        return f"{decided.ruling} {decided.by}".strip()


class WaitingCall(msgspec.Struct, frozen=True, rename={"bounds": "errand"}):
    """A call whose turn has gone on without it: it runs when the owner allows it.

    *decided_at* is in Unix time.  *origins* and *private* are what it brings with it from a
    conversation that was put away; *bounds* are those of the run, if any, that proposed it.
    *message* is the id of the message that it all began with.
    """

    call: ToolCall
    pending: entries.CallPending
    principal: str
    route: Route
    decided: entries.CallDecided | None = None
    decided_at: float = 0.0
    origins: tuple[str, ...] = ()
    private: bool = False
    bounds: RunBounds | None = None
    message: str = ""
    number: int = 0

    def opened(self, key: str) -> OpenCall:
        """Make a call of the running turn of it, named *key* there."""
        known = self.pending, self.decided, self.decided_at
        return OpenCall(key, self.call, *known, number=self.number)

    def refused(self, ruling: Ruling) -> str:
        return REFUSED[ruling].format(f"{self.pending.tool} {self.pending.target}".strip())


class Turn(msgspec.Struct):
    """The turn that has no answer yet.

    *attempts* counts starts in a row without progress; *calls* are those of the last response,
    *nested* those under way that they make themselves, and *within* of these have ended;
    *receipts* is what really happened in this turn; *denied* are the plans the owner refused in
    it.  *kept* are the calls that it was started for, if there are any.  *cut* says why what was
    left out in it has no summary; *left_out* calls were too many to be run.  *acted* says that
    something was begun that must not be done twice unasked, *has_acted* that a tool which does more
    than look has succeeded.  The model has been *shown* so many of the inputs; the others wait for
    their files.
    """

    id: str
    inputs: list[Received]
    start: int
    attempts: int = 1
    rounds: int = 0
    calls: dict[str, OpenCall] = {}
    nested: dict[str, OpenCall] = {}
    within: int = 0
    receipts: list[entries.CallEnded] = []
    denied: list[str] = []
    kept: list[WaitingCall] = []
    cut: str = ""
    left_out: int = 0
    acted: bool = False
    has_acted: bool = False
    shown: int = 0

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
        """Where the answer goes: where the newest input came from."""
        return self.inputs[-1].route if self.inputs else self.kept[-1].route

    @property
    def message(self) -> str:
        """The id of the message that it all began with."""
        return self.inputs[0].id if self.inputs else self.kept[0].message

    @property
    def principal(self) -> str:
        """Who made it happen: whoever spoke last, of those who may least."""
        inputs = [one for one in self.inputs if one.untrusted] or self.inputs
        return inputs[-1].principal if inputs else self.kept[-1].principal

    @property
    def is_owners_alone(self) -> bool:
        """Whether it is on the owner's own words and no others, said where nobody else reads."""
        is_theirs = bool(self.inputs) and not any(one.untrusted for one in self.inputs)
        return is_theirs and self.route.private

    def is_only_of(self, people: Collection[str]) -> bool:
        """Tell whether only *people* want it; of a group's words, those that counted as a member's.

        Anybody may talk in a group, and for what waited there the owner has said yes.
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
        """Count the model's calls that ended."""
        return len(self.receipts) - self.within

    def open_call(self, key: str) -> OpenCall | None:
        return self.calls.get(key) or self.nested.get(key)

    @property
    def unended(self) -> list[OpenCall]:
        """The calls that have no end yet, of the model and within others."""
        return [one for one in (*self.calls.values(), *self.nested.values()) if one.ended is None]

    @property
    def running(self) -> str:
        """Name the calls that run, or the file that is fetched; empty if nothing does."""
        open_ = [call.started for call in self.unended]
        running = [f"{one.tool} {one.target}".strip() for one in open_ if one is not None]
        files = [f"fetching the {file.kind}" for one in self.inputs for file in one.pending]
        return ", ".join(running or files[:1])

    @property
    def asking(self) -> str:
        """Name the calls that it asks the owner about; empty if it waits for no answer."""
        open_ = [call.pending for call in self.unended]
        return ", ".join(f"{one.tool} {one.target}".strip() for one in open_ if one is not None)

    @property
    def under_way(self) -> str:
        """Say what it is doing, in a few words."""
        if self.asking and not self.running:
            return f"a question to you: {self.asking}"
        return self.running or "the model's answer"


class Undelivered(msgspec.Struct):
    """A reply on its way: parts that arrived, attempts at others, the *message* it began with."""

    replied: entries.Replied
    posted: dict[int, str] = {}
    attempts: dict[int, int] = {}
    message: str = ""


def usable(tools: Iterable[str], turn: Turn | None) -> list[str]:
    """List those of *tools* that may be used in *turn*: the run of a task may be held to some."""
    only = turn.bounds.tools if turn is not None and turn.bounds is not None else None
    return [tool for tool in tools if only is None or tool in only]


def call_key(turn: str, call: str) -> str:
    """Name a call within its session for good: providers use an id again in another turn."""
    return f"{turn}/{call}"


def is_answer(message: Message) -> bool:
    """Tell whether *message* are words of the model that end a turn."""
    return isinstance(message, Assistant) and not message.calls


def result_of(call: OpenCall) -> Result:
    """Say to the model what came of *call*; one that never ended may or may not have happened."""
    if call.ended is None:
        text = INTERRUPTED if call.started else "not run: the turn was stopped"
        return Result(call.call.id, text, failed=True)
    return Result(call.call.id, call.ended.text, failed=call.ended.outcome != "ok")


def late(call: OpenCall) -> str:
    """Say to the model what came of a call that waited longer than its turn."""
    result = result_of(call)
    what = f"{call.call.name} {call.pending.target if call.pending else ''}".strip()
    head = f"{_ALLOWED}{what}."
    return f"{head} Its result{' (failed)' if result.failed else ''}, as data:\n{result.text}"


def outcome(turn: Turn) -> Message:
    """Say to the model what came of all calls of the last response of *turn*."""
    kept = {call_key(one.pending.turn, one.pending.call) for one in turn.kept}
    if kept.isdisjoint(turn.calls):
        return Results(tuple(result_of(call) for call in turn.calls.values()))
    # Their results were "waiting"; a second one for the same call would be refused.
    return Notice("\n\n".join(map(late, turn.calls.values())))


def spoken(turn: Turn, text: str, *, failed: bool) -> tuple[str, bool]:
    """Say what *turn* answers, and whether that is kept and not sent.

    Whoever planned a run tells of its failures, when they last.  But as long as there is a place
    for it, it is told at once that something may have happened, and that nothing came of what the
    owner has allowed: nobody else tells that.

    >>> run = Received("1", "look", "task:t", Route("chat"), 0.0, bounds=RunBounds("t"))
    >>> cut = entries.CallEnded("t1", "c", "water", "unknown", "interrupted")
    >>> spoken(Turn("t1", [run], 0, receipts=[cut]), "HEARTBEAT_OK", failed=False)[0][:29]
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
    # A child answers its parent; what is done later, upon a yes, only the person can be told.
    is_parents = bool(bounds.parent and turn.inputs)
    return text, is_parents or bounds.says == "silent" or failed or not text


# Messages of a turn that are kept, calls, and characters of each: the most that can be set.
MAX_ASKED, MAX_CALLS, MAX_WORDS = 3, 20, 1000
_QUOTE = "[replying to"


class FinishedTurn(msgspec.Struct, frozen=True):
    """A turn that has its answer, as a daily note tells it.

    *asked* are the owner's words, *others* counts messages of somebody else.  *label* is what the
    conversation knew then; *calls* come with the beginning of what they gave, unless they only
    looked, and *more* were made.  One that *forgets* was about words that are not to be kept: of
    it, and of one that knew strangers' words, there is no *answer*, nor what calls gave.
    """

    turn: str
    at: float
    asked: tuple[str, ...] = ()
    others: int = 0
    calls: tuple[entries.CallEnded, ...] = ()
    more: int = 0
    failed: bool = False
    label: Label = Label(untrusted=True)
    forgets: bool = False
    answer: str = ""


def finished(
    at: float,
    inputs: Iterable[Received],
    receipts: Iterable[entries.CallEnded],
    replied: entries.Replied,
    label: Label,
) -> FinishedTurn | None:
    """Sum up a turn that is answered by *replied* at Unix time *at*.

    None for the run of a task that did nothing and had nothing to say: there are many.
    """
    given, calls = list(inputs), list(receipts)
    if replied.quiet and not calls:
        return None
    own = [one for one in given if not one.untrusted and one.text.strip()]
    forgets = any(one.forgets for one in calls)
    tells = not (forgets or label.untrusted)
    return FinishedTurn(
        turn=replied.turn or "",
        at=at,
        asked=tuple(asked(one) for one in own[:MAX_ASKED]),
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


def asked(received: Received) -> str:
    """Give the words of a message in a short line, without what it replies to."""
    if received.bounds is not None:
        of = received.bounds.parent
        return f"(a child run of {of})" if of else f"(the task {received.bounds.owner})"
    return plain_words(_own(received.text)) or received.missing


def _own(text: str) -> str:
    """Leave out what somebody replied to: those words may be anybody's."""
    return text.rpartition("]\n")[2] if text.startswith(_QUOTE) else text


def plain_words(text: str, most: int = MAX_WORDS) -> str:
    """Make *text* fit between backticks in one line of *most* characters.

    >>> plain_words("`a`\\n\\n# b")
    "'a' # b"
    """
    return one_line(text[: 4 * most].replace("`", "'"), most)
