"""The third rung: a container of an engine, whose socket the owner gives us: as good as root.

One container per kind of workspace (writable or not) stays warm, without network.  Packages cannot
be installed in it: what commands need must be in the image.  Commands run one at a time, and what
one leaves behind is ended by starting the container anew.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.children import Kept
from elwood.foundation.sandbox.command import (
    Command,
    CommandOutcome,
    Rung,
    SandboxFailed,
    no_folder,
)
from elwood.foundation.sandbox.engine import Engine, EngineFailed, filters
from elwood.foundation.sandbox.layout import (
    WORKSPACE,
    Guarded,
    Lent,
    environment,
    guarded,
    inside,
    moved,
    with_lent,
)
from elwood.foundation.sandbox.settings import MEGABYTE, SandboxSettings

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
    guard: Guarded


class Docker:
    """Runs commands in *workspace*, mounted into containers that bear the label of *state*.

    Commands can read what is *lent*.  *shown* are folders that the containers see where they are.
    """

    def __init__(
        self,
        engine: Engine,
        workspace: Path,
        settings: SandboxSettings,
        state: Path,
        blocking: Blocking,
        shown: Sequence[str] = (),
        lent: Sequence[Lent] = (),
    ) -> None:
        self._engine = engine
        self._workspace = workspace
        self._settings = settings
        self._blocking = blocking
        self._label = f"elwood={hashlib.sha256(bytes(state)).hexdigest()[:16]}"
        self._shown = shown
        self._lent = lent
        self._warm: dict[bool, _Warm] = {}
        self._one = trio.Lock()

    @property
    def rung(self) -> Rung:
        return "docker"

    def place(self, path: Path) -> str | None:
        """Say where commands find *path*; blocks."""
        return moved(path, self._workspace, self._lent)

    async def run(self, command: Command) -> CommandOutcome:
        """Run *command*.  Raises SandboxFailed."""
        guard = await self._blocking(
            lambda: with_lent(guarded(self._workspace, command.folder), self._lent)
        )
        if guard is None:
            return no_folder(command)
        async with self._one:
            try:
                with trio.fail_after(_ANSWER):
                    warm = await self._container(command.writable, guard)
                return await self._exec(warm, command)
            except EngineFailed as error:
                raise SandboxFailed(self.rung, str(error)) from error
            except trio.TooSlowError as error:
                why = f"the engine did not answer within {_ANSWER:.0f} s"
                raise SandboxFailed(self.rung, why) from error

    async def close(self) -> None:
        """Remove the containers."""
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

    async def _container(self, writable: bool, guard: Guarded) -> _Warm:
        warm = self._warm.get(writable)
        if warm is not None and warm.guard == guard:
            return warm
        if warm is not None:
            del self._warm[writable]
            await self._remove(warm.id)
        body = await self._blocking(lambda: self._wanted(writable, guard))
        answer = await self._engine.request("POST", "/containers/create", body)
        id_ = msgspec.json.decode(answer, type=_Id).id
        await self._engine.request("POST", f"/containers/{id_}/start")
        warm = self._warm[writable] = _Warm(id_, guard)
        return warm

    async def _exec(self, warm: _Warm, command: Command) -> CommandOutcome:
        wanted = {
            "Cmd": ["timeout", "-k", str(_KILL_AFTER), f"{command.timeout:g}", *command.argv],
            "Env": [f"{name}={value}" for name, value in self._environment(command).items()],
            "WorkingDir": inside(command.folder),
            "AttachStdin": bool(command.stdin),
            "AttachStdout": True,
            "AttachStderr": True,
        }
        path = f"/containers/{warm.id}/exec"
        id_ = msgspec.json.decode(await self._engine.request("POST", path, wanted), type=_Id).id
        output = Kept(command.limit)
        errors = output if command.merge else Kept(command.limit)
        began, ended = trio.current_time(), False
        try:
            with trio.move_on_after(command.timeout + _KILL_AFTER + _LATE):
                await self._attach(id_, command.stdin, output, errors)
                ended = True
        finally:
            with trio.move_on_after(_ANSWER, shield=True):
                if not ended or await self._is_haunted(warm):
                    await self._engine.request("POST", f"/containers/{warm.id}/restart?t=0")
        code = (await self._engine.get(f"/exec/{id_}/json", _Exec)).code if ended else None
        # 124: it ended when asked; 137: when killed.
        late = trio.current_time() - began >= command.timeout and code in (None, 124, 137)
        apart = b"" if errors is output else errors.value()
        return CommandOutcome(None if late else code, output.value(), output.cut, late, apart)

    async def _attach(self, id_: str, stdin: bytes, output: Kept, errors: Kept) -> None:
        start = {"Detach": False, "Tty": False}
        await self._engine.attach(
            f"/exec/{id_}/start",
            start,
            stdin,
            lambda kind, piece: (errors if kind == _STDERR else output).add(piece),
        )

    async def _is_haunted(self, warm: _Warm) -> bool:
        """Tell whether something is left of a command; if the engine cannot say, then yes."""
        try:
            top = await self._engine.get(f"/containers/{warm.id}/top", _Top)
        except EngineFailed:
            return True
        return top.processes is None or len(top.processes) > _IDLE

    def _environment(self, command: Command) -> dict[str, str]:
        return environment(command.environment, home=WORKSPACE)

    def _wanted(self, writable: bool, guard: Guarded) -> dict[str, object]:
        owner = os.stat(self._workspace)
        user = (owner.st_uid, owner.st_gid or _PLAIN_ID) if owner.st_uid else (_PLAIN_ID,) * 2
        limits = self._settings.limits()
        tmp = self._settings.tmp * MEGABYTE
        return {
            "Image": self._settings.docker_image,
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
                "Mounts": [*self._mounts(writable, guard)],
            },
        }

    def _mounts(self, writable: bool, guard: Guarded) -> Iterator[dict[str, object]]:
        def bind(source: Path, target: str, *, readonly: bool) -> dict[str, object]:
            place = f"{WORKSPACE}/{target}" if target else WORKSPACE
            mount = {"Type": "bind", "Source": str(source), "Target": place}
            return mount | {"ReadOnly": readonly}

        yield bind(self._workspace, "", readonly=not writable)
        for path in guard.pinned:
            yield bind(self._workspace / path, path, readonly=not writable)
        for path in guard.readonly:
            yield bind(self._workspace / path, path, readonly=True)
        for path in guard.secret_files:
            yield bind(Path("/dev/null"), path, readonly=True)
        for path in guard.secret_folders:
            yield {"Type": "tmpfs", "Target": f"{WORKSPACE}/{path}", "ReadOnly": True}
        for source, place in (*((path, path) for path in self._shown), *guard.lent):
            yield {"Type": "bind", "Source": source, "Target": place, "ReadOnly": True}
        for place, is_folder in guard.lent_secrets:
            mount = {"Type": "tmpfs"} if is_folder else {"Type": "bind", "Source": "/dev/null"}
            yield mount | {"Target": place, "ReadOnly": True}
