"""The history of a conversation, turn by turn, from one pass over its log."""

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from elwood.agent.conversation.calls import Look
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.session.log import entries
from elwood.agent.session.log.entries import Entry, Received, Step
from elwood.agent.session.log.state import Log, receive
from elwood.agent.session.log.turns import call_key


class CallRecord(msgspec.Struct):
    """One call with all its steps; times are Unix seconds, None for a step that did not happen.

    Other fields are as in `CallEnded`.
    """

    session: str
    turn: str  # where the call was first made
    call: str
    tool: str
    # as in `CallEnded`; before that "waiting" (for the owner) or "under way"
    outcome: str = "under way"
    target: str = ""
    effect: str = ""
    plan: str = ""  # hash of the plan that ran
    ruling: str = ""
    by: str = ""  # the person who decided
    pending_at: float | None = None
    decided_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    label: Label = CLEAN
    origin: str = ""
    done: str = ""  # effect, as the tool reported it
    seq: int = 0  # entry of its newest step
    message: str = ""  # id of the message that the turn began with, as in the log
    number: int = 0  # a nested call has the number of its outer call
    looked: str = ""
    outer: str = ""  # the call that made it
    place: int = 0  # its position among the calls of *outer*

    @property
    def name(self) -> str:
        """Its name for people: ``12``, or ``12.3`` for the third call made by call 12."""
        place = f".{self.place}" if self.place else ""
        return f"{self.number}{place}" if self.number else ""

    @property
    def is_detail(self) -> bool:
        """Return True for a nested call that only read: hundreds would hide the rest in a list."""
        return self.place > 0 and self.outcome == "ok" and not self.has_acted

    @property
    def at(self) -> float:
        """Time of the newest step."""
        steps = (self.pending_at, self.decided_at, self.started_at, self.ended_at)
        return max(step for step in steps if step is not None)

    @property
    def has_acted(self) -> bool:
        """Whether it changed something, or may have."""
        return self.effect not in ("", "pure") and self.outcome in ("ok", "unknown")

    @property
    def took(self) -> str:
        """Duration: ``2.5 s``; empty if it did not run to its end."""
        if self.started_at is None or self.ended_at is None or not self.effect:
            return ""
        return f"{self.ended_at - self.started_at:.1f} s"


class TurnInput(msgspec.Struct, frozen=True):
    """A message that joined a turn with the entry *seq*, and the notice before it."""

    seq: int
    at: float
    received: Received
    notice: str = ""


class TurnRecord(msgspec.Struct):
    """One turn."""

    id: str
    seq: int  # first entry
    at: float  # Unix time
    heard: list[TurnInput] = []
    calls: list[CallRecord] = []  # calls made in it, and waiting calls that ran in it
    requests: int = 0
    read: int = 0  # tokens
    wrote: int = 0  # tokens
    answer: entries.Replied | None = None
    answered: int = 0  # the entry that ended it
    answered_at: float = 0.0
    # entry of the previous turn on its line, or of the conversation's beginning (0: the log)
    parent: int = 0

    @property
    def words(self) -> str:
        """People's words in it, to recognize it by."""
        said = (one.received.text or one.received.missing for one in self.heard)
        return " / ".join(said) or "(a call that waited for approval)"

    @property
    def number(self) -> int:
        """Its number for people: ``7`` is the turn t7."""
        return int(self.id[1:]) if self.id[1:].isdecimal() else 0


