"""What Elwood remembers of a server: which tools were accepted, and whether it is turned off."""

from functools import partial
from pathlib import Path

import msgspec
import trio

from elwood.features.mcp.definitions import ToolDefinition
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


class ServerStore:
    """The file of the server *name* in the state folder *state*."""

    def __init__(self, state: Path, name: str, disk: Disk) -> None:
        self._path = state / "mcp" / f"{name}.json"
        self._disk = disk
        self._one = trio.Lock()

    def read(self) -> ServerBook:
        """Read what is known; nothing is accepted if that is damaged.  Blocks."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=ServerBook)
        except (FileNotFoundError, msgspec.DecodeError):
            return ServerBook()

    async def write(self, book: ServerBook) -> None:
        """Keep *book*, on the disk when this returns.  Raises DiskFull."""
        data = msgspec.json.encode(book)
        async with self._one:
            await self._disk.blocking(partial(self._write, data))

    def _write(self, data: bytes) -> None:
        self._disk.make_folder(self._path.parent)
        self._disk.replace(self._path, data)
