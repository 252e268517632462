"""Rules of backups: names, retention, contents, and members that are refused."""

import re
import tarfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

# Format of `Manifest` and the archive around it; newer formats are not restored.
VERSION = 1
# Number of weeks of which the newest backup is kept, in addition to the newest ones: a month to
# notice a fault.
WEEKS = 4
# The members of an archive: two folders, and the manifest.
STATE, WORKSPACE, MANIFEST = "state", "workspace", "manifest.json"

# Files, folders and links of one backup, so that their list fits into memory.
MAX_MEMBERS = 500_000
# Folders below one of the two; deeper ones are left out.
MAX_DEPTH = 64
# Files left out that are listed to the operator.
MAX_TOLD = 20

_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"elwood-(\d{8}T\d{6}Z)\.tar\.gz")


Kind = Literal["file", "folder", "link"]


# The attribute that marks untrusted text, as GNU tar stores it (``--xattrs``).
MARK = "SCHILY.xattr.user.elwood.untrusted"
# Bytes copied at a time.
PIECE = 1 << 20


class BackupFailed(Exception):
    """A backup or restore failed; the text gives the reason and the remedy."""


class Member(msgspec.Struct, frozen=True):
    """One member of the archive, in its order."""

    name: str
    kind: Kind
    mode: int
    size: int = 0  # bytes
    sha256: str = ""  # of the content or of a link's target; "" for folders
    untrusted: bool = False  # marked as untrusted


def member(info: tarfile.TarInfo, kind: Kind, sha256: str) -> Member:
    return Member(
        readable_name(info.name), kind, info.mode, info.size, sha256, MARK in info.pax_headers
    )


def readable_name(name: str) -> str:
    """Format *name* as readable text, even if its bytes are not valid UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class SkippedFile(msgspec.Struct, frozen=True):
    """A file that is not, or not fully, in the backup."""

    name: str
    why: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of one backup."""

    version: int
    elwood: str
    at: float  # Unix time at which its first file was read
    members: tuple[Member, ...]
    left_out: tuple[SkippedFile, ...] = ()

    @property
    def files(self) -> int:
        return sum(member.kind == "file" for member in self.members)


class Backup(msgspec.Struct, frozen=True):
    """A file with the name of a backup."""

    path: Path
    at: float  # Unix time of its start
    size: int


def format_stamp(at: float) -> str:
    """Format a Unix time, in UTC, for a file name."""
    return datetime.fromtimestamp(at, UTC).strftime(_STAMP)


def file_name(at: float) -> str:
    return f"elwood-{format_stamp(at)}.tar.gz"


def parse_time(name: str) -> float | None:
    """Parse the time from a file name; None if it is not the name of a backup."""
    match = _NAME.fullmatch(name)
    try:
        read = match and datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return read.timestamp() if read else None


def surplus(times: Iterable[float], keep: int) -> list[float]:
    """Choose the backups to remove from *times* (Unix), the oldest first.

    The newest *keep* stay, at least one, and the newest of each of the last `WEEKS` weeks with a
    backup (ISO weeks, UTC).  The clock is not used, so a wrong one removes nothing more.
    """
    newest = sorted(set(times), reverse=True)
    of_week: dict[tuple[int, int], float] = {}
    for at in newest:
        of_week.setdefault(datetime.fromtimestamp(at, UTC).isocalendar()[:2], at)
    keepers = {*newest[: max(1, keep)], *list(of_week.values())[:WEEKS]}
    return [at for at in reversed(newest) if at not in keepers]


def is_plain(name: str) -> bool:
    """Return True if *name* is valid for a member: relative, below a top name, without "..".

    >>> [is_plain(name) for name in ("state/a", "workspace/a/../b", "/state/a", "etc/a")]
    [True, False, False, False]
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return False
    if len(parts) > MAX_DEPTH + 1:
        return False
    return parts[0] in (STATE, WORKSPACE) or name == MANIFEST


def leads_out(name: str, target: str) -> bool:
    """Return True if the link *name* may lead out of the first folder of its path.

    ".." after anything else counts as leaving: the part before it may be a link.

    >>> leads_out("workspace/a/link", "../b")
    False
    >>> leads_out("workspace/a/link", "../../state/approvals")
    True
    >>> leads_out("workspace/link", "/etc/passwd"), leads_out("workspace/link", "b/../c")
    (True, True)
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    return target.startswith("/") or ".." in parts[climbs:] or climbs > name.count("/") - 1


def describe_left_out(left_out: Sequence[SkippedFile]) -> list[str]:
    """Describe the files left out of a backup, a line each, at most `MAX_TOLD`."""
    lines = [f"not fully in the backup: {one.name} ({one.why})" for one in left_out[:MAX_TOLD]]
    if len(left_out) > MAX_TOLD:
        lines.append(
            f"and {len(left_out) - MAX_TOLD} more; {MANIFEST} in the backup lists them all"
        )
    return lines
