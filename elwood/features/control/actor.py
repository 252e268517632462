"""The local control socket: serve the owner's command line."""

import os
import socket
import stat
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import attrs
import trio

from elwood.agent.approvals.messages import ApprovalsMail, DecideRequest, RevokePermission
from elwood.agent.approvals.prompt_text import answer_of
from elwood.agent.approvals.state import CONTROL
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.parts import WORLD, Actor, Connected, ControlCommand, Gathered, Parts
from elwood.agent.people.messages import ApprovePairing, ChangeAccess
from elwood.agent.session.core import Core, inspect
from elwood.features.control.view import encode_fitting
from elwood.foundation.net import control as wire
from elwood.foundation.runtime import (
    ActorUnavailable,
    Address,
    Blocking,
    Mailbox,
    clear_error,
    report_error,
)

# Concurrent clients; more are refused.
MAX_CLIENTS = 8
LISTEN = "the control socket"
# Seconds between two attempts to create the socket.
PAUSE = 5.0


async def build(core: Core, others: Gathered) -> Parts:
    async def run_inspect(words: Sequence[str]) -> CommandResult:
        return CommandResult(encode_fitting(inspect(core)), ok=True)

    mailbox: Mailbox[None] = Mailbox("control", 16)
    control = Control(
        core.paths.runtime, others.control, redact=core.redactor, blocking=core.environment.blocking
    )
    return Parts(
        actors=[Actor(step=6, mailbox=mailbox, body=control.run, policy=WORLD, grace=1.0)],
        control=[
            ControlCommand(name="inspect", run=run_inspect),
            *approval_commands(core.approvals),
        ],
    )


def approval_commands(approvals: Address[ApprovalsMail]) -> list[ControlCommand]:
    """Build the commands that send requests to approvals for the users of the socket."""

    async def pair(words: Sequence[str]) -> CommandResult:
        code, guest = "".join(words[:1]), "guest" in words[1:]
        return await approvals.ask(ApprovePairing(code=code, guest=guest))

    async def remove(words: Sequence[str]) -> CommandResult:
        return await approvals.ask(ChangeAccess(who=" ".join(words), role=None, by=CONTROL))

    async def decide(words: Sequence[str]) -> CommandResult:
        answer = answer_of(words[1]) if len(words) == 2 else None
        if answer is None:
            return CommandResult("give a code and an answer", ok=False)
        return await approvals.ask(DecideRequest(code=words[0], answer=answer, by=CONTROL))

    async def revoke(words: Sequence[str]) -> CommandResult:
        number = "".join(words)
        if not number.isdecimal():
            return CommandResult("give the number of a permission", ok=False)
        return await approvals.ask(RevokePermission(number=int(number[:10]), by=CONTROL))

    return [
        ControlCommand(name="pair", run=pair),
        ControlCommand(name="remove", run=remove),
        ControlCommand(name="decide", run=decide),
        ControlCommand(name="revoke", run=revoke),
    ]


class ControlUnavailable(Exception):
    """The socket cannot be created; the text has the reason and a remedy for the operator."""


