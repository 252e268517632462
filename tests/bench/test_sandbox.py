"""What a sandboxed command costs, against plain fork and exec, and against bwrap alone."""

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
import trio

from elwood.sandbox import Command, SandboxSettings, landlock, pick
from tests.sandbox.scene import Home, make_home

ROUNDS = 40
TRUE = Command(argv=("true",), timeout=30)
# The same namespaces and folders, in as few words as it can be said.
BWRAP = (
    "bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --ro-bind /usr "
    "/usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc "
    "--dev /dev --tmpfs /tmp --bind {} /workspace true"
)


def p50(act: Callable[[], object]) -> float:
    """Return the median in milliseconds."""
    spent = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        act()
        spent.append(1000 * (time.perf_counter() - start))
    return statistics.median(spent)


async def p50_of(rung: str, home: Home) -> float:
    settings = SandboxSettings(kind=rung)  # type: ignore[arg-type]  # the test knows the rungs
    hands = (await pick(settings, home.workspace, home.state)).executor
    spent = []
    for _ in range(ROUNDS):
        start = trio.current_time()
        assert (await hands.run(TRUE)).code == 0
        spent.append(1000 * (trio.current_time() - start))
    return statistics.median(spent)


@pytest.mark.bench
def test_a_sandboxed_command_is_not_much_slower_than_bwrap(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None or not os.path.islink("/bin"):
        pytest.skip("BUBBLEWRAP NOT MEASURED: there is no bwrap, or /usr is not merged")
    home = make_home(tmp_path / "house")
    words = BWRAP.format(home.workspace).split()
    rows = {
        "fork and exec": p50(lambda: subprocess.run(["true"], check=True)),
        "bwrap alone": p50(lambda: subprocess.run(words, check=True)),
    }
    rungs = ["bubblewrap", "direct"] + ["landlock"] * (landlock.version() > 0)
    for rung in rungs:
        measure: Callable[[str, Home], Coroutine[None, None, float]] = p50_of
        rows[rung] = trio.run(measure, rung, home)
    print("\n`true`             p50 ms   to bwrap alone")
    for what, spent in rows.items():
        print(f"{what:>15}   {spent:7.1f}   {spent / rows['bwrap alone']:5.2f}")
    # With room for a busy machine: measured 1.7 and 3.
    assert rows["bubblewrap"] < 4 * rows["bwrap alone"]
    assert rows["landlock" if "landlock" in rows else "direct"] < 12 * rows["bwrap alone"]
