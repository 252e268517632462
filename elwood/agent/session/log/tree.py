"""The lines that a conversation has gone and that can be resumed.

The log is a tree.  What the session holds is one line of it, from the root to the head; of every
other line only a small record is held, and the line itself is read from the log again when it is
resumed (decision 15).
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from elwood.agent.conversation.message import Human
from elwood.agent.session.log.entries import Node
from elwood.agent.session.turn.inputs import said_in
from elwood.foundation.text.lines import duration

# Lines that are remembered; the oldest without a name go first.
MAX_BRANCHES = 50
# Characters of a line's first and last words, and of its name.
MAX_WORDS, MAX_NAME = 60, 40

# Why a line is kept: a place that was marked, `/new`, idleness, `/undo` or `/retry`, `/resume`.
Why = Literal["marked", "new", "archived", "undone", "left"]
REASONS: dict[Why, str] = {
    "marked": "marked",
    "new": "put away",
    "archived": "put away, as it was quiet",
    "undone": "taken back",
    "left": "left",
}


class SavedBranch(msgspec.Struct, frozen=True):
    """A line that can be resumed: its head was at the entry *tip* until Unix time *at*."""

    number: int
    tip: int
    at: float
    why: Why
    name: str = ""
    first: str = ""
    last: str = ""
    turns: int = 0
    tokens: int = 0


class Tree(msgspec.Struct):
    """The lines that are not the present one.  Changed in place by the session's fold.

    *line* is the number of the present line, *newest* the highest one given; *kept* is the newest
    message, by its entry, that a branch holds.
    """

    branches: list[SavedBranch] = []
    line: int = 1
    newest: int = 1
    kept: int = 0

    def mark(self, name: str, path: Sequence[Node], tip: int, at: float) -> None:
        """Keep the present line as it is; a branch that had this name has none any more."""
        if not path:
            return
        for place, branch in enumerate(self.branches):
            if name and branch.name.casefold() == name.casefold():
                self.branches[place] = msgspec.structs.replace(branch, name="")
        self.newest += 1
        self._keep(_branch(self.newest, path, tip, at, "marked", name))

    def leave(self, path: Sequence[Node], tip: int, at: float, why: Why) -> None:
        """Keep the present line unless a branch holds all of it; another one begins."""
        if path and path[-1].seq > self.kept:
            # It had been resumed and went on: one line, one branch.
            self.branches = [one for one in self.branches if one.number != self.line]
            self._keep(_branch(self.line, path, tip, at, why))
        if any(branch.number == self.line for branch in self.branches):
            self.newest += 1
            self.line = self.newest

    def go_on(self, number: int) -> None:
        """The line that begins is that of the branch *number*; a mark stays where it is."""
        if any(one.number == number and one.why != "marked" for one in self.branches):
            self.line = number

    def find(self, given: str) -> SavedBranch | None:
        """Find another line by its number or name; the one left last if nothing is *given*."""
        others = [branch for branch in self.branches if branch.number != self.line]
        if not given:
            return max(others, key=lambda branch: branch.at, default=None)
        for branch in others:
            if given == str(branch.number) or given.casefold() == branch.name.casefold():
                return branch
        return None

    def _keep(self, branch: SavedBranch) -> None:
        self.branches.append(branch)
        self.kept = max(self.kept, branch.tip)
        if len(self.branches) > MAX_BRANCHES:
            old = next((one for one in self.branches if not one.name), self.branches[0])
            self.branches.remove(old)


def _branch(
    number: int, path: Sequence[Node], tip: int, at: float, why: Why, name: str = ""
) -> SavedBranch:
    first, last, turns, tokens = measured(path)
    return SavedBranch(number, tip, at, why, name, first, last, turns, tokens)


def measured(path: Sequence[Node]) -> tuple[str, str, int, int]:
    """Say of a line its first and last words, its turns and about how many tokens.

    >>> measured([Node(2, Human("[Thursday 1970-01-01 00:00 UTC]\\nhello there"), 9, begins=True)])
    ('hello there', 'hello there', 1, 9)
    """
    begun = [node.message.text for node in path if isinstance(node.message, Human) and node.begins]
    first, last = (said_in(begun[0]), said_in(begun[-1])) if begun else ("", "")
    return first[:MAX_WORDS], last[:MAX_WORDS], len(begun), sum(node.tokens for node in path)


def listing(tree: Tree, path: Sequence[Node], now: float) -> str:
    """Answer ``/tree``: a line for each branch, and for the present line.

    >>> node = Node(2, Human("[Thursday 1970-01-01 00:00 UTC]\\nhello"), 9, begins=True)
    >>> tree = Tree([SavedBranch(1, 5, 0.0, "new", "", "a", "b", 2, 30)], 2, 2)
    >>> print(listing(tree, [node], 120.0))
    1: put away 2 min ago, 2 turns, about 30 tokens: “a” … “b”
    → 2: here, 1 turn, about 9 tokens: “hello”
    """
    present = SavedBranch(tree.line, 0, now, "left", "", *measured(path))
    lines = []
    for branch in sorted((*tree.branches, present), key=lambda one: (one.tip == 0, one.number)):
        where = (
            "here"
            if branch is present
            else f"{REASONS[branch.why]} {duration(now - branch.at)} ago"
        )
        resumed = branch is not present and branch.number == tree.line
        name = f" {branch.name}" if branch.name else ""
        mark = "→ " if branch is present else ""
        if not resumed:
            lines.append(f"{mark}{branch.number}{name}: {where}, {_size(branch)}")
    return "\n".join(lines)


def _size(branch: SavedBranch) -> str:
    words = f"“{branch.first}”" if branch.first else "no words yet"
    if branch.turns > 1:
        words += f" … “{branch.last}”"
    turns = "1 turn" if branch.turns == 1 else f"{branch.turns} turns"
    return f"{turns}, about {branch.tokens} tokens: {words}"


# Stretches that wait to be looked at, the newest: each costs a call of the cheap model.
MAX_OWED = 5


def fresh(path: Sequence[Node], after: int) -> tuple[Node, ...]:
    """Take what was said behind the entry *after*; empty if no person said anything.

    >>> fresh([Node(3, Human("hi"), 1)], 2), fresh([Node(3, Human("hi"), 1)], 3)
    ((Node(seq=3, message=Human(text='hi'), tokens=1, begins=False),), ())
    """
    new = tuple(node for node in path if node.seq > after)
    return new if any(isinstance(node.message, Human) for node in new) else ()


class UnobservedRange(msgspec.Struct, frozen=True):
    """What was said behind the entry *after* on a line whose head was at *tip* when it was left.

    *last* is the entry of its newest message, which no other stretch has.
    """

    after: int
    last: int
    tip: int


class Unobserved(msgspec.Struct):
    """What the observer has yet to look at.  Changed in place by the session's fold.

    On the present line that is what was said behind the entry *after*; *owed* are the stretches
    that were put away before, the oldest first.  Of more than `MAX_OWED` the oldest are dropped:
    nothing will be learned from them; nor, as a rule, from what was taken back and then resumed.
    """

    after: int = 0
    owed: list[UnobservedRange] = []

    def put_away(self, path: Sequence[Node], seq: int) -> None:
        """The line *path* is left by the entry *seq*."""
        if new := fresh(path, self.after):
            self.owed.append(UnobservedRange(self.after, new[-1].seq, seq - 1))
            del self.owed[:-MAX_OWED]
        self.after = seq

    def go_on(self, path: Sequence[Node]) -> None:
        """The line *path* is the present one: what is owed of it is looked at with what follows."""
        here = {node.seq for node in path}
        back = [one for one in self.owed if one.last in here]
        self.owed = [one for one in self.owed if one.last not in here]
        self.after = min([self.after, *(one.after for one in back)])

    def look(self, upto: int) -> None:
        """What ends with the entry *upto* was looked at, wherever it is by now."""
        left = [one for one in self.owed if one.last != upto]
        if len(left) == len(self.owed):
            self.after = max(self.after, upto)
        self.owed = left
