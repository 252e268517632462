"""Full and failing disks: no partial line stays, and nothing continues after a failed fsync."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from elwood.foundation.runtime import Halt
from elwood.foundation.storage.disk import (
    PAGE,
    RESERVE,
    AlreadyRunning,
    Calls,
    Disk,
    DiskFull,
    JournalBroken,
    lock_state,
    temporary,
)
from elwood.foundation.storage.journal import segments, verify
from tests.foundation.storage.diary import (
    DiaryJournal,
    Wrote,
    list_names,
    make_disk,
    open_diary,
    read_torn_tails,
)

T = TypeVar("T")


class Failing(Calls):
    """A disk with *room* bytes, including the reserve. Calls in *fail* raise these errors.

    "rest of it" is the second half of a write.
    """

    def __init__(self, fail: Mapping[str, int] | None = None, room: int = 10 * RESERVE) -> None:
        self.room = room
        self.fail = fail or {}
        self.synced: list[int] = []

    def _fail(self, call: str) -> None:
        if call in self.fail:
            code = self.fail[call]
            raise OSError(code, os.strerror(code))

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        self._fail("open")
        return super().open(path, flags, mode)

    def write(self, fd: int, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._fail("write")
        if "rest of it" in self.fail and not (data := data[: len(data) // 2]):
            self._fail("rest of it")
        written = super().write(fd, data[: self.room])
        self.room -= written
        return written

    def truncate(self, fd: int, size: int) -> None:
        self._fail("truncate")
        self.room += os.fstat(fd).st_size - size
        super().truncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        self._fail("allocate")
        more = size - os.fstat(fd).st_size
        if more > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(fd, size)
        self.room -= more

    def sync(self, fd: int) -> None:
        self._fail("sync folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "sync")
        self.synced.append(os.fstat(fd).st_size)
        super().sync(fd)

    def rename(self, old: Path, new: Path) -> None:
        self._fail("rename")
        super().rename(old, new)


async def start_diary(folder: Path) -> tuple[Failing, DiaryJournal]:
    """Yield a journal with one entry, on a disk that may fail."""
    calls = Failing()
    journal = await open_diary(folder / "a.jsonl", make_disk(calls))
    await journal.append(Wrote("one"))
    return calls, journal


@pytest.mark.parametrize("room", [0, 1, 60])
async def test_a_full_disk_leaves_no_partial_line(tmp_path: Path, room: int) -> None:
    calls, journal = await start_diary(tmp_path)
    before = journal.path.read_bytes()
    calls.room = room
    for last_words in (False, True):
        with pytest.raises(DiskFull, match="no space"):
            await journal.append(Wrote("two"), last_words=last_words)
        assert journal.path.read_bytes() == before
    assert journal.state.texts == ["one"]
    calls.room = 10_000
    await journal.append(Wrote("three"))
    assert (await open_diary(journal.path)).state.texts == ["one", "three"]


async def test_staged_entries_are_written_when_space_returns(tmp_path: Path) -> None:
    calls = Failing()
    journal = await open_diary(tmp_path / "a.jsonl", make_disk(calls))
    await journal.stage(Wrote("one"))
    calls.room = 0
    with pytest.raises(DiskFull):
        await journal.append(Wrote("two"))
    calls.room = 10_000
    await journal.append(Wrote("three"))
    assert journal.state.texts == ["one", "three"]
    assert (await open_diary(journal.path)).state == journal.state


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
async def test_every_full_disk_error_is_recognized(tmp_path: Path, code: int) -> None:
    calls = Failing()
    journal = await open_diary(tmp_path / "a.jsonl", make_disk(calls))
    for call in ("open", "write"):
        calls.fail = {call: code}
        with pytest.raises(DiskFull):
            await journal.append(Wrote("one"))
    calls.fail = {}
    await journal.append(Wrote("two"))
    assert (await open_diary(journal.path)).state.texts == ["two"]


# --- the reserve ----------------------------------------------------------------------------------


async def test_final_entries_fit_on_a_full_disk(tmp_path: Path) -> None:
    """CP-32: a known result must not be lost because the disk is full."""
    calls = Failing(room=RESERVE + 1000)
    reserve = tmp_path / "reserve"
    journal = await open_diary(tmp_path / "a.jsonl", make_disk(calls, reserve))
    await journal.append(Wrote("one"))
    assert reserve.stat().st_size == RESERVE
    calls.room = 10
    with pytest.raises(DiskFull):
        await journal.append(Wrote("ordinary"))
    await journal.append(Wrote("result"), last_words=True)
    await journal.append(Wrote("and another"), last_words=True)
    assert journal.state.texts == ["one", "result", "and another"]
    assert reserve.stat().st_size == 0
    assert calls.room > RESERVE - 1000
    # The reserve is not for ordinary entries.
    with pytest.raises(DiskFull):
        await journal.append(Wrote("ordinary"))
    with pytest.raises(DiskFull):
        journal._disk.replace(tmp_path / "file", b"ordinary")
    calls.room = 2 * RESERVE
    await journal.append(Wrote("there is space again"))
    assert reserve.stat().st_size == RESERVE


async def test_reservations_are_optional(tmp_path: Path) -> None:
    calls = Failing()
    calls.fail = {"allocate": errno.EOPNOTSUPP}
    journal = await open_diary(tmp_path / "a.jsonl", make_disk(calls, tmp_path / "reserve"))
    await journal.append(Wrote("one"))
    assert journal.state.texts == ["one"]


async def test_a_torn_tail_is_kept_even_on_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    calls = Failing()
    disk = make_disk(calls, tmp_path / "reserve")
    journal = await open_diary(path, disk)
    await journal.append(Wrote("one"))
    with path.open("ab") as file:
        file.write(b"torn tail")
    calls.room = 3
    again = await open_diary(path, disk)
    assert again.state.texts == ["one"]
    assert read_torn_tails(tmp_path) == [b"torn tail"]


# --- failing disks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("sync", errno.EIO),
        ("sync", errno.ENOSPC),
        ("write", errno.EIO),
        ("open", errno.EROFS),
        ("open", errno.EIO),
    ],
)
async def test_a_failed_disk_ends_the_journal(tmp_path: Path, call: str, code: int) -> None:
    """CP-33: nothing is retried after a failed fsync; Elwood halts."""
    calls, journal = await start_diary(tmp_path)
    calls.fail = {call: code}
    with pytest.raises(JournalBroken) as caught:
        await journal.append(Wrote("two"))
    assert isinstance(caught.value, Halt)
    assert isinstance(caught.value.__cause__, OSError)
    calls.fail = {}
    with pytest.raises(JournalBroken):
        await journal.append(Wrote("three"))
    assert journal.state.texts == ["one"]
    again = await open_diary(journal.path)
    assert again.state.texts in (["one"], ["one", "two"])
    verify(journal.path)


async def test_a_line_that_cannot_be_cut_off_ends_the_journal(tmp_path: Path) -> None:
    calls, journal = await start_diary(tmp_path)
    calls.room = 5
    calls.fail = {"truncate": errno.EIO}
    with pytest.raises(JournalBroken, match="cutting"):
        await journal.append(Wrote("two"))
    assert (await open_diary(journal.path)).state.texts == ["one"]


async def test_running_out_of_descriptors_changes_nothing(tmp_path: Path) -> None:
    calls, journal = await start_diary(tmp_path)
    calls.fail = {"open": errno.EMFILE}
    with pytest.raises(OSError, match="Too many open files"):
        await journal.append(Wrote("two"))
    calls.fail = {}
    await journal.append(Wrote("three"))
    assert (await open_diary(journal.path)).state.texts == ["one", "three"]


async def test_a_deferred_sync_happens_at_the_end_of_a_page(tmp_path: Path) -> None:
    """A power failure can lose lines of the last page only; a kill loses none."""
    calls, path = Failing(), tmp_path / "a.jsonl"
    journal = await open_diary(path, make_disk(calls))
    await journal.append(Wrote("first"), synced=False)
    assert calls.synced, "a new file is there from the first line on"
    ends = [path.stat().st_size]
    calls.synced.clear()
    while ends[-1] < 3 * PAGE:
        await journal.append(Wrote("x" * 500), synced=False)
        ends.append(path.stat().st_size)
    crossing = [end for last, end in pairwise(ends) if last // PAGE != end // PAGE]
    assert calls.synced == crossing
    assert len((await open_diary(path, make_disk())).state.entries) == len(ends)


async def test_an_early_caller_continues_after_the_write(tmp_path: Path) -> None:
    """The line survives a kill.  Entries staged during the sync go into the next line."""
    calls, path, gate = Failing(), tmp_path / "a.jsonl", trio.Event()
    gate.set()

    async def blocking(fn: Callable[[], T], /) -> T:
        await gate.wait()
        return fn()

    journal = await open_diary(path, Disk(blocking=blocking, clock=lambda: 0.0, calls=calls))
    await journal.append(Wrote("first"))
    calls.synced.clear()
    gate = trio.Event()
    seen: list[list[str]] = []

    async def written() -> None:
        seen.append((await open_diary(path)).state.texts)
        await journal.stage(Wrote("staged"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(journal.append, Wrote("second"), written=partial(nursery.start_soon, written))
        )
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [["first", "second"]]
        assert not calls.synced
        nursery.start_soon(journal.append, Wrote("third"))
        await trio.testing.wait_all_tasks_blocked()
        assert (await open_diary(path)).state.texts == ["first", "second"]
        gate.set()
    assert calls.synced
    assert (await open_diary(path)).state.texts == ["first", "second", "staged", "third"]


# --- closing and replacing ----------------------------------------------------------------------


@pytest.mark.parametrize(("room", "left"), [(250, 0), (500, 1)])
async def test_a_log_that_cannot_be_sealed_is_sealed_later(
    tmp_path: Path, room: int, left: int
) -> None:
    """There is no space for the segment, or for the new file."""
    calls = Failing()
    journal = await open_diary(tmp_path / "a.jsonl", make_disk(calls), segment=200)
    await journal.append(Wrote("one"), Wrote("two"))
    calls.room = room
    await journal.append(Wrote("three"))
    assert journal.state.texts == ["one", "two", "three"]
    assert verify(journal.path).entries == 3
    assert len(segments(journal.path)) == left
    calls.room = 10_000
    for number in range(5):
        await journal.append(Wrote(str(number)))
    assert verify(journal.path).entries == 8
    assert segments(journal.path)
    assert (await open_diary(journal.path)).state == journal.state


async def test_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    journal = await open_diary(path)
    await journal.append(Wrote("one"))
    temporary(path).write_bytes(b"half a stat")
    await open_diary(path)
    assert list_names(tmp_path) == ["a.jsonl"]


def test_a_failed_replacement_keeps_the_old_file(tmp_path: Path) -> None:
    calls = Failing()
    disk = make_disk(calls)
    path = tmp_path / "file"
    disk.replace(path, b"old")
    calls.room = 4
    with pytest.raises(DiskFull):
        disk.replace(path, b"longer than four")
    assert path.read_bytes() == b"old"
    assert list_names(tmp_path) == ["file"]
    calls.room = 100
    calls.fail = {"rename": errno.EIO}
    with pytest.raises(JournalBroken):
        disk.replace(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_link_to_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"untouched")
    (tmp_path / ".file.tmp").symlink_to("target")
    with pytest.raises(OSError, match="symbolic link"):
        make_disk().replace(tmp_path / "file", b"new")
    assert (tmp_path / "target").read_bytes() == b"untouched"


# --- the lock -------------------------------------------------------------------------------------

OTHER = """
import sys, time
from pathlib import Path
from elwood.foundation.storage.disk import lock_state
with lock_state(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_learns_the_owner_of_the_folder(tmp_path: Path) -> None:
    """CP-36."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(AlreadyRunning, match=f"process {other.pid} ") as caught,
            lock_state(tmp_path),
        ):
            pass
        assert caught.value.pid == other.pid
        other.kill()
        other.wait()
        # The folder is free after any end of the other process.
        with lock_state(tmp_path):
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
