"""Persistent state of a server, and the programs of this machine that a new one needs."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import trio

from elwood.features.mcp.adding import NotAddable, Program, propose
from elwood.features.mcp.definitions import ToolDefinition
from elwood.features.mcp.login import Login
from elwood.features.mcp.settings import AddedServer, added_path, read_added
from elwood.foundation.runtime import inline
from elwood.foundation.sandbox.layout import SYSTEM
from elwood.foundation.storage.disk import Disk

# Seconds to look up the newest version of a package.
LOOK_UP = 60.0


class ServerBook(msgspec.Struct):
    """Stored state of one server."""

    accepted: dict[str, ToolDefinition] = {}  # by name
    off: bool = False  # disabled by the owner
    left_out: dict[str, str] = {}  # pins by name of tools that the owner does not want
    told: str = ""  # code of the last offer announced to the owner
    met: bool = False  # has been connected at least once
    completions: dict[str, str] = {}  # typed names of resources and prompts, with descriptions


def book_path(state: Path, name: str) -> Path:
    return state / "mcp" / f"{name}.json"


def read_book(path: Path) -> ServerBook:
    """Load the state of a server; a damaged file counts as empty.  Blocks."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServerBook)
    except (FileNotFoundError, msgspec.DecodeError):
        return ServerBook()


class ServerStore:
    """The state file of the server *name* in the folder *state*."""

    def __init__(self, state: Path, name: str, disk: Disk) -> None:
        self._path = book_path(state, name)
        self._disk = disk
        self._one = trio.Lock()

    def read(self) -> ServerBook:
        """Load the state; a damaged file counts as empty.  Blocks."""
        return read_book(self._path)

    async def write(self, book: ServerBook) -> None:
        """Store *book* durably.  Raises DiskFull."""
        data = msgspec.json.encode(book)
        async with self._one:
            await self._disk.blocking(partial(self._write, data))

    def _write(self, data: bytes) -> None:
        self._disk.make_folder(self._path.parent)
        self._disk.replace(self._path, data)


class AddedStore:
    """The file of the servers that were added by commands in the folder *state*.  Blocks."""

    def __init__(self, state: Path, disk: Disk) -> None:
        self._state = state
        self._disk = disk

    def add(self, name: str, server: AddedServer) -> None:
        """Store *server* as *name*.  Raises DiskFull, JournalBroken."""
        self._write({**read_added(self._state), name: server})

    def remove(self, name: str) -> None:
        """Forget the server *name*, its accepted tools and its login.

        Raises DiskFull, JournalBroken.
        """
        left = read_added(self._state)
        del left[name]
        self._write(left)
        for path in (book_path(self._state, name), LoginStore(self._state, name).path):
            path.unlink(missing_ok=True)

    def _write(self, servers: dict[str, AddedServer]) -> None:
        self._disk.make_folder(self._state)
        content = msgspec.json.format(msgspec.json.encode(servers))
        self._disk.replace(added_path(self._state), content)


class LoginStore:
    """The login file of the server *name*, readable only by us.  Blocks."""

    def __init__(self, state: Path, name: str) -> None:
        self.name = name
        self.path = state / "mcp" / f"{name}.login.json"

    def read(self, url: str) -> Login:
        """Load the login for *url*; a login for another address is ignored."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=Login)
        except (FileNotFoundError, msgspec.DecodeError):
            return Login(url)
        return found if found.url == url else Login(url)

    def write(self, login: Login) -> None:
        """Store *login*.  Raises DiskFull, JournalBroken."""
        disk = Disk(blocking=inline, clock=time.time)
        disk.make_folder(self.path.parent)
        disk.replace(self.path, msgspec.json.encode(login))


# --- a new server ---------------------------------------------------------------------------------


def propose_command(words: Sequence[str], env: Mapping[str, str], workspace: Path) -> AddedServer:
    """Propose the settings of the server that *words* start.  Blocks.  Raises NotAddable."""
    # A path may begin with ~, which a chat does not expand.
    words = [os.path.expanduser(word) if word.startswith("~/") else word for word in words]
    return propose(
        words,
        env,
        program=find_program(words[0]),
        folders=[*_find_folders(words[1:])],
        workspace=os.path.realpath(workspace),
        newest=find_newest,
    )


def find_program(name: str) -> Program:
    """Find the program *name* and the folders that it needs in the sandbox.

    Blocks.  Raises NotAddable.
    """
    found = shutil.which(name)
    if found is None:
        raise NotAddable(f"there is no program {name} on this machine; install it first")
    path = Path(os.path.abspath(found))
    folders, interpreter = [_find_root(path)], ""
    venv = path.parent.parent
    if (venv / "pyvenv.cfg").exists():
        folders.append(_find_root((venv / "bin" / "python").resolve()))
    else:
        folders.append(_find_root(path.resolve()))
        with path.open("rb") as file:
            first = file.readline(200)
        if first.startswith(b"#!") and (used := first[2:].decode(errors="replace").split()):
            run = shutil.which(used[1] if used[0].endswith("/env") and used[1:] else used[0])
            if run is not None and not _is_system(Path(run)):
                interpreter = os.path.dirname(run)
                folders += [_find_root(Path(run)), _find_root(Path(run).resolve())]
    needed = {str(one): None for one in folders if not _is_system(one)}
    return Program(str(path), tuple(needed), interpreter)


def _find_root(program: Path) -> Path:
    """Return the folder with *program* and its libraries."""
    top = program.parent.parent
    is_own = program.parent.name == "bin" and (top / "lib").is_dir() and not _is_system(program)
    return top if is_own and top not in (Path.home(), Path.home() / ".local") else program.parent


def is_hidden(path: str) -> bool:
    """Return True if *path* is on this machine, and a sandbox without mounts hides it."""
    return os.path.exists(path) and not _is_system(Path(path))


def _is_system(path: Path) -> bool:
    """Return True if the sandbox shows *path* anyway."""
    return any(path.is_relative_to(one) for one in SYSTEM)


def _find_folders(words: Sequence[str]) -> Iterator[str]:
    """Yield the folders that *words* name, or that contain the files that they name."""
    for word in dict.fromkeys(word.rpartition("=")[2] for word in words):
        path = Path(os.path.abspath(word))
        if not word.startswith(("/", "./", "../")) or not path.exists() or _is_system(path):
            continue
        yield str(path if path.is_dir() else path.parent)


def find_newest(runner: str, package: str) -> str:
    """Look up the newest version of *package* with the tools of *runner*.

    Blocks.  Raises NotAddable.
    """
    command, given = ["npm", "view", "--", package, "version"], ""
    if runner in ("uvx", "pipx"):
        command, given = ["uv", "pip", "compile", "--no-deps", "--no-header", "-q", "-"], package
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=LOOK_UP, check=True
        )
    except (OSError, subprocess.SubprocessError):
        done = None
    lines = done.stdout.split() if done is not None else []
    version = lines[0].partition("==")[2] or lines[0] if lines else ""
    if not version[:1].isdigit():
        raise NotAddable(
            f"{command[0]} could not find the newest version of {package}; write the version, "
            f"such as {package}{'==' if given else '@'}1.2.3"
        )
    return version
