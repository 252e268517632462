"""A home with a workspace, backends to run commands in it, and checks for leftovers."""

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import trio

from elwood.foundation.runtime import in_thread
from elwood.foundation.sandbox.command import Executor
from elwood.foundation.sandbox.docker import Docker, Engine
from elwood.foundation.sandbox.layout import SandboxContext, choose_mounts, environment, make_files
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import SandboxSettings

# A timeout in seconds that is enough for a busy machine.
PATIENCE = 60.0
IMAGE = "elwood-empty:test"
# The image is empty: the programs are this machine's.
SHOWN = ("/usr", "/etc/alternatives")
INSIDE = 1000


@attrs.frozen
class Home:
    """The folders of a test."""

    workspace: Path
    state: Path

    @property
    def running(self) -> Path:
        return self.state / "running"


def make_home(base: Path) -> Home:
    home = Home(base / "workspace", base / "state")
    home.workspace.mkdir(parents=True)
    home.state.mkdir(mode=0o700)
    return home


async def choose_backend(
    rung: str, home: Home, engine: str = "", folders: Sequence[Path] = ()
) -> Executor:
    """Choose *rung*, which must hold; its commands can read *folders*."""
    if rung == "docker":
        give_away(home.workspace)
        return make_docker(engine, home.workspace, home.state, folders)
    settings = SandboxSettings(kind=rung)  # type: ignore[arg-type]  # the tests know the rungs
    return (await pick(settings, home.workspace, home.state, folders)).executor


def make_docker(engine: str, workspace: Path, state: Path, folders: Sequence[Path] = ()) -> Docker:
    settings = SandboxSettings(kind="docker", docker_socket=engine, docker_image=IMAGE)
    lent, _ = choose_mounts(folders, workspace.resolve(), state.resolve(), Path("/nowhere"))
    make_files(state)
    context = SandboxContext(
        workspace=workspace, state=state, settings=settings, blocking=in_thread, lent=lent
    )
    return Docker(context, Engine(Path(engine)), SHOWN)


def give_away(workspace: Path) -> None:
    """Make the user inside the owner of the workspace, if we are root."""
    if os.getuid() == 0:
        for path in (workspace, *workspace.rglob("*")):
            os.chown(path, INSIDE, INSIDE, follow_symlinks=False)


def without_bubblewrap() -> str:
    """Return why bubblewrap cannot work on this machine, or ""."""
    program = shutil.which("bwrap")
    if program is None:
        return "there is no bwrap (Debian: bubblewrap)"
    words = [program, "--unshare-user", "--unshare-net", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    return f"bwrap cannot work here: {done.stderr.strip()}" if done.returncode else ""


def without_programs() -> str:
    """Return why commands cannot run, or ""; Nix builders have no programs in the usual folders."""
    path = environment({}, home="/")["PATH"]
    missing = [name for name in ("sh", "sleep", "git") if shutil.which(name, path=path) is None]
    return f"there is no {missing[0]} on {path}" if missing else ""


def make_marker() -> str:
    """Return a unique number of seconds, to identify a sleeping process on this machine."""
    return f"{random.randrange(10**5, 10**6)}.{random.randrange(10**5, 10**6)}"


def sleeping_processes(mark: str) -> list[int]:
    """Return the processes that sleep for *mark* seconds."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[:2] == [b"sleep", mark.encode()]:
            found.append(int(name))
    return found


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait until *condition* is true."""
    with trio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the world outside has no events
            await trio.sleep(0.01)
