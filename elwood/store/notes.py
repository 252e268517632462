"""Notes that outlive conversations: one Markdown file each, with its origin written above it.

People may read and edit the files.  Whatever cannot be read above a note is taken for the worst:
a note counts as untrusted unless it says that it is not.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs
import trio

from elwood.core.identity import flatten
from elwood.store.disk import Disk

# How notes are named: safe as a file name anywhere.
KEY = r"^[a-z0-9][a-z0-9-]{0,63}$"
TAG = r"^\w[\w-]{0,31}$"
# Characters of one note: about ten pages.
MAX_NOTE = 20_000
# Notes that are kept, as each search reads them all.
MAX_NOTES = 10_000
# Tags of one note, and characters of where it is from.
MAX_TAGS, MAX_SOURCE = 10, 200
# Words of one search; more would only cost time.
MAX_WORDS = 20
# Bytes of a file that are read: a note in the longest encoding, and what stands above it.
_MAX_FILE = 4 * MAX_NOTE + 4096
# What finding a word is worth: in the key, in a tag, in the text, there at most so many times.
_IN_KEY, _IN_TAG, _IN_TEXT, _AT_MOST = 5, 3, 1, 4

_HEAD = re.compile(r"---\n(.*?)\n---\n+(.*)", re.DOTALL)


@attrs.frozen
class Note:
    """What is remembered under *key*; *source* says from where.  Times as ISO 8601 in UTC."""

    key: str
    text: str
    tags: tuple[str, ...] = ()
    source: str = ""
    created: str = ""
    updated: str = ""
    untrusted: bool = True


class NotSaved(Exception):
    """The note cannot be saved as it is; *why* is for who wants it saved."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Notes:
    """The notes in *folder*; make one for the house."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk
        self._saving = trio.Lock()  # two savers would write the same temporary file

    async def save(
        self, key: str, text: str, tags: Sequence[str], *, untrusted: bool, source: str
    ) -> bool:
        """Save a note, on the disk when this returns; True if it took the place of another.

        Raises NotSaved and DiskFull.
        """
        if not re.fullmatch(KEY, key):
            raise NotSaved("a key has 1 to 64 small letters, digits and hyphens")
        if len(tags) > MAX_TAGS or not all(re.fullmatch(TAG, tag) for tag in tags):
            raise NotSaved(f"a note has at most {MAX_TAGS} tags, each a word")
        if len(text) > MAX_NOTE:
            raise NotSaved(f"a note has at most {MAX_NOTE:,} characters")
        tags = tuple(dict.fromkeys(tags))
        wanted = Note(key, text, tags, flatten(source, MAX_SOURCE), untrusted=untrusted)
        async with self._saving:
            return await self._disk.blocking(lambda: self._save(wanted))

    async def find(self, words: Sequence[str], limit: int) -> list[Note]:
        """Find the notes that hold most of *words*, in any case: the best first."""
        wanted = list(dict.fromkeys(word.casefold() for word in words))[:MAX_WORDS]
        return await self._disk.blocking(lambda: self._find(wanted, limit))

    def _save(self, note: Note) -> bool:
        path = self._folder / f"{note.key}.md"
        before = _read(path)
        if before is None and sum(1 for _ in self._paths()) >= MAX_NOTES:
            raise NotSaved(
                f"there are {MAX_NOTES:,} notes already; replace one that is out of date"
            )
        if before is not None and note.untrusted and not before.untrusted:
            # Strangers' words must not make us forget what the owner told us.
            raise NotSaved(
                "a note of this key is from a conversation that strangers had no part in, and this "
                "one has read strangers' words; choose another key"
            )
        now = datetime.fromtimestamp(self._disk.clock(), UTC).isoformat(timespec="seconds")
        created = before.created if before is not None and before.created else now
        note = attrs.evolve(note, created=created, updated=now)
        self._disk.make_folder(self._folder)
        self._disk.replace(path, _written(note).encode("utf-8", "replace"))
        return before is not None

    def _find(self, words: list[str], limit: int) -> list[Note]:
        found = []
        for path in self._paths():
            note = _read(path)
            if note is not None and (worth := _worth(note, words)) > (0, 0):
                found.append((worth, note.updated, note))
        found.sort(key=lambda one: one[:2], reverse=True)
        return [note for _, _, note in found[:limit]]

    def _paths(self) -> Iterator[Path]:
        if not self._folder.is_dir():
            return
        paths = (path for path in self._folder.iterdir() if path.suffix == ".md")
        named = sorted(path for path in paths if re.fullmatch(KEY, path.stem))
        yield from named[:MAX_NOTES]


def _worth(note: Note, words: Sequence[str]) -> tuple[int, int]:
    """Count the different *words* that *note* has, and weigh where they stand."""
    tags, text = " ".join(note.tags).casefold(), note.text.casefold()
    different = score = 0
    for word in words:
        worth = _IN_KEY * (word in note.key) + _IN_TAG * (word in tags)
        worth += _IN_TEXT * min(_AT_MOST, text.count(word))
        different += worth > 0
        score += worth
    return different, score


def _written(note: Note) -> str:
    head = {
        "source": note.source,
        "tags": f"[{', '.join(note.tags)}]",
        "created": note.created,
        "updated": note.updated,
        "label": "untrusted" if note.untrusted else "trusted",
    }
    lines = "\n".join(f"{name}: {value}" for name, value in head.items())
    return f"---\n{lines}\n---\n\n{note.text}\n"


def _read(path: Path) -> Note | None:
    """Read a note; None if there is none, or nothing that could be one."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(_MAX_FILE)
    except OSError:
        return None
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    found = _HEAD.match(text)
    if found is None:
        return Note(path.stem, text[:MAX_NOTE].strip())
    lines = (line.partition(":") for line in found[1].split("\n"))
    # The last of two lines of one name does not win: neither can be relied on.
    head: dict[str, str] = {}
    for name, _, value in lines:
        head[name.strip()] = "" if name.strip() in head else value.strip()
    return Note(
        path.stem,
        found[2][:MAX_NOTE].strip(),
        tuple(tag for tag in re.split(r"[\[\], ]+", head.get("tags", "")) if tag),
        flatten(head.get("source", ""), MAX_SOURCE),
        head.get("created", "")[:32],
        head.get("updated", "")[:32],
        head.get("label") != "trusted",
    )
