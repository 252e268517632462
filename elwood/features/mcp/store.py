"""Persistent state of a server: the accepted tools, and whether it is disabled."""

import time
from functools import partial
from pathlib import Path

import msgspec
import trio

from elwood.features.mcp.definitions import ToolDefinition
from elwood.features.mcp.login import Login
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk


class ServerBook(msgspec.Struct):
    """Stored state of one server."""

    accepted: dict[str, ToolDefinition] = {}  # by name
    off: bool = False  # disabled by the owner
    told: str = ""  # code of the last offer announced to the owner
    met: bool = False  # has been connected at least once


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
