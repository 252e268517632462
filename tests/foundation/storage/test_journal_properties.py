"""Journals under random sequences of appending, reopening and cutting at any byte."""

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.foundation.storage.journal import JournalDamaged, is_sound, verify, write_line
from tests.foundation.storage.diary import Counted, Entry, Wrote, content, diary, opened, put

# Whatever UTF-8 can carry: the escapes of JSON, line separators, the end of Unicode.
texts = st.text(st.characters(codec="utf-8"), max_size=40)
raws = st.recursive(st.none() | st.integers(-9, 9) | texts, st.lists, max_leaves=3).map(
    lambda value: msgspec.Raw(msgspec.json.format(msgspec.json.encode(value), indent=1))
)
entries: st.SearchStrategy[Entry] = st.builds(Wrote, texts) | st.builds(
    Counted, st.integers(-(2**53), 2**53), raws
)
appends = st.lists(entries, min_size=1, max_size=4)
# Cut this share of the file's bytes off its end (of the last line only: it was not acknowledged).
cuts = st.floats(0, 1)
steps = st.lists(appends | st.just("reopen") | cuts, max_size=12)


@given(steps=steps, every=st.sampled_from([2, 5, 10_000]))
@settings(max_examples=150, deadline=None)
def test_what_is_in_the_file_is_what_was_acknowledged(
    steps: list[list[Entry] | str | float], every: int
) -> None:
    async def play(path: Path) -> None:
        journal = await opened(path, snapshot_every=every)
        lines: list[list[Entry]] = []
        for step in steps:
            if isinstance(step, list):
                await journal.append(*step)
                lines.append(step)
            elif isinstance(step, str):
                journal = await opened(path, snapshot_every=every)
            elif lines:
                *before, last = content(path).splitlines(keepends=True)
                put(path, b"".join(before) + last[: int(len(last) * step)])
                # An unacknowledged line may be gone, in whole.
                if step < 1:
                    lines.pop()
                journal = await opened(path, snapshot_every=every)
            flat = [meaning(entry) for line in lines for entry in line]
            assert [meaning(entry) for entry in journal.state.entries] == flat
            assert journal.state.seqs == list(range(1, len(flat) + 1))
        fresh = diary(path)
        await fresh.open()
        assert fresh.state == journal.state
        if lines:
            verify(path)

    with TemporaryDirectory() as folder:
        trio.run(play, Path(folder) / "a.jsonl")


@given(lines=st.lists(appends, min_size=2, max_size=6), data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_change_to_a_finished_line_goes_unnoticed(
    lines: list[list[Entry]], data: st.DataObject
) -> None:
    """Any one byte, in any line but the last, which only a noted head can vouch for."""

    async def fill(path: Path) -> None:
        journal = await opened(path)
        for line in lines:
            await journal.append(*line)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        trio.run(fill, path)
        before = content(path)
        last = before.rindex(b"\n", 0, -1)
        place = data.draw(st.integers(0, last))
        byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != before[place]))
        put(path, before[:place] + bytes([byte]) + before[place + 1 :])
        with pytest.raises(JournalDamaged):
            verify(path)


@given(
    entry=entries, seq=st.integers(1, 2**53), at=st.floats(allow_nan=False, allow_infinity=False)
)
def test_a_line_is_one_line_and_no_prefix_of_it_is_sound(entry: Entry, seq: int, at: float) -> None:
    line = write_line(seq, "", at, (entry,))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert is_sound(line)
    assert not any(is_sound(line[:end]) for end in range(len(line)))


def meaning(entry: Entry) -> object:
    """Raw JSON loses its line breaks on the way to the disk, and nothing else."""
    if isinstance(entry, Wrote):
        return entry.text
    return (entry.number, msgspec.json.decode(entry.native))
