"""What Elwood remembers of a server: which tools were accepted, and whether it is turned off."""

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
    """The tools that were *accepted*, by name; *off* if the owner has turned the server off.

    *told* is the code of what waits that the owner was told of; one that was *met* has been asked
    for its tools before.
    """

    accepted: dict[str, ToolDefinition] = {}
    off: bool = False
    told: str = ""
    met: bool = False


def book_path(state: Path, name: str) -> Path:
    return state / "mcp" / f"{name}.json"


def read_book(path: Path) -> ServerBook:
    """Read what is known of a server; nothing is accepted if that is damaged.  Blocks."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServerBook)
    except (FileNotFoundError, msgspec.DecodeError):
        return ServerBook()


class ServerStore:
    """The file of the server *name* in the state folder *state*."""

    def __init__(self, state: Path, name: str, disk: Disk) -> None:
        self._path = book_path(state, name)
        self._disk = disk
        self._one = trio.Lock()

    def read(self) -> ServerBook:
        """Read what is known; nothing is accepted if that is damaged.  Blocks."""
        return read_book(self._path)

    async def write(self, book: ServerBook) -> None:
        """Keep *book*, on the disk when this returns.  Raises DiskFull."""
        data = msgspec.json.encode(book)
        async with self._one:
            await self._disk.blocking(partial(self._write, data))

    def _write(self, data: bytes) -> None:
        self._disk.make_folder(self._path.parent)
        self._disk.replace(self._path, data)


class LoginStore:
    """The file with the login at the server *name*: nobody but us may read it.  Blocks."""

    def __init__(self, state: Path, name: str) -> None:
        self.path = state / "mcp" / f"{name}.login.json"

    def read(self, url: str) -> Login:
        """Read what is kept of a login at *url*: tokens for another address are none."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=Login)
        except (FileNotFoundError, msgspec.DecodeError):
            return Login(url)
        return found if found.url == url else Login(url)

    def write(self, login: Login) -> None:
        """Put *login* in the place of what is kept.  Raises DiskFull, JournalBroken."""
        disk = Disk(blocking=inline, clock=time.time)
        disk.make_folder(self.path.parent)
        disk.replace(self.path, msgspec.json.encode(login))
