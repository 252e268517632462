"""What a session's log adds up to, and what is left to do.

`Session` is the fold over the entries of `core/session.py`, in the order of the log.  It is
changed in place by `apply` alone, so that a turn costs the same however long the log is.
"""

from collections.abc import Iterator

import msgspec

from elwood.core.conversation import (
    INTERRUPTED,
    Assistant,
    Human,
    Message,
    Notice,
    Prompt,
    Result,
    Results,
    ToolCall,
    mend,
    texts,
)
from elwood.core.session import (
    MAX_SEEN,
    CallEnded,
    CallStarted,
    Compacted,
    Delivered,
    Entry,
    Joined,
    Noticed,
    Posted,
    Posting,
    Prompted,
    Received,
    Replied,
    Rewound,
    Route,
    Said,
    TurnStarted,
)
from elwood.core.tokens import estimate


class Node(msgspec.Struct, frozen=True):
    """One message on the present path of the conversation, and the entry that brought it.

    *tokens* is an estimate.
    """

    seq: int
    message: Message
    tokens: int


class OpenCall(msgspec.Struct):
    """A call of the running turn's last response: proposed, maybe started, maybe ended."""

    call: ToolCall
    started: CallStarted | None = None
    ended: CallEnded | None = None


class Turn(msgspec.Struct):
    """The turn that has no answer yet.

    *attempts* counts starts in a row without progress; *calls* are those of the last response;
    *receipts* is what really happened in this turn.
    """

    id: str
    inputs: list[Received]
    start: int
    attempts: int = 1
    rounds: int = 0
    calls: dict[str, OpenCall] = {}
    receipts: list[CallEnded] = []

    @property
    def route(self) -> Route:
        """Where the answer goes: where the newest input came from."""
        return self.inputs[-1].route


class Undelivered(msgspec.Struct):
    """A reply on its way: parts that arrived, and attempts at those that have not."""

    replied: Replied
    posted: dict[int, str] = {}
    attempts: dict[int, int] = {}


