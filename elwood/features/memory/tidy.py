"""Upkeep of the memory: what is long out of date goes, and the index stays fast.  Blocks."""

from elwood.features.memory.note import expires
from elwood.features.memory.note_store import Shelf
from elwood.foundation.storage.sqlite import DatabaseUnusable

# Seconds for which a note stays that is out of date: somebody may want it back.
EXPIRED_STAY = 7 * 86_400.0
# Notes that are removed at once for that; the others the next time.
MAX_REMOVED = 1000


def tidy(shelf: Shelf, now: float) -> tuple[int, str]:
    """Tidy up at Unix time *now*; say how many notes were removed, and what could not be done.

    Raises DiskFull and JournalBroken.
    """
    before = now - EXPIRED_STAY
    old = []
    for key in shelf.by(lambda store: store.expired(before, MAX_REMOVED)):
        # The file is the truth: somebody may have given it more time.
        filed = shelf.files.read(key)
        until = None if filed is None else expires(filed.note)
        if until is not None and until <= before:
            old.append(key)
    try:
        shelf.remove(old)
    except DatabaseUnusable as error:
        return len(old), f"the index still has them, and could not be removed: {error}"
    shelf.tidy()
    return len(old), ""
