"""agent.toml, and what it said before: read, changed, and taken back; what is good holds."""

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
# Seconds after which the file is looked at again: people may write it.
LOOK = 30.0
# Characters of what is wrong with it that are told: one message of any channel.
MAX_TOLD = 3_500
# Why the file, or what it said before, is not taken or written.
FAILURES = (OSError, ValueError, CliFailure, DiskFull)
# Versions that are kept, and bytes of one.
MAX_VERSIONS, LARGEST = 20, 20_000
STILL = "agent.toml does not count as it is now; what it said before stays in force."
OTHER = "agent.toml was changed meanwhile: read it again"


def read(path: Path) -> str:
    """Return what the file says, "" if there is none; blocks.  Raises OSError and ValueError."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")
    return content.decode()


class OwnSettings:
    """Sets *own* to what the file says while that is good; else the last good version holds.

    *text* is what it says, empty as long as it cannot be read, and *problem* why that does not
    count.  *versions* are what it said when it was good, the newest last: that is in force.  *tell*
    tells the owner what is wrong with it, once.
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
        """Let what was in force before the start be in force, before anybody asks."""
        try:
            if self._history.exists():
                data = await self._disk.blocking(self._history.read_bytes)
                self.versions = msgspec.json.decode(data, type=list[str])
            self._own.now = self._own.read(self._good)
        except FAILURES as error:  # damaged; or an older Elwood knew it
            log.warning("old settings not understood", extra={"why": str(error)})

    async def run(self, mailbox: Mailbox[None]) -> None:
        """Look at the file now and then, until stopped."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            async for _ in mailbox:
                pass
            nursery.cancel_scope.cancel()

    async def _watch(self) -> None:
        told = ""
        while True:
            await self.look()
            if self.problem:
                report_error(READING, self.problem)
            else:
                clear_error(READING)
            if self.problem not in ("", told):
                log.warning("own settings not taken", extra={"why": self.problem})
                await self._tell(f"{STILL}\n{self.problem}"[:MAX_TOLD])
            told = self.problem
            await trio.sleep(LOOK)

    @property
    def _good(self) -> str:
        return self.versions[-1] if self.versions else ""

    async def look(self) -> None:
        async with self._turn:
            await self._look()

    async def write(self, text: str, old: str) -> None:
        """Let the file say *text* instead of what has the hash *old*; again changes nothing.

        Raises what is in `FAILURES`.
        """
        async with self._turn:
            await self._look()
            if self.text == text:
                return
            if hashed(self.text) != old:
                raise CliFailure(OTHER)
            self._own.read(text)
            await self._put(text)
            await self._take(text)

    async def take_back(self) -> bool:
        """Go back to the version before, or, if what the file says is not good, to the last.

        False if there is none.  Raises what is in `FAILURES`.
        """
        async with self._turn:
            await self._look()
            left = ["", *self.versions]
            while left and left[-1] == self.text:
                left.pop()
            if not left:
                return False
            config = self._own.read(left[-1])
            # In this order: what comes between leaves a change that was not taken back.
            await self._keep(left[1:])
            await self._put(left[-1])
            self._own.now, self.problem = config, ""
            return True

    async def _look(self) -> None:
        self.text = self.problem = ""
        try:
            self.text = await self._disk.blocking(lambda: read(self._path))
            await self._take(self.text)
        except FAILURES as error:
            self.problem = str(error)

    async def _take(self, text: str) -> None:
        """Let *text* be in force, and the newest version."""
        if text != self._good:
            config = self._own.read(text)
            await self._keep([*self.versions, text][-MAX_VERSIONS:])
            self._own.now = config
            log.info("own settings changed")

    async def _put(self, text: str) -> None:
        await self._disk.blocking(lambda: self._disk.replace(self._path, text.encode()))
        self.text = text

    async def _keep(self, versions: list[str]) -> None:
        data = msgspec.json.encode(versions)
        await self._disk.blocking(lambda: self._disk.replace(self._history, data))
        self.versions = versions


def hashed(text: str) -> str:
    return sha256(text.encode()).hexdigest()
