"""What the files that a task watches look like now, in one short text to compare."""

from collections.abc import Sequence
from hashlib import sha256

from elwood.features.tasks import patterns as watching
from elwood.foundation.storage.confined import PathMissing, PathRefused
from elwood.foundation.storage.files import Item, Root

# Entries looked at beneath one folder; a change among those beyond is not noticed.
MAX_FILES = 5_000
# Bytes: of a file that is longer, and of those that come after so many, only size and time of
# change count.
MAX_FILE = 1 << 20
MAX_BYTES = 32 << 20


def fingerprint(root: Root, patterns: Sequence[str], text: str) -> str:
    """Make what changes if *text* does, or the files of *root* that *patterns* mean; blocks.

    Contents count, not the times at which they were written, unless a file is long.  That a file
    is missing, or cannot be read, is a state as any other.  Links count by what they say, and are
    not followed.  Raises Unconfined.
    """
    digest = sha256(repr(("text", text)).encode())
    left = MAX_BYTES
    for place in sorted({watching.start(one) for one in patterns if not watching.complaint(one)}):
        mine = [one for one in patterns if watching.start(one) == place]
        try:
            items, _ = root.walk(place, MAX_FILES)
        except PathMissing:
            continue
        except PathRefused as refused:
            digest.update(repr((place, refused.why)).encode())
            continue
        for item in items:
            if item.kind == "folder" or not any(watching.matches(one, item.name) for one in mine):
                continue
            state, taken = _state(root, item, left)
            left -= taken
            digest.update(repr((item.name, state)).encode())
    return digest.hexdigest()


def _state(root: Root, item: Item, left: int) -> tuple[object, int]:
    """Say what *item* is like, and how many bytes of it were read, *left* at most."""
    if item.kind != "file":
        return (item.kind, item.target), 0
    try:
        with root.file(item.name) as file:
            size = file.stat.st_size
            if size > min(MAX_FILE, left):
                return ("long", size, file.stat.st_mtime_ns), 0
            return ("file", sha256(file.read(size + 1)).hexdigest()), size
    except PathMissing:
        return "missing", 0
    except PathRefused as refused:
        return ("refused", refused.why), 0
