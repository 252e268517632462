"""Journals keep acknowledged entries, cut torn tails, and refuse damage."""

import gzip
import itertools
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.foundation.runtime import in_thread
from elwood.foundation.storage.disk import JournalBroken
from elwood.foundation.storage.journal import (
    SEGMENT,
    HistoryGone,
    Journal,
    JournalDamaged,
    Verified,
    entries_of,
    is_sound,
    read_since,
    replay,
    segments,
    verify,
    write_line,
)
from tests.foundation.storage.diary import (
    Counted,
    Diary,
    DiaryJournal,
    Entry,
    Wrote,
    list_names,
    make_diary,
    make_disk,
    open_diary,
    read_file,
    read_torn_tails,
    write_file,
)

T = TypeVar("T")


async def fill(path: Path, count: int = 5) -> list[bytes]:
    journal = await open_diary(path)
    for number in range(count):
        await journal.append(Wrote(f"entry {number}"))
    return read_file(path).splitlines(keepends=True)


async def test_staged_entries_count_immediately(tmp_path: Path) -> None:
    journal = await open_diary(tmp_path / "a.jsonl")
    await journal.append(Wrote("one"))
    await journal.stage(Wrote("two"))
    await journal.stage(Counted(3))
    assert journal.state.entries == [Wrote("one"), Wrote("two"), Counted(3)]
    assert len(read_file(journal.path).splitlines()) == 1
    # A crash now leaves one entry; the next append in any task writes them all.
    assert (await open_diary(journal.path)).state.entries == [Wrote("one")]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.append, Wrote("four"))
        nursery.start_soon(journal.stage, Wrote("five"))
        nursery.start_soon(journal.append, Wrote("six"))
    # The last of the three is not known.
    await journal.stage(Wrote("seven"))
    await journal.append()
    again = await open_diary(journal.path)
    assert len(read_file(journal.path).splitlines()) == 4
    assert again.state == journal.state
    assert again.state.seqs == [1, 2, 3, 4, 5, 6, 7]


async def test_the_format_of_a_line(tmp_path: Path) -> None:
    journal = await open_diary(tmp_path / "a.jsonl")
    await journal.append(Wrote("one"), Wrote("two"))
    line = msgspec.json.decode(journal.path.read_bytes())
    assert line.pop("crc")
    entries = [{"type": "wrote", "text": "one"}, {"type": "wrote", "text": "two"}]
    assert line == {"seq": 1, "prev": "", "at": 1_700_000_000.25, "entries": entries}


async def test_an_unreadable_entry_is_not_written(tmp_path: Path) -> None:
    journal = await open_diary(tmp_path / "a.jsonl")
    with pytest.raises(msgspec.DecodeError):
        await journal.append(Wrote(7))  # type: ignore[arg-type]
    with pytest.raises(msgspec.DecodeError):
        await journal.append(Counted(1, msgspec.Raw(b"{")))
    assert not journal.path.exists()
    await journal.append(Wrote("sound"))
    assert (await open_diary(journal.path)).state.texts == ["sound"]


async def test_a_cancelled_append_is_complete_or_absent(tmp_path: Path) -> None:
    for tries in range(4):
        journal = await open_diary(tmp_path / f"{tries}.jsonl", make_disk(blocking=in_thread))
        told = False
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def cancel(scope: trio.CancelScope = scope, tries: int = tries) -> None:
                    for _ in range(tries):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

                nursery.start_soon(cancel)
                await journal.append(Wrote("one"))
                told = True
        assert journal.state.texts == (["one"] if told else [])
        assert (await open_diary(journal.path)).state == journal.state
        with trio.CancelScope() as scope:
            scope.cancel()
            await journal.append(Wrote("never"))
        await journal.append(Wrote("two"))
        assert (await open_diary(journal.path)).state.texts == journal.state.texts


async def test_a_cancelled_seal_keeps_the_entries(tmp_path: Path) -> None:
    scope = trio.CancelScope()
    done: list[str] = []

    async def blocking(act: Callable[[], T]) -> T:
        done.append("wrote")
        if len(done) == 2:  # the append, and now the seal
            scope.cancel()
        await trio.lowlevel.checkpoint()
        return act()

    journal = await open_diary(tmp_path / "a.jsonl", make_disk(blocking=blocking), segment=1)
    with scope:
        await journal.append(Wrote("one"))
        done.append("told")
    assert done == ["wrote", "wrote", "told"]
    assert segments(journal.path)
    await journal.append(Wrote("two"))
    assert (await open_diary(journal.path)).state == journal.state


