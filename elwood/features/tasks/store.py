"""The files of tasks: logs of runs, HEARTBEAT.md, and what the files that tasks watch look like."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

from elwood.agent.session.turn.prompt import read_document
from elwood.features.tasks.heartbeat import FILE, Written
from elwood.foundation.storage.confined import PathMissing, PathRefused
from elwood.foundation.storage.files import Item, Root

# Bytes of the log of a task's runs, about a thousand: then its older half goes.  Lines shown of it.
MAX_LOG, SHOWN_RUNS = 64 << 10, 20
# Entries looked at beneath one folder; a change among those beyond is not noticed.
MAX_FILES = 5_000


def log_run(folder: Path, lines: Mapping[str, str]) -> None:
    """Add *lines* to the logs of the runs of tasks, named by their ids; blocks.  Raises OSError.

    One that is empty ends with its task.  They are for people: the truth stands in the timetable.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    for id_, line in lines.items():
        path = folder / f"{id_}.log"
        if not line:
            path.unlink(missing_ok=True)
            continue
        path.touch(mode=0o600)
        if path.stat().st_size > MAX_LOG:
            path.write_bytes(path.read_bytes()[-MAX_LOG // 2 :].partition(b"\n")[2])
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{line}\n")


def read_runs(path: Path) -> str:
    """Return the newest lines of a log of runs, "" if there is none; blocks."""
    if not path.exists():
        return ""
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-SHOWN_RUNS:])


def read_heartbeat(root: Root) -> Written:
    """Read HEARTBEAT.md in the folder *root*; blocks.  Raises Unconfined.

    What strangers may have written is refused: it would become tasks.
    """
    page = read_document(root, FILE)
    if not page.untrusted:
        return Written(page.text or "", page.note)
    return Written(
        problem=f"{FILE} was written after content from strangers had been read, so it counts for "
        "nothing; look through it and save it yourself."
    )


# --- what tasks watch -----------------------------------------------------------------------------


def fingerprint(root: Root, patterns: Sequence[str], text: str) -> str:
    """Make what changes if *text* does, or the files of *root* that *patterns* mean; blocks.

    A file is another if its size or its time of change is.  That it is missing, or cannot be read,
    is a state as any other.  Links count by what they say, and are not followed.  Raises
    Unconfined.
    """
    digest = sha256(repr(("text", text)).encode())
    for place in sorted(set(map(search_start, patterns))):
        mine = [one for one in patterns if search_start(one) == place]
        try:
            items, _ = root.walk(place, MAX_FILES)
        except PathMissing:
            continue
        except PathRefused as refused:
            digest.update(repr((place, refused.why)).encode())
            continue
        for item in items:
            if item.kind != "folder" and any(matches(one, item.name) for one in mine):
                digest.update(repr((item.name, _state(root, item))).encode())
    return digest.hexdigest()


def _state(root: Root, item: Item) -> object:
    if item.kind != "file":
        return item.kind, item.target
    try:
        with root.file(item.name) as file:
            return file.stat.st_size, file.stat.st_mtime_ns
    except PathRefused as refused:
        return refused.why


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
    wanted = names if any(map(_is_wild, names)) else [*names, "**"]
    return _fits(wanted, path.split("/"))


def _fits(pattern: Sequence[str], names: Sequence[str]) -> bool:
    if not pattern:
        return not names
    first, *rest = pattern
    if first == "**" and _fits(rest, names):
        return True
    if not names or (names[0].startswith(".") and not first.startswith(".")):
        return False
    if first == "**":
        return _fits(pattern, names[1:])
    # Not by one expression for all: with many stars that would take for ever.
    return fnmatchcase(names[0], first.replace("[", "[[]")) and _fits(rest, names[1:])


def _is_wild(name: str) -> bool:
    return "*" in name or "?" in name


def _names(pattern: str) -> list[str]:
    return [name for name in pattern.split("/") if name not in ("", ".")]
