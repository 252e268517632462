"""What a session's log adds up to, and what is left to do.

`Session` is the fold over the entries of `core/session.py`, in the order of the log.  It is
changed in place by `apply` alone, so that a turn costs the same however long the log is.
"""

from collections.abc import Iterator

import msgspec

from elwood.core.compaction import is_notice_of_cut
from elwood.core.conversation import Human, Message, Notice, Prompt, Results, mend, texts
from elwood.core.labels import Label, Taint
from elwood.core.mentions import addresses
from elwood.core.session import (
    MAX_SEEN,
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Compacted,
    Delivered,
    Endorsed,
    Entry,
    Joined,
    Noticed,
    Posted,
    Posting,
    Prompted,
    Received,
    Reminded,
    Replied,
    Rewound,
    Said,
    TurnStarted,
)
from elwood.core.tokens import Calibration, estimate_prompt
from elwood.core.turns import (
    UNANSWERED,
    Kept,
    Node,
    OpenCall,
    Past,
    Turn,
    Undelivered,
    call_key,
    is_answer,
    late,
    node_of,
    plain,
    private_texts,
    result_of,
    said_node,
)

# Receipts that are remembered, without their texts: what /receipts shows at most.
MAX_RECEIPTS = 50
# Addresses of the owner's that are remembered; the oldest go first.
MAX_NAMED = 200


