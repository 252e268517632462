"""A house that dies by kill -9 leaves no command running, or the next one ends it (CP-15)."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import elwood
from elwood.foundation.sandbox.children import Running, look, reap
from elwood.foundation.sandbox.command import Command, Executor, SandboxFailed
from tests.foundation.sandbox.scene import Home, living, marker, take, until

ROOT = Path(elwood.__file__).parent.parent


@contextmanager
def victim(
    rung: str, home: Home, text: str, *, adopts: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Start another house that runs *text* by *rung*."""
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


def read(record: Path) -> dict[str, Any]:  # Any: as it is in JSON
    found: dict[str, Any] = msgspec.json.decode(record.read_bytes())
    return found


def left(home: Home) -> list[Path]:
    return list(home.running.iterdir())


@pytest.mark.parametrize("rung", ["bubblewrap", "landlock", "direct"], indirect=True)
async def test_commands_die_with_a_killed_house(rung: tuple[str, str], home: Home) -> None:
    mark = marker()
    text = f"trap '' TERM HUP; (setsid sleep {mark} &); sleep {mark} & wait"
    with victim(rung[0], home, text) as house:
        await until(lambda: len(living(mark)) == 2)
        house.kill()
        house.wait()
        await until(lambda: not living(mark))
    assert len(home.records()) == 1
    reap(home.running)
    assert left(home) == []


@pytest.mark.parametrize("rung", ["landlock", "direct"], indirect=True)
async def test_the_next_house_ends_what_still_lives(rung: tuple[str, str], home: Home) -> None:
    """The launcher is kept from doing its work, as on a machine that is busy beyond measure."""
    mark = marker()
    with victim(rung[0], home, f"(setsid sleep {mark} &); sleep {mark} & wait") as house:
        await until(lambda: len(living(mark)) == 2)
        (record,) = home.records()
        [[pid, _]] = read(record)["processes"]
        os.kill(pid, signal.SIGSTOP)
        house.kill()
        house.wait()
        assert len(living(mark)) == 2
    assert reap(home.running) == 1
    assert living(mark) == []
    assert home.records() == []


def test_what_was_started_but_not_noted_is_known_by_its_title(home: Home) -> None:
    """As a bwrap is whose house died before it could ask for a signal on that."""
    mine, others = Running(home.running), Running(home.state / "of another house")
    argv = "60"
    with (
        subprocess.Popen([mine.title, argv], executable="/bin/sleep") as stray,
        subprocess.Popen([others.title, argv], executable="/bin/sleep") as other,
    ):
        assert reap(home.running) == 1
        assert (look(stray.pid), look(other.pid) is None) == (None, False)
        other.kill()


async def test_bwrap_bears_its_title(home: Home, has_bubblewrap: None) -> None:
    """Also while it is set up, and in the process that waits inside."""
    mark = marker()
    with victim("bubblewrap", home, f"sleep {mark} & wait"):
        await until(lambda: len(living(mark)) == 1)
        assert reap(home.running) == 2
        assert living(mark) == []


@pytest.mark.parametrize("change", ["start time", "boot", "nothing"])
def test_only_the_same_process_is_killed(home: Home, change: str) -> None:
    """Its id may be another's by now, after a while or after a restart of the machine."""
    with subprocess.Popen(["sleep", "60"]) as other:
        Running(home.running).note("a", [other.pid])
        record = read(home.running / "a")
        if change == "start time":
            record["processes"][0][1] -= 1
        elif change == "boot":
            record["boot"] += "another"
        (home.running / "a").write_bytes(msgspec.json.encode(record))
        assert reap(home.running) == (1 if change == "nothing" else 0)
        assert (look(other.pid) is None) == (change == "nothing")
        other.kill()
    assert home.records() == []


def test_a_record_that_is_torn_stops_nothing(home: Home) -> None:
    home.running.mkdir()
    (home.running / "a").write_bytes(b'{"boot": "')
    (home.running / "b.tmp").mkdir()
    assert reap(home.running) == 0
    assert list(home.running.iterdir()) == []
    assert reap(home.running / "not there") == 0


async def test_the_record_is_there_before_the_command_does_anything(home: Home) -> None:
    hands = await take("direct", home)
    command = Command(argv=("ls", str(home.running)), timeout=30)
    names = (await hands.run(command)).output.decode().split()
    assert len([name for name in names if not name.endswith((".tmp", ".new"))]) == 1
    assert home.records() == []


def test_a_house_that_adopts_orphans_buries_them(has_bubblewrap: None, home: Home) -> None:
    """As process 1 of a container does; bwrap leaves the first process of its sandbox."""
    with victim("bubblewrap", home, "exit 0", adopts=True) as house:
        assert house.wait() == 0


async def test_a_launcher_that_its_command_kills_takes_it_along(home: Home) -> None:
    """Without walls a command can do that; what it leaves in its session still ends."""
    hands: Executor = await take("direct", home)
    mark = marker()
    command = Command(argv=("sh", "-c", f"sleep {mark} & kill -9 $PPID; wait"), timeout=30)
    with pytest.raises(SandboxFailed, match="was killed"):
        await hands.run(command)
    assert living(mark) == []


@pytest.mark.parametrize("rung", ["bubblewrap", "landlock", "direct"], indirect=True)
async def test_without_a_record_nothing_runs(hands: Executor, home: Home) -> None:
    """A full disk, say: what could not be ended after a crash is not begun."""
    shutil.rmtree(home.running, ignore_errors=True)
    home.running.write_text("not a folder")
    with pytest.raises(SandboxFailed, match="cannot"):
        await hands.run(Command(argv=("touch", "did-run"), timeout=30))
    assert not (home.workspace / "did-run").exists()
