"""The keeper of agent.toml: takes changes in, keeps what held before, and takes changes back."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import assert_never

import trio

from elwood.agent.approvals.messages import CommandResult
from elwood.agent.session.core import OwnConfig
from elwood.features.own_settings.messages import OwnFile, OwnMail, ReadOwn, TakeBack, WriteOwn
from elwood.features.own_settings.store import OwnFiles, read
from elwood.foundation.command_line import CliFailure
from elwood.foundation.runtime import Blocking, Mailbox, clear_error, report_error
from elwood.foundation.storage.disk import DiskFull

log = logging.getLogger("elwood.own_settings")

READING = "reading agent.toml"
# Seconds after which the file is looked at again: people may write it.
LOOK = 30.0
# Characters of what is wrong with it that are told: one message of any channel.
MAX_TOLD = 3_500
# Why the file, or what it said before, is not taken or written.
FAILURES = (OSError, ValueError, CliFailure, DiskFull)
STILL = "agent.toml does not count as it is now; what it said before stays in force."
OTHER = "agent.toml was changed meanwhile: read it again"


class OwnSettings:
    """Sets *own* to what the file says while that is good; else the last good version holds.

    *tell* tells the owner what is wrong with it, once.
    """

    def __init__(
        self,
        own: OwnConfig,
        files: OwnFiles,
        blocking: Blocking,
        tell: Callable[[str], Awaitable[object]],
    ) -> None:
        self._own = own
        self._files = files
        self._blocking = blocking
        self._tell = tell
        self._problem = ""

    async def begin(self) -> None:
        """Let what was in force before the start be in force, before anybody asks."""
        self._good = ""
        try:
            versions = await self._blocking(self._files.versions)
            self._good = versions[-1] if versions else ""
            self._own.now = self._own.read(self._good)
        except FAILURES as error:  # damaged; or an older Elwood knew it
            log.warning("old settings not understood", extra={"why": str(error)})

    async def run(self, mailbox: Mailbox[OwnMail]) -> None:
        """Look at the file now and then, and answer, until stopped."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._look(nursery)
                message: OwnMail | None = None
                with trio.move_on_after(LOOK):
                    try:
                        message = await mailbox.receive()
                    except trio.EndOfChannel:
                        break
                if message is not None:
                    await self._look(nursery)
                    await self._answer(message)
            nursery.cancel_scope.cancel()

    async def _look(self, nursery: trio.Nursery) -> None:
        self._text = ""  # as long as it cannot be read
        try:
            self._text = await self._blocking(lambda: read(self._files.path))
            await self._take(self._text)
        except FAILURES as error:
            problem = str(error)
            report_error(READING, problem)
            if problem != self._problem:
                log.warning("own settings not taken", extra={"why": problem})
                # The channel may be away: nothing else waits for that.
                nursery.start_soon(self._tell, f"{STILL}\n{problem}"[:MAX_TOLD])
            self._problem = problem
        else:
            clear_error(READING)
            self._problem = ""

    async def _take(self, text: str) -> None:
        """Let *text* be in force, and the newest version.  Raises CliFailure, DiskFull."""
        if text == self._good:
            return
        config = self._own.read(text)
        await self._blocking(lambda: self._files.keep(text))
        self._own.now, self._good = config, text
        log.info("own settings changed")

    async def _answer(self, message: OwnMail) -> None:
        match message:
            case ReadOwn():
                versions: list[str] = []
                with suppress(*FAILURES):  # who wants one back is told why
                    versions = await self._blocking(self._files.versions)
                message.reply.set(OwnFile(self._text, self._problem, len(versions)))
            case WriteOwn():
                message.reply.set(await self._write(message))
            case TakeBack():
                message.reply.set(await self._take_back())
            case _:
                assert_never(message)

    async def _write(self, wanted: WriteOwn) -> CommandResult:
        if self._text == wanted.text:
            return CommandResult("It says so.", ok=True)
        if self._text != wanted.old:
            return CommandResult(OTHER, ok=False)
        try:
            self._own.read(wanted.text)
            await self._blocking(lambda: self._files.write(wanted.text))
            self._text = wanted.text
            await self._take(wanted.text)
        except FAILURES as error:
            return CommandResult(str(error), ok=False)
        return CommandResult("It is in force; /settings undo takes it back.", ok=True)

    async def _take_back(self) -> CommandResult:
        """Go back to the version before, or, if what the file says is not good, to the last."""
        try:
            versions = ["", *await self._blocking(self._files.versions)]
            at = next((n for n in range(len(versions), 0, -1) if versions[n - 1] != self._text), 0)
            if not at:
                return CommandResult("There is nothing to take back.", ok=False)
            text = versions[at - 1]
            config = self._own.read(text)
            await self._blocking(lambda: self._files.write(text))
            if gone := len(versions) - at:
                await self._blocking(lambda: self._files.drop(gone))
        except FAILURES as error:
            return CommandResult(f"It cannot be taken back: {error}", ok=False)
        self._own.now, self._good, self._text = config, text, text
        return CommandResult("I have taken it back.", ok=True)
