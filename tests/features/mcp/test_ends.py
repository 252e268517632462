"""No process of a server survives the server or Elwood, and nothing accumulates."""

import gc
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

import elwood
from elwood.foundation.sandbox.children import family
from tests.features.mcp.house import fake, living
from tests.foundation.sandbox.scene import (
    make_marker,
    sleeping_processes,
    wait_until,
    without_bubblewrap,
)

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")
ROOT = Path(elwood.__file__).parent.parent
# Megabytes that the process may grow by in all cycles; each thousand adds some caches.
GROWTH = 30


@pytest.mark.parametrize("rung", ["bubblewrap", "direct"])
async def test_no_child_of_a_server_survives_a_killed_elwood(tmp_path: Path, rung: str) -> None:
    if rung == "bubblewrap" and (why := without_bubblewrap()):
        pytest.skip(f"MCP IN THE SANDBOX NOT TESTED: {why}")
    mark = make_marker()
    argv = [sys.executable, "-m", "tests.features.mcp.victim", rung, str(tmp_path), mark]
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, argv, cwd=ROOT, stdout=subprocess.PIPE, check=False)
        process = await nursery.start(start)
        assert (await process.stdout.receive_some()).startswith(b"ready")
        assert len(sleeping_processes(mark)) == 1
        process.kill()
    await wait_until(lambda: not sleeping_processes(mark))
    # The next one finds no process to end, and starts normally.
    async with living(tmp_path, sandbox=rung, fake=fake()) as house:
        await house.until("/mcp show fake", ": ready;")


def held() -> tuple[int, int]:
    """Count our descriptors, and the processes that descend from us."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(family({os.getpid()}))


def megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def test_killing_a_server_again_and_again_leaves_nothing(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    cycles = pytestconfig.getoption("--mcp-cycles")
    async with living(tmp_path, fake=fake()) as house:

        async def cycle() -> None:
            await house.until("/mcp show fake", ": ready;")
            assert "stopped during the call" in await house.do(["exit", 1])
            await house.ask("/mcp restart fake")
            await house.until("/mcp show fake", ": ready;")
            await house.ask("/new")

        for _ in range(3):
            await cycle()
        before, size = held(), megabytes()
        for _ in range(cycles):
            await cycle()
        with trio.fail_after(60):  # threads and sockets of others may come and go
            await wait_until(lambda: held() == before)
        assert megabytes() < size + GROWTH
