"""``/tree``: the messages of a conversation with its branches, and one message to look at."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo

from elwood.agent.session.extension import CommandAnswer
from elwood.agent.session.paging import page, parse_page
from elwood.agent.session.reading.export import Line, items_of, lines_of
from elwood.agent.session.reading.records import History, TurnRecord
from elwood.foundation.text.lines import in_quotes, literal, one_line, shorten

# Messages on a page; characters of a message in the list, on a button, and when shown alone.
PAGE, WORDS, LABEL, SHOWN = 20, 60, 24, 1500
# Levels of branches that are indented.
DEEPEST = 6


def answer_tree(
    history: History, given: str, zone: tzinfo, title: str, redact: Callable[[str], str]
) -> CommandAnswer:
    """Answer ``/tree`` with a page of the messages, or one message: ``/tree 3``."""
    lines = lines_of(history)
    if not lines:
        return CommandAnswer("This conversation has no messages yet.")
    wanted, number = parse_page(given)
    if wanted:
        named = wanted.lower().removeprefix("t")
        turns = {turn.number: turn for line in lines for turn in line}
        turn = turns.get(int(named[:9])) if named.isascii() and named.isdigit() else None
        if turn is None:
            return CommandAnswer(f"There is no message {literal(one_line(wanted))}. See /tree.")
        return _show_turn(turn, lines, zone, redact)
    rows = [
        f"{'│ ' * min(level, DEEPEST)}t{turn.number} {one_line(redact(turn.words), WORDS)}"
        f"{' ← here' if turn is lines[0][-1] else ''}"
        for level, turn in _walk(lines)
    ]
    if number == 1 and "page" not in given:
        number = len(rows)  # the last page: the newest messages
    shown, pages = page(rows, number, PAGE, "/tree")
    forks = f", with {len(lines) - 1} other branches" if len(lines) > 2 else ""
    forks = ", with another branch" if len(lines) == 2 else forks
    head = f"The messages of {in_quotes(title)}{forks}. /tree 3 shows the message t3, and "
    head += "/resume t3 continues after it."
    return CommandAnswer(head, "\n".join(shown), pages=pages)


def _walk(lines: Sequence[Line]) -> Iterator[tuple[int, TurnRecord]]:
    """Yield all turns with their levels: a branch comes after the turn that it begins at."""
    forks: dict[int, list[Line]] = {}
    for fork in lines[1:]:
        forks.setdefault(fork[0].parent, []).append(fork)
    # The main line continues after its branches; all others are next on the stack.
    left: list[tuple[int, Iterator[TurnRecord]]] = [(0, iter(lines[0]))]
    left += [(1, iter(fork)) for fork in reversed(forks.get(lines[0][0].parent, []))]
    while left:
        level, line = left[-1]
        if (turn := next(line, None)) is None:
            left.pop()
            continue
        yield level, turn
        left += [(level + 1, iter(fork)) for fork in reversed(forks.get(turn.seq, []))]


def _show_turn(
    turn: TurnRecord, lines: Sequence[Line], zone: tzinfo, redact: Callable[[str], str]
) -> CommandAnswer:
    """Show one message with its calls and its answer, and buttons to its neighbors."""
    places = {id(call): turn.seq for call in turn.calls}
    items = items_of(turn, places, redact)
    shown = [f"{item.who}: {shorten(item.text.strip(), SHOWN)}" for item in items]
    turns = [one for line in lines for one in line]
    pages = {f"← t{one.number}": one.number for one in turns if one.seq == turn.parent}
    for one in turns:
        if one.parent == turn.seq:
            pages[f"t{one.number} {one_line(redact(one.words), LABEL)} →"] = one.number
    buttons = {label: f"/tree {number}" for label, number in pages.items()}
    if turn.answer is not None and turn is not lines[0][-1]:
        buttons["Continue from here"] = f"/resume t{turn.number}"
    head = f"Message t{turn.number}, {datetime.fromtimestamp(turn.at, zone):%Y-%m-%d %H:%M}"
    return CommandAnswer(head, "\n\n".join(shown), pages=buttons)