async def test_two_writers_are_detected(tmp_path: Path) -> None:
    one = await open_diary(tmp_path / "a.jsonl")
    two = await open_diary(tmp_path / "a.jsonl")
    await one.append(Wrote("one"))
    with pytest.raises(JournalBroken, match="another program writes"):
        await two.append(Wrote("two"))
    with pytest.raises(JournalBroken, match="another program writes"):
        await two.append(Wrote("still not"))
    assert (await open_diary(one.path)).state.texts == ["one"]


# --- torn tails -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda line: line[:-1],
        lambda line: line[:1],
        lambda line: bytes(len(line)),
        lambda line: bytes(len(line) // 2) + line[len(line) // 2 :],
    ],
    ids=["no newline", "one byte", "zeros", "first half zero"],
)
async def test_a_torn_tail_is_cut_and_kept(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.jsonl"
    *good, last = await fill(path)
    torn = spoil(last)
    path.write_bytes(b"".join(good) + torn)
    journal = await open_diary(path)
    assert journal.state.texts == [f"entry {n}" for n in range(4)]
    assert path.read_bytes() == b"".join(good)
    assert read_torn_tails(tmp_path) == [torn]
    assert list_names(tmp_path) == ["a.jsonl", "a.jsonl.torn-1700000000"]
    await journal.append(Wrote("next"))
    assert (await open_diary(path)).state.texts[-2:] == ["entry 3", "next"]


# --- damage ---------------------------------------------------------------------------------------


async def test_damage_before_the_tail_leaves_the_file_alone(tmp_path: Path) -> None:
    """CP-34: cut nothing but the tail."""
    path = tmp_path / "a.jsonl"
    lines = await fill(path)
    flipped = lines[1].replace(b"entry 1", b"entry 7")
    other = write_line(4, "f" * 64, 1.0, (Wrote("entry 3"),))
    spoiled = {
        2: [
            [lines[0], flipped, *lines[2:]],
            [lines[0], *lines[2:]],
            [lines[0], lines[2], lines[1], *lines[3:]],
            [lines[0], lines[1][:40], *lines[2:]],
            [lines[0], bytes(len(lines[1])), *lines[2:]],
            [lines[0], lines[0], *lines[1:]],
        ],
        1: [lines[1:], [b"\n", *lines], [b"\xef\xbb\xbf", *lines]],
        4: [
            [*lines[:3], lines[4]],
            [*lines[:3], other],
            [*lines[:3], lines[3].replace(b"entry 3", b"entry 8")],
            [*lines[:3], lines[3][:9] + b"\n", lines[4][:9]],
            [*lines[:3], lines[3][:-1] + b"\0", lines[4]],
            [*lines[:3], lines[3][:-1], lines[4][:-9]],
        ],
        6: [[*lines, b"\n\n"], [*lines, lines[4]], [*lines, b"{}\n"]],
    }
    for line, cases in spoiled.items():
        for spoilt in map(b"".join, cases):
            path.write_bytes(spoilt)
            with pytest.raises(JournalDamaged, match=f"line {line} ") as caught:
                await open_diary(path)
            assert caught.value.line == line
            with pytest.raises(JournalDamaged, match=f"line {line} "):
                verify(path)
            assert path.read_bytes() == spoilt
    assert list_names(tmp_path) == ["a.jsonl"]


async def test_a_newer_entry_is_no_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = write_line(1, "", 1.0, ({"type": "invented later"},))
    path.write_bytes(line)
    with pytest.raises(JournalDamaged, match="this version of Elwood does not know"):
        await open_diary(path)
    assert path.read_bytes() == line
    verify(path)


async def test_verify_describes_a_whole_chain(tmp_path: Path) -> None:
    times = iter([10.0, 20.0, 30.0])
    path = tmp_path / "a.jsonl"
    journal = await open_diary(path, make_disk(clock=lambda: next(times)))
    await journal.append(Wrote("one"), Wrote("two"))
    await journal.append(Wrote("three"))
    head = verify(path)
    assert (head.entries, head.lines, head.first, head.last) == (3, 2, 10.0, 20.0)
    assert (head.torn, head.gone) == (0, 0)
    with path.open("ab") as file:
        file.write(b"half a l")
    assert verify(path) == msgspec.structs.replace(head, torn=8)
    (tmp_path / "empty.jsonl").touch()
    assert verify(tmp_path / "empty.jsonl") == Verified(0, 0, None, None, "", 0)


# --- segments -------------------------------------------------------------------------------------


async def make_segments(path: Path, count: int = 40) -> DiaryJournal:
    """Write *count* entries into several segments, one per second."""
    times = itertools.count(1_000.0)
    journal = await open_diary(path, make_disk(clock=lambda: next(times)), segment=600)
    for number in range(count):
        await journal.append(Wrote(str(number)))
    return journal


async def test_a_log_is_sealed_at_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    journal = await make_segments(path)
    closed = segments(path)
    assert len(closed) > 2
    assert next(iter(closed)) == 1
    assert [seq for seq, _, _ in entries_of(path, Entry)] == list(range(1, 41))
    found = verify(path)
    assert (found.entries, found.first, found.last, found.gone) == (40, 1_000.0, 1_039.0, 0)
    again = await open_diary(path)
    assert again.state == journal.state
    assert again.last == journal.last == 1_039.0
    assert replay(path, Entry, Diary) == (journal.state, 1_039.0)
    assert path.stat().st_mode & 0o777 == closed[1].stat().st_mode & 0o777 == 0o600


async def test_opening_a_log_reads_no_segment(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    journal = await make_segments(path)
    for segment in segments(path).values():
        segment.write_bytes(b"nonsense")
    again = await open_diary(path)
    assert again.state == journal.state
    with pytest.raises(JournalDamaged, match="cannot be unpacked"):
        verify(path)


async def test_a_search_starts_from_an_earlier_state(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    journal = await make_segments(path)
    first, second, *_ = segments(path)

    def seqs(state: Diary, behind: Iterator[tuple[int, float, Entry]]) -> list[int]:
        assert state.seqs == list(range(1, len(state.seqs) + 1))
        return [seq for seq, _, _ in behind]

    for since, begins in {
        0: 1,
        first: 1,
        second - 1: 1,
        second: second,
        second + 1: second,
    }.items():
        assert await journal.look_since(since, seqs) == list(range(begins, 41))
    assert await journal.look_since(inf, seqs) == await journal.look_since(41, seqs)


async def test_the_oldest_segments_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    journal = await make_segments(path)
    first, second, third, *_ = segments(path)
    for gone in (first, second):
        segments(path)[gone].unlink()
    assert (await open_diary(path)).state == journal.state
    assert [seq for seq, _, _ in entries_of(path, Entry)] == list(range(third, 41))
    assert verify(path).gone == third - 1
    state, _ = read_since(path, Entry, Diary, third)
    assert state.seqs == list(range(1, third))
    with pytest.raises(HistoryGone):
        read_since(path, Entry, Diary, third - 1)


async def test_damaged_segments_are_detected(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    await make_segments(path)
    first, second, *_ = segments(path).values()
    packed, behind = first.read_bytes(), read_file(path)
    lines = gzip.decompress(packed).splitlines(keepends=True)
    forged = write_line(1, "", 1_000.0, (Wrote("forged"),))
    whole = b"".join(lines)
    for spoilt in (
        b"",
        packed[:9],
        packed[:-9],
        gzip.compress(b""),
        gzip.compress(forged + b"".join(lines[1:])),
        gzip.compress(whole[:-9]),
    ):
        first.write_bytes(spoilt)
        with pytest.raises(JournalDamaged) as caught:
            verify(path)
        assert caught.value.path == first
    first.write_bytes(gzip.compress(b"".join(lines[:-1])))
    with pytest.raises(JournalDamaged, match="lines are missing"):
        verify(path)
    first.write_bytes(packed)
    put_away = second.read_bytes()
    second.unlink()
    with pytest.raises(JournalDamaged, match="lines are missing"):
        verify(path)
    second.write_bytes(put_away)
    verify(path)
    # The first line of a log is written atomically, so it cannot be a torn tail.
    begins = behind.splitlines(keepends=True)[0]
    for torn in (begins[:-1], begins[: len(begins) // 2], bytes(len(begins)), begins[:5]):
        path.write_bytes(torn)
        with pytest.raises(JournalDamaged, match="line 1 "):
            await open_diary(path)
        assert read_file(path) == torn


@pytest.mark.parametrize("what", [b'"seq":', b'"text":"38"'])
async def test_independent_lines_of_segments_are_kept(tmp_path: Path, what: bytes) -> None:
    """The damage is in the first state, or in a line after it."""
    path = tmp_path / "a.jsonl"
    journal = await make_segments(path)
    begins = replay(path, Entry, Diary)[0].texts.index("38")
    path.write_bytes(read_file(path).replace(what, b'"????', 1))
    again = make_diary(path)
    aside = await again.open_sound()
    assert aside is not None
    expected = journal.state.texts
    if what != b'"seq":':
        del expected[begins]
    assert again.state.texts == expected
    await again.append(Wrote("on"))
    assert verify(path).gone == 0
    assert (await open_diary(path)).state == again.state


async def test_a_log_is_sealed_only_where_allowed(tmp_path: Path) -> None:
    path, ready = tmp_path / "a.jsonl", False
    journal = Journal[Entry, Diary](
        path, Entry, Diary, make_disk(), segment=1, may_close=lambda state: ready
    )
    await journal.open()
    await journal.append(Wrote("one"))
    assert not segments(path)
    ready = True
    await journal.append(Wrote("two"))
    assert list(segments(path)) == [1]


async def test_other_files_are_no_segments(tmp_path: Path) -> None:
    await make_segments(tmp_path / "a.jsonl")
    await make_segments(tmp_path / "a.0000000001.jsonl")
    assert segments(tmp_path / "a.jsonl").keys() == segments(tmp_path / "a.0000000001.jsonl").keys()
    verify(tmp_path / "a.jsonl")
    verify(tmp_path / "a.0000000001.jsonl")


# --- random sequences of appending, reopening, and cutting at any byte ----------------------------

# Special UTF-8 text: the escapes of JSON, line separators, the end of Unicode.
texts = st.text(st.characters(codec="utf-8"), max_size=40)
raws = st.recursive(st.none() | st.integers(-9, 9) | texts, st.lists, max_leaves=3).map(
    lambda value: msgspec.Raw(msgspec.json.format(msgspec.json.encode(value), indent=1))
)
entries: st.SearchStrategy[Entry] = st.builds(Wrote, texts) | st.builds(
    Counted, st.integers(-(2**53), 2**53), raws
)
appends = st.lists(entries, min_size=1, max_size=4)
# Cut this share off the end of the file (only from the last line, which was not acknowledged).
cuts = st.floats(0, 1)
steps = st.lists(appends | st.just("reopen") | cuts, max_size=12)


@given(steps=steps, segment=st.sampled_from([1, 500, SEGMENT]))
@settings(max_examples=150, deadline=None)
def test_the_file_has_the_acknowledged_entries(
    steps: list[list[Entry] | str | float], segment: int
) -> None:
    async def play(path: Path) -> None:
        journal = await open_diary(path, segment=segment)
        lines: list[list[Entry]] = []
        for step in steps:
            if isinstance(step, list):
                await journal.append(*step)
                lines.append(step)
            elif isinstance(step, str):
                journal = await open_diary(path, segment=segment)
            elif lines:
                *before, last = read_file(path).splitlines(keepends=True)
                if b'"entries":[]' in last:
                    continue  # it was sealed: the line is in a segment
                write_file(path, b"".join(before) + last[: int(len(last) * step)])
                # An unacknowledged line may be missing, but only as a whole.
                if step < 1:
                    lines.pop()
                journal = await open_diary(path, segment=segment)
            flat = [normalize(entry) for line in lines for entry in line]
            assert [normalize(entry) for entry in journal.state.entries] == flat
            assert journal.state.seqs == list(range(1, len(flat) + 1))
        fresh = make_diary(path)
        await fresh.open()
        assert fresh.state == journal.state
        if lines:
            verify(path)
            found = [(seq, normalize(entry)) for seq, _, entry in entries_of(path, Entry)]
            assert found == list(enumerate(flat, 1))
            for since in range(len(flat) + 2):
                state, behind = read_since(path, Entry, Diary, since)
                assert state.seqs == list(range(1, len(state.seqs) + 1))
                assert len(state.seqs) < max(since, 1)
                seqs = [*state.seqs, *(seq for seq, _, _ in behind)]
                assert seqs == list(range(1, len(flat) + 1))

    with TemporaryDirectory() as folder:
        trio.run(play, Path(folder) / "a.jsonl")


@given(
    entry=entries, seq=st.integers(1, 2**53), at=st.floats(allow_nan=False, allow_infinity=False)
)
def test_no_prefix_of_a_line_is_valid(entry: Entry, seq: int, at: float) -> None:
    line = write_line(seq, "", at, (entry,))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert is_sound(line)
    assert not any(is_sound(line[:end]) for end in range(len(line)))


def normalize(entry: Entry) -> object:
    """Return *value* as it is stored: raw JSON loses its line breaks and nothing else."""
    if isinstance(entry, Wrote):
        return entry.text
    return (entry.number, msgspec.json.decode(entry.native))
