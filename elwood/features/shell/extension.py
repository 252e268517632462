"""Remind a conversation where commands run: once, and again after a change."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from elwood.agent.session.extension import Reminder, SessionExtension, build_reminder
from elwood.agent.session.log.entries import Reminded
from elwood.agent.session.log.session_log import SessionLog
from elwood.foundation.runtime import Blocking, Lock
from elwood.foundation.sandbox.command import Command, Executor, NoSandbox, SandboxFailed

# Prefix of the reminder of where commands run.
ENVIRONMENT = "[environment: "
# Programs that affect how work is done.
KNOWN = (
    "git", "python3", "uv", "node", "gcc", "rg", "jq", "curl", "sqlite3", "pandoc", "pdftotext",
    "ffmpeg", "magick", "libreoffice",
)  # fmt: skip
_LOOK = 'for name; do command -v "$name" >/dev/null && echo "$name"; done; true'
# Seconds to find the programs; one turn waits for it.
LIMIT = 5.0


class EnvironmentExtension(SessionExtension):
    """Reminds of the environment, if the owner is alone or their task runs."""

    def __init__(self, look: Callable[[], Awaitable[str]], log: SessionLog) -> None:
        self._look = look
        self._log = log

    def reminder(self) -> Reminder | None:
        turn = self._log.turn
        return self._remind if turn.is_owners_alone and not turn.rounds else None

    async def _remind(self) -> Reminded | None:
        source = "the description of the sandbox"
        return build_reminder(self._log, "environment", ENVIRONMENT, await self._look(), source)


def build_probe(
    sandbox: Executor | NoSandbox, workspace: Path, zone: str, blocking: Blocking
) -> Callable[[], Awaitable[str]]:
    """Return a function that describes where commands run, and which programs they find.

    It looks once, at its first call.  Commands run in the folder *workspace*; *zone* is the owner's
    time zone.
    """
    lock, cache = Lock(), list[str]()

    async def look() -> str:
        async with lock:
            if not cache:
                description = await _find_programs(sandbox, workspace, blocking)
                cache.append(f"{description}. The owner's time zone: {zone}.")
        return cache[0]

    return look


async def _find_programs(sandbox: Executor | NoSandbox, workspace: Path, blocking: Blocking) -> str:
    if isinstance(sandbox, NoSandbox):
        return "commands cannot be run"
    place = await blocking(partial(sandbox.map_path, workspace))
    walls = "no sandbox" if sandbox.rung == "direct" else f"{sandbox.rung}, no network"
    text = f"commands run in {place} ({walls})"
    with suppress(SandboxFailed):
        argv = ("/bin/sh", "-c", _LOOK, "sh", *KNOWN)
        outcome = await sandbox.run(Command(argv=argv, timeout=LIMIT, writable=False))
        if outcome.code == 0:
            there = outcome.output.decode(errors="replace").split()
            both = ([name for name in KNOWN if (name in there) is found] for found in (True, False))
            names = (", ".join(one) or "none" for one in both)
            text += "; programs found there: {}; not found: {}".format(*names)
    return text
