"""Which rung of the ladder holds here; never a lower one in silence.

A probe runs in each before it is trusted.  bubblewrap can hang instead of failing where a system
call is denied to it: hence the time-out.
"""

import os
import re
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL

import msgspec
import trio

from elwood.foundation.runtime import Blocking, in_thread
from elwood.foundation.sandbox import seccomp
from elwood.foundation.sandbox.bubblewrap import Bubblewrap, make_files
from elwood.foundation.sandbox.command import Command, Executor, NoSandbox, Rung, SandboxFailed
from elwood.foundation.sandbox.launched import (
    Direct,
    Landlock,
    landlock_version,
    open_with_landlock,
)
from elwood.foundation.sandbox.layout import Lent, lend
from elwood.foundation.sandbox.running import Running
from elwood.foundation.sandbox.settings import SandboxSettings

# From this version on bubblewrap can forbid user namespaces inside.
_DISABLES_USERNS = (0, 8)
_ROOT = "Elwood runs as root, so the number of processes is not limited; run it as a user"
_ADVICE = "install bubblewrap (Debian: apt install bubblewrap), or see docs/sandbox.md"


# Seconds for the whole self-test.
SELF_TEST = 5.0


class Picked(msgspec.Struct, frozen=True):
    """The rung that was taken; *notes* say why no higher one, and what stays open."""

    executor: Executor
    notes: tuple[str, ...] = ()

    @property
    def rung(self) -> Rung:
        return self.executor.rung


class _House(msgspec.Struct, frozen=True, kw_only=True):
    """What all rungs need."""

    workspace: Path
    state: Path
    settings: SandboxSettings
    blocking: Blocking
    limit: float
    lent: tuple[Lent, ...] = ()

    @property
    def running(self) -> Running:
        return Running(self.state / "running")


async def pick(
    settings: SandboxSettings,
    workspace: Path,
    state: Path,
    folders: Sequence[Path] = (),
    *,
    blocking: Blocking = in_thread,
    limit: float = SELF_TEST,
) -> Picked:
    """Take the rung that *settings* ask for; "auto" takes the highest one that holds.

    Commands can read those of *folders* that hold nothing to be kept from them.  A rung is taken
    only after a probe in it found nothing open, within *limit* seconds.  Raises NoSandbox.
    """
    house = _House(
        workspace=await blocking(workspace.resolve),
        state=await blocking(state.resolve),
        settings=settings,
        blocking=blocking,
        limit=limit,
    )
    _refuse_overlap(house)
    lent, notes = await blocking(lambda: lend(folders, house.workspace, house.state, _home()))
    picked = await _taken(msgspec.structs.replace(house, lent=lent))
    return msgspec.structs.replace(picked, notes=(*picked.notes, *notes))


async def _taken(house: _House) -> Picked:
    settings = house.settings
    if os.uname().machine not in seccomp.ARCHITECTURES and settings.kind not in ("direct", "none"):
        raise NoSandbox(f"no filter of system calls is known for {os.uname().machine}")
    match settings.kind:
        case "auto":
            return await _auto(house)
        case "bubblewrap":
            return await _bubblewrap(house)
        case "landlock":
            return await _landlock(house)
        case "docker":
            return await _docker(house)
        case "direct":
            return _direct(house)
        case "none":
            raise NoSandbox('commands are turned off: sandbox.kind is "none"')


def _refuse_overlap(house: _House) -> None:
    """Refuse a workspace that holds what must be kept from commands."""
    for what, path in (("state folder", house.state), ("home folder", _home())):
        if path.is_relative_to(house.workspace):
            raise NoSandbox(
                f"the {what} {path} lies in the workspace {house.workspace}, which commands may "
                f"read and write; set paths.workspace to a folder of its own"
            )


def _home() -> Path:
    return Path(os.path.expanduser("~")).resolve()


async def _auto(house: _House) -> Picked:
    try:
        return await _bubblewrap(house)
    except NoSandbox as error:
        first = error.why
    try:
        picked = await _landlock(house)
    except NoSandbox as error:
        raise NoSandbox(f"{first}; {error.why}; {_ADVICE}") from error
    return msgspec.structs.replace(picked, notes=(first, *picked.notes))


async def _bubblewrap(house: _House) -> Picked:
    program = shutil.which(house.settings.bubblewrap)
    if program is None:
        raise NoSandbox(f"bubblewrap: there is no {house.settings.bubblewrap}")
    made = house.state / "sandbox"
    await house.blocking(lambda: make_files(made))
    executor = Bubblewrap(
        program=program,
        workspace=house.workspace,
        settings=house.settings,
        running=house.running,
        made=made,
        blocking=house.blocking,
        disable_userns=await _version(program, house.limit) >= _DISABLES_USERNS,
        lent=house.lent,
    )
    await _test(executor, house)
    return Picked(executor, _notes())


