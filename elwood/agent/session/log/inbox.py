"""What people and the clock have said to a session: what waits, and how the clock's runs ended."""

from collections.abc import Iterator, Mapping

import msgspec

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import Notice
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.branch import Branch
from elwood.agent.session.log.entries import MAX_SEEN, Received, Replied
from elwood.agent.session.log.turns import TOLD, Turn, WaitingCall

# Runs of tasks whose end is remembered, for the scheduler to ask about: it asks at once.
MAX_RUNS = 20
# What people were sent since they wrote last: so much of it is of use to the model, and characters
# of each.
MAX_OVERHEARD, MAX_WORDS = 10, 1000


class RunResult(msgspec.Struct, frozen=True):
    """How a run ended: *text* is its answer, *failed* says that this states a failure.

    *acted* says that something was done which must not be done twice unasked, *waiting* that a
    call waits for the owner; *told* is where the answer is posted, if it is, *label* that of the
    conversation it ran in.
    """

    text: str
    failed: bool = False
    acted: bool = False
    waiting: bool = False
    told: Route | None = None
    label: Label = CLEAN


class Inbox(Branch):
    """The part of a session that takes messages in.  Changed in place by the session's fold.

    *notices* is what the model is told before a message, by its id; *overheard* what it is told of
    before the next one, whichever that is, and on whichever line: the newest that people were sent
    without it.  *runs* is how runs of tasks ended, by the id of their message.
    """

    seen: dict[str, None] = msgspec.field(default_factory=dict)
    waiting: dict[str, Received] = msgspec.field(default_factory=dict)
    notices: dict[str, str] = msgspec.field(default_factory=dict)
    overheard: list[Received] = msgspec.field(default_factory=list)
    runs: dict[str, RunResult] = msgspec.field(default_factory=dict)

    def receive(self, entry: Received) -> None:
        """Take a message in."""
        self.seen[entry.id] = None
        while len(self.seen) > MAX_SEEN:
            del self.seen[next(iter(self.seen))]
        if entry.edits is not None:
            for id_, waiting in self.waiting.items():
                if waiting.message == entry.edits or waiting.edits == entry.edits:
                    # Both ids stay, so that both have their outcome; only the new text counts.
                    self.waiting[id_] = msgspec.structs.replace(waiting, text="")
        self.waiting[entry.id] = entry
        self.hear(entry)

    def take(self, inputs: tuple[str, ...]) -> Iterator[Received]:
        """Take out what waits of *inputs*."""
        for id_ in inputs:
            if (received := self.waiting.pop(id_, None)) is not None:
                yield received

    def preface(self, seq: int, inputs: tuple[str, ...]) -> None:
        """Tell the model what is to be said before *inputs*."""
        if self.overheard:
            self.push(seq, Notice("\n\n".join(map(_retold, self.overheard))))
            for received in self.overheard:
                self.hear(received)  # once more: it may have come in on another line
            self.overheard = []
        for notice in [self.notices.pop(id_) for id_ in inputs if id_ in self.notices]:
            self.push(seq, Notice(notice))

    def answer(self, replied: Replied, turn: Turn | None, kept: Mapping[str, WaitingCall]) -> None:
        """Take out what *replied* answers, and note how runs ended; *kept* are calls that wait.

        *turn* is the one that ends with it, if one does.
        """
        answered = [self.waiting[id_] for id_ in replied.inputs if id_ in self.waiting]
        for received in (*(turn.inputs if turn else ()), *answered):
            if received.errand is not None:
                acted = turn is not None and turn.acted
                # Also if an earlier run has asked for the same.
                asked = turn is not None and any(r.outcome == "waiting" for r in turn.receipts)
                waits = asked and bool(kept)
                told, label = None if replied.quiet else replied.route, self.taint.label
                done = RunResult(replied.text, replied.failed, acted, waits, told, label)
                self.runs[received.id] = done
                if received.errand.says in TOLD:
                    short = msgspec.structs.replace(received, text=shortened(received.text))
                    self.overheard = [*self.overheard, short][-MAX_OVERHEARD:]
        while len(self.runs) > MAX_RUNS:
            del self.runs[next(iter(self.runs))]
        for id_ in replied.inputs:
            self.waiting.pop(id_, None)
            self.notices.pop(id_, None)


def _retold(received: Received) -> str:
    assert received.errand is not None
    return TOLD[received.errand.says].format(received.text)


def shortened(text: str) -> str:
    """Cut what is longer than the model must know of it."""
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}… (cut)"
