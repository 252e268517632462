"""The third rung: a container of an engine, whose socket the owner gives us: as good as root.

One container per kind of workspace (writable or not) stays warm, without network.  Packages cannot
be installed in it: what commands need must be in the image.  Commands run one at a time, and what
one leaves behind is ended by starting the container anew.
"""

import hashlib
import math
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec
import trio

from elwood.foundation.net.http import Client, Exchange, Interrupted, Unreachable
from elwood.foundation.sandbox.children import Outputs
from elwood.foundation.sandbox.command import (
    Command,
    CommandOutcome,
    Rung,
    SandboxFailed,
    no_folder,
)
from elwood.foundation.sandbox.layout import (
    GIT_CONFIG,
    MADE_GIT,
    WORKSPACE,
    Mount,
    SandboxContext,
    environment,
    inside,
    made_files,
    make_files,
)
from elwood.foundation.sandbox.settings import MEGABYTE

T = TypeVar("T")

# Seconds that `timeout` in the container gives a command between TERM and KILL; it works also when
# we die.  And those after which we no longer trust it.
_KILL_AFTER = 2
_LATE = 3.0
# Seconds for an engine to answer; images are not pulled by us.
_ANSWER = 30.0
# User and group where the workspace is root's.  The group must be said, or it is 0.
_PLAIN_ID = 1000
_STDERR = 2
# Waits for ever, and buries what commands leave behind; that is two processes.
_IDLING = ["/bin/sh", "-c", "while :; do sleep 3600 & wait; done"]
_IDLE = 2


class _Id(msgspec.Struct):
    id: str = msgspec.field(name="Id")


class _Top(msgspec.Struct):
    processes: list[list[str]] | None = msgspec.field(name="Processes", default=None)


class _Exec(msgspec.Struct):
    code: int | None = msgspec.field(name="ExitCode", default=None)


class _Warm(msgspec.Struct, frozen=True):
    id: str
    mounts: list[Mount]


