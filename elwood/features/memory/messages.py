"""What the memory is told and asked."""

import attrs

from elwood.agent.approvals.messages import CommandResult
from elwood.features.memory.note import Draft, Note
from elwood.features.memory.results import (
    Overview,
    Saved,
    Undone,
    Unsaved,
)
from elwood.foundation.runtime import Request


@attrs.frozen(kw_only=True)
class Remember(Request[tuple[Saved | Unsaved, ...]]):
    """Keep *drafts*; each is answered, in order.  From a tool, or from who learns.

    What has the same *batch* is taken back together; without one it is this request.  *learned*
    ones are wanted by nobody in particular: what was forgotten is not kept again.  Repeating it
    changes nothing but the time.
    """

    drafts: tuple[Draft, ...]
    batch: str = ""
    learned: bool = False


@attrs.frozen
class Recalled:
    """The notes that were found, the best first."""

    notes: tuple[Note, ...]


@attrs.frozen(kw_only=True)
class Recall(Request[Recalled]):
    """Find kept notes by the words, and the meaning, of *query*.  Abandoning it breaks it off.

    Daily notes and reflections are found as notes, too: the key is the file in the workspace, the
    text what of it fits.  With *every*, only notes of the memory, and of these only those that have
    all the words, but those as well that are out of date.
    """

    query: str
    limit: int
    every: bool = False


@attrs.frozen(kw_only=True)
class Suggest(Request[Recalled]):
    """Find notes that may help with *message*, which nobody asked for: none of strangers' words."""

    message: str


@attrs.frozen(kw_only=True)
class ReadNotes(Request[tuple[Note, ...]]):
    """Read these notes, pending ones too, as far as they are there."""

    keys: tuple[str, ...]


@attrs.frozen(kw_only=True)
class PendingNotes(Request[tuple[Note, ...]]):
    """Read the newest *limit* notes that wait for the owner."""

    limit: int


@attrs.frozen(kw_only=True)
class KeptNotes(Request[tuple[Note, ...]]):
    """Read the newest *limit* notes that are kept."""

    limit: int


@attrs.frozen(kw_only=True)
class Discard(Request[CommandResult]):
    """Let pending notes go; what has the hashes *bury* (`digests`) is not learned again.

    Repeating it changes nothing.
    """

    keys: tuple[str, ...]
    bury: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Buried(Request[frozenset[str]]):
    """Which of *hashes* (`digests`) are those of what was forgotten?"""

    hashes: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Forget(Request[CommandResult]):
    """Forget these notes for good, and never learn them again.  Repeating it changes nothing."""

    keys: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Undo(Request[Undone | None]):
    """Take back what was written last; None if nothing can be."""


@attrs.frozen(kw_only=True)
class Overlook(Request[Overview]):
    """How much is remembered, and what came last?  Shows *limit* notes of each kind."""

    limit: int


@attrs.frozen(kw_only=True)
class Rebuild(Request[CommandResult]):
    """Make the index anew; answered when that has begun.  From the control socket."""


@attrs.frozen(kw_only=True)
class Tidy(Request[CommandResult]):
    """Remove what is long out of date, and keep the index fast.  From the scheduler."""


MemoryMail = (
    Remember
    | Recall
    | Suggest
    | ReadNotes
    | PendingNotes
    | KeptNotes
    | Discard
    | Buried
    | Forget
    | Undo
    | Overlook
    | Rebuild
    | Tidy
)
