"""Output of any length in little memory: its head and its tail."""


class Kept:
    """Of all bytes added, the first and the last, together *limit* of them.

    >>> kept = Kept(8)
    >>> for part in (b"abc", b"defgh", b"ijkl"):
    ...     kept.add(part)
    >>> kept.value(), kept.cut
    (b'abcd\\n[4 bytes left out]\\nijkl', 4)
    >>> whole = Kept(8)
    >>> whole.add(b"abcdefgh")
    >>> whole.value(), whole.cut
    (b'abcdefgh', 0)
    """

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._room = limit - limit // 2
        self._keep = limit // 2
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take *data* as what comes next."""
        free = self._room - len(self._head)
        self._head += data[:free]
        self._tail += data[free:]
        if len(self._tail) > 2 * self._keep:
            self._trim()

    @property
    def cut(self) -> int:
        """How many bytes were left out."""
        return self._dropped + max(0, len(self._tail) - self._keep)

    def value(self) -> bytes:
        """Return what was kept, with a line in the place of what was not."""
        self._trim()
        gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
        return bytes(self._head) + gap + bytes(self._tail)

    def _trim(self) -> None:
        surplus = len(self._tail) - self._keep
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus
