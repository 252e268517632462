from contextlib import suppress
from pathlib import Path

from elwood.foundation.storage.disk import Disk, DiskFull


class StatusMessages:
    """The status messages that are shown, each as an empty file in *folder*.

    After a kill they are still in their chats, and only their ids can delete them.
    """

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    async def add(self, chat: int, message: int) -> None:
        """Note a message; on a full disk a kill may leave it."""
        path = self._folder / f"{chat}.{message}"
        with suppress(DiskFull):
            await self._disk.blocking(lambda: self._disk.make_empty([path]))

    async def remove(self, chat: int, message: int) -> None:
        """Forget a deleted message."""
        path = self._folder / f"{chat}.{message}"
        await self._disk.blocking(lambda: self._disk.remove(path))

    async def list(self) -> list[tuple[int, int]]:
        """Return the chats and ids of the messages."""
        names = await self._disk.blocking(lambda: [path.name for path in self._folder.glob("*.*")])
        return [(int(chat), int(message)) for chat, _, message in (n.partition(".") for n in names)]
