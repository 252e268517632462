"""Find the turns of a log that contain given words, and format them.

Turns that were taken back are left out.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

import msgspec

from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import Entry, Resumed
from elwood.agent.session.log.state import Log, Session
from elwood.agent.session.reading.records import History, get_new_head, is_on, parts_since, spans
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.words import count_words, fold

# Characters of a message or an answer to show: to a model, to people.
LONG_PART, SHORT_PART = 600, 240


class MatchingTurn(msgspec.Struct, frozen=True):
    """An answered turn that contains some of the wanted words."""

    session: str
    turn: int
    # Unix time of the answer.
    at: float
    people: frozenset[str]
    route: Route
    request: str
    answer: str
    # Text of strangers had been read by then.
    untrusted: bool
    # The number of wanted words in it.
    words: int = 0


def matching_turns(
    session: str, before: Session, log: Log, wanted: Sequence[str]
) -> Iterator[MatchingTurn]:
    """Yield the turns in the *log* of *session* that contain at least half of the *wanted* words.

    The log begins after the state *before*.  Only a new conversation clears the untrusted label.
    """
    moves: list[tuple[int, Entry]] = []

    def collect_moves() -> Log:
        for seq, at, entry in log:
            if get_new_head(entry) is not None:
                moves.append((seq, entry))
            yield seq, at, entry

    history = History(session, collect_moves())
    removed = _find_removed(moves)
    untrusted = was_untrusted = before.taint.label.untrusted
    for turn in history.turns:
        while moves and moves[0][0] < turn.seq:
            # A resumed branch does not record which texts were read in it.
            _, move = moves.pop(0)
            untrusted = was_untrusted and isinstance(move, Resumed)
        messages = [one.received for one in turn.heard]
        untrusted = (
            untrusted
            or any(one.untrusted or any(file.untrusted for file in one.files) for one in messages)
            or any(call.label.untrusted for call in turn.calls)
        )
        was_untrusted = was_untrusted or untrusted
        answer = turn.answer
        if answer is None or answer.quiet or is_on(turn.seq, removed):
            continue
        texts = (
            text for one in messages for text in (one.text, *(file.text for file in one.files))
        )
        request = "\n".join(filter(None, texts))
        words = _count_words(f"{request}\n{answer.text}", wanted)
        if words and 2 * words >= len(wanted):
            people = frozenset(one.principal for one in messages)
            yield MatchingTurn(
                session,
                turn.number,
                turn.answered_at,
                people,
                answer.route,
                request,
                answer.text,
                untrusted,
                words,
            )


def _find_removed(moves: Sequence[tuple[int, Entry]]) -> list[tuple[int, int]]:
    removed: list[tuple[int, int]] = []
    before: list[tuple[int, int]] = []
    for seq, entry in moves:
        to = get_new_head(entry) or 0
        if isinstance(entry, Resumed) and not entry.number:
            removed += parts_since(to + 1, spans(before, seq - 1))
        before.append((seq, to))
    return removed


def _count_words(text: str, wanted: Sequence[str]) -> int:
    plain = fold(text)  # a quick check first: most texts contain none of the words
    return count_words(text, wanted) if any(word in plain for word in wanted) else 0


def format_turn(
    turn: MatchingTurn,
    wanted: Sequence[str],
    zone: tzinfo,
    limit: int = SHORT_PART,
    *,
    names: bool = False,
) -> str:
    """Format a turn with at most *limit* characters of each part; *names* lists its people."""
    about = f" with {', '.join(sorted(turn.people))}" if names else ""
    about += " (may contain text from strangers)" if turn.untrusted else ""
    when = datetime.fromtimestamp(turn.at, zone)
    lines = [f"{when:%Y-%m-%d %H:%M}, {turn.session} turn {turn.turn}{about}"]
    parts = (("asked", turn.request), ("answered", turn.answer))
    lines += [f"  {what}: {_excerpt(text, wanted, limit)}" for what, text in parts if text]
    return "\n".join(lines)


def _excerpt(text: str, wanted: Sequence[str], limit: int) -> str:
    """Return one line of *text*, from shortly before the first *wanted* word."""
    flat = one_line(text, len(text))
    plain = flat.casefold()
    at = min((at for word in wanted if (at := plain.find(word)) >= 0), default=0)
    start = at - limit // 4 if at > limit // 2 else 0
    end = start + limit
    return f"{'…' if start else ''}{flat[start:end]}{'…' if end < len(flat) else ''}"
