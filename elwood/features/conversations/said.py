"""What a log says that was said, turn by turn; which turns have the words, and how they are shown.

Turns that were taken back are left out, and those that had something forgotten.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, tzinfo

import msgspec

from elwood.agent.conversation.route import Route
from elwood.agent.session.log import entries
from elwood.agent.session.log.entries import Entry, Received
from elwood.agent.session.log.state import Session, receive
from elwood.agent.session.reading.records import is_on, moved_to, parts_since, spans
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.words import fold, having

# Characters of a message, or an answer, that a model and people are shown.
ROOM, GLIMPSE = 600, 240
# Turns of one conversation that are held while it is looked through: the best are shown.
MAX_HELD = 500


class SaidTurn(msgspec.Struct, frozen=True):
    """A turn that was answered *at* (Unix time), by the entry *seq*: what *people* said, and we.

    The answer went to *route*.  *untrusted*: strangers' words had been read by then.
    """

    session: str
    turn: str
    seq: int
    at: float
    people: frozenset[str]
    route: Route
    asked: str
    answer: str
    untrusted: bool


class FoundTurn(msgspec.Struct, frozen=True):
    """A turn that has so many of the *words*."""

    said: SaidTurn
    words: int


class Reading:
    """Goes through the log of *session*, from the state *before* on, for the words *chosen*."""

    def __init__(
        self,
        session: str,
        before: Session,
        chosen: Sequence[str],
        belongs: Callable[[SaidTurn], bool],
    ) -> None:
        self.found: list[FoundTurn] = []
        self._session = session
        self._chosen = chosen
        self._belongs = belongs
        self._waiting = dict(before.waiting)
        self._inputs = list(before.turn.inputs) if before.turn is not None else []
        self._untrusted = before.taint.label.untrusted
        self._forgets = False
        self._moves: list[tuple[int, int]] = []

    def take(self, seq: int, at: float, entry: Entry) -> None:
        """Take the next *entry* in."""
        match entry:
            case Received():
                receive(self._waiting, entry)
            case entries.Retried(id_, text, untrusted, origins=origins, files=files):
                if (asked := self._waiting.get(id_)) is not None:
                    untrusted = untrusted or bool(origins) or asked.untrusted
                    self._waiting[id_] = msgspec.structs.replace(
                        asked, text=text, untrusted=untrusted, files=files
                    )
            case entries.TurnStarted(inputs=inputs, calls=calls):
                # A call that waited may bring along what was read where it was made.
                self._hear(inputs, untrusted=bool(calls))
            case entries.Joined(inputs=inputs):
                self._hear(inputs)
            case entries.Reminded(label=label) | entries.CallEnded(label=label):
                self._untrusted = self._untrusted or label.untrusted
                self._forgets = self._forgets or getattr(entry, "forgets", False)
            case entries.Replied(turn=turn):
                for id_ in entry.inputs:
                    self._waiting.pop(id_, None)
                if turn is not None:
                    self._end(seq, at, turn, entry)
        if (to := moved_to(entry)) is not None:
            self._move(seq, to, entry)

    def _hear(self, inputs: Collection[str], *, untrusted: bool = False) -> None:
        heard = [one for id_ in inputs if (one := self._waiting.pop(id_, None)) is not None]
        strange = (one.untrusted or any(file.untrusted for file in one.files) for one in heard)
        self._untrusted = self._untrusted or untrusted or any(strange)
        self._inputs += heard

    def _end(self, seq: int, at: float, turn: str, entry: entries.Replied) -> None:
        inputs, self._inputs = self._inputs, []
        forgets, self._forgets = self._forgets, False
        if forgets or entry.quiet:
            return
        told = (text for one in inputs for text in (one.text, *(file.text for file in one.files)))
        said = SaidTurn(
            self._session,
            turn,
            seq,
            at,
            frozenset(one.principal for one in inputs),
            entry.route,
            "\n".join(filter(None, told)),
            entry.text,
            self._untrusted,
        )
        if words := self._words_in(said):
            self.found.append(FoundTurn(said, words))
            if len(self.found) > 2 * MAX_HELD:
                self.found = best(self.found)[:MAX_HELD]

    def _words_in(self, said: SaidTurn) -> int:
        text = f"{said.asked}\n{said.answer}"
        plain = fold(text)  # quick, as most have none of the words
        if not any(word in plain for word in self._chosen) or not self._belongs(said):
            return 0
        words = having(text, self._chosen)
        return words if 2 * words >= len(self._chosen) else 0

    def _move(self, seq: int, to: int, entry: Entry) -> None:
        if isinstance(entry, entries.Resumed):
            self._untrusted = bool(entry.sources)
            if not entry.number:  # taken back, not put away
                gone = parts_since(to + 1, spans(self._moves, seq - 1))
                self.found = [one for one in self.found if not is_on(one.said.seq, gone)]
        elif to == 0:
            self._untrusted = False
        self._moves.append((seq, to))


def best(found: Sequence[FoundTurn]) -> list[FoundTurn]:
    """Put those first that have the most words; of those that have as many, the newest."""
    return sorted(found, key=lambda one: (-one.words, -one.said.at))


def shown(
    said: SaidTurn, chosen: Sequence[str], zone: tzinfo, room: int = GLIMPSE, *, names: bool = False
) -> str:
    """Write a turn out, *room* characters of each part, with the *names* of who spoke."""
    number = said.turn.removeprefix("t")
    about = f" with {', '.join(sorted(said.people))}" if names else ""
    about += " (may hold strangers' words)" if said.untrusted else ""
    when = datetime.fromtimestamp(said.at, zone)
    lines = [f"{when:%Y-%m-%d %H:%M}, {said.session} turn {number}{about}"]
    parts = (("asked", said.asked), ("answered", said.answer))
    lines += [f"  {what}: {_around(text, chosen, room)}" for what, text in parts if text]
    return "\n".join(lines)


def _around(text: str, chosen: Sequence[str], room: int) -> str:
    """Show *text*, in one line, from a little before the first of the words *chosen* on."""
    flat = one_line(text, len(text))
    plain = flat.casefold()
    at = min((at for word in chosen if (at := plain.find(word)) >= 0), default=0)
    start = at - room // 4 if at > room // 2 else 0
    end = start + room
    return f"{'…' if start else ''}{flat[start:end]}{'…' if end < len(flat) else ''}"
