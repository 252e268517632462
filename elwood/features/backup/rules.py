"""Backups: their names, which of them are kept, what stands in one, and what never may."""

import re
import tarfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

# Of what `Manifest` and the archive around it look like; what is newer is not restored.
VERSION = 1
# Weeks of which the newest backup is kept, beside the newest ones of all: a month to notice that
# something went wrong.
WEEKS = 4
# The members of an archive: two folders, and the list of them all.
STATE, WORKSPACE, MANIFEST = "state", "workspace", "manifest.json"

# Files, folders and links of one backup: so many that their list still fits into memory.
MAX_MEMBERS = 500_000
# Folders below one of the two; what is deeper is left out.
MAX_DEPTH = 64
# Things left out that are named to the operator.
MAX_TOLD = 20

_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"elwood-(\d{8}T\d{6}Z)\.tar\.gz")


Kind = Literal["file", "folder", "link"]


# The attribute that marks strangers' words, as GNU tar writes it down (``--xattrs``).
MARK = "SCHILY.xattr.user.elwood.untrusted"
# Bytes that are copied at once.
PIECE = 1 << 20


class BackupFailed(Exception):
    """Something was not backed up or restored; the text says why, and what the operator can do."""


class Member(msgspec.Struct, frozen=True):
    """One member of the archive, in its order.

    *size* is in bytes, *sha256* of a file's content or of where a link leads (empty for folders).
    *untrusted* says that it carries the mark of strangers' words.
    """

    name: str
    kind: Kind
    mode: int
    size: int = 0
    sha256: str = ""
    untrusted: bool = False


def member(info: tarfile.TarInfo, kind: Kind, sha256: str) -> Member:
    return Member(shown(info.name), kind, info.mode, info.size, sha256, MARK in info.pax_headers)


def shown(name: str) -> str:
    """Write *name*, as the disk has it, so that it is text, whatever its bytes are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class LeftOut(msgspec.Struct, frozen=True):
    """*name* is not in the backup, or not as it should be, because of *why*."""

    name: str
    why: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What one backup holds.

    *at* is the Unix time at which its first file was read.
    """

    version: int
    elwood: str
    at: float
    members: tuple[Member, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def files(self) -> int:
        return sum(member.kind == "file" for member in self.members)


class Backup(msgspec.Struct, frozen=True):
    """A file that is a backup by its name, begun at Unix time *at*."""

    path: Path
    at: float
    size: int


def stamp(at: float) -> str:
    """Write a Unix time, in UTC, as part of a file's name."""
    return datetime.fromtimestamp(at, UTC).strftime(_STAMP)


def name_of(at: float) -> str:
    return f"elwood-{stamp(at)}.tar.gz"


def taken_at(name: str) -> float | None:
    """Read from the name of a file when it was taken; None if it is no backup of ours."""
    found = _NAME.fullmatch(name)
    try:
        read = found and datetime.strptime(found[1], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return read.timestamp() if read else None


def surplus(taken: Iterable[float], keep: int) -> list[float]:
    """Choose from the Unix times *taken* the backups that may go, the oldest first.

    The newest *keep* stay, one at least, and the newest of each of the last `WEEKS` weeks in which
    any was taken (ISO weeks, UTC).  The clock has no say: one that is wrong removes nothing more.
    """
    newest = sorted(set(taken), reverse=True)
    of_week: dict[tuple[int, int], float] = {}
    for at in newest:
        of_week.setdefault(datetime.fromtimestamp(at, UTC).isocalendar()[:2], at)
    kept = {*newest[: max(1, keep)], *list(of_week.values())[:WEEKS]}
    return [at for at in reversed(newest) if at not in kept]


def is_plain(name: str) -> bool:
    """Tell whether *name* is that of a member: relative, below one of ours, and not climbing.

    >>> [is_plain(name) for name in ("state/a", "workspace/a/../b", "/state/a", "etc/a")]
    [True, False, False, False]
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return False
    if len(parts) > MAX_DEPTH + 1:
        return False
    return parts[0] in (STATE, WORKSPACE) or name == MANIFEST


def leaves(name: str, target: str) -> bool:
    """Tell whether the link *name*, a path, may lead out of the first folder of that path.

    A climb behind anything else counts as leaving: what stands before it may be a link.

    >>> leaves("workspace/a/link", "../b"), leaves("workspace/a/link", "../../state/approvals")
    (False, True)
    >>> leaves("workspace/link", "/etc/passwd"), leaves("workspace/link", "b/../c")
    (True, True)
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    return target.startswith("/") or ".." in parts[climbs:] or climbs > name.count("/") - 1


def told(left_out: Sequence[LeftOut]) -> list[str]:
    """Say in lines what is not in a backup, `MAX_TOLD` of them at most."""
    lines = [f"not in it: {one.name} ({one.why})" for one in left_out[:MAX_TOLD]]
    if len(left_out) > MAX_TOLD:
        lines.append(f"and {len(left_out) - MAX_TOLD} more; its {MANIFEST} has them all")
    return lines
