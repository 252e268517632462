"""What a command sees: the system, the workspace but for what is kept from it, and lent folders.

Lent folders lie outside of the workspace and may only be read.  They are named by the owner, and
resolved once: whatever a link in them says, a command finds no more than what lies in them, as each
rung leads it by names of its own or forbids the rest.
"""

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from elwood.foundation.storage.paths import holds_secrets

# Where the workspace is, in the rungs that can put it there.
WORKSPACE = "/workspace"
# Programs and their libraries; links among them stay links.  /nix/store: all of it, as on NixOS
# everybody can read it anyway.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
# On NixOS a link to the programs of the machine.
NIXOS = "/run/current-system"
# What programs read in /etc, and that tells nothing of this machine; each takes bwrap 0.2 ms.
ETC = (
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/static",
)  # fmt: skip
# Written for the sandbox: nobody of this machine is in them.
MADE_ETC = {
    "passwd": "root:x:0:0::/:/bin/sh\nelwood:x:1000:1000::/workspace:/bin/sh\n",
    "group": "root:x:0:\nelwood:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
# The model's instructions; a command must not rewrite what later turns obey.
INSTRUCTIONS = (
    *("SOUL.md", "IDENTITY.md", "USER.md", "AGENTS.md", "TOOLS.md"),
    *("HEARTBEAT.md", "skills", ".agents"),
)
# Bounds of the search for secrets in the workspace: folders deep, entries looked at, entries
# covered (each is a mount).  What is nearer to the top is found first.
MAX_DEPTH = 3
MAX_ENTRIES = 10_000
MAX_COVERED = 200


class Guarded(msgspec.Struct, frozen=True):
    """Of the workspace, by relative path: what is only read, and what is not seen.

    *pinned* folders cannot be renamed, else another could take their place.  *lent* are folders
    outside that are only read, from where they are and where they go, *lent_secrets* the files and
    folders (by the flag) that are not seen there, by where they would be.
    """

    pinned: tuple[str, ...] = ()
    readonly: tuple[str, ...] = ()
    secret_files: tuple[str, ...] = ()
    secret_folders: tuple[str, ...] = ()
    lent: tuple[tuple[str, str], ...] = ()
    lent_secrets: tuple[tuple[str, bool], ...] = ()


def environment(given: Mapping[str, str], *, home: str) -> dict[str, str]:
    """Make the environment of a command: the least that programs expect, and *given*."""
    folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    if os.path.exists(NIXOS):
        folders.insert(0, f"{NIXOS}/sw/bin")
    least = {"PATH": ":".join(folders), "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb"}
    return least | dict(given)


def inside(folder: str) -> str:
    """Say where *folder* of the workspace is, in the rungs that can put it somewhere.

    >>> inside("."), inside("src/app")
    ('/workspace', '/workspace/src/app')
    """
    return os.path.normpath(f"{WORKSPACE}/{folder}")


def guarded(workspace: Path, folder: str = ".") -> Guarded | None:
    """Look what in *workspace* must be kept from a command; None without a *folder* for it; blocks.

    Only what is there can be guarded.  A link is not followed: what it leads to has a name too.
    """
    if not (workspace / folder).is_dir():
        return None
    pinned: list[str] = []
    readonly = [name for name in INSTRUCTIONS if _is_real(workspace / name)]
    git = workspace / ".git"
    if git.is_file() and not git.is_symlink():
        readonly.append(".git")
    elif git.is_dir() and not git.is_symlink():
        pinned.append(".git")
        readonly += [f".git/{name}" for name in ("hooks", "config") if _is_real(git / name)]
    files: list[str] = []
    folders: list[str] = []
    for path, is_folder in secrets(workspace):
        (folders if is_folder else files).append(path)
    return Guarded(tuple(pinned), tuple(readonly), tuple(files), tuple(folders))


def secrets(folder: Path) -> Iterator[tuple[str, bool]]:
    """Go through what in *folder* has a name that secrets are kept under; the flag: it is a folder.

    Within the bounds above.  Blocks.
    """
    return islice(_secrets(folder), MAX_COVERED)


def _is_real(path: Path) -> bool:
    return path.exists() and not path.is_symlink()


def _secrets(root: Path) -> Iterator[tuple[str, bool]]:
    waiting = deque([("", 1)])
    left = MAX_ENTRIES
    while waiting:
        folder, depth = waiting.popleft()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    is_folder = entry.is_dir(follow_symlinks=False)
                    path = f"{folder}{entry.name}"
                    if holds_secrets(entry.name):
                        if is_folder or entry.is_file(follow_symlinks=False):
                            yield path, is_folder
                    elif is_folder and depth < MAX_DEPTH and path != ".git":
                        waiting.append((f"{path}/", depth + 1))
        except OSError:
            continue  # it went away, or we may not look: then a command may not either


# Where they are, in the rungs that can put them there; each has a number.
SKILLS = "/skills"


class Lent(msgspec.Struct, frozen=True):
    """The folder *path* of this machine; *place* is where a rung puts it that can."""

    path: Path
    place: str


def lend(
    folders: Sequence[Path], workspace: Path, state: Path, home: Path
) -> tuple[tuple[Lent, ...], tuple[str, ...]]:
    """Choose which of *folders* commands may read; the sentences say which not, and why.

    Those in *workspace* can be read anyway, and by commands replaced: they are not lent.  What
    holds one of the three, or lies in the *state* folder, is not either.  Blocks.
    """
    whole = {"state folder": state, "home folder": home, "workspace": workspace}
    lent: list[Lent] = []
    refused: list[str] = []
    for number, folder in enumerate(folders, 1):
        real = folder.resolve()
        if real.is_relative_to(workspace):
            continue
        what = next((what for what, path in whole.items() if path.is_relative_to(real)), None)
        if what is not None:
            refused.append(f"commands cannot read {folder}, as the {what} lies in it")
            continue
        if real.is_relative_to(state):
            refused.append(f"commands cannot read {folder}, as it lies in the state folder")
            continue
        lent.append(Lent(real, f"{SKILLS}/{number}"))
    return tuple(lent), tuple(refused)


def with_lent(found: Guarded | None, lent: Sequence[Lent]) -> Guarded | None:
    """Add to what is kept from a command of the workspace which of *lent* are there, and of them.

    Blocks.
    """
    if found is None:
        return None
    there = present(lent)
    covered = [
        (f"{one.place}/{path}", is_folder) for one in there for path, is_folder in secrets(one.path)
    ]
    return msgspec.structs.replace(
        found,
        lent=tuple((str(one.path), one.place) for one in there),
        lent_secrets=tuple(covered),
    )


def present(lent: Sequence[Lent]) -> list[Lent]:
    """List those that are folders now, and that we may look at; blocks."""
    return [one for one in lent if os.path.isdir(one.path) and os.access(one.path, os.R_OK)]


def moved(path: Path, workspace: Path, lent: Sequence[Lent]) -> str | None:
    """Say where commands find *path* in a rung that gives folders places of its own; blocks.

    None if they do not find it.
    """
    real = path.resolve()
    if real.is_relative_to(workspace):
        return inside(str(real.relative_to(workspace)))
    for one in lent:
        if real.is_relative_to(one.path):
            return os.path.normpath(f"{one.place}/{real.relative_to(one.path)}")
    return None


def unmoved(path: Path, workspace: Path, lent: Sequence[Lent]) -> str | None:
    """Say where commands find *path* in a rung that leaves folders where they are; blocks.

    None if they do not find it.
    """
    real = path.resolve()
    roots = (workspace, *(one.path for one in lent))
    return str(real) if any(real.is_relative_to(root) for root in roots) else None