class Docker:
    """Runs commands in containers that bear the label of the state folder.

    *shown* are folders that the containers see where they are.
    """

    rung: Rung = "docker"

    def __init__(
        self, context: SandboxContext, engine: "Engine", shown: Sequence[str] = ()
    ) -> None:
        self._context = context
        self._engine = engine
        self._label = f"elwood={hashlib.sha256(bytes(context.state)).hexdigest()[:16]}"
        self._shown = shown
        self._warm: dict[bool, _Warm] = {}
        self._one = trio.Lock()

    def place(self, path: Path) -> str | None:
        """Say where commands find *path*; blocks."""
        return self._context.place(path, moved=True)

    async def run(self, command: Command) -> CommandOutcome:
        """Run *command*.  Raises SandboxFailed."""
        if command.streams:
            raise SandboxFailed(self.rung, "servers do not run in a container; take another rung")
        layout = await self._context.layout(command.folder)
        if layout is None:
            return no_folder(command)
        async with self._one:
            try:
                with trio.fail_after(_ANSWER):
                    warm = await self._container(command.writable, layout.mounts)
                outcome = await self._exec(warm, command)
                return msgspec.structs.replace(outcome, note=layout.note)
            except EngineFailed as error:
                raise SandboxFailed(self.rung, str(error)) from error
            except trio.TooSlowError as error:
                why = f"the engine did not answer within {_ANSWER:.0f} s"
                raise SandboxFailed(self.rung, why) from error

    async def close(self) -> None:
        self._warm.clear()
        with suppress(EngineFailed):
            await self.remove_orphans()

    async def remove_orphans(self) -> None:
        """Remove all containers that a process with this state made.  Raises EngineFailed."""
        query = f"all=true&{filters(label=self._label)}"
        for found in await self._engine.get(f"/containers/json?{query}", list[_Id]):
            await self._remove(found.id)

    async def _remove(self, id_: str) -> None:
        try:
            await self._engine.request("DELETE", f"/containers/{id_}?force=true&v=true")
        except EngineFailed as error:
            if error.status != 404:
                raise

    async def _container(self, writable: bool, mounts: list[Mount]) -> _Warm:
        warm = self._warm.get(writable)
        if warm is not None and warm.mounts == mounts:
            return warm
        if warm is not None:
            del self._warm[writable]
            await self._remove(warm.id)
        body = await self._context.blocking(lambda: self._wanted(writable, mounts))
        answer = await self._engine.request("POST", "/containers/create", body)
        id_ = msgspec.json.decode(answer, type=_Id).id
        await self._engine.request("POST", f"/containers/{id_}/start")
        warm = self._warm[writable] = _Warm(id_, mounts)
        return warm

    async def _exec(self, warm: _Warm, command: Command) -> CommandOutcome:
        wanted = {
            "Cmd": ["timeout", "-k", str(_KILL_AFTER), f"{command.timeout:g}", *command.argv],
            "Env": [
                f"{name}={value}"
                for name, value in environment(command.environment, home=WORKSPACE).items()
            ],
            "WorkingDir": inside(command.folder),
            "AttachStdin": bool(command.stdin),
            "AttachStdout": True,
            "AttachStderr": True,
        }
        path = f"/containers/{warm.id}/exec"
        id_ = msgspec.json.decode(await self._engine.request("POST", path, wanted), type=_Id).id
        outputs = Outputs(command)
        began, ended = trio.current_time(), False
        try:
            with trio.move_on_after(command.timeout + _KILL_AFTER + _LATE):
                await self._engine.attach(
                    f"/exec/{id_}/start",
                    {"Detach": False, "Tty": False},
                    command.stdin,
                    lambda kind, piece: (outputs.errors if kind == _STDERR else outputs.output).add(
                        piece
                    ),
                )
                ended = True
        finally:
            with trio.move_on_after(_ANSWER, shield=True):
                if not ended or await self._is_haunted(warm):
                    await self._engine.request("POST", f"/containers/{warm.id}/restart?t=0")
        code = (await self._engine.get(f"/exec/{id_}/json", _Exec)).code if ended else None
        # 124: it ended when asked; 137: when killed.
        late = trio.current_time() - began >= command.timeout and code in (None, 124, 137)
        return outputs.outcome(None if late else code)

    async def _is_haunted(self, warm: _Warm) -> bool:
        """Tell whether something is left of a command; if the engine cannot say, then yes."""
        try:
            top = await self._engine.get(f"/containers/{warm.id}/top", _Top)
        except EngineFailed:
            return True
        return top.processes is None or len(top.processes) > _IDLE

    def _wanted(self, writable: bool, mounts: list[Mount]) -> dict[str, object]:
        owner = os.stat(self._context.workspace)
        user = (owner.st_uid, owner.st_gid or _PLAIN_ID) if owner.st_uid else (_PLAIN_ID,) * 2
        limits = self._context.settings.limits()
        tmp = self._context.settings.tmp * MEGABYTE
        make_files(self._context.state)
        made = made_files(self._context.state)
        shown = [Mount("readonly", path, path) for path in self._shown]
        for name in MADE_GIT:
            place = f"/etc/{name}" if name == GIT_CONFIG else f"/etc/elwood/{name}"
            shown.append(Mount("readonly", place, str(made / name)))
        return {
            "Image": self._context.settings.docker_image,
            "Cmd": _IDLING,
            "Entrypoint": [],
            "User": f"{user[0]}:{user[1]}",
            "Labels": dict([self._label.split("=", 1)]),
            "NetworkDisabled": True,
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "PidsLimit": limits["NPROC"],
                "Memory": limits["DATA"],
                "MemorySwap": limits["DATA"],
                "ShmSize": tmp,
                "Ulimits": [
                    {"Name": name.lower(), "Soft": limits[name], "Hard": limits[name]}
                    for name in ("DATA", "FSIZE", "CORE")
                ],
                "Tmpfs": {"/tmp": f"size={tmp},mode=1777"},
                "Mounts": [_mounted(mount, writable=writable) for mount in (*mounts, *shown)],
            },
        }


