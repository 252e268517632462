"""The owner's terminals: the sessions that they may attach to, and their routes."""

import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import get_args

import msgspec

from elwood.agent.channels.attached import MAX_CLIENTS
from elwood.agent.channels.frames import Mode
from elwood.agent.conversation.inbound import CommandResult, Principal
from elwood.agent.conversation.route import Route
from elwood.agent.parts import Connected
from elwood.agent.session.attached import SessionClients
from elwood.agent.session.core import Core
from elwood.features.console.client import LAST
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.text.lines import one_line

# The person at a terminal, the default session, and its route.
OWNER = Principal("console", "owner", owner=True)
CONSOLE = "console"
ROUTE = Route(channel="console")
# Valid names of sessions: each is also a file name.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NOT_CONFINED = (
    "Commands are not confined here (sandbox.kind), and one of them could pose as you. So no "
    "terminal may join. Talk on Telegram, or stop Elwood and start elwood chat."
)


def route_to(session: str) -> Route:
    """Return the route of a session: the console is one chat with a thread for each session."""
    digest = hashlib.sha256(session.encode()).digest()
    thread = "" if session == CONSOLE else str(int.from_bytes(digest[:6]))
    return msgspec.structs.replace(ROUTE, thread=thread)


def describe_absence(session: str | None) -> str:
    """Describe that no terminal is attached, and where a post to *session* can be read."""
    command = f"elwood chat --session {session}" if session else "elwood session"
    return f"no terminal is attached; to read it: {command}"


class Terminals:
    """Admit terminals to sessions."""

    def __init__(self, core: Core, clients: SessionClients) -> None:
        self._core = core
        self._clients = clients

    async def attach(self, words: Sequence[str]) -> CommandResult:
        """Admit a terminal of the control socket; the result has the name of its session."""
        if self._core.config.get(SandboxSettings).kind == "direct":
            return CommandResult(NOT_CONFINED, ok=False)
        return await self.admit(*(*words, "", "")[:2])

    async def admit(self, wanted: str, mode: str) -> CommandResult:
        """Admit a terminal, regardless of the sandbox."""
        modes: list[Mode] = [one for one in get_args(Mode) if one == mode]
        session = await self._core.environment.blocking(partial(self._find_session, wanted, mode))
        why = ""
        if self._clients.attached.is_full:
            why = f"{MAX_CLIENTS} terminals are already attached. Close one of them."
        elif not (session and modes):
            why = f"There is no conversation {one_line(wanted)}."
        elif mode != "watch" and not self._core.channels.is_owners(session):
            why = f"{session} is not your own conversation. To read it: elwood watch {session}"
        if why:
            return CommandResult(why, ok=False)
        return Connected(session, ok=True, serve=partial(self._clients.serve, session, modes[0]))

    def _find_session(self, wanted: str, mode: str) -> str:
        """Return the *wanted* session, or "" if there is none.  Blocks."""
        channels, folder = self._core.channels, self._core.paths.state / "sessions"
        if channels.is_reserving(wanted):
            routes = [one for one in channels.owner_routes() if one.channel == wanted]
            return next(filter(None, map(channels.session_at, routes)), "")
        if wanted == LAST:
            own = [path for path in folder.glob("*.jsonl") if channels.is_owners(path.stem)]
            return max(own, key=lambda path: path.stat().st_mtime).stem if own else CONSOLE
        is_name = NAME.fullmatch(wanted) is not None
        if is_name and mode == "watch" and wanted != CONSOLE:
            is_name = (folder / f"{wanted}.jsonl").exists()
        return wanted if is_name else ""
