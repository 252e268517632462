"""What a sandboxed command costs, against plain fork and exec, and against bwrap alone."""

import statistics
import subprocess
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
import trio

from elwood.foundation.sandbox.command import Command
from elwood.foundation.sandbox.launched import landlock_version
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import SandboxSettings
from tests.foundation.sandbox.scene import Home, make_home, without_bubblewrap, without_programs

ROUNDS = 40
TRUE = Command(argv=("true",), timeout=30)
# The same namespaces, in as few words as it can be said.
BWRAP = (
    "bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --ro-bind / / "
    "--proc /proc --dev /dev --tmpfs /run --tmpfs /tmp --bind {} /tmp/workspace true"
)


Act = Callable[[], Coroutine[None, None, object]]


async def measured(acts: dict[str, Act]) -> dict[str, list[float]]:
    """Do all of *acts* in turns, for the load of the machine changes; in milliseconds."""
    spent: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(ROUNDS):
        for name, act in acts.items():
            start = time.perf_counter()
            await act()
            spent[name].append(1000 * (time.perf_counter() - start))
    return spent


async def rungs(home: Home) -> dict[str, Act]:
    kinds: list[Literal["bubblewrap", "landlock", "direct"]] = ["bubblewrap", "direct"]
    if landlock_version() > 0:
        kinds.append("landlock")
    found: dict[str, Act] = {}
    for kind in kinds:
        picked = await pick(SandboxSettings(kind=kind), home.workspace, home.state)
        found[kind] = partial(picked.executor.run, TRUE)
    return found


def plainly(*words: str) -> Act:
    async def run() -> None:
        start(words)
        await trio.lowlevel.checkpoint()

    return run


def start(words: tuple[str, ...]) -> None:
    subprocess.run(words, check=True)


@pytest.mark.bench
async def test_a_sandboxed_command_is_not_much_slower_than_bwrap(tmp_path: Path) -> None:
    if why := without_bubblewrap() or without_programs():
        pytest.skip(f"SANDBOX NOT MEASURED: {why}")
    home = make_home(tmp_path / "house")
    alone = plainly(*BWRAP.format(home.workspace).split())
    acts = {"fork and exec": plainly("true"), "bwrap alone": alone} | await rungs(home)
    spent = await measured(acts)
    p50 = {name: statistics.median(times) for name, times in spent.items()}
    print("\n`true`             p50 ms    least   p50 to bwrap alone")
    for name, times in spent.items():
        ratio = p50[name] / p50["bwrap alone"]
        print(f"{name:>15}   {p50[name]:7.1f}  {min(times):7.1f}   {ratio:5.2f}")
    # With room for a busy machine, where each change of process waits: measured 2 and 5.
    assert p50["bubblewrap"] < 4 * p50["bwrap alone"]
    assert p50["landlock" if "landlock" in p50 else "direct"] < 12 * p50["bwrap alone"]
