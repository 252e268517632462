"""The local control socket: answers the owner's command line about the running house."""

import os
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from math import isinf
from pathlib import Path

import trio

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ApprovePairing,
    CommandResult,
    DecideRequest,
    ListApprovals,
    RevokePermission,
)
from elwood.agent.approvals.state import CONTROL
from elwood.features.control import protocol as wire
from elwood.features.control.view import (
    MAX_STUCK,
    MAX_TEXT,
    ActorSeen,
    House,
    Inspection,
    StuckSeen,
    TroubleSeen,
    WaitSeen,
)
from elwood.features.memory.messages import Forget, MemoryMail, Rebuild
from elwood.foundation.runtime import (
    ActorStatus,
    ActorTable,
    ActorUnavailable,
    Address,
    Blocking,
    Mailbox,
    Request,
)

# Clients at once; more are turned away.
MAX_CLIENTS = 8


class ControlUnavailable(Exception):
    """The socket cannot be made; *why* says what the operator should do."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


class Control:
    """Listens on ``control.sock`` in *folder* and answers whoever runs us, and root.

    *facts* tells what *actor_table* does not know; it must not wait.  *redact* takes secrets out
    of texts that came from errors.  Owns no state: a crash costs the open connections.
    """

    def __init__(
        self,
        folder: Path,
        actor_table: ActorTable,
        facts: Callable[[], House],
        approvals: Address[ApprovalsMail],
        memory: Address[MemoryMail],
        *,
        redact: Callable[[str], str],
        blocking: Blocking,
    ) -> None:
        self._folder = folder
        self._actor_table = actor_table
        self._facts = facts
        self._approvals = approvals
        self._memory = memory
        self._redact = redact
        self._blocking = blocking
        self._clients = 0

    async def run(self, mailbox: Mailbox[None]) -> None:
        """Serve until the mailbox is closed.  Raises ControlUnavailable."""
        self._clients = 0
        listener = await self._blocking(lambda: listen(self._folder))
        path = self._folder / wire.NAME
        ours = _identity(path)
        try:
            async with trio.open_nursery() as nursery:
                stream_listener = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
                nursery.start_soon(trio.serve_listeners, self._serve, [stream_listener])
                async for _ in mailbox:
                    pass
                nursery.cancel_scope.cancel()
        finally:
            listener.close()
            if _identity(path) == ours:
                with suppress(FileNotFoundError):
                    path.unlink()

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            if not is_allowed(stream.socket):
                await _send(stream, wire.Failed("only the user who runs Elwood may ask it"))
                return
            if self._clients >= MAX_CLIENTS:
                why = f"{MAX_CLIENTS} others are asking already; try again in a moment"
                await _send(stream, wire.Failed(why))
                return
            self._clients += 1
            try:
                await self._converse(stream)
            finally:
                self._clients -= 1

    async def _converse(self, stream: trio.SocketStream) -> None:
        """Answer one request after the other, until the client goes or breaks a rule."""
        pending = bytearray()
        while True:
            line: bytes | None = None
            with trio.move_on_after(wire.PATIENCE) as patience:
                line = await _receive_line(stream, pending)
            if patience.cancelled_caught:
                why = f"no whole request within {wire.PATIENCE:.0f} s"
                await _send(stream, wire.Failed(why))
                return
            if line is None:
                return
            if len(line) >= wire.MAX_LINE:
                await _send(stream, wire.Failed(f"a request has at most {wire.MAX_LINE} bytes"))
                return
            if not await _send(stream, await self._answer(line)):
                return

    async def _answer(self, line: bytes) -> wire.Answer:
        try:
            request = wire.decode_request(line)
        except wire.BadLine as error:
            return wire.Failed(f"not a request that this version understands: {error}")
        match request:
            case wire.Inspect():
                return wire.Inspected(look(self._actor_table, self._facts(), self._redact))
            case wire.Pair(code):
                return await self._settle(ApprovePairing(code=code))
            case wire.Approvals():
                return await self._settle(ListApprovals(by=CONTROL))
            case wire.Rule(code, answer):
                return await self._settle(DecideRequest(code=code, answer=answer, by=CONTROL))
            case wire.Revoke(number):
                return await self._settle(RevokePermission(number=number, by=CONTROL))
            case wire.Forget(keys):
                return await self._settle(Forget(keys=keys), self._memory)
            case wire.Rebuild():
                return await self._settle(Rebuild(), self._memory)

    async def _settle(
        self, request: Request[CommandResult], whom: Address[MemoryMail] | None = None
    ) -> wire.Answer:
        asked = whom or self._approvals
        try:
            with trio.fail_after(wire.PATIENCE):
                settled = await asked.ask(request)
        except ActorUnavailable as error:
            return wire.Failed(f"{error}; try again in a moment")
        except trio.TooSlowError:
            why = f"no answer from {asked.name} in time; look with elwood inspect"
            return wire.Failed(why)
        return wire.Settled(settled.ok, self._redact(settled.text))


def look(actor_table: ActorTable, house: House, redact: Callable[[str], str]) -> Inspection:
    """Read the actor table off, with ages instead of times."""
    now = actor_table.now()

    def text(raw: str) -> str:
        return redact(raw.encode("utf-8", "replace").decode())[:MAX_TEXT]

    def seen(status: ActorStatus) -> ActorSeen:
        return ActorSeen(
            name=text(status.name),
            state=status.state,
            age=now - status.since,
            depth=status.depth(),
            capacity=status.capacity,
            restarts=status.restarts,
            last_crash=None if status.last_crash is None else text(status.last_crash),
            last_crash_age=None if status.last_crash is None else now - status.last_crash_at,
            waits=tuple(
                WaitSeen(text(w.what), now - w.since, None if isinf(w.limit) else w.limit)
                for w in status.waits.values()
            ),
            troubles=tuple(
                TroubleSeen(text(t.what), text(t.error), now - t.since, t.count)
                for t in status.troubles.values()
            ),
        )

    return Inspection(
        house=house,
        actors=tuple(seen(status) for status in actor_table.statuses.values()),
        stuck=tuple(
            StuckSeen(text(s.actor), text(s.what)) for s in actor_table.stuck()[:MAX_STUCK]
        ),
    )


def listen(folder: Path) -> socket.socket:
    """Make the socket in *folder*, for nobody but us; blocks for a moment.

    A socket that somebody left behind is removed, one that somebody listens on is not.
    Raises ControlUnavailable.
    """
    path = folder / wire.NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise ControlUnavailable(folder, "must be a folder of the user who runs Elwood")
        folder.chmod(0o700)
        _clear(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The mode that the name will get (Linux): unlike a umask this cannot spoil the
            # files which another thread makes at the same time.  Elsewhere the folder protects
            # it until the chmod.
            with suppress(OSError):
                os.fchmod(listener.fileno(), 0o600)
            wire.bind(listener, path)
            path.chmod(0o600)
            listener.listen(MAX_CLIENTS)
        except BaseException:  # whatever it was, and it goes on: only the descriptor must not stay
            listener.close()
            raise
    except OSError as error:
        raise ControlUnavailable(path, f"cannot listen there: {error}") from error
    return listener


def is_allowed(peer: socket.socket | trio.socket.SocketType) -> bool:
    """Tell whether the process at the other end is root's or ours, as the kernel knows it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # not Linux: the modes of folder and socket are all there is
    size = struct.calcsize("iII")  # struct ucred: pid, uid, gid (unix(7))
    _, uid, _ = struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid in (0, os.geteuid())


def _clear(path: Path) -> None:
    """Remove the socket of a house that is no more."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ControlUnavailable(path, "is not a socket; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            wire.connect(probe, path)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except FileNotFoundError:
            return
        except BlockingIOError:
            pass  # its queue is full: somebody does listen
    raise ControlUnavailable(path, "another Elwood listens there; stop it first")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


async def _receive_line(stream: trio.SocketStream, pending: bytearray) -> bytes | None:
    """Return the next line, None at the end, or a line of MAX_LINE bytes if it is longer."""
    searched = 0
    while (end := pending.find(b"\n", searched)) < 0:
        searched = len(pending)
        if searched >= wire.MAX_LINE:
            return bytes(pending[: wire.MAX_LINE])
        try:
            more = await stream.receive_some(65_536)
        except trio.BrokenResourceError:
            return None
        if not more:
            return None
        pending += more
    line = bytes(pending[: end + 1])
    del pending[: end + 1]
    return line


async def _send(stream: trio.SocketStream, answer: wire.Answer) -> bool:
    """Send within the patience; return whether the client took it."""
    with trio.move_on_after(wire.PATIENCE):
        try:
            await stream.send_all(wire.encode(answer))
        except trio.BrokenResourceError:
            return False
        return True
    return False
