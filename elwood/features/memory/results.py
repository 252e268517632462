"""What the memory answers: what was saved, forgotten, taken back, and how much there is."""

import attrs

from elwood.features.memory.note import Note
from elwood.foundation.storage.search_index import IndexCounts


@attrs.frozen
class Saved:
    """The note stands in its file.

    *known*: *key* said the same already, in nearly these words; that note may be *untrusted*.
    """

    key: str
    replaced: bool = False
    known: bool = False
    untrusted: bool = False


@attrs.frozen
class Unsaved:
    """Nothing was written; *why* is for who wanted it saved.

    *forgotten* says that it was to be learned, and had been forgotten.
    """

    key: str
    why: str
    forgotten: bool = False


@attrs.frozen
class Forgotten:
    """These notes are gone; *absent* ones were not there.  *why* says what could not be done.

    *pages* are daily notes and reflections that still have the words of one of them.
    """

    keys: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    why: str = ""
    pages: tuple[str, ...] = ()


# What forgetting does not reach, said wherever something was forgotten.
STAYS = (
    "No file of the memory has it any more, nor have the entries of the daily notes, and it will "
    "not be learned again by itself. What was said in conversations still stands in their logs."
)


def in_words(forgotten: Forgotten) -> str:
    """Say what was forgotten, and what was not.

    >>> in_words(Forgotten(absent=("tea",)))
    'There is no note called tea.'
    """
    told = [f"Forgot {', '.join(forgotten.keys)}. {STAYS}"] if forgotten.keys else []
    if forgotten.pages:
        told.append(f"These say it, can be edited, and are searched: {', '.join(forgotten.pages)}.")
    if forgotten.absent:
        told.append(f"There is no note called {', '.join(forgotten.absent)}.")
    if forgotten.why:
        told.append(f"Not all could be done: {forgotten.why}.")
    return " ".join(told)


@attrs.frozen
class Undone:
    """The newest batch, of Unix time *at*, was taken back.

    Its notes, by what they are about, were removed, put back as they were before, or left, as they
    have changed since.  *why* says what could not be done.
    """

    at: float = 0.0
    removed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    why: str = ""


@attrs.frozen
class Overview:
    """*counts* are None while nobody knows; *passed_over* names files that are no notes."""

    counts: IndexCounts | None = None
    newest: tuple[Note, ...] = ()
    pending: tuple[Note, ...] = ()
    passed_over: tuple[str, ...] = ()
