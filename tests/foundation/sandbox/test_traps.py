"""The traps in docs/sandbox.md; each was a bug on some machine."""

import shutil
import threading
from pathlib import Path

import pytest
import trio

from elwood.foundation.runtime import in_thread
from elwood.foundation.sandbox.bubblewrap import Bubblewrap
from elwood.foundation.sandbox.command import Command, SandboxFailed
from elwood.foundation.sandbox.layout import SandboxContext
from elwood.foundation.sandbox.picking import self_test
from elwood.foundation.sandbox.settings import SandboxSettings
from tests.foundation.sandbox.scene import (
    Home,
    choose_backend,
    make_marker,
    sleeping_processes,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("has_bubblewrap")


async def run_inside(home: Home, *argv: str) -> tuple[int | None, str]:
    hands = await choose_backend("bubblewrap", home)
    outcome = await hands.run(Command(argv=argv, timeout=30))
    return outcome.code, outcome.output.decode()


def forking_thread(program: str) -> int:
    """Return which of our threads forked *program*."""
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            if Path(f"/proc/{pid}/comm").read_text().strip() == program:
                return int(task.name)
    raise AssertionError(f"{program} does not run")


async def run_python(home: Home, text: str) -> str:
    if shutil.which("python3", path="/usr/bin") is None:
        pytest.skip("TRAP NOT TESTED: there is no /usr/bin/python3 to look with")
    return (await run_inside(home, "python3", "-ISc", text))[1]


def make_program(folder: Path, text: str) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_2_children_belong_to_the_longest_lived_thread(home: Home) -> None:
    """``--die-with-parent`` refers to the forking thread; Trio's idle workers exit after 10 s."""
    hands, mark = await choose_backend("bubblewrap", home), make_marker()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hands.run, Command(argv=("sleep", mark), timeout=60))
        await wait_until(lambda: sleeping_processes(mark))
        here = threading.main_thread().native_id
        assert forking_thread("bwrap") == here
        nursery.cancel_scope.cancel()


async def test_4_the_filter_is_needed_too(home: Home, tmp_path: Path) -> None:
    """``--disable-userns`` is enough alone, if bwrap supports it."""
    hands = await choose_backend("bubblewrap", home)
    assert isinstance(hands, Bubblewrap)
    if not hands.disable_userns:
        pytest.skip("TRAP NOT TESTED: this bwrap has no --disable-userns (0.8)")
    shows_options = make_program(tmp_path, "tr '\\0' '\\n' </proc/self/fd/$2")
    with pytest.raises(SandboxFailed, match="\n--disable-userns\n"):
        await Bubblewrap(hands.context, shows_options).run(Command(argv=("true",), timeout=30))


async def test_a_file_cannot_run_as_its_owner(home: Home) -> None:
    attack = "cp /bin/true x; chmod u+s x; chmod g+s x; install -m 4755 x y; mkdir z; ls -l x y"
    assert "Operation not permitted" in (await run_inside(home, "sh", "-c", attack))[1]
    assert {path.stat().st_mode & 0o6000 for path in home.workspace.iterdir()} == {0}


async def test_5_data_is_limited_and_addresses_are_not(home: Home) -> None:
    """WebAssembly reserves gigabytes of address space that it never uses."""
    reserve = "import mmap; mmap.mmap(-1, 9 << 30, prot=0); print('reserved'); bytes(2 << 30)"
    said = await run_python(home, reserve)
    assert "reserved" in said
    assert "MemoryError" in said


async def test_6_a_hanging_bubblewrap_times_out(home: Home, tmp_path: Path) -> None:
    """It hangs if a system call filter denies `capset` or `pivot_root`."""
    mark = make_marker()
    hanging = make_program(tmp_path, f"exec sleep {mark}")
    context = SandboxContext(
        workspace=home.workspace, state=home.state, settings=SandboxSettings(), blocking=in_thread
    )
    why = await self_test(Bubblewrap(context, hanging), home.state, limit=1.0)
    assert why == "the self-test took longer than 1 s"
    assert sleeping_processes(mark) == []
