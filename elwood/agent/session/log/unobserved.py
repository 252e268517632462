"""What of a conversation has not been learned from: on the present line, and on lines put away."""

from collections.abc import Sequence

import msgspec

from elwood.agent.conversation.message import Human
from elwood.agent.session.log.nodes import Node

# Stretches that wait to be looked at, the newest: each costs a call of the cheap model.
MAX_OWED = 5


def fresh(path: Sequence[Node], after: int) -> tuple[Node, ...]:
    """Take what was said behind the entry *after*; empty if no person said anything.

    >>> fresh([Node(3, Human("hi"), 1)], 2), fresh([Node(3, Human("hi"), 1)], 3)
    ((Node(seq=3, message=Human(text='hi'), tokens=1, begins=False),), ())
    """
    new = tuple(node for node in path if node.seq > after)
    return new if any(isinstance(node.message, Human) for node in new) else ()


class Stretch(msgspec.Struct, frozen=True):
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
    owed: list[Stretch] = []

    def put_away(self, path: Sequence[Node], seq: int) -> None:
        """The line *path* is left by the entry *seq*."""
        if new := fresh(path, self.after):
            self.owed.append(Stretch(self.after, new[-1].seq, seq - 1))
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
