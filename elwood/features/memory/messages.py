import msgspec

from elwood.agent.conversation.inbound import CommandResult
from elwood.features.memory.learning import Lesson, Observation
from elwood.features.memory.note import Note, NoteDraft
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.runtime import Request
from elwood.foundation.storage.search_index import IndexCounts


class Saved(msgspec.Struct, frozen=True):
    """The note stands in its file."""

    key: str
    replaced: bool = False


class Unsaved(msgspec.Struct, frozen=True):
    """Nothing was written; *why* is for who wanted it saved.

    *forgotten* says that it was to be learned, and had been forgotten.
    """

    key: str
    why: str
    forgotten: bool = False


# What forgetting does not reach, said wherever something was forgotten.
STAYS = (
    "No file of the memory has it any more, nor have the entries of the daily notes, and it will "
    "not be learned again by itself. What was said in conversations still stands in their logs."
)


class Forgotten(msgspec.Struct, frozen=True):
    """These notes are gone; *absent* ones were not there.  *why* says what could not be done.

    *left* names what else still has the words of one of them, and is the owner's to edit.
    """

    keys: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    why: str = ""
    left: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Say what was forgotten, and what was not."""
        told = [f"Forgot {', '.join(self.keys)}. {STAYS}"] if self.keys else []
        if self.left:
            told.append(f"These say it, can be edited, and are searched: {', '.join(self.left)}.")
        if self.absent:
            told.append(f"There is no note called {', '.join(self.absent)}.")
        if self.why:
            told.append(f"Not all could be done: {self.why}.")
        return " ".join(told)

    @property
    def ok(self) -> bool:
        """Whether something was forgotten, and wholly."""
        return bool(self.keys) and not self.why


class MemoryOverview(msgspec.Struct, frozen=True):
    """What was remembered last, and all that waits or is archived; no *counts*: nobody knows."""

    counts: IndexCounts | None = None
    newest: tuple[Note, ...] = ()
    pending: tuple[Note, ...] = ()
    archived: tuple[Note, ...] = ()


class Unlearned(msgspec.Struct, frozen=True):
    """Not all of it was written; doing it again later does no harm."""

    why: str


class Remember(Request[Saved | Unsaved], frozen=True, kw_only=True):
    """Keep *draft*.  Repeating it changes nothing but the time."""

    draft: NoteDraft


class Recall(Request[tuple[Note, ...]], frozen=True, kw_only=True):
    """Find kept notes by the words, and the meaning, of *query*."""

    query: str
    limit: int


class Suggest(Request[tuple[Note, ...]], frozen=True, kw_only=True):
    """Find notes that may help with *message*, which nobody asked for: none of strangers' words."""

    message: str


class ReadNotes(Request[tuple[Note, ...]], frozen=True, kw_only=True):
    """Read these notes, pending ones too, as far as they are there."""

    keys: tuple[str, ...]


class Learn(Request[Lesson | Unlearned], frozen=True, kw_only=True):
    """Take in the facts *found* by one look at a conversation, the *batch*.

    What was forgotten is not learned again.  Repeating it changes nothing.
    """

    found: tuple[Observation, ...]
    batch: str
    settings: LearningSettings


class Unlearn(Request[CommandResult], frozen=True, kw_only=True):
    """Let go of what was noticed in *parts* of the log of *session*: they were taken back.

    Repeating it changes nothing.
    """

    session: str
    parts: tuple[tuple[int, int], ...]


class SettleObservation(Request[CommandResult], frozen=True, kw_only=True):
    """The owner says to keep or to drop what is called *code*."""

    code: str
    keep: bool


class Forget(Request[CommandResult], frozen=True, kw_only=True):
    """Forget these notes for good, and never learn them again.  Repeating it changes nothing."""

    keys: tuple[str, ...]


class Undo(Request[CommandResult], frozen=True, kw_only=True):
    """Take back what was written last."""


class Overlook(Request[MemoryOverview], frozen=True, kw_only=True):
    """How much is remembered, and what?"""


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
    | Overlook
)
