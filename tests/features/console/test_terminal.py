"""Lines from bytes, text for people, and real descriptors."""

import os
import subprocess
import sys
from collections.abc import Iterable

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from elwood.features.console.actor import MAX_LINE, Lines, TooLong, read_fd, write_fd
from elwood.foundation.runtime import in_thread


async def read_all(chunks: Iterable[bytes]) -> list[str | None]:
    """Read to the end; None stands for a line that was too long."""
    source = iter([*chunks, b""])

    async def receive() -> bytes:
        await trio.lowlevel.checkpoint()
        return next(source)

    lines = Lines(receive)
    found: list[str | None] = []
    while (line := await lines.next()) is not None:
        found.append(None if isinstance(line, TooLong) else line)
    assert await lines.next() is None, "the end stays the end"
    return found


@given(st.lists(st.text(alphabet="aä👋 \t", max_size=5), max_size=6), st.integers(1, 7))
def test_lines_do_not_depend_on_how_the_bytes_come(lines: list[str], size: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert trio.run(read_all, chunks) == lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n\n", ["", ""]),
        (b"\xff\n", ["\ufffd"]),
        (b"x" * MAX_LINE + b"\n", ["x" * MAX_LINE]),
        (b"x" * (MAX_LINE + 1) + b"\nb", [None, "b"]),
        (b"x" * (3 * MAX_LINE), [None]),
    ],
)
async def test_odd_input_makes_lines_too(data: bytes, lines: list[str | None]) -> None:
    assert await read_all([data]) == lines
    assert await read_all(data[at : at + 9000] for at in range(0, len(data), 9000)) == lines


async def test_descriptors_carry_text_both_ways() -> None:
    reader, writer = os.pipe()
    text = "große Wörter\n" * 20_000  # more than a pipe holds

    async def write() -> None:
        await write_fd(writer, in_thread)(text)
        os.close(writer)

    got = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        lines = Lines(read_fd(reader))
        while (line := await lines.next()) is not None:
            got.append(line)
    os.close(reader)
    assert got == ["große Wörter"] * 20_000


async def test_writing_for_nobody_is_a_broken_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        await write_fd(writer, in_thread)("hello")
    os.close(writer)


def test_a_read_that_never_returns_does_not_hold_up_the_exit() -> None:
    program = """
import trio
from elwood.features.console.actor import read_fd
async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_fd(0))
        await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
trio.run(main)
"""
    reader, writer = os.pipe()  # the writing end stays open: the read waits for ever
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], stdin=reader, capture_output=True, timeout=60
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
