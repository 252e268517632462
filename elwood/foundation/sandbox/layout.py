"""The files that a command sees: the system, the workspace without secrets, and mounted folders.

Mounted folders are outside the workspace and read-only, except mounts that the owner made writable.
The owner names them, and they are resolved once: links in them cannot lead a command elsewhere,
because each backend mounts them at its own paths or forbids all other files.
"""

import os
import re
import shutil
import stat
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.storage.paths import HARMLESS_NAMES, SECRET_NAMES, holds_secrets
from elwood.foundation.text.lines import escape_names

# Path of the workspace, in backends that can move it.
WORKSPACE = "/workspace"
# Programs and their libraries; links among them stay links.  /nix/store is world-readable on NixOS,
# so all of it is visible.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
# On NixOS a link to the programs of the machine.
NIXOS = "/run/current-system"
# Files in /etc that programs need and that reveal nothing of this machine; each costs bwrap 0.2 ms.
ETC = (
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/static",
)  # fmt: skip
# Files written for the sandbox, without users of this machine.
MADE_ETC = {
    "passwd": "root:x:0:0::/:/bin/sh\nelwood:x:1000:1000::/workspace:/bin/sh\n",
    "group": "root:x:0:\nelwood:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def _any_case(name: str) -> str:
    return "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in name)


_SECRETS, _HARMLESS = (
    [_any_case(name) for name in names] for names in (SECRET_NAMES, HARMLESS_NAMES)
)
# Keep hidden files out of git commits.  For a cover, which is not writable, git uses the content in
# its index.  It compares only those times and sizes that a cover shares with the hidden file.
GIT_CONFIG = "gitconfig"
MADE_GIT = {
    GIT_CONFIG: """[core]
	attributesFile = /etc/elwood/gitattributes
	excludesFile = /etc/elwood/gitignore
	checkStat = minimal
	trustctime = false
[safe]
	directory = *
[filter "hidden"]
	clean = "if test -w %f; then cat; else git cat-file blob :%f; fi"
	smudge = cat
	required = true
""",
    "gitattributes": "".join(
        (
            *(f"{name} filter=hidden\n" for name in _SECRETS),
            *(f"{name} !filter\n" for name in _HARMLESS),
            *(f"**/{name}/** filter=hidden\n" for name in _SECRETS),
        )
    ),
    "gitignore": "".join(f"{name}\n" for name in (*_SECRETS, *(f"!{n}" for n in _HARMLESS))),
}
# The model's instructions; commands must not change what later turns obey.
DOCUMENTS = ("SOUL.md", "IDENTITY.md", "USER.md", "AGENTS.md", "TOOLS.md", "HEARTBEAT.md")
INSTRUCTIONS = (*DOCUMENTS, "skills", ".agents")
# A password for a remote repository, and bytes of a configuration that are read.
_PASSWORD = re.compile(rb"https?://[^/\s@]+@|extraheader", re.IGNORECASE)
_MAX_CONFIG = 1 << 20
# Bounds of the search for secrets in a folder: seconds, and number of mounts (200 take bwrap a
# third of a second).  The search is breadth-first.
MAX_SECONDS = 2.0
MAX_COVERED = 200
# Bytes of a cover; a longer file gets an empty one, and git sees it as changed.
MAX_COVER = 1 << 20
_COVER = b"# hidden from commands\n"


class Mount(msgspec.Struct, frozen=True):
    """A mount in the sandbox."""

    # "shared" is writable if the command may write, and cannot be renamed by it.
    kind: Literal["shared", "readonly", "hidden file", "hidden folder"]
    # Path in the sandbox.
    place: str
    # Path on this machine.
    source: str = "/dev/null"


def environment(given: Mapping[str, str], *, home: str) -> dict[str, str]:
    """Build the environment of a command: a minimal one, and *given*."""
    folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    if os.path.exists(NIXOS):
        folders.insert(0, f"{NIXOS}/sw/bin")
    least = {"PATH": ":".join(folders), "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb"}
    return least | dict(given)


def missing_programs(programs: Iterable[str]) -> list[str]:
    """Return the *programs* that commands cannot find."""
    path = environment({}, home="/")["PATH"]
    return [name for name in programs if shutil.which(name, path=path) is None]


class Layout(msgspec.Struct, frozen=True):
    """The mounts of a command; *note* lists what is hidden, and what the search may have missed."""

    mounts: list[Mount]
    note: str = ""


def make_instructions(workspace: Path) -> None:
    """Create the missing instruction files of *workspace*, empty: only a file can be guarded.

    Blocks.
    """
    for name in INSTRUCTIONS:
        # If Elwood cannot write, a command cannot either.
        with suppress(OSError):
            if name in DOCUMENTS:
                os.close(os.open(workspace / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            else:
                os.mkdir(workspace / name, 0o700)


def mount_guarded(workspace: Path, place: str = WORKSPACE) -> list[Mount]:
    """Mount *workspace* at *place*, read-only where a command must not write.

    Only what exists can be guarded.  A link cannot: Elwood reads no instructions through one.
    Blocks.
    """
    found = [Mount("shared", place, str(workspace))]
    readonly = (name for name in INSTRUCTIONS if _is_real(workspace / name))
    found += (Mount("readonly", f"{place}/{name}", str(workspace / name)) for name in readonly)
    return [*found, *_guard_git(workspace / ".git", f"{place}/.git")]


def _guard_git(git: Path, place: str) -> Iterator[Mount]:
    """Guard what git runs for its user: hooks, and programs that a configuration names.

    The same in the repositories of submodules, which are in *git*/modules.
    """
    if git.is_symlink():
        return
    if git.is_file():
        yield Mount("readonly", place, str(git))
    elif git.is_dir():
        with suppress(OSError):
            (git / "hooks").mkdir()
        # A separate mount, so that a command cannot replace the folder.
        yield Mount("shared", place, str(git))
        for name in ("hooks", "config", "config.worktree"):
            if _is_real(git / name):
                yield Mount("readonly", f"{place}/{name}", str(git / name))
        for folder, folders, names in os.walk(git / "modules"):
            if "HEAD" in names:
                folders.clear()
                within = Path(folder)
                yield from _guard_git(within, f"{place}/{within.relative_to(git)}")


def _is_real(path: Path) -> bool:
    return path.exists() and not path.is_symlink()


class Hidden(msgspec.Struct):
    """The mounts that hide files with names typical of secrets, and guard what is within."""

    mounts: list[Mount] = []
    # The hidden names.
    names: list[str] = []
    # The bound at which the search ended, or "" if it is complete.
    cut: str = ""


def hidden(
    root: Path,
    place: str,
    covers: Path,
    clock: Callable[[], float] = time.monotonic,
    *,
    dots: bool = True,
    guards: bool = False,
) -> Hidden:
    """Hide files in *root*, mounted at *place*, with names typical of secrets, and sockets.

    A hidden folder contains only covers of its files, because git would see missing files as
    deleted.  *covers* is the folder of covers.  Without *dots*, folders with names that begin with
    a dot are also hidden, and empty, except a repository without a password in its configuration.
    With *guards* the repositories in it are guarded like that of the workspace.  Blocks.
    """
    found = Hidden()
    until = clock() + MAX_SECONDS
    for path, entry, is_within_hidden in _entries(root, dots=dots):
        if clock() > until:
            found.cut = f"{MAX_SECONDS:g} s"
            break
        is_folder = entry.is_dir(follow_symlinks=False)
        is_dotted = _is_dotted(entry, dots=dots) and not _is_open_repository(entry)
        is_socket = _is_socket(entry)
        is_repository = guards and entry.name == ".git" and path != ".git"
        is_hidden = is_within_hidden or is_dotted or is_socket or holds_secrets(entry.name)
        if not (is_hidden or is_repository):
            continue
        if not (is_folder or is_socket or entry.is_file(follow_symlinks=False)):
            continue
        if len(found.mounts) >= MAX_COVERED:
            found.cut = f"{MAX_COVERED} of them"
            break
        if not is_hidden:
            found.mounts += _guard_git(Path(entry.path), f"{place}/{path}")
            continue
        if not (is_within_hidden or is_dotted):
            found.names.append(path if place == WORKSPACE else f"{place}/{path}")
        if not is_folder:
            found.mounts.append(Mount("hidden file", f"{place}/{path}", _cover(entry, covers)))
        elif not is_within_hidden:
            found.mounts.append(Mount("hidden folder", f"{place}/{path}"))
    return found


def _is_socket(entry: "os.DirEntry[str]") -> bool:
    """Return whether *entry* is a socket: a program of the machine may listen there."""
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
        return False
    try:
        return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_open_repository(entry: "os.DirEntry[str]") -> bool:
    if entry.name != ".git":
        return False
    try:
        # Not blocking: it may be a pipe.
        fd = os.open(f"{entry.path}/config", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return not _PASSWORD.search(file.read(_MAX_CONFIG))
    except OSError:
        return False


def _is_dotted(entry: "os.DirEntry[str]", *, dots: bool) -> bool:
    return not dots and entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _entries(root: Path, *, dots: bool) -> Iterator[tuple[str, "os.DirEntry[str]", bool]]:
    """Walk *root* breadth-first: yield each path, and whether it is in a hidden folder."""
    waiting = deque([("", False)])
    while waiting:
        folder, is_hidden = waiting.popleft()
        # It vanished, or we may not read it: then a command may not either.
        with suppress(OSError), os.scandir(root / folder) as listed:
            for entry in listed:
                yield f"{folder}{entry.name}", entry, is_hidden
                if _is_dotted(entry, dots=dots):
                    continue
                if entry.is_dir(follow_symlinks=False) and (is_hidden or entry.name != ".git"):
                    is_secret = is_hidden or holds_secrets(entry.name)
                    waiting.append((f"{folder}{entry.name}/", is_secret))


def _cover(entry: "os.DirEntry[str]", covers: Path) -> str:
    """Return the path of a cover for *entry*, which git cannot distinguish without reading.

    It is not a device, because git fails on one.
    """
    try:
        like = entry.stat(follow_symlinks=False)
        size = like.st_size if like.st_size <= MAX_COVER else 0
        mode = 0o444 | (like.st_mode & 0o111)
        path = covers / f"{size}-{like.st_mtime_ns}-{mode:o}"
        if not path.exists():
            covers.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=covers, delete=False) as made:
                made.write((_COVER * (size // len(_COVER) + 1))[:size])
            os.chmod(made.name, mode)
            os.utime(made.name, ns=(like.st_mtime_ns, like.st_mtime_ns))
            os.replace(made.name, path)
    except OSError:
        return "/dev/null"  # git cannot read it, but the file stays hidden
    return str(path)


def _note(found: Sequence[Hidden]) -> str:
    """Describe what is hidden, and whether the search was complete."""
    names = [name for one in found for name in one.names]
    parts: list[str] = []
    if names:
        parts.append(f"hidden from commands, and excluded from commits: {escape_names(names)}")
    if cut := next((one.cut for one in found if one.cut), ""):
        parts.append(f"the search for secret files stopped at {cut}, so commands may see others")
    return "; ".join(parts)


# Parent of lent folders, in backends that can move them; each has a number.
SKILLS = "/skills"


class MountedFolder(msgspec.Struct, frozen=True):
    """A folder outside the workspace that commands can read."""

    path: Path
    # Path in backends that can move it.
    place: str
    # Of the owner's mounts.  A command sees a mount only if its `mounts` include it, and if the
    # search for secrets in it was complete.
    mode: Literal["", "ro", "rw"] = ""


def choose_mounts(
    folders: Sequence[Path], workspace: Path, state: Path, home: Path
) -> tuple[tuple[MountedFolder, ...], tuple[str, ...]]:
    """Return the *folders* that commands may read, and sentences with the reasons for the others.

    Folders in *workspace* are readable anyway, and commands can replace them: they are skipped.
    Folders that contain one of the three, or are in the *state* folder, are refused.  Blocks.
    """
    whole = {"state folder": state, "home folder": home, "workspace": workspace}
    lent: list[MountedFolder] = []
    refused: list[str] = []
    for number, folder in enumerate(folders, 1):
        real = folder.resolve()
        if real.is_relative_to(workspace):
            continue
        shown = [what for what, path in whole.items() if path.is_relative_to(real)]
        if shown or real.is_relative_to(state):
            what = shown[0] if shown else "state folder"
            refused.append(f"commands cannot read {folder}, because it would expose the {what}")
        else:
            lent.append(MountedFolder(real, f"{SKILLS}/{number}"))
    return tuple(lent), tuple(refused)


class SandboxContext(msgspec.Struct, frozen=True, kw_only=True):
    """Input of every backend; the folders are resolved, and commands can read those *lent*."""

    workspace: Path
    state: Path
    settings: SandboxSettings
    blocking: Blocking
    lent: tuple[MountedFolder, ...] = ()

    async def layout(self, seen: Collection[str] = ()) -> Layout:
        """Build the layout of a command that sees the mounts at the places *seen*."""
        return await self.blocking(lambda: self._layout(seen))

    def _layout(self, seen: Collection[str]) -> Layout:
        covers = get_made_folder(self.state) / "covers"
        make_instructions(self.workspace)
        mounts = mount_guarded(self.workspace)
        found = [hidden(self.workspace, WORKSPACE, covers, guards=True)]
        closed: list[str] = []
        for one in self.present():
            if one.mode and one.place not in seen:
                continue
            is_writable = one.mode == "rw"
            within = hidden(one.path, one.place, covers, dots=not one.mode, guards=is_writable)
            if one.mode and within.cut:
                why = f"the search for secret files in it stopped at {within.cut}"
                closed.append(f"commands cannot see {one.place}: {why}")
                continue
            guarded = [Mount("readonly", one.place, str(one.path))]
            if is_writable:
                shut = tuple(f"{m.place}/" for m in within.mounts if m.kind == "hidden folder")
                guarded = mount_guarded(one.path, one.place)
                guarded = [m for m in guarded if not f"{m.place}/".startswith(shut)]
            mounts += guarded
            found.append(within)
        mounts += (mount for one in found for mount in one.mounts)
        _tidy(covers, {mount.source for mount in mounts})
        return Layout(mounts, "; ".join(filter(None, (_note(found), *closed))))

    def present(self) -> list[MountedFolder]:
        """Return the lent folders that exist and are readable; blocks."""
        is_there = (os.path.isdir(one.path) and os.access(one.path, os.R_OK) for one in self.lent)
        return [one for one, there in zip(self.lent, is_there, strict=True) if there]

    def map_path(self, path: Path, *, moved: bool) -> str | None:
        """Return the path at which commands see *path*, or None.  Blocks.

        *moved*: in a backend that mounts folders at its own paths.
        """
        real = path.resolve()
        for root, place in ((self.workspace, WORKSPACE), *((o.path, o.place) for o in self.lent)):
            if real.is_relative_to(root):
                return os.path.normpath(f"{place}/{real.relative_to(root)}") if moved else str(real)
        return None


def get_made_folder(state: Path) -> Path:
    """Return the folder in *state* with the files made for the sandbox."""
    return state / "sandbox"


def make_files(state: Path) -> None:
    """Write the files for the sandbox, readable for other user ids in a container."""
    folder = get_made_folder(state)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in (MADE_ETC | MADE_GIT).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)


def _tidy(covers: Path, used: set[str]) -> None:
    """Remove unused covers, once there are many."""
    with suppress(FileNotFoundError):
        old = [path for path in covers.iterdir() if str(path) not in used]
        if len(old) > MAX_COVERED:
            for path in old:
                path.unlink(missing_ok=True)
