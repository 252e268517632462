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
from typing import Literal

import attrs
import msgspec

from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.children import Running
from elwood.foundation.sandbox.settings import SandboxSettings
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


class Mount(msgspec.Struct, frozen=True):
    """What a command finds at *place*: *source*, a path of this machine, or nothing to be seen.

    What is "shared" is written as the command may write, and cannot be renamed by it.
    """

    kind: Literal["shared", "readonly", "hidden file", "hidden folder"]
    place: str
    source: str = "/dev/null"


def environment(given: Mapping[str, str], *, home: str) -> dict[str, str]:
    """Make the environment of a command: the least that programs expect, and *given*."""
    folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    if os.path.exists(NIXOS):
        folders.insert(0, f"{NIXOS}/sw/bin")
    least = {"PATH": ":".join(folders), "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb"}
    return least | dict(given)


def inside(folder: str) -> str:
    """Say where *folder* of the workspace is, in the rungs that can put it somewhere."""
    return os.path.normpath(f"{WORKSPACE}/{folder}")


def guarded(workspace: Path, folder: str = ".") -> list[Mount] | None:
    """Mount *workspace*, but for what must be kept from a command; None without a *folder* for it.

    Only what is there can be guarded.  A link is not followed: what it leads to has a name too.
    Blocks.
    """
    if not (workspace / folder).is_dir():
        return None
    found = [Mount("shared", WORKSPACE, str(workspace))]
    readonly = [name for name in INSTRUCTIONS if _is_real(workspace / name)]
    git = workspace / ".git"
    if git.is_file() and not git.is_symlink():
        readonly.append(".git")
    elif git.is_dir() and not git.is_symlink():
        # A mount by itself, or another folder could take its place.
        found.append(Mount("shared", f"{WORKSPACE}/.git", str(git)))
        readonly += [f".git/{name}" for name in ("hooks", "config") if _is_real(git / name)]
    found += (Mount("readonly", f"{WORKSPACE}/{name}", str(workspace / name)) for name in readonly)
    return [*found, *hidden(workspace, WORKSPACE)]


def hidden(folder: Path, place: str) -> Iterator[Mount]:
    """Hide what in *folder*, which is at *place*, has a name that secrets are kept under.

    Within the bounds above.  Blocks.
    """
    for path, is_folder in islice(_secrets(folder), MAX_COVERED):
        yield Mount("hidden folder" if is_folder else "hidden file", f"{place}/{path}")


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


@attrs.frozen(kw_only=True)
class SandboxContext:
    """What every rung is given: folders, resolved; commands can read those that are *lent*."""

    workspace: Path
    state: Path
    settings: SandboxSettings
    blocking: Blocking
    lent: tuple[Lent, ...] = ()

    @property
    def running(self) -> Running:
        """Where it is written down which commands run."""
        return Running(self.state / "running")

    async def mounts(self, folder: str) -> list[Mount] | None:
        """List what a command in *folder* finds where; None if there is no such folder."""
        return await self.blocking(lambda: self._mounts(folder))

    def _mounts(self, folder: str) -> list[Mount] | None:
        found = guarded(self.workspace, folder)
        if found is not None:
            for one in self.present():
                found.append(Mount("readonly", one.place, str(one.path)))
                found += hidden(one.path, one.place)
        return found

    def present(self) -> list[Lent]:
        """List what is lent, and is a folder now that we may look at; blocks."""
        is_there = (os.path.isdir(one.path) and os.access(one.path, os.R_OK) for one in self.lent)
        return [one for one, there in zip(self.lent, is_there, strict=True) if there]

    def place(self, path: Path, *, moved: bool) -> str | None:
        """Say where commands find *path*; None if they do not.  Blocks.

        *moved*: by a rung that gives folders places of its own.
        """
        real = path.resolve()
        for root, place in ((self.workspace, WORKSPACE), *((o.path, o.place) for o in self.lent)):
            if real.is_relative_to(root):
                return os.path.normpath(f"{place}/{real.relative_to(root)}") if moved else str(real)
        return None
