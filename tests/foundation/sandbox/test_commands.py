"""Behaviour of every backend: run a command, limit it, and leave nothing."""

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from elwood.foundation.sandbox.children import holders
from elwood.foundation.sandbox.command import Command, CommandOutcome, Executor
from tests.foundation.sandbox.scene import Home, make_marker, sleeping_processes, wait_until


def shell_command(text: str, **more: object) -> Command:
    given: dict[str, object] = {"timeout": 30.0} | more
    return Command(argv=("sh", "-c", text), **given)  # type: ignore[arg-type]  # named by the test


def count_fds() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(("text", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
async def test_exit_codes_follow_the_shell(hands: Executor, text: str, code: int) -> None:
    outcome = await hands.run(shell_command(text))
    assert (outcome.code, outcome.timed_out) == (code, False)


async def test_the_end_of_the_output_can_be_watched_while_a_command_runs(hands: Executor) -> None:
    given: list[Callable[[int], bytes]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            hands.run, shell_command("echo one; echo two; sleep 60", watch=given.append)
        )
        await wait_until(lambda: given and given[0](4) == b"two\n")
        nursery.cancel_scope.cancel()


async def test_the_outputs_can_be_separate(hands: Executor) -> None:
    outcome = await hands.run(shell_command("echo a; echo b >&2; echo c", merge=False))
    assert (outcome.output, outcome.errors) == (b"a\nc\n", b"b\n")


async def test_input_is_piped_or_empty(hands: Executor) -> None:
    text = b"line\n" * 50_000
    outcome = await hands.run(shell_command("cat", stdin=text, limit=len(text)))
    assert outcome.output == text
    assert (await hands.run(shell_command("cat; echo end"))).output == b"end\n"


async def test_long_output_keeps_head_and_tail(hands: Executor) -> None:
    outcome = await hands.run(
        shell_command("echo first; yes | head -c 5000000; echo last", limit=1000)
    )
    assert outcome.cut == 5_000_000 + len("first\nlast\n") - 1000
    assert outcome.output.startswith(b"first\n")
    assert outcome.output.endswith(b"last\n")
    assert str(outcome.cut).encode() in outcome.output


async def test_a_missing_program_is_reported(hands: Executor) -> None:
    outcome = await hands.run(Command(argv=("no-such-program",), timeout=30))
    assert outcome.code == 127
    assert b"no-such-program" in outcome.output


async def test_the_folder_and_environment_are_set(hands: Executor) -> None:
    outcome = await hands.run(shell_command("pwd; env", environment={"COLOUR": "blue"}))
    lines = outcome.output.decode().splitlines()
    assert lines[0].endswith("/workspace")
    names = {line.split("=")[0] for line in lines[1:]}
    assert {"PATH", "HOME", "LANG", "TERM", "COLOUR"} <= names
    allowed = {"TMPDIR", "GIT_CONFIG_NOSYSTEM", "PWD", "SHLVL", "_", "OLDPWD", "HOSTNAME"}
    assert names - allowed == {"PATH", "HOME", "LANG", "TERM", "COLOUR"}


@pytest.mark.parametrize("rung", ["bubblewrap", "landlock", "docker"], indirect=True)
async def test_the_workspace_is_read_only_unless_allowed(hands: Executor, home: Home) -> None:
    await hands.run(shell_command("echo one > one"))
    outcome = await hands.run(shell_command("echo two > two", writable=False))
    assert (home.workspace / "one").read_text() == "one\n"
    assert outcome.code != 0
    assert not (home.workspace / "two").exists()


async def test_temporary_files_end_with_the_command(hands: Executor) -> None:
    await hands.run(shell_command('touch "${TMPDIR:-/tmp}/left-by-me"'))
    outcome = await hands.run(shell_command('ls "${TMPDIR:-/tmp}"'))
    assert outcome.output == b""


async def run_late(hands: Executor, text: str) -> CommandOutcome:
    """Run *text* until its timeout, which grows until the command has started in time."""
    for timeout in (0.5, 2.0, 8.0, 30.0):
        outcome = await hands.run(shell_command(text, timeout=timeout))
        if b"begun" in outcome.output:
            return outcome
    raise AssertionError("it never began")


async def test_a_late_command_is_terminated(hands: Executor) -> None:
    outcome = await run_late(hands, "trap 'echo asked; exit' TERM; echo begun; sleep 60 & wait")
    assert outcome.timed_out
    assert outcome.code is None
    assert b"asked" in outcome.output


async def test_a_deaf_command_is_killed_with_its_descendants(hands: Executor) -> None:
    mark = make_marker()
    text = f"trap '' TERM; (setsid sleep {mark} &); sleep {mark} & echo begun; wait"
    outcome = await run_late(hands, text)
    assert outcome.timed_out
    assert sleeping_processes(mark) == []


async def test_background_processes_end_with_the_command(hands: Executor) -> None:
    mark = make_marker()
    outcome = await hands.run(
        shell_command(f"(setsid sh -c 'sleep {mark} & sleep {mark}' &); exit 5")
    )
    assert outcome.code == 5
    assert sleeping_processes(mark) == []


async def test_cancelling_leaves_nothing(hands: Executor, home: Home) -> None:
    await hands.run(shell_command("true"))
    before, mark = count_fds(), make_marker()
    async with trio.open_nursery() as nursery:
        text = f"(setsid sleep {mark} &); sleep {mark} & wait"
        nursery.start_soon(hands.run, shell_command(text))
        await wait_until(lambda: len(sleeping_processes(mark)) == 2)
        nursery.cancel_scope.cancel()
    assert sleeping_processes(mark) == []
    assert holders(home.state) == set()
    assert count_fds() == before
    assert _zombies() == []


async def test_concurrent_commands_are_independent(hands: Executor) -> None:
    answers: dict[int, bytes] = {}

    async def one(number: int) -> None:
        answers[number] = (await hands.run(shell_command(f"echo {number}"))).output

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(one, number)
    assert answers == {number: f"{number}\n".encode() for number in range(8)}


def _zombies() -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rsplit(") ", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] == "Z" and fields[1] == str(os.getpid()):
            found.append(name)
    return found


@pytest.mark.parametrize("argv", [(), ("",), ("echo", "a\0b")])
def test_a_command_cannot_be_empty(argv: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="command"):
        Command(argv=argv, timeout=1)


@pytest.mark.parametrize("rung", ["bubblewrap", "landlock"], indirect=True)
async def test_commands_leave_elwood_memory_and_processors(hands: Executor) -> None:
    mark = make_marker()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hands.run, Command(argv=("sleep", mark), timeout=60))
        await wait_until(lambda: sleeping_processes(mark))
        [pid] = sleeping_processes(mark)
        score = await trio.Path(f"/proc/{pid}/oom_score_adj").read_text()
        assert score == "1000\n"
        assert os.getpriority(os.PRIO_PROCESS, pid) == 10
        nursery.cancel_scope.cancel()
