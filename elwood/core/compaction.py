"""Where to cut a history that does not fit."""

from collections.abc import Sequence

from elwood.core.conversation import Human, Message


def cut(path: Sequence[tuple[int, Message]], turn: int) -> int | None:
    """Choose the entry from which on the history is kept: about its later half.

    Cuts fall before something a person said, so never between a call and its result, and never
    inside the turn that began with entry *turn*.  None if nothing is left to cut.

    >>> one, two = Human("1"), Human("2")
    >>> cut([(1, one), (5, two)], turn=5)
    5
    >>> cut([(5, two)], turn=5) is None
    True
    """
    starts = [seq for seq, message in path if isinstance(message, Human) and seq <= turn]
    if len(starts) < 2 or starts[0] == turn:
        return turn if path and path[0][0] < turn and not _is_cut(path, turn) else None
    return starts[len(starts) // 2]


def _is_cut(path: Sequence[tuple[int, Message]], turn: int) -> bool:
    """Tell whether all that stands before the turn is the notice of an earlier cut."""
    return sum(seq < turn for seq, _ in path) <= 1 and not isinstance(path[0][1], Human)
