"""After kill -9 no command keeps running, or the next start ends it (CP-15)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import elwood
from elwood.foundation.sandbox.children import holders, read_process, reap, title
from elwood.foundation.sandbox.command import Command, Executor, SandboxFailed
from tests.foundation.sandbox.scene import (
    Home,
    choose_backend,
    make_marker,
    sleeping_processes,
    wait_until,
)

ROOT = Path(elwood.__file__).parent.parent


@contextmanager
def run_victim(
    rung: str, home: Home, text: str, *, adopts: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Start another process that runs *text* with *rung*."""
    argv = [
        sys.executable,
        "-m",
        "tests.foundation.sandbox.victim",
        rung,
        str(home.state.parent),
        text,
    ]
    argv += ["adopts"] * adopts
    process = subprocess.Popen(argv, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("rung", ["bubblewrap", "landlock", "direct"], indirect=True)
async def test_commands_die_with_elwood(rung: tuple[str, str], home: Home) -> None:
    mark = make_marker()
    text = f"trap '' TERM HUP; (setsid sleep {mark} &); sleep {mark} & wait"
    with run_victim(rung[0], home, text) as process:
        await wait_until(lambda: len(sleeping_processes(mark)) == 2)
        process.kill()
        process.wait()
        await wait_until(lambda: not sleeping_processes(mark))
    reap(home.state)
    assert not home.running.exists()


@pytest.mark.parametrize("rung", ["landlock", "direct"], indirect=True)
async def test_the_next_start_ends_orphans(rung: tuple[str, str], home: Home) -> None:
    """The launcher is stopped, as on an extremely busy machine."""
    mark = make_marker()
    with run_victim(rung[0], home, f"(setsid sleep {mark} &); sleep {mark} & wait") as process:
        await wait_until(lambda: len(sleeping_processes(mark)) == 2)
        [launcher] = holders(home.state)
        os.kill(launcher, signal.SIGSTOP)
        process.kill()
        process.wait()
        assert len(sleeping_processes(mark)) == 2
    assert reap(home.state) == 1
    assert sleeping_processes(mark) == []


def test_sandbox_processes_have_a_title(home: Home) -> None:
    """Also a bwrap whose parent died before it could request a signal for that."""
    argv = "60"
    with (
        subprocess.Popen([title(home.state), argv], executable="/bin/sleep") as stray,
        subprocess.Popen([title(home.workspace), argv], executable="/bin/sleep") as other,
    ):
        assert reap(home.state) == 1
        assert (read_process(stray.pid), read_process(other.pid) is None) == (None, False)
        other.kill()


async def test_bwrap_has_the_title(home: Home, has_bubblewrap: None) -> None:
    """Also during its setup, and in the process that waits inside."""
    mark = make_marker()
    with run_victim("bubblewrap", home, f"sleep {mark} & wait"):
        await wait_until(lambda: len(sleeping_processes(mark)) == 1)
        assert reap(home.state) == 2
        assert sleeping_processes(mark) == []


def test_adopted_orphans_are_reaped(has_bubblewrap: None, home: Home) -> None:
    """As PID 1 of a container, Elwood adopts the first process of bwrap's sandbox."""
    with run_victim("bubblewrap", home, "exit 0", adopts=True) as process:
        assert process.wait() == 0


async def test_a_launcher_dies_with_its_command(home: Home) -> None:
    """Without isolation a command can kill it; the rest of its session still ends."""
    hands: Executor = await choose_backend("direct", home)
    mark = make_marker()
    command = Command(argv=("sh", "-c", f"sleep {mark} & kill -9 $PPID; wait"), timeout=30)
    with pytest.raises(SandboxFailed, match="was killed"):
        await hands.run(command)
    assert sleeping_processes(mark) == []