def _mounted(mount: Mount, *, writable: bool) -> dict[str, object]:
    made = {"Target": mount.place, "ReadOnly": not (mount.kind == "shared" and writable)}
    if mount.kind == "hidden folder":
        return made | {"Type": "tmpfs"}
    return made | {"Type": "bind", "Source": mount.source}


# --- a few requests to the engine, over its Unix socket -------------------------------------------
# Docker's API in version 1.41, which podman's service speaks too.

_API = "http://engine/v1.41"
# Bytes of a body that an engine may answer with.
_MAX_BODY = 8 << 20
# Of a frame of output: one byte of kind, three of nothing, four of length.
_FRAME = 8
_UPGRADE = {"connection": "Upgrade", "upgrade": "tcp"}


class EngineFailed(Exception):
    """The engine cannot be reached, or refuses; *status* is that of its answer, 0 without one."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


class _Refusal(msgspec.Struct):
    message: str = ""


class Engine:
    """The engine behind *socket*.  Every method raises EngineFailed."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._client = Client(unix_socket=socket)

    async def request(self, method: str, path: str, body: object = None) -> bytes:
        data = b"" if body is None else msgspec.json.encode(body)
        async with self._exchange(method, path, data) as answer:
            return await answer.read(_MAX_BODY)

    async def get(self, path: str, kind: type[T]) -> T:
        """Ask for *path*, which is a *kind*."""
        return msgspec.json.decode(await self.request("GET", path), type=kind)

    async def find_image(self, name: str) -> None:
        await self.request("GET", f"/images/{quote(name, safe='/:@')}/json")

    async def attach(
        self, path: str, body: object, stdin: bytes, take: Callable[[int, bytes], None]
    ) -> None:
        """Start what *path* names, give it *stdin*, and wait for its end.

        The pieces of its output are handed to *take*, with the number of their stream.
        """
        data = msgspec.json.encode(body)
        is_whole = False
        async with self._exchange("POST", path, data, _UPGRADE) as answer:
            async with trio.open_nursery() as feeding:
                if stdin:
                    feeding.start_soon(answer.feed, stdin)
                with suppress(Interrupted):  # as bare as the others, and not out of a nursery
                    is_whole = await _frames(answer, take)
                feeding.cancel_scope.cancel()
            if not is_whole:
                raise EngineFailed("the engine broke off the output")

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, data: bytes, headers: dict[str, str] | None = None
    ) -> AsyncIterator[Exchange]:
        try:
            async with self._client.stream(
                method, _API + path, data, headers=headers, read_timeout=math.inf
            ) as answer:
                if answer.status >= 400:
                    said = _said(await answer.read(_MAX_BODY))
                    raise EngineFailed(f"the engine says {answer.status}: {said}", answer.status)
                yield answer
        except (Unreachable, Interrupted) as error:
            raise EngineFailed(f"{self._socket}: {error.why}") from error


async def _frames(answer: Exchange, take: Callable[[int, bytes], None]) -> bool:
    """Take the output apart; tell whether it ended at the end of a frame."""
    buffer = bytearray()
    kind = left = 0
    async for piece in answer:
        buffer += piece
        while buffer and (left or len(buffer) >= _FRAME):
            if not left:
                kind, left = buffer[0], int.from_bytes(buffer[4:_FRAME], "big")
                del buffer[:_FRAME]
            part = bytes(buffer[:left])
            if part:
                take(kind, part)
            del buffer[: len(part)]
            left -= len(part)
    return not (left or buffer)


def _said(answer: bytes) -> str:
    try:
        said = msgspec.json.decode(answer, type=_Refusal).message
    except msgspec.DecodeError:
        said = answer.decode(errors="replace")
    return said.strip()[:500]


def filters(**given: str) -> str:
    """Write a query that selects by *given*."""
    return "filters=" + quote(msgspec.json.encode({k: [v] for k, v in given.items()}).decode())