@attrs.define(eq=False)
class Control:
    """Listen on ``control.sock`` in *folder* and answer Elwood's own user, and root.

    *commands* are complete when the actors run.  *redact* removes secrets from error texts.  There
    is no state: a crash costs the open connections.
    """

    _folder: Path
    _commands: Sequence[ControlCommand]
    _redact: Callable[[str], str]
    _blocking: Blocking
    _clients: int = attrs.field(default=0, init=False)

    async def run(self, mailbox: Mailbox[None]) -> None:
        self._clients = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen)
            async for _ in mailbox:
                pass
            nursery.cancel_scope.cancel()

    async def _listen(self) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(await self._create_socket()))
        try:
            await trio.serve_listeners(self._serve, [listener])
        finally:
            (self._folder / wire.NAME).unlink(missing_ok=True)

    async def _create_socket(self) -> socket.socket:
        """Create the socket; retry, because a person may have to remove another file first."""
        while True:
            try:
                listener = await self._blocking(lambda: listen(self._folder))
            except ControlUnavailable as error:
                report_error(LISTEN, str(error))
                await trio.sleep(PAUSE)
            else:
                clear_error(LISTEN)
                return listener

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            if not is_allowed(stream.socket):
                await self._send(
                    stream, _refusal("permission denied; use the same user as the running Elwood")
                )
                return
            if self._clients >= MAX_CLIENTS:
                why = f"{MAX_CLIENTS} other clients are connected; try again in a moment"
                await self._send(stream, _refusal(why))
                return
            self._clients += 1
            try:
                done = await self._answer(stream)
                await self._send(stream, done)
            finally:
                self._clients -= 1
            if isinstance(done, Connected):
                await done.serve(stream)

    async def _answer(self, stream: trio.SocketStream) -> CommandResult:
        try:
            with trio.fail_after(wire.PATIENCE):
                line = await _receive_line(stream)
        except trio.TooSlowError:
            return _refusal(f"the request was not complete after {wire.PATIENCE:.0f} s")
        if len(line) >= wire.MAX_LINE:
            return _refusal(f"a request may have at most {wire.MAX_LINE} bytes")
        try:
            request = wire.decode(line, wire.ControlRequest)
        except wire.BadLine as error:
            return _refusal(f"this version does not understand the request: {error}")
        known = {one.name: one for one in self._commands}
        if request.command not in known:
            return _refusal(
                f"the running Elwood has no command {request.command}; is its feature turned off?"
            )
        try:
            with trio.fail_after(wire.PATIENCE):
                return await known[request.command].run(request.words)
        except ActorUnavailable as error:
            return _refusal(f"{error}; try again in a moment")
        except trio.TooSlowError:
            return _refusal(f"{request.command} got no answer in time; elwood inspect may show why")

    async def _send(self, stream: trio.SocketStream, done: CommandResult) -> None:
        """Send the answer; give up on a client that has left or does not read."""
        answer = wire.ControlAnswer(done.ok, self._redact(done.text))
        with trio.move_on_after(wire.PATIENCE), suppress(trio.BrokenResourceError):
            await stream.send_all(wire.encode(answer))


def _refusal(why: str) -> CommandResult:
    return CommandResult(why, ok=False)


def listen(folder: Path) -> socket.socket:
    """Create the socket in *folder*, for our user only.  Blocks for a moment.

    A stale socket is removed, one with a listener is not.  Raises ControlUnavailable.
    """
    path = folder / wire.NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise ControlUnavailable(f"{folder} must be a folder of the same user as Elwood")
        folder.chmod(0o700)
        _remove_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The file will get this mode (Linux): unlike a umask this does not affect files
            # that another thread creates at the same time.  On other systems the folder
            # protects it until the chmod.
            with suppress(OSError):
                os.fchmod(listener.fileno(), 0o600)
            wire.bind(listener, path)
            path.chmod(0o600)
            listener.listen(MAX_CLIENTS)
        except BaseException:  # it is raised again; only the descriptor must be closed
            listener.close()
            raise
    except OSError as error:
        raise ControlUnavailable(f"cannot listen on {path}: {error}") from error
    return listener


def is_allowed(peer: socket.socket | trio.socket.SocketType) -> bool:
    """Return True if the peer process is root's or our user's, according to the kernel."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # not Linux: only the modes of the folder and the socket protect it
    size = struct.calcsize("iII")  # struct ucred: pid, uid, gid (unix(7))
    _, uid, _ = struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid in (0, os.geteuid())


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that has ended.  Raises ControlUnavailable."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ControlUnavailable(f"{path} is not a socket; move it away")
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
            pass  # its queue is full, so there is a listener
    raise ControlUnavailable(f"another Elwood is listening on {path}; stop it first")


async def _receive_line(stream: trio.SocketStream) -> bytes:
    """Return the first line, cut when the client leaves or at MAX_LINE."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < wire.MAX_LINE:
        try:
            more = await stream.receive_some(65_536)
        except trio.BrokenResourceError:
            break
        if not more:
            break
        line += more
    return bytes(line)
