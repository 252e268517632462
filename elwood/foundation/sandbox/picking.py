"""Choose the strongest sandbox that works here.  A fallback is always reported.

Each backend must pass a self-test.  It has a timeout, because bubblewrap can hang instead of
failing if a system call is denied.
"""

import os
import re
import secrets
import shutil
import socket
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec.structs import replace

from elwood.foundation.runtime import Blocking, in_thread
from elwood.foundation.sandbox import seccomp
from elwood.foundation.sandbox.bubblewrap import Bubblewrap
from elwood.foundation.sandbox.command import Command, Executor, NoSandbox, Rung, SandboxFailed
from elwood.foundation.sandbox.launched import Launched, landlock_version, open_with_landlock
from elwood.foundation.sandbox.layout import (
    MountedFolder,
    SandboxContext,
    choose_mounts,
    make_files,
)
from elwood.foundation.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from elwood.foundation.sandbox.docker import Engine

# The first bubblewrap version that can forbid nested user namespaces.
_DISABLES_USERNS = (0, 8)
_ROOT = "Elwood runs as root, so the number of processes is unlimited; run it as a normal user"
_ADVICE = "install bubblewrap (Debian: apt install bubblewrap), or see docs/sandbox.md"


# Seconds for the self-test.
SELF_TEST = 5.0
# Pending connections that other programs may make during the test; with more, the probe's own
# would wait.
_BACKLOG = 128


class ChosenSandbox(msgspec.Struct, frozen=True):
    """The chosen backend."""

    executor: Executor
    # Why there is no stronger one, and what remains possible.
    notes: tuple[str, ...] = ()
    # Why an installed stronger backend failed, or "".
    failed: str = ""

    @property
    def rung(self) -> Rung:
        return self.executor.rung


async def pick(
    settings: SandboxSettings,
    workspace: Path,
    state: Path,
    folders: Sequence[Path] = (),
    *,
    blocking: Blocking = in_thread,
) -> ChosenSandbox:
    """Choose the backend of *settings*; "auto" chooses the strongest one that works.

    Commands can read those *folders* that contain nothing private.  A backend is used only if it
    passes the self-test.  Raises NoSandbox.
    """
    context = SandboxContext(
        workspace=await blocking(workspace.resolve),
        state=await blocking(state.resolve),
        settings=settings,
        blocking=blocking,
    )
    home = await blocking(lambda: Path(os.path.expanduser("~")).resolve())
    for what, path in (("state folder", context.state), ("home folder", home)):
        if path.is_relative_to(context.workspace):
            raise NoSandbox(
                f"the {what} {path} is in the workspace {context.workspace}, which commands can "
                f"read and write; set paths.workspace to another folder"
            )
    await blocking(lambda: make_files(context.state))
    lent, notes = await blocking(
        lambda: choose_mounts(folders, context.workspace, context.state, home)
    )
    mounts = await blocking(
        lambda: tuple(
            MountedFolder(one.path.resolve(), one.place, one.mode) for one in settings.mounts
        )
    )
    picked = await _choose_kind(replace(context, lent=lent + mounts))
    return msgspec.structs.replace(picked, notes=(*picked.notes, *notes))


async def _choose_kind(context: SandboxContext) -> ChosenSandbox:
    kind = context.settings.kind
    if os.uname().machine not in seccomp.ARCHITECTURES and kind not in ("direct", "none"):
        raise NoSandbox(f"Elwood has no system call filter for {os.uname().machine}")
    match kind:
        case "auto":
            return await _try_strongest(context)
        case "bubblewrap":
            return await _try_bubblewrap(context)
        case "landlock":
            return await _try_landlock(context)
        case "docker":
            return await _try_docker(context)
        case "direct":
            notes = ("commands are not confined: they can do everything that Elwood can do",)
            return ChosenSandbox(Launched(context, "direct"), notes)
        case "none":
            raise NoSandbox('commands are turned off: sandbox.kind is "none"')


async def _try_strongest(context: SandboxContext) -> ChosenSandbox:
    order, failures = context.settings.order, list[str]()
    backends = {"bubblewrap": _try_bubblewrap, "landlock": _try_landlock, "docker": _try_docker}
    for kind in order:
        try:
            picked = await backends[kind](context)
        except NoSandbox as error:
            failures.append(error.why)
            continue
        is_installed = order[0] != "bubblewrap" or shutil.which(context.settings.bubblewrap)
        failed = failures[0] if failures and is_installed else ""
        return ChosenSandbox(picked.executor, (*failures, *picked.notes), failed)
    raise NoSandbox("; ".join((*failures, _ADVICE)))


async def _try_bubblewrap(context: SandboxContext) -> ChosenSandbox:
    name = context.settings.bubblewrap
    program = shutil.which(name)
    if program is None:
        raise NoSandbox(f"bubblewrap: the program {name} was not found")
    disables_userns = await _version(program) >= _DISABLES_USERNS
    return await _require_self_test(
        Bubblewrap(context, program, disables_userns), context, _notes()
    )


async def _version(program: str) -> tuple[int, ...]:
    """Return the version of bwrap, or () if it is unknown."""
    with trio.move_on_after(SELF_TEST):
        # A worker thread is fine here: this child uses no parent-death signal.
        done = await trio.run_process(
            [program, "--version"], capture_stdout=True, stderr=DEVNULL, check=False, env={}
        )
        if found := re.search(rb"(\d+)\.(\d+)", done.stdout):
            return tuple(int(number) for number in found.groups())
    return ()


