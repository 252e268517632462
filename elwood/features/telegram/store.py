"""Which messages only say that work goes on: after a kill the next start takes them away."""

from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from elwood.foundation.storage.disk import Disk, DiskFull

FILE = "telegram.json"


class PassingMessages:
    """Chat and message id of each, in a file of the folder *state*: one for each turn that runs.

    What is sent in the moment of a kill, before it stands there, stays in the chat.
    """

    def __init__(self, state: Path, disk: Disk) -> None:
        self._path = state / FILE
        self._disk = disk
        self._known: list[tuple[int, int]] = []
        self._one = trio.Lock()

    async def read(self) -> list[tuple[int, int]]:
        """Read what an earlier process left; a damaged file tells nothing."""
        self._known = await self._disk.blocking(self._read)
        return list(self._known)

    async def add(self, chat: int, message: int) -> None:
        self._known.append((chat, message))
        await self._write()

    async def remove(self, chat: int, message: int) -> None:
        if (chat, message) in self._known:
            self._known.remove((chat, message))
            await self._write()

    def _read(self) -> list[tuple[int, int]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[tuple[int, int]])
        except (FileNotFoundError, msgspec.DecodeError):
            return []

    async def _write(self) -> None:
        async with self._one:
            data = msgspec.json.encode(self._known)
            with suppress(DiskFull):  # the room that is left is for what matters
                await self._disk.blocking(lambda: self._disk.replace(self._path, data))