class Session(msgspec.Struct):
    """All that a session knows.  *failed* says that its newest answer states a failure."""

    seen: dict[str, None] = {}
    waiting: dict[str, Received] = {}
    turn: Turn | None = None
    turns: int = 0
    path: list[Node] = []
    prompt: Prompt | None = None
    undelivered: dict[str, Undelivered] = {}
    failed: bool = False

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as it is sent: sound, whatever happened to the log."""
        return tuple(mend(node.message for node in self.path))

    @property
    def tokens(self) -> int:
        """About how many tokens the conversation has, without the prompt."""
        return sum(node.tokens for node in self.path)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.waiting or self.turn or self.undelivered)

    def apply(self, seq: int, at: float, entry: Entry) -> None:
        """Take the entry number *seq*, written at Unix time *at*, into account."""
        match entry:
            case Received():
                self._receive(entry)
            case TurnStarted():
                self._start(seq, entry)
            case Joined(_, inputs, text):
                turn = self._open_turn(entry)
                turn.inputs.extend(self._take(inputs))
                turn.attempts = 1
                self._push(seq, Human(text))
            case Prompted(prompt):
                self.prompt = prompt
                self._new_epoch()
            case Said(_, message, _):
                turn = self._open_turn(entry)
                turn.attempts = 0
                turn.calls = {call.id: OpenCall(call) for call in message.calls}
                turn.rounds += 1
                self._push(seq, message)
            case Noticed(_, text):
                self._push(seq, Notice(text))
            case CallStarted(_, call):
                self._open_turn(entry).calls[call].started = entry
            case CallEnded(_, call):
                self._end_call(seq, self._open_turn(entry), entry)
            case Compacted(summary, upto):
                kept = [node for node in self.path if node.seq >= upto]
                # Its place is before what is kept, or a rewinding would lose it.
                self.path = []
                self._push(upto - 1, Notice(summary))
                self.path += kept
                self._new_epoch()
            case Rewound(to):
                self.path = [node for node in self.path if node.seq <= to]
            case Replied():
                self._reply(seq, entry)
            case Posting(reply, part, attempt):
                self.undelivered[reply].attempts[part] = attempt
            case Posted(reply, part, message):
                self.undelivered[reply].posted[part] = message
            case Delivered(reply):
                del self.undelivered[reply]

    def _receive(self, entry: Received) -> None:
        self.seen[entry.id] = None
        while len(self.seen) > MAX_SEEN:
            del self.seen[next(iter(self.seen))]
        if entry.edits is not None:
            for id_, waiting in self.waiting.items():
                if waiting.message == entry.edits or waiting.edits == entry.edits:
                    # Both ids stay, so that both have their outcome; only the new text counts.
                    self.waiting[id_] = msgspec.structs.replace(waiting, text="")
        self.waiting[entry.id] = entry

    def _take(self, inputs: tuple[str, ...]) -> Iterator[Received]:
        for id_ in inputs:
            received = self.waiting.pop(id_, None)
            if received is not None:
                yield received

    def _start(self, seq: int, entry: TurnStarted) -> None:
        if self.turn is not None and self.turn.id == entry.turn:
            self.turn.attempts = entry.attempt
            return
        self.turns += 1
        self.turn = Turn(entry.turn, list(self._take(entry.inputs)), start=seq)
        self._push(seq, Human(entry.text))

    def _end_call(self, seq: int, turn: Turn, entry: CallEnded) -> None:
        turn.attempts = 0
        turn.calls[entry.call].ended = entry
        turn.receipts.append(entry)
        if all(call.ended is not None for call in turn.calls.values()):
            self._close_calls(seq, turn)

    def _close_calls(self, seq: int, turn: Turn) -> None:
        if turn.calls:
            results = tuple(result_of(call) for call in turn.calls.values())
            self._push(seq, Results(results))
            turn.calls = {}

    def _reply(self, seq: int, entry: Replied) -> None:
        if entry.turn is not None and self.turn is not None:
            self._close_calls(seq, self.turn)
            last = self.path[-1] if self.path else None
            if last is not None and last.seq >= self.turn.start and not is_answer(last.message):
                # Or the model would go on with what was stopped or given up (poison again).
                self._push(seq, Notice(UNANSWERED.format(entry.text[:500])))
            self.turn = None
        for id_ in entry.inputs:
            self.waiting.pop(id_, None)
        self.failed = entry.failed
        if entry.text:
            self.undelivered[entry.reply] = Undelivered(entry)

    def _new_epoch(self) -> None:
        # Thinking is bound to the prefix it was made behind (protocols/anthropic.md §6): what is
        # older than a new prefix goes on as plain text and calls, which any codec can render.
        for number, node in enumerate(self.path):
            message = node.message
            if isinstance(message, Assistant) and message.codec:
                plain = Assistant(message.blocks, "", message.model, msgspec.Raw(b"null"))
                self.path[number] = Node(node.seq, plain, node.tokens)

    def _push(self, seq: int, message: Message) -> None:
        self.path.append(Node(seq, message, sum(estimate(text) for text in texts(message))))

    def _open_turn(self, entry: Entry) -> Turn:
        if self.turn is None:
            raise ValueError(f"{type(entry).__name__} outside of a turn")
        return self.turn


UNANSWERED = (
    "That turn ended without an answer of yours; do not go on with it unless you are asked again. "
    "The person was told: {}"
)


def is_answer(message: Message) -> bool:
    """Tell whether *message* are words of the model that end a turn."""
    return isinstance(message, Assistant) and not message.calls


def result_of(call: OpenCall) -> Result:
    """Say to the model what came of *call*; one that never ended may or may not have happened."""
    if call.ended is None:
        text = INTERRUPTED if call.started else "not run: the turn was stopped"
        return Result(call.call.id, text, failed=True)
    return Result(call.call.id, call.ended.text, failed=call.ended.outcome != "ok")
