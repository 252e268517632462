"""What a log says that was said, turn by turn; which turns have the words, and how they are shown.

Turns that were taken back are left out.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

import msgspec

from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import Entry, Resumed
from elwood.agent.session.log.state import Log, Session
from elwood.agent.session.reading.records import History, is_on, moved_to, parts_since, spans
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.words import fold, having

# Characters of a message, or an answer, that a model and people are shown.
ROOM, GLIMPSE = 600, 240


class SaidTurn(msgspec.Struct, frozen=True):
    """A turn that was answered *at* (Unix time), at *route*: what *people* said, and we.

    It has so many of the *words*.  *untrusted*: strangers' words had been read by then.
    """

    session: str
    turn: int
    at: float
    people: frozenset[str]
    route: Route
    asked: str
    answer: str
    untrusted: bool
    words: int = 0


def said_in(session: str, before: Session, log: Log, chosen: Sequence[str]) -> Iterator[SaidTurn]:
    """List the turns in the *log* of *session* that have half of the words *chosen* or more.

    The log begins after the state *before*.  A label falls with a new conversation alone.
    """
    moves: list[tuple[int, Entry]] = []

    def noting() -> Log:
        for seq, at, entry in log:
            if moved_to(entry) is not None:
                moves.append((seq, entry))
            yield seq, at, entry

    history = History(session, noting())
    gone = _taken_back(moves)
    untrusted = was_untrusted = before.taint.label.untrusted
    for turn in history.turns:
        while moves and moves[0][0] < turn.seq:
            # Another line may be gone back to, and nobody has noted what was read there.
            _, move = moves.pop(0)
            untrusted = was_untrusted and isinstance(move, Resumed)
        heard = [one.received for one in turn.heard]
        untrusted = (
            untrusted
            or any(one.untrusted or any(file.untrusted for file in one.files) for one in heard)
            or any(call.label.untrusted for call in turn.calls)
        )
        was_untrusted = was_untrusted or untrusted
        answer = turn.answer
        if answer is None or answer.quiet or is_on(turn.seq, gone):
            continue
        told = (text for one in heard for text in (one.text, *(file.text for file in one.files)))
        asked = "\n".join(filter(None, told))
        words = _having(f"{asked}\n{answer.text}", chosen)
        if words and 2 * words >= len(chosen):
            people = frozenset(one.principal for one in heard)
            yield SaidTurn(
                session,
                turn.number,
                turn.answered_at,
                people,
                answer.route,
                asked,
                answer.text,
                untrusted,
                words,
            )


def _taken_back(moves: Sequence[tuple[int, Entry]]) -> list[tuple[int, int]]:
    gone: list[tuple[int, int]] = []
    before: list[tuple[int, int]] = []
    for seq, entry in moves:
        to = moved_to(entry) or 0
        if isinstance(entry, Resumed) and not entry.number:
            gone += parts_since(to + 1, spans(before, seq - 1))
        before.append((seq, to))
    return gone


def _having(text: str, chosen: Sequence[str]) -> int:
    plain = fold(text)  # quick, as most have none of them
    return having(text, chosen) if any(word in plain for word in chosen) else 0


def shown(
    said: SaidTurn, chosen: Sequence[str], zone: tzinfo, room: int = GLIMPSE, *, names: bool = False
) -> str:
    """Write a turn out, *room* characters of each part, with the *names* of who spoke."""
    about = f" with {', '.join(sorted(said.people))}" if names else ""
    about += " (may hold strangers' words)" if said.untrusted else ""
    when = datetime.fromtimestamp(said.at, zone)
    lines = [f"{when:%Y-%m-%d %H:%M}, {said.session} turn {said.turn}{about}"]
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
