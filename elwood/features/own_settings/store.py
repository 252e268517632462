"""Read, change and undo agent.toml; its last valid version is in force."""

import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import msgspec
import trio

from elwood.agent.session.own_config import OwnConfig
from elwood.agent.session.settings import AGENT_FILE
from elwood.foundation.command_line import CliFailure
from elwood.foundation.runtime import Mailbox, clear_error, report_error
from elwood.foundation.storage.disk import Disk, DiskFull

log = logging.getLogger("elwood.own_settings")

READING = "reading agent.toml"
# Seconds between two reads of the file, which people may edit.
READ_EVERY = 30.0
# Characters of a problem that are reported: one message of any channel.
MAX_TOLD = 3_500
# Errors that keep the file, or an earlier version, from being read or written.
FAILURES = (OSError, ValueError, CliFailure, DiskFull)
# Versions kept, and bytes of one.
MAX_VERSIONS, LARGEST = 20, 20_000
STILL = "agent.toml has an error, so its last valid version stays in effect."
OTHER = "agent.toml has changed since it was read: read it again"


def read(path: Path) -> str:
    """Return the file's content, "" if there is none; blocks.  Raises OSError, ValueError."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")
    return content.decode()


class OwnSettings:
    """Applies the file to *own* while it is valid; otherwise the last valid version stays in force.

    *text* is the content, "" if it cannot be read, and *problem* the reason why it is not used.
    *versions* are the valid contents, the newest (in force) last.  *tell* reports a
    problem to the owner, once.
    """

    def __init__(
        self, own: OwnConfig, state: Path, disk: Disk, tell: Callable[[str], Awaitable[object]]
    ) -> None:
        self.text = self.problem = ""
        self.versions: list[str] = []
        self._own = own
        self._path = state / AGENT_FILE
        self._history = state / "agent-toml.json"
        self._disk = disk
        self._tell = tell
        self._turn = trio.Lock()

    async def begin(self) -> None:
        """Apply the version that was in force before the start."""
        try:
            if self._history.exists():
                data = await self._disk.blocking(self._history.read_bytes)
                self.versions = msgspec.json.decode(data, type=list[str])
            self._own.now = self._own.read(self._last_good)
        except FAILURES as error:  # damaged, or written by another version of Elwood
            log.warning("stored own settings not readable", extra={"why": str(error)})

    async def run(self, mailbox: Mailbox[None]) -> None:
        """Read the file periodically until stopped."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            async for _ in mailbox:
                pass
            nursery.cancel_scope.cancel()

    async def _watch(self) -> None:
        reported = ""
        while True:
            await self.refresh()
            if self.problem:
                report_error(READING, self.problem)
            else:
                clear_error(READING)
            if self.problem not in ("", reported):
                log.warning("own settings not applied", extra={"why": self.problem})
                await self._tell(f"{STILL}\n{self.problem}"[:MAX_TOLD])
            reported = self.problem
            await trio.sleep(READ_EVERY)

    @property
    def _last_good(self) -> str:
        return self.versions[-1] if self.versions else ""

    async def refresh(self) -> None:
        async with self._turn:
            await self._reload()

    async def write(self, text: str, old: str) -> None:
        """Write *text* if the content has the hash *old*; repeating it changes nothing.

        Raises `FAILURES`.
        """
        async with self._turn:
            await self._reload()
            if self.text == text:
                return
            if hash_text(self.text) != old:
                raise CliFailure(OTHER)
            self._own.read(text)
            await self._write_file(text)
            await self._apply(text)

    async def take_back(self) -> bool:
        """Return to the previous version or, if the file is invalid, to the last one.

        Return False if there is none.  Raises `FAILURES`.
        """
        async with self._turn:
            await self._reload()
            left = ["", *self.versions]
            while left and left[-1] == self.text:
                left.pop()
            if not left:
                return False
            config = self._own.read(left[-1])
            # In this order: a crash between them leaves a change that was not undone.
            await self._store_versions(left[1:])
            await self._write_file(left[-1])
            self._own.now, self.problem = config, ""
            return True

    async def _reload(self) -> None:
        self.text = self.problem = ""
        try:
            self.text = await self._disk.blocking(lambda: read(self._path))
            await self._apply(self.text)
        except FAILURES as error:
            self.problem = str(error)

    async def _apply(self, text: str) -> None:
        """Apply *text* and store it as the newest version."""
        if text != self._last_good:
            config = self._own.read(text)
            await self._store_versions([*self.versions, text][-MAX_VERSIONS:])
            self._own.now = config
            log.info("own settings changed")

    async def _write_file(self, text: str) -> None:
        await self._disk.blocking(lambda: self._disk.replace(self._path, text.encode()))
        self.text = text

    async def _store_versions(self, versions: list[str]) -> None:
        data = msgspec.json.encode(versions)
        await self._disk.blocking(lambda: self._disk.replace(self._history, data))
        self.versions = versions


def hash_text(text: str) -> str:
    return sha256(text.encode()).hexdigest()
