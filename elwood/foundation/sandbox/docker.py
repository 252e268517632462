"""The Docker backend: a container engine, whose socket (equivalent to root) the owner configures.

Each command has its own container, without network, which ends with it.  Packages cannot be
installed in it: the image must contain everything that commands need.
"""

import hashlib
import math
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import msgspec
import trio

from elwood.foundation.net.http import Client, Exchange, Interrupted, Unreachable
from elwood.foundation.sandbox.children import Outputs
from elwood.foundation.sandbox.command import Command, CommandOutcome, Rung, SandboxFailed
from elwood.foundation.sandbox.layout import (
    GIT_CONFIG,
    MADE_GIT,
    WORKSPACE,
    Mount,
    SandboxContext,
    environment,
    get_made_folder,
)
from elwood.foundation.sandbox.settings import MEGABYTE

# Seconds between TERM and KILL of `timeout` in the container, which works even if Elwood dies; and
# its exit codes after a timeout.
_KILL_AFTER = 2
_LATE = (124, 137)
# Seconds for the engine to respond, in addition to the command's; Elwood does not pull images.
_ANSWER = 30.0
# User and group if root owns the workspace.  The group must be explicit, or it is 0.
_PLAIN_ID = 1000
_STDERR = 2


class _Id(msgspec.Struct):
    id: str = msgspec.field(name="Id")


class _Ended(msgspec.Struct):
    code: int = msgspec.field(name="StatusCode")


class Docker:
    """Run commands in containers labelled with the state folder.

    *shown* are folders that containers see at their own paths.
    """

    rung: Rung = "docker"

    def __init__(
        self, context: SandboxContext, engine: "Engine", shown: Sequence[str] = ()
    ) -> None:
        self._context = context
        self._engine = engine
        self._label = f"elwood={hashlib.sha256(bytes(context.state)).hexdigest()[:16]}"
        self._shown = shown

    def map_path(self, path: Path) -> str | None:
        return self._context.map_path(path, moved=True)

    async def run(self, command: Command) -> CommandOutcome:
        if command.streams:
            raise SandboxFailed(
                self.rung, "MCP servers do not run in a container; use another sandbox.kind"
            )
        layout = await self._context.layout(command.mounts)
        body = await self._context.blocking(lambda: self._request_body(command, layout.mounts))
        name = f"elwood-{uuid4().hex}"
        try:
            try:
                with trio.fail_after(command.timeout + _ANSWER):
                    await self._engine.request("POST", f"/containers/create?name={name}", body)
                    outcome = await self._attach(f"/containers/{name}", command)
            finally:
                with trio.move_on_after(_ANSWER, shield=True):
                    await self._remove(name)
        except EngineFailed as error:
            raise SandboxFailed(self.rung, str(error)) from error
        except trio.TooSlowError as error:
            raise SandboxFailed(self.rung, "the engine does not answer") from error
        return msgspec.structs.replace(outcome, note=layout.note)

    async def remove_orphans(self) -> None:
        """Remove all containers created with this state folder.  Raises EngineFailed."""
        label = quote(msgspec.json.encode({"label": [self._label]}))
        found = await self._engine.request("GET", f"/containers/json?all=true&filters={label}")
        for container in msgspec.json.decode(found, type=list[_Id]):
            await self._remove(container.id)

    async def _remove(self, name: str) -> None:
        try:
            await self._engine.request("DELETE", f"/containers/{name}?force=true&v=true")
        except EngineFailed as error:
            if error.status != 404:
                raise

    async def _attach(self, path: str, command: Command) -> CommandOutcome:
        outputs = Outputs(command)
        began = trio.current_time()
        query = "stream=true&stdin=true&stdout=true&stderr=true"
        attach = self._engine.exchange("POST", f"{path}/attach?{query}", b"", _UPGRADE)
        async with attach as streams:
            await self._engine.request("POST", f"{path}/start")
            await _exchange_streams(streams, command.stdin, outputs)
        ended = await self._engine.request("POST", f"{path}/wait")
        code = msgspec.json.decode(ended, type=_Ended).code
        is_late = trio.current_time() - began >= command.timeout and code in _LATE
        return outputs.outcome(None if is_late else code)

    def _request_body(self, command: Command, mounts: list[Mount]) -> dict[str, object]:
        owner = os.stat(self._context.workspace)
        user = (owner.st_uid, owner.st_gid or _PLAIN_ID) if owner.st_uid else (_PLAIN_ID,) * 2
        limits = self._context.settings.limits()
        settings = self._context.settings
        tmp = settings.tmp * MEGABYTE
        made = get_made_folder(self._context.state)
        shown = [Mount("readonly", path, path) for path in self._shown]
        for name in MADE_GIT:
            place = f"/etc/{name}" if name == GIT_CONFIG else f"/etc/elwood/{name}"
            shown.append(Mount("readonly", place, str(made / name)))
        given = environment(command.environment, home=WORKSPACE)
        return {
            "Image": settings.docker_image,
            "Cmd": ["timeout", "-k", str(_KILL_AFTER), f"{command.timeout:g}", *command.argv],
            "Entrypoint": [],
            "Env": [f"{name}={value}" for name, value in given.items()],
            "WorkingDir": WORKSPACE,
            "OpenStdin": bool(command.stdin),
            "StdinOnce": True,
            "User": f"{user[0]}:{user[1]}",
            "Labels": dict([self._label.split("=", 1)]),
            "NetworkDisabled": True,
            "HostConfig": {
                "NetworkMode": "none",
                "LogConfig": {"Type": "none"},
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "PidsLimit": limits["NPROC"],
                "NanoCpus": int(settings.docker_cpus * 1e9),
                "Runtime": settings.docker_runtime,
                "Memory": limits["DATA"],
                "MemorySwap": limits["DATA"],
                "ShmSize": tmp,
                "Ulimits": [
                    {"Name": name.lower(), "Soft": limits[name], "Hard": limits[name]}
                    for name in ("DATA", "FSIZE", "CORE")
                ],
                "Tmpfs": {"/tmp": f"size={tmp},mode=1777"},
                "Mounts": [_mount_options(mount, command) for mount in (*mounts, *shown)],
            },
        }


