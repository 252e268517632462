"""What a search for notes asks, whoever answers it: the index, or a look into every file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

import attrs

from elwood.agent.models.vectors import Vector
from elwood.features.memory.note_files import Filed
from elwood.features.memory.ranking import Hit


@attrs.frozen(kw_only=True)
class Asked:
    """A search at Unix time *now*.

    Of its words notes must have *all*, or *any*; or all, else all but one, else any, whatever finds
    something first.  Without *untrusted*, what may hold strangers' words is left out.
    """

    query: str
    now: float
    words: Literal["all", "any", "all, else any"] = "all, else any"
    untrusted: bool = True
    vector: Vector | None = None


class Tie:
    """What binds a search to whoever asked for it: `cut`, from any thread, breaks it off."""

    def __init__(self) -> None:
        self.is_cut = False
        self._stop: Callable[[], None] | None = None

    def cut(self) -> None:
        """Break off."""
        self.is_cut = True
        if self._stop is not None:
            self._stop()

    @contextmanager
    def to(self, stop: Callable[[], None]) -> Iterator[None]:
        """Have *stop* called by `cut`, as long as the block runs."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None


class Filing(Protocol):
    """The files that are searched, by key; all block."""

    def stamps(self) -> Iterator[tuple[str, str]]:
        """Go through all files, by key and stamp, in no order."""

    def read(self, key: str, /) -> Filed | None:
        """Read one; None if there is none."""

    def there(self, key: str, /) -> bool:
        """Tell whether there is something of this key."""


class MemoryStore(Protocol):
    """Where notes are looked up; all block."""

    def search(self, asked: Asked, tie: Tie, /) -> list[Hit]:
        """Find kept notes, in no order."""

    def twin(self, said: bytes, /) -> list[str]:
        """Name the notes whose text has this fingerprint (`core.wording.saying`)."""

    def newest(self, limit: int, *, pending: bool = False) -> list[str]:
        """Name the newest notes, kept or *pending*, the newest first."""

    def expired(self, before: float, limit: int, /) -> list[str]:
        """Name *limit* notes at most whose time was up at Unix time *before*."""