async def _try_landlock(context: SandboxContext) -> ChosenSandbox:
    abi = landlock_version()
    if abi == 0:
        raise NoSandbox("landlock: not available in this kernel or container")
    notes = (*open_with_landlock(abi), *_notes())
    lent = tuple(one for one in context.lent if not one.mode)
    if len(lent) < len(context.lent):
        context = replace(context, lent=lent)
        notes = (
            "commands see no mounts, because this sandbox cannot hide the secret files in them",
            *notes,
        )
    return await _require_self_test(Launched(context, "landlock"), context, notes)


async def _try_docker(context: SandboxContext) -> ChosenSandbox:
    from elwood.foundation.sandbox.docker import Docker  # rarely used

    executor = Docker(context, await find_engine(context.settings))
    await _await_engine(executor.remove_orphans(), context.settings)
    return await _require_self_test(executor, context)


async def find_engine(settings: SandboxSettings) -> "Engine":
    """Find the container engine, and the image in it; changes nothing.  Raises NoSandbox."""
    from elwood.foundation.sandbox.docker import Engine

    socket = settings.docker_socket or next(filter(_is_usable, _list_sockets()), "")
    if not socket or not settings.docker_image:
        found = engines() or "no container engine was found"
        missing = "" if socket else "sandbox.docker_socket and "
        raise NoSandbox(f"docker: set {missing}sandbox.docker_image; {found}")
    engine = Engine(Path(socket))
    await _await_engine(engine.find_image(settings.docker_image), settings)
    return engine


def engines() -> str:
    """Describe a container engine at one of the usual sockets; return "" if there is none."""
    found = _list_sockets()
    usable = list(filter(_is_usable, found))
    if usable or not found:
        return "".join(f"there is a container engine at {path}" for path in usable[:1])
    return f"there is a container engine at {found[0]}, but this user has no access to it"


def _list_sockets() -> list[str]:
    user = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    places = ("/var/run/docker.sock", "/run/podman/podman.sock", f"{user}/docker.sock")
    return [path for path in (*places, f"{user}/podman/podman.sock") if os.path.exists(path)]


def _is_usable(socket: str) -> bool:
    return os.access(socket, os.W_OK)


async def _await_engine(request: Awaitable[None], settings: SandboxSettings) -> None:
    from elwood.foundation.sandbox.docker import EngineFailed

    try:
        with trio.fail_after(SELF_TEST):
            await request
    except EngineFailed as error:
        raise NoSandbox(f"docker: {error}") from error
    except trio.TooSlowError as error:
        raise NoSandbox(f"docker: no answer from {settings.docker_socket or engines()}") from error


async def _require_self_test(
    executor: Executor, context: SandboxContext, notes: tuple[str, ...] = ()
) -> ChosenSandbox:
    why = await self_test(executor, context.state)
    if why is not None:
        raise NoSandbox(f"{executor.rung}: {why}")
    return ChosenSandbox(executor, notes)


def _notes() -> tuple[str, ...]:
    return (_ROOT,) if os.getuid() == 0 else ()


# Prints forbidden things that it reached, and finally "done".  bash has /dev/tcp, sh does not.
_PROBE = r"""
ls . >/dev/null || exit 1
ls "$1" >/dev/null 2>&1 && echo "reached the state folder"
ls "$2" >/dev/null 2>&1 && echo "reached the home folder"
for pid in 1 "$3"; do tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed 's/^/variable /'; done
bash -c "printf $5 >/dev/tcp/127.0.0.1/$4" 2>/dev/null
echo done
"""


async def self_test(executor: Executor, state: Path, *, limit: float = SELF_TEST) -> str | None:
    """Return why *executor* is unsafe, or None if it passed.

    A test that does not finish within *limit* seconds runs once more: the machine may be booting.
    """
    why = ""
    for _ in range(2):
        try:
            return await _test(executor, state, limit)
        except SandboxFailed as error:
            why = error.why
    return why


async def _test(executor: Executor, state: Path, limit: float) -> str | None:
    nonce = secrets.token_hex(16)  # others may connect to any port
    with (
        trio.move_on_after(limit),
        socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener,
    ):
        listener.setblocking(False)
        port = listener.getsockname()[1]
        words = (str(state), _home_of_commands(), str(os.getpid()), str(port), nonce)
        argv = ("/bin/sh", "-c", _PROBE, "sh", *words)
        outcome = await executor.run(Command(argv=argv, timeout=limit))
        if _received_nonce(listener, nonce.encode()):
            return "the self-test reached the loopback of this machine"
        lines = outcome.output.decode(errors="replace").splitlines()
        if (fault := _find_fault(lines)) or lines[-1:] == ["done"]:
            return fault
        if not outcome.timed_out:
            said = " ".join(line for line in lines if not line.startswith("variable "))
            raise SandboxFailed(executor.rung, f"the self-test did not run: {said[:500]}")
    raise SandboxFailed(executor.rung, f"the self-test took longer than {limit:g} s")


def _home_of_commands() -> str:
    home = os.path.expanduser("~")
    return home if home != "/" else "/root"


def _received_nonce(listener: socket.socket, nonce: bytes) -> bool:
    """Return True if a connection sent *nonce*, which loopback delivers immediately."""
    for _ in range(2 * _BACKLOG):
        try:
            peer = listener.accept()[0]
        except BlockingIOError:
            return False
        with peer, suppress(OSError):  # it sent nothing, or has disconnected
            peer.setblocking(False)
            if peer.recv(len(nonce)) == nonce:
                return True
    return True  # too many connections to check all


def _find_fault(lines: list[str]) -> str | None:
    ours = {f"variable {name}={value}" for name, value in os.environ.items()}
    common = {f"variable {name}=" for name in ("PATH", "HOME", "LANG", "TERM", "HOSTNAME")}
    for line in lines:
        if line.startswith("reached "):
            return f"the self-test {line}"
        if line in ours and not line.startswith(tuple(common)):
            return "the self-test read Elwood's environment"
    return None
