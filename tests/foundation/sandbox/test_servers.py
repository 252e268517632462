"""A server: a long-running command with pipes to us and its own rights."""

import os
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import trio

from elwood.foundation.sandbox.children import holders
from elwood.foundation.sandbox.command import Command, CommandOutcome, Executor, SandboxFailed
from elwood.foundation.sandbox.pipes import Pipe, from_child, to_child
from tests.foundation.sandbox.scene import Home, make_marker, sleeping_processes, wait_until
from tests.foundation.sandbox.test_commands import count_fds

RUNGS = ["bubblewrap", "landlock", "direct"]


async def ask_server(
    hands: Executor, text: str, said: bytes = b"", **more: object
) -> tuple[bytes, CommandOutcome | None]:
    """Run *text* as a server, write to it, and return its output."""
    outcomes: list[CommandOutcome] = []
    with ExitStack() as stack:
        streams = [stack.enter_context(pipe) for pipe in (to_child(), from_child(), from_child())]
        command = Command(
            argv=("sh", "-c", text),
            timeout=float("inf"),
            streams=streams,
            **more,  # type: ignore[arg-type]  # named by the test
        )

        async def run() -> None:
            outcomes.append(await hands.run(command))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await streams[0].write(said)
            streams[0].hang_up()
            heard = await read_all(streams[1])
    return heard, outcomes[0] if outcomes else None


async def read_all(pipe: Pipe) -> bytes:
    heard = b""
    while line := await pipe.read_line():
        heard += line
    return heard


@pytest.mark.parametrize("rung", RUNGS, indirect=True)
async def test_a_server_uses_pipes(hands: Executor) -> None:
    before = count_fds()
    heard, outcome = await ask_server(
        hands, "while read line; do echo got $line; done", b"one\ntwo\n"
    )
    assert heard == b"got one\ngot two\n"
    assert outcome is not None
    assert outcome.code == 0
    assert count_fds() == before


@pytest.mark.parametrize("rung", RUNGS, indirect=True)
async def test_a_stop_kills_a_deaf_server(hands: Executor, home: Home) -> None:
    mark = make_marker()
    text = f"trap '' TERM HUP; (setsid sleep {mark} &); while :; do sleep {mark}; done"
    with ExitStack() as stack:
        streams = [stack.enter_context(pipe) for pipe in (to_child(), from_child(), from_child())]
        command = Command(argv=("sh", "-c", text), timeout=float("inf"), streams=streams)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hands.run, command)
            await wait_until(lambda: len(sleeping_processes(mark)) == 2)
            with trio.fail_after(10):
                nursery.cancel_scope.cancel()
                await wait_until(lambda: not sleeping_processes(mark))
    assert holders(home.state) == set()


def read_command_lines() -> bytes:
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return b"".join(found)


@pytest.mark.parametrize("rung", RUNGS, indirect=True)
async def test_secret_variables_are_in_no_command_line(hands: Executor) -> None:
    mark, seen = make_marker(), b""
    secret = f"secret-{mark}"

    async def watch() -> None:
        nonlocal seen
        await wait_until(lambda: bool(sleeping_processes(mark)))
        seen = read_command_lines()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        heard, _ = await ask_server(
            hands, f"echo $TOKEN; sleep {mark} & sleep 0.5; kill $!", environment={"TOKEN": secret}
        )
    assert heard == f"{secret}\n".encode()
    assert mark.encode() in seen
    assert secret.encode() not in seen


@pytest.mark.parametrize("rung", ["bubblewrap"], indirect=True)
async def test_folders_limits_and_network_are_granted_separately(
    hands: Executor, tmp_path: Path
) -> None:
    for name in ("read", "written"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    shown = {str(tmp_path / "read"): False, str(tmp_path / "written"): True}
    text = (
        f"cd {tmp_path}; cat read/a written/a; (echo x >read/b) 2>/dev/null || echo kept; "
        f"echo x >written/b; ulimit -f; ls /sys/class/net 2>/dev/null; grep -c : /proc/net/dev"
    )
    heard, _ = await ask_server(hands, text, shown=shown, limits={"FSIZE": 512 * 7})
    assert heard.split()[:3] == [b"readwrittenkept", b"7", b"1"]  # only the loopback interface
    assert (tmp_path / "written" / "b").read_text() == "x\n"
    heard, _ = await ask_server(hands, "readlink /proc/self/ns/net", network=True)
    assert heard.decode().strip() == os.readlink("/proc/self/ns/net")


@pytest.mark.parametrize("rung", ["landlock"], indirect=True)
async def test_landlock_servers_have_no_network(hands: Executor) -> None:
    with pytest.raises(SandboxFailed, match="network access"):
        await hands.run(Command(argv=("true",), timeout=5, network=True))