class Session(msgspec.Struct):
    """All that a session knows.

    *pending* are calls that wait for the owner while the conversation goes on, by
    ``<turn>/<call>``.  *receipts* are the newest calls that ended.  *taint* is what was read;
    *named* are URLs and hosts that the owner wrote before anything untrusted was; *private_calls*
    the ids of calls that gave private data.  *failed* says that its newest answer states a failure.
    *untold* are notices that wait until no request is under way, and no call: they would come
    between.  *prompt_tokens* is an estimate, which *calibration* corrects.
    """

    seen: dict[str, None] = {}
    waiting: dict[str, Received] = {}
    turn: Turn | None = None
    turns: int = 0
    path: list[Node] = []
    prompt: Prompt | None = None
    undelivered: dict[str, Undelivered] = {}
    pending: dict[str, Kept] = {}
    receipts: list[Past] = []
    taint: Taint = msgspec.field(default_factory=Taint)
    named: dict[str, None] = {}
    private_calls: dict[str, None] = {}
    failed: bool = False
    untold: list[str] = []
    prompt_tokens: int = 0
    calibration: Calibration = msgspec.field(default_factory=Calibration)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as it is sent: sound, whatever happened to the log."""
        return tuple(mend(node.message for node in self.path))

    def private_texts(self) -> list[str]:
        """List the private data that was read, offered or summed up, as the model sees it."""
        found = list(private_texts(self.path, self.private_calls))
        cuts = [node.message for node in self.path if is_notice_of_cut(node.message)]
        return found + [text for message in cuts for text in texts(message) if self.taint.private]

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
                self.prompt, self.prompt_tokens = prompt, estimate_prompt(prompt)
                self.path = list(map(plain, self.path))
            case Said():
                self._say(seq, entry)
            case Noticed(_, text):
                self._push(seq, Notice(text))
            case Reminded(_, text, label):
                self.taint.add(label, "memory")
                self._push(seq, Notice(text))
            case CallPending(_, call):
                open_call = self._open_turn(entry).calls[call]
                open_call.pending, open_call.decided = entry, None
            case CallDecided():
                self._decide(seq, at, entry)
            case Endorsed(origins):
                self.taint.endorse(origins)
            case CallStarted(_, call):
                self._open_turn(entry).calls[call].started = entry
            case CallEnded(_, call):
                self._end_call(seq, self._open_turn(entry), entry)
                self.receipts.append(Past(at, msgspec.structs.replace(entry, text="")))
                del self.receipts[:-MAX_RECEIPTS]
            case Compacted(summary, upto, why):
                kept = [plain(node) for node in self.path if node.seq >= upto]
                # Its place is before what is kept, or a rewinding would lose it.
                self.path = [node_of(upto - 1, Notice(summary)), *kept]
                if self.turn is not None:
                    self.turn.cut = why
            case Rewound(to):
                self.path = [node for node in self.path if node.seq <= to]
                if not self.path and not (self.turn and self.turn.calls):
                    self._put_away()
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
        self._hear(entry)

    def _hear(self, entry: Received) -> None:
        self.taint.add(Label(untrusted=entry.untrusted), f"a message sent by {entry.principal}")
        if not self.taint.sources:
            self.named.update(dict.fromkeys(addresses(entry.text)))
            while len(self.named) > MAX_NAMED:
                del self.named[next(iter(self.named))]

    def _put_away(self) -> None:
        """Begin with a clean label; what is still to come in brings its own."""
        old, self.taint, self.named, self.private_calls = self.taint, Taint(), {}, {}
        for key, kept in self.pending.items():
            origins = tuple(dict.fromkeys((*kept.origins, *old.sources)))
            private = kept.private or old.private
            self.pending[key] = msgspec.structs.replace(kept, origins=origins, private=private)
        for received in self.waiting.values():
            self._hear(received)

    def _take_back(self, kept: Kept) -> None:
        """The call of a conversation that was put away, words of its model, comes into this one."""
        self.taint.add(Label(private=kept.private), "")
        for origin in kept.origins:
            self.taint.add(Label(untrusted=True), origin)

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
        inputs = list(self._take(entry.inputs))
        calls = [key for key in entry.calls if key in self.pending]
        if entry.calls and not (inputs or calls):
            return  # withdrawn while this was being written
        turn = self.turn = Turn(entry.turn, inputs, start=seq)
        for key in calls:
            turn.kept.append(kept := self.pending.pop(key))
            self._take_back(kept)
            turn.calls[key] = kept.opened(key)
        if entry.text:
            self._push(seq, Human(entry.text))

    def _decide(self, seq: int, at: float, entry: CallDecided) -> None:
        turn = self.turn
        call = turn.calls.get(entry.call) if turn and turn.id == entry.turn else None
        if turn is not None and call is not None and call.ended is None:
            call.decided, call.decided_at = entry, at
            if not entry.allowed:
                turn.denied.append(entry.plan)
            return
        key = call_key(entry.turn, entry.call)
        kept = self.pending.get(key)
        if kept is None or (kept.decided is not None and entry.allowed):
            return
        if entry.allowed:
            self.pending[key] = msgspec.structs.replace(kept, decided=entry, decided_at=at)
            return
        del self.pending[key]
        self._take_back(kept)
        self.untold.append(kept.refused(entry.ruling))
        if self.turn is None:
            self._tell(seq)

    def _tell(self, seq: int) -> None:
        if self.untold:
            self._push(seq, Notice("\n\n".join(self.untold)))
            self.untold = []

    def _say(self, seq: int, entry: Said) -> None:
        turn, message = self._open_turn(entry), entry.message
        asked = self.prompt_tokens + sum(node.tokens for node in self.path)
        self.calibration.learn(message.model, asked, entry.usage)
        turn.attempts = 0
        turn.calls = {call.id: OpenCall(call.id, call) for call in message.calls}
        turn.rounds += 1
        self.path.append(said_node(seq, entry, self.calibration.ratio))

    def _end_call(self, seq: int, turn: Turn, entry: CallEnded) -> None:
        turn.attempts = 0
        open_call = turn.calls[entry.call]
        open_call.ended = entry
        turn.receipts.append(entry)
        self.taint.add(entry.label, entry.origin or entry.tool)
        if entry.label.private:
            self.private_calls[open_call.call.id] = None
        if entry.outcome == "waiting" and (pending := open_call.pending) is not None:
            kept = Kept(open_call.call, pending, turn.principal, turn.route)
            self.pending[call_key(turn.id, entry.call)] = kept
        if all(call.ended is not None for call in turn.calls.values()):
            self._close_calls(seq, turn)

    def _close_calls(self, seq: int, turn: Turn) -> None:
        if not turn.calls:
            return
        kept = {call_key(one.pending.turn, one.pending.call) for one in turn.kept}
        if kept.isdisjoint(turn.calls):
            self._push(seq, Results(tuple(result_of(call) for call in turn.calls.values())))
        else:
            # Their results were "waiting"; a second one for the same call would be refused.
            self._push(seq, Notice("\n\n".join(map(late, turn.calls.values()))))
        turn.calls = {}
        self._tell(seq)

    def _reply(self, seq: int, entry: Replied) -> None:
        if entry.turn is not None and self.turn is not None:
            self._close_calls(seq, self.turn)
            last = self.path[-1] if self.path else None
            if last is not None and last.seq >= self.turn.start and not is_answer(last.message):
                # Or the model would go on with what was stopped or given up (poison again).
                self._push(seq, Notice(UNANSWERED.format(entry.text[:500])))
            self.turn = None
            self._tell(seq)
        for id_ in entry.inputs:
            self.waiting.pop(id_, None)
        self.failed = entry.failed
        if entry.text:
            self.undelivered[entry.reply] = Undelivered(entry)

    def _push(self, seq: int, message: Message) -> None:
        self.path.append(node_of(seq, message))

    def _open_turn(self, entry: Entry) -> Turn:
        if self.turn is None:
            raise ValueError(f"{type(entry).__name__} outside of a turn")
        return self.turn
