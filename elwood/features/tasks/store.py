"""The files of tasks: agent.toml, HEARTBEAT.md, and what the files that tasks watch look like."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

import msgspec

from elwood.agent.session.turn.prompt import read_document
from elwood.features.tasks.heartbeat import FILE
from elwood.features.tasks.settings import write_task
from elwood.features.tasks.task import Task, bad_pattern
from elwood.foundation.storage.confined import PathMissing, PathRefused
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Item, Root

# Entries looked at beneath one folder; a change among those beyond is not noticed.
MAX_FILES = 5_000
# Bytes: of a file that is longer, and of those that come after so many, only size and time of
# change count.
MAX_FILE = 1 << 20
MAX_BYTES = 32 << 20
AGENT_FILE, TOLD_FILE = "agent.toml", "heartbeat.json"
# Bytes; beyond is no file of ours.
_MAX_AGENT_FILE = 16 << 20
_HEAD = """\
# Written by Elwood: the tasks that were made in conversations.  The truth is schedule.jsonl; what
# you change here is not read.  To make a task your own, move it to config.toml (the whole [[tasks]]
# part) and cancel it in a chat: /tasks.
"""


class AgentFile:
    """The file *path*, which nobody else writes."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def write(self, tasks: Sequence[Task]) -> bool:
        """Let the file say *tasks*; False if it says so already; blocks.

        Without any there is no file, unless there were some before.  After a crash it is the old
        one or the new one.  Raises DiskFull and JournalBroken.
        """
        there, text = self._read(), agent_toml(tasks)
        if there == text or not (there or tasks):
            return False
        self._disk.make_folder(self._path.parent)
        self._disk.replace(self._path, text.encode("utf-8", "replace"))
        return True

    def _read(self) -> str:
        try:
            with self._path.open("rb") as file:
                return file.read(_MAX_AGENT_FILE).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""


def agent_toml(tasks: Sequence[Task]) -> str:
    """Write *tasks*, by their ids."""
    import tomli_w  # most never write one

    parts = [_HEAD]
    for task in sorted(tasks, key=lambda task: task.id):
        keys = {key: _escaped(value) for key, value in write_task(task).items()}
        # In TOML a carriage return cannot stand in a text of several lines.
        lines = not any("\r" in value for value in keys.values() if isinstance(value, str))
        parts.append(f"[[tasks]]\n{tomli_w.dumps(keys, multiline_strings=lines)}")
    return "\n".join(parts)


def _escaped(value: object) -> object:
    """Write ``${`` as config.toml wants it."""
    match value:
        case str():
            return value.replace("${", "$${")
        case tuple():
            return [_escaped(one) for one in value]
        case _:
            return value


class Written(msgspec.Struct, frozen=True):
    """The text of HEARTBEAT.md, "" if there is none; *problem* says why not, or not all of it."""

    text: str = ""
    problem: str = ""


class HeartbeatFile:
    """The file in the folder *root*; *told* is of which text its mistakes were told last."""

    def __init__(self, root: Root, told: Path | None = None) -> None:
        self._root = root
        self._told = told
        self._written = Written()
        self._was_without = False

    def read(self) -> Written:
        """Return what is written: the same object as before if that has not changed; blocks.

        What is gone, empty or closed to us counts when it is found so twice in a row: editors put
        another file in the place of the old one, or empty it first, and its tasks would lose what
        is known of them.  What strangers may have written is refused: it would become tasks.
        Raises Unconfined.
        """
        page = read_document(self._root, FILE)
        was_without, self._was_without = self._was_without, not page.text
        if self._was_without and not was_without and self._written.text:
            return self._written
        problem = page.note
        if page.untrusted:
            problem = (
                f"{FILE} was written after content from strangers had been read, so it counts for "
                "nothing; look through it and save it yourself."
            )
        written = Written("" if page.untrusted else page.text or "", problem)
        if written != self._written:
            self._written = written
        return self._written

    def is_told(self, written: Written) -> bool:
        """Tell whether the mistakes of *written* were told before, also by another run; blocks."""
        try:
            return self._told is not None and self._told.read_bytes() == _mark(written)
        except FileNotFoundError:
            return False

    def tell(self, written: Written, disk: Disk) -> None:
        """Note that the mistakes of *written* were told; blocks.  Raises what `Disk` raises."""
        if self._told is not None:
            disk.replace(self._told, _mark(written))


def _mark(written: Written) -> bytes:
    told = sha256(repr(written).encode("utf-8", "surrogatepass")).hexdigest()
    return msgspec.json.encode({"told": told})


# --- what tasks watch -----------------------------------------------------------------------------


def fingerprint(root: Root, patterns: Sequence[str], text: str) -> str:
    """Make what changes if *text* does, or the files of *root* that *patterns* mean; blocks.

    Contents count, not the times at which they were written, unless a file is long.  That a file
    is missing, or cannot be read, is a state as any other.  Links count by what they say, and are
    not followed.  Raises Unconfined.
    """
    digest = sha256(repr(("text", text)).encode())
    left = MAX_BYTES
    sound = [one for one in patterns if not bad_pattern(one)]
    for place in sorted(set(map(search_start, sound))):
        mine = [one for one in sound if search_start(one) == place]
        try:
            items, _ = root.walk(place, MAX_FILES)
        except PathMissing:
            continue
        except PathRefused as refused:
            digest.update(repr((place, refused.why)).encode())
            continue
        for item in items:
            if item.kind == "folder" or not any(matches(one, item.name) for one in mine):
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


def search_start(pattern: str) -> str:
    """Return the folder, or the file, at which a search for *pattern* begins; "." is the top."""
    names = _names(pattern)
    fixed = next((place for place, name in enumerate(names) if _is_wild(name)), len(names))
    return "/".join(names[:fixed]) or "."


def matches(pattern: str, path: str) -> bool:
    """Tell whether *pattern* means the file *path*; both from the workspace on.

    ``*`` and ``?`` stand for anything in one name, ``**`` for folders in any number, and neither
    for names that begin with a dot.  Without any of them it is the file, or all in the folder.

    >>> matches("inbox/*.md", "inbox/a.md"), matches("inbox/*.md", "inbox/old/a.md")
    (True, False)
    >>> matches("inbox/**", "inbox/old/a.md"), matches("inbox", "inbox/a.md")
    (True, True)
    >>> matches("inbox/**", "inbox/.a.md.swp"), matches("inbox", "inbox/.hidden/a.md")
    (False, False)
    """
    names = _names(pattern)
    return _fits(names if any(map(_is_wild, names)) else [*names, "**"], path.split("/"))


def _fits(pattern: list[str], names: list[str]) -> bool:
    if not pattern:
        return not names
    first, rest = pattern[0], pattern[1:]
    if first == "**" and _fits(rest, names):
        return True
    if not names or (names[0].startswith(".") and not first.startswith(".")):
        return False
    if first == "**":
        return _fits(pattern, names[1:])
    return fnmatchcase(names[0], first) and _fits(rest, names[1:])


def _is_wild(name: str) -> bool:
    return "*" in name or "?" in name


def _names(pattern: str) -> list[str]:
    return [name for name in pattern.split("/") if name not in ("", ".")]
