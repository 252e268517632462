import msgspec

from elwood.agent.conversation.inbound import CommandResult
from elwood.features.memory.learning import LearningPlan, Observation
from elwood.features.memory.note import Note, NoteDraft
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.runtime import Request
from elwood.foundation.storage.search_index import IndexCounts


class Saved(msgspec.Struct, frozen=True):
    """The note was written."""

    key: str
    replaced: bool = False


class Unsaved(msgspec.Struct, frozen=True):
    """Nothing was written."""

    key: str
    why: str
    forgotten: bool = False  # it was learned, but had been forgotten before


# The limits of forgetting, part of each message about it.
STAYS = (
    "It is gone from the notes and from the entries of the daily notes, and will not be learned "
    "again automatically. The logs of past conversations still contain it."
)


class Forgotten(msgspec.Struct, frozen=True):
    """Result of forgetting notes."""

    keys: tuple[str, ...] = ()  # forgotten notes
    absent: tuple[str, ...] = ()  # keys without a note
    why: str = ""  # the reason if a part failed
    left: tuple[str, ...] = ()  # files that still have the text, for the owner to edit

    @property
    def text(self) -> str:
        """Message for the owner."""
        parts = [f"Forgot {', '.join(self.keys)}. {STAYS}"] if self.keys else []
        if self.left:
            parts.append(
                f"These files still contain it, and searches find it: {', '.join(self.left)}. "
                "You can edit them."
            )
        if self.absent:
            parts.append(f"There is no note called {', '.join(self.absent)}.")
        if self.why:
            parts.append(f"A part failed: {self.why}.")
        return " ".join(parts)

    @property
    def ok(self) -> bool:
        """Return True if notes were forgotten without a failure."""
        return bool(self.keys) and not self.why


class MemoryOverview(msgspec.Struct, frozen=True):
    """The newest notes, and all pending and archived ones."""

    counts: IndexCounts | None = None  # None: the index is not available
    newest: tuple[Note, ...] = ()
    pending: tuple[Note, ...] = ()
    archived: tuple[Note, ...] = ()


class Unlearned(msgspec.Struct, frozen=True):
    """A part could not be written; repeating the request is harmless."""

    why: str


class Remember(Request[Saved | Unsaved], frozen=True, kw_only=True):
    """Save *draft*.  Repeating it changes only the time."""

    draft: NoteDraft


class Recall(Request[tuple[Note, ...]], frozen=True, kw_only=True):
    """Find active notes by the words and the meaning of *query*."""

    query: str
    limit: int


class Suggest(Request[tuple[Note, ...]], frozen=True, kw_only=True):
    """Find trusted notes that may help with *message*."""

    message: str


class ReadNotes(Request[tuple[Note, ...]], frozen=True, kw_only=True):
    """Read those of these notes that exist, including pending ones."""

    keys: tuple[str, ...]


class Learn(Request[LearningPlan | Unlearned], frozen=True, kw_only=True):
    """Learn the facts *found* by one pass, the *batch*.

    Forgotten facts are not learned again.  Repeating it changes nothing.
    """

    found: tuple[Observation, ...]
    batch: str
    settings: LearningSettings


class Unlearn(Request[CommandResult], frozen=True, kw_only=True):
    """Remove observations of *parts* of the log of *session*, which were taken back.

    Repeating it changes nothing.
    """

    session: str
    parts: tuple[tuple[int, int], ...]


class SettleObservation(Request[CommandResult], frozen=True, kw_only=True):
    """Keep or drop the observations with *code*, as the owner decided."""

    code: str
    keep: bool


class Forget(Request[CommandResult], frozen=True, kw_only=True):
    """Forget these notes for good, and never learn them again.  Repeating it changes nothing."""

    keys: tuple[str, ...]


class Undo(Request[CommandResult], frozen=True, kw_only=True):
    """Undo the newest batch of changes, of this *code* if given."""

    code: str = ""


class RemoveExpired(Request[CommandResult], frozen=True, kw_only=True):
    """Remove the expired notes.  Repeating it changes nothing."""


class GetOverview(Request[MemoryOverview], frozen=True, kw_only=True):
    """Return the overview."""


MemoryMail = (
    Remember
    | Recall
    | Suggest
    | ReadNotes
    | Learn
    | Unlearn
    | SettleObservation
    | Forget
    | Undo
    | RemoveExpired
    | GetOverview
)
