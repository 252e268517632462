"""What a command sees: the folders of the system, and what of the workspace is kept from it."""

import os
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import attrs

from elwood.agent.session.turn.context import NAMES
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
INSTRUCTIONS = (*(f"{name}.md" for name in NAMES), "HEARTBEAT.md", "skills", ".agents")
# Bounds of the search for secrets in the workspace: folders deep, entries looked at, entries
# covered (each is a mount).  What is nearer to the top is found first.
MAX_DEPTH = 3
MAX_ENTRIES = 10_000
MAX_COVERED = 200


@attrs.frozen
class Guarded:
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