async def _version(program: str, limit: float) -> tuple[int, ...]:
    """Ask bwrap for its version; nothing if it does not say."""
    with trio.move_on_after(limit):
        # In a worker thread is right here: it asks for no signal on its parent's death.
        done = await trio.run_process(
            [program, "--version"], capture_stdout=True, stderr=DEVNULL, check=False, env={}
        )
        if found := re.search(rb"(\d+)\.(\d+)", done.stdout):
            return tuple(int(number) for number in found.groups())
    return ()


async def _landlock(house: _House) -> Picked:
    abi = landlock_version()
    if abi == 0:
        raise NoSandbox("landlock: this kernel, or the container around us, does not offer it")
    executor = Landlock(
        workspace=house.workspace,
        settings=house.settings,
        running=house.running,
        blocking=house.blocking,
        python=sys.executable,
        lent=house.lent,
    )
    await _test(executor, house)
    return Picked(executor, (*open_with_landlock(abi), *_notes()))


async def _docker(house: _House) -> Picked:
    from elwood.foundation.sandbox.docker import Docker  # few choose it
    from elwood.foundation.sandbox.engine import Engine, EngineFailed

    settings = house.settings
    if not settings.docker_socket or not settings.docker_image:
        raise NoSandbox("docker: set sandbox.docker_socket and sandbox.docker_image")
    executor = Docker(
        Engine(Path(settings.docker_socket)),
        house.workspace,
        settings,
        house.state,
        house.blocking,
        lent=house.lent,
    )
    try:
        with trio.fail_after(house.limit):
            await executor.remove_orphans()
    except EngineFailed as error:
        raise NoSandbox(f"docker: {error}") from error
    except trio.TooSlowError as error:
        raise NoSandbox(f"docker: no answer from {settings.docker_socket}") from error
    await _test(executor, house)
    return Picked(executor)


def _direct(house: _House) -> Picked:
    executor = Direct(
        workspace=house.workspace,
        settings=house.settings,
        running=house.running,
        blocking=house.blocking,
    )
    return Picked(executor, ("commands are not confined: they can do all that Elwood can",))


async def _test(executor: Executor, house: _House) -> None:
    why = await self_test(executor, house.state, limit=house.limit)
    if why is not None:
        await executor.close()
        raise NoSandbox(f"{executor.rung}: {why}")


def _notes() -> tuple[str, ...]:
    return (_ROOT,) if os.getuid() == 0 else ()


# Says what it reached that it should not; and at its end that it was there at all.  bash knows
# /dev/tcp, sh does not; python3 may not be there.
_PROBE = r"""
ls . >/dev/null || exit 1
ls "$1" >/dev/null 2>&1 && echo "reached the state folder"
ls "$2" >/dev/null 2>&1 && echo "reached the home folder"
for pid in 1 "$3"; do tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed 's/^/variable /'; done
if command -v bash >/dev/null; then bash -c ": <>/dev/tcp/127.0.0.1/$4" 2>/dev/null
elif command -v python3 >/dev/null; then
    python3 -c "import socket; socket.create_connection(('127.0.0.1', $4), 2)" 2>/dev/null
else echo "unprobed"; fi
echo done
"""


async def self_test(executor: Executor, state: Path, *, limit: float = SELF_TEST) -> str | None:
    """Say why *executor* is not to be trusted; None if it held."""
    with trio.move_on_after(limit), socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        words = (str(state), _home_of_commands(), str(os.getpid()), str(port))
        argv = ("/bin/sh", "-c", _PROBE, "sh", *words)
        try:
            outcome = await executor.run(Command(argv=argv, timeout=limit))
        except SandboxFailed as error:
            return error.why
        if outcome.timed_out:
            return f"the self-test took longer than {limit:g} s"
        if _was_reached(listener):
            return "the self-test reached the loopback of this machine"
        return _fault(outcome.output.decode(errors="replace").splitlines())
    return f"the self-test took longer than {limit:g} s"


def _home_of_commands() -> str:
    home = os.path.expanduser("~")
    return home if home != "/" else "/root"


def _was_reached(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _fault(lines: list[str]) -> str | None:
    if not lines or lines[-1] != "done":
        return f"the self-test did not run: {' '.join(lines)[:500]}"
    ours = {f"variable {name}={value}" for name, value in os.environ.items()}
    common = {f"variable {name}=" for name in ("PATH", "HOME", "LANG", "TERM", "HOSTNAME")}
    for line in lines:
        if line.startswith("reached "):
            return f"the self-test {line}"
        if line in ours and not line.startswith(tuple(common)):
            return "the self-test read Elwood's environment"
    return None
