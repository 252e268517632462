"""Which updates of a long poll are still ours to keep, and from where to ask for more."""


class Unconfirmed:
    """Updates in the order in which they were delivered, until each is settled.

    Asking the Bot API for *offset* confirms everything before it, so the offset moves over
    settled updates only.  Ids are never compared by size: after a week of silence the sequence
    begins anew anywhere (TG-19).

    >>> line = Unconfirmed()
    >>> [line.add(7), line.add(3), line.add(7)]
    [True, True, False]
    >>> line.settle(3); line.advance(); line.offset
    >>> line.settle(7); line.advance(); line.offset
    4
    """

    def __init__(self) -> None:
        self.offset: int | None = None
        self._settled: dict[int, bool] = {}

    @property
    def pending(self) -> bool:
        """Whether something delivered is not settled yet."""
        return not all(self._settled.values())

    def add(self, number: int) -> bool:
        """Note that *number* was delivered; False if it had been before."""
        if number in self._settled:
            return False
        self._settled[number] = False
        return True

    def settle(self, number: int) -> None:
        """Note that *number* is taken, answered or ignored: it need not come again."""
        self._settled[number] = True

    def advance(self) -> None:
        """Move the offset up to the first update that is not settled.

        To be called between two polls only: what a poll under way brings again must be known.
        """
        while self._settled:
            first = next(iter(self._settled))
            if not self._settled[first]:
                return
            del self._settled[first]
            self.offset = first + 1
