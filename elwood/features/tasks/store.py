"""The files of tasks: logs of runs, HEARTBEAT.md, and fingerprints of watched files."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

from elwood.agent.session.turn.prompt import read_document
from elwood.features.tasks.heartbeat import FILE, Written
from elwood.foundation.storage.confined import PathMissing, PathRefused
from elwood.foundation.storage.files import Item, Root

# Bytes of a run log, about a thousand runs; then its older half is removed.  Lines shown of it.
MAX_LOG, SHOWN_RUNS = 64 << 10, 20
# Entries examined below one folder; changes of further ones are not noticed.
MAX_FILES = 5_000


def log_run(folder: Path, lines: Mapping[str, str]) -> None:
    """Append *lines* to the run logs, by task id; blocks.  Raises OSError.

    An empty line removes the log.  Logs are for people; the timetable is the source of truth.
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

    An untrusted file is refused: strangers could add tasks.
    """
    page = read_document(root, FILE)
    if not page.untrusted:
        return Written(page.text or "", page.note)
    return Written(
        problem=f"{FILE} was written after Elwood had read text from strangers, so it is ignored; "
        "check it and save it yourself."
    )


# --- watched files --------------------------------------------------------------------------------


def fingerprint(root: Root, patterns: Sequence[str], text: str) -> str:
    """Return a digest of *text* and the files of *root* that match *patterns*; blocks.

    A file counts by its size and modification time, a link by its target without following it; a
    missing or unreadable file is a state, too.  Raises Unconfined.
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
    """Return the folder or file where a search for *pattern* starts; "." is the root."""
    names = _names(pattern)
    fixed = next((place for place, name in enumerate(names) if _is_wild(name)), len(names))
    return "/".join(names[:fixed]) or "."


def matches(pattern: str, path: str) -> bool:
    """Return True if *pattern* matches the file *path*; both are relative to the workspace.

    ``*`` and ``?`` match within a name, ``**`` any number of folders, and neither a name that
    begins with a dot.  A pattern without them matches the file, or all files in the folder.

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
    # One regular expression for the whole path could take exponential time with many stars.
    return fnmatchcase(names[0], first.replace("[", "[[]")) and _fits(rest, names[1:])


def _is_wild(name: str) -> bool:
    return "*" in name or "?" in name


def _names(pattern: str) -> list[str]:
    return [name for name in pattern.split("/") if name not in ("", ".")]