class History:
    """All turns and calls of the *log* of *session*; *line* are the parts on the present line."""

    def __init__(self, session: str, log: Log) -> None:
        self.turns: list[TurnRecord] = []
        self.calls: list[CallRecord] = []
        self._places = [(0, 0)]  # from which entry on the head was where, as in TurnRecord.parent
        self._session = session
        self._turn: TurnRecord | None = None
        self._waiting: dict[str, Received] = {}
        self._notices: dict[str, str] = {}
        self._open: dict[str, CallRecord] = {}
        self._looks: dict[str, list[CallRecord]] = {}
        moves, head = list[tuple[int, int]](), 0
        for seq, at, entry in log:
            head = seq
            if (to := get_new_head(entry)) is not None:
                moves.append((seq, to))
                before = self._places[bisect_right(self._places, (to, seq)) - 1][1]
                self._places.append((seq, before if to else seq))
            self._take(seq, at, entry)
        self.line = spans(moves, head)

    def is_present(self, seq: int) -> bool:
        """Return True if the entry *seq* is on the present line of the conversation."""
        return is_on(seq, self.line)

    def is_since(self, start: int, seq: int) -> bool:
        """Return True if the entry *seq* is on the present line, not before the entry *start*."""
        return seq >= start and self.is_present(seq)

    def turn(self, number: int) -> TurnRecord | None:
        return next((one for one in reversed(self.turns) if one.number == number), None)

    def _take(self, seq: int, at: float, entry: Entry) -> None:
        turn = self._turn
        if isinstance(entry, entries.TurnStarted) and (turn is None or turn.id != entry.turn):
            turn = self._turn = TurnRecord(entry.turn, seq, at, parent=self._places[-1][1])
            self.turns.append(turn)
            self._places.append((seq, seq))
        match entry:
            case Received():
                receive(self._waiting, entry)
                if entry.looks:
                    looks = [self._record_look(seq, entry, one) for one in entry.looks]
                    self._looks[entry.id] = looks
                    self.calls += looks
            case entries.Fetched(_, input_, found) if turn is not None:
                for place, one in enumerate(turn.heard):
                    if one.received.id == input_:
                        received = one.received.with_fetched(found)
                        turn.heard[place] = msgspec.structs.replace(one, received=received)
            case entries.Retried(id_, text, untrusted) if id_ in self._waiting:
                self._notices[id_] = entry.notice
                asked = self._waiting[id_]
                untrusted = untrusted or asked.untrusted
                asked = msgspec.structs.replace(
                    asked,
                    text=text,
                    untrusted=untrusted,
                    files=entry.files,
                    pending=entry.pending,
                    speaker="",
                )
                self._waiting[id_] = asked
            case entries.TurnStarted() | entries.Joined() if turn is not None:
                taken = [self._waiting.pop(id_) for id_ in entry.inputs if id_ in self._waiting]
                turn.calls += [look for one in taken for look in self._looks.pop(one.id, ())]
                told = self._notices
                turn.heard += [TurnInput(seq, at, one, told.pop(one.id, "")) for one in taken]
            case entries.Said(usage=usage) if turn is not None:
                turn.requests += 1
                turn.read += usage.input + usage.cache_read + usage.cache_write
                turn.wrote += usage.output
            case (
                entries.CallPending()
                | entries.CallStarted()
                | entries.CallNested()
                | entries.CallEnded()
            ):
                self._step(seq, at, entry)
            case entries.CallDecided():
                self._decide(seq, at, entry)
            case entries.Replied():
                for id_ in entry.inputs:
                    self._waiting.pop(id_, None)
                if entry.turn is not None and turn is not None:
                    turn.answer, turn.answered, turn.answered_at = entry, seq, at
                    self._turn = None

    def _record_look(self, seq: int, received: Received, look: Look) -> CallRecord:
        call = CallRecord(self._session, "", "", look.tool, look.outcome, look.target)
        call.ended_at, call.seq, call.message = look.at, seq, received.id
        call.label, call.origin, call.looked = look.label, look.origin, look.looked
        return call

    def _step(self, seq: int, at: float, entry: Step | entries.CallNested) -> None:
        # A call that waited for the owner continues under its key in a later turn.
        key = entry.call if entry.call in self._open else call_key(entry.turn, entry.call)
        call = self._open.get(key)
        if call is None:
            call = self._open[key] = CallRecord(self._session, entry.turn, entry.call, entry.tool)
            heard = self._turn.heard if self._turn is not None else []
            call.message = heard[0].received.id if heard else ""
            self.calls.append(call)
        if self._turn is not None and all(one is not call for one in self._turn.calls):
            self._turn.calls.append(call)
        call.seq = seq
        if isinstance(entry, entries.CallNested):
            call.outer, call.place, call.number = entry.outer, entry.place, entry.number
            call.started_at = at
            return
        call.target = entry.target or call.target
        match entry:
            case entries.CallPending(plan=plan):
                call.plan, call.pending_at, call.outcome = plan, at, "waiting"
            case entries.CallStarted(effect=effect, plan=plan, ruling=ruling):
                call.effect, call.started_at, call.outcome = effect, at, "under way"
                call.plan, call.ruling = plan or call.plan, ruling or call.ruling
            case entries.CallEnded(outcome=outcome, ruling=ruling):
                call.outcome, call.ended_at = outcome, at
                call.ruling = ruling or call.ruling
                call.label, call.origin, call.done = entry.label, entry.origin, entry.done
                call.number, call.looked = entry.number or call.number, entry.looked
                if outcome != "waiting" or call.pending_at is None:
                    del self._open[key]

    def _decide(self, seq: int, at: float, entry: entries.CallDecided) -> None:
        key = call_key(entry.turn, entry.call)
        call = self._open.get(key)
        if call is None:
            return
        call.seq, call.ruling, call.by, call.decided_at = seq, entry.ruling, entry.by, at
        if entry.allowed:
            call.outcome = "under way"
        elif call.ended_at is not None:  # its turn continued without it
            call.outcome = "denied"
            del self._open[key]


def get_new_head(entry: Entry) -> int | None:
    """Return the new head if *entry* moves it, else None."""
    match entry:
        case entries.Rewound(to) | entries.Resumed(to):
            return to
        case entries.Archived():
            return 0
    return None


def spans(moves: Sequence[tuple[int, int]], head: int) -> list[tuple[int, int]]:
    """Return the parts of the log, both ends inclusive, on the line that ends at *head*.

    *moves* are the entries that moved the head, in order, each with its target.

    >>> spans([(10, 4), (15, 0), (20, 12)], 25)
    [(1, 4), (10, 12), (20, 25)]
    """
    found = []
    for at, to in reversed(moves):
        if at <= head:
            found.append((at, head))
            head = to
    if head:
        found.append((1, head))
    return found[::-1]


def is_on(seq: int, line: Sequence[tuple[int, int]]) -> bool:
    return any(first <= seq <= last for first, last in line)


def parts_since(start: int, line: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple((max(first, start), last) for first, last in line if last >= start)