def _mount_options(mount: Mount, command: Command) -> dict[str, object]:
    made = {"Target": mount.place, "ReadOnly": not (mount.kind == "shared" and command.writable)}
    if mount.kind == "hidden folder":
        return made | {"Type": "tmpfs"}
    return made | {"Type": "bind", "Source": mount.source}


# --- a few requests to the engine, over its Unix socket -------------------------------------------
# Docker's API in version 1.41, which podman also supports.

_API = "http://engine/v1.41"
# Maximum bytes of a response body.
_MAX_BODY = 8 << 20
# Bytes of a frame header: one of kind, three unused, four of length.
_FRAME = 8
_UPGRADE = {"connection": "Upgrade", "upgrade": "tcp"}


class EngineFailed(Exception):
    """The engine is unreachable or refuses; *status* is that of its response, or 0."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


class Engine:
    """The engine behind *socket*.  Every method raises EngineFailed."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._client = Client(unix_socket=socket)

    async def request(self, method: str, path: str, body: object = None) -> bytes:
        data = b"" if body is None else msgspec.json.encode(body)
        async with self.exchange(method, path, data) as answer:
            return await answer.read(_MAX_BODY)

    async def find_image(self, name: str) -> None:
        await self.request("GET", f"/images/{quote(name, safe='/:@')}/json")

    @asynccontextmanager
    async def exchange(
        self, method: str, path: str, data: bytes, headers: dict[str, str] | None = None
    ) -> AsyncIterator[Exchange]:
        try:
            async with self._client.stream(
                method, _API + path, data, headers=headers, read_timeout=math.inf
            ) as answer:
                if answer.status >= 400:
                    text = (await answer.read(_MAX_BODY)).decode(errors="replace").strip()
                    why = f"the engine answered {answer.status}: {text[:500]}"
                    raise EngineFailed(why, answer.status)
                yield answer
        except (Unreachable, Interrupted) as error:
            raise EngineFailed(f"{self._socket}: {error.why}") from error


async def _exchange_streams(streams: Exchange, stdin: bytes, outputs: Outputs) -> None:
    """Send the input of a container, and read its output to the end.  Raises EngineFailed."""
    is_whole = False
    async with trio.open_nursery() as feeding:
        if stdin:
            feeding.start_soon(streams.feed, stdin)
        with suppress(Interrupted):  # raised below as EngineFailed, outside the nursery
            is_whole = await _read_frames(streams, outputs)
        feeding.cancel_scope.cancel()
    if not is_whole:
        raise EngineFailed("the engine cut off the output")


async def _read_frames(streams: Exchange, outputs: Outputs) -> bool:
    """Read the frames of the output; return True if it ended at the end of a frame."""
    buffer = bytearray()
    kind = left = 0
    async for piece in streams:
        buffer += piece
        while buffer and (left or len(buffer) >= _FRAME):
            if not left:
                kind, left = buffer[0], int.from_bytes(buffer[4:_FRAME], "big")
                del buffer[:_FRAME]
            part = bytes(buffer[:left])
            (outputs.errors if kind == _STDERR else outputs.output).add(part)
            del buffer[: len(part)]
            left -= len(part)
    return not (left or buffer)
