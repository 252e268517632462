"""Backups: their content, omissions, and the report about those."""

import fcntl
import os
import resource
import shutil
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from elwood.agent.session.restored import Restored, read_restored
from elwood.features.backup.restore import restore
from elwood.features.backup.rules import MAX_DEPTH, BackupFailed
from elwood.features.backup.store import list_backups, take
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import AlreadyRunning, Disk, lock_state
from elwood.foundation.storage.files import is_marked, mark_untrusted
from elwood.foundation.storage.journal import Journal, verify
from tests.features.backup.keeping import NOW, Clock, contents, furnish, git, is_kept, lines, scope
from tests.foundation.storage.diary import Entry, Wrote


def members(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def why(left_out: tuple[object, ...], name: str) -> str:
    [one] = [str(one) for one in left_out if f"'{name}'" in str(one)]
    return one


def test_a_restore_elsewhere_is_complete(tmp_path: Path) -> None:
    here, there = scope(tmp_path / "a"), scope(tmp_path / "b")
    furnish(here)
    os.mkdir(here.workspace / "empty")
    (here.workspace / "run.sh").write_text("echo")
    (here.workspace / "run.sh").chmod(0o750)
    os.utime(here.workspace / "run.sh", (NOW - 99, NOW - 99))
    os.close(os.open(os.fsencode(here.workspace) + b"/not-utf8-\xff", os.O_CREAT, 0o600))
    taken = take(here, clock=lambda: NOW, keep=3)
    assert taken.manifest.left_out == ()
    assert oct(taken.path.stat().st_mode & 0o777) == "0o600"
    done = restore(there, taken.path, clock=lambda: NOW + 60)
    assert (done.manifest, done.aside, done.problems) == (taken.manifest, (), ())
    assert contents(there.workspace) == contents(here.workspace)
    assert contents(there.state, is_kept) == contents(here.state, is_kept)
    assert contents(there.state, is_kept)["sessions/tg-1.jsonl"] == lines("hello", "more")
    seen = (there.workspace / "run.sh").stat()
    assert (seen.st_mode & 0o777, seen.st_mtime) == (0o750, NOW - 99)
    assert read_restored(there.state) == Restored(NOW, NOW + 60)
    assert read_restored(here.state) is None


def test_every_conversation_is_woken_after_a_restore(tmp_path: Path) -> None:
    here = scope(tmp_path)
    furnish(here)
    (here.state / "sessions" / "quiet.jsonl").write_bytes(lines("said"))
    restore(here, take(here, clock=Clock(), keep=1).path, clock=lambda: NOW + 60)
    opened = sorted(path.name for path in (here.state / "sessions" / "open").iterdir())
    assert opened == ["quiet", "tg-1"]


def test_the_present_files_are_moved_aside_and_the_backups_stay(tmp_path: Path) -> None:
    here = scope(tmp_path)
    furnish(here, "then")
    taken = take(here, clock=Clock(), keep=3)
    before = contents(here.state, is_kept)
    shutil.rmtree(here.workspace)
    shutil.rmtree(here.state / "memory")
    (here.state / "approvals.jsonl").write_bytes(lines("now"))
    (here.state / "newer.jsonl").write_bytes(lines("now"))
    here.workspace.mkdir()
    (here.workspace / "newer").write_text("now")
    done = restore(here, taken.path, clock=lambda: NOW + 60)
    assert contents(here.state, is_kept) == before
    assert sorted(path.name for path in here.workspace.iterdir()) == ["folder", "link"]
    in_state, beside = done.aside
    assert (in_state / "approvals.jsonl").read_bytes() == lines("now")
    assert (in_state / "newer.jsonl").read_bytes() == lines("now")
    assert (beside / "newer").read_text() == "now"
    assert [backup.path for backup in list_backups(here.folder)] == [taken.path]
    assert (here.state / "running" / "command").exists()
    again = take(here, clock=lambda: NOW + 90, keep=3)
    assert not [name for name in members(again.path) if "before-restore" in name]


def test_a_workspace_in_the_state_folder_goes_along_once(tmp_path: Path) -> None:
    here = scope(tmp_path)
    furnish(here)
    here.workspace.rename(here.state / "workspace")
    here = msgspec.structs.replace(here, workspace=here.state / "workspace")
    taken = take(here, clock=Clock(), keep=3)
    assert not [name for name in members(taken.path) if name.startswith("state/workspace")]
    (here.workspace / "folder" / "said.txt").write_text("later")
    done = restore(here, taken.path, clock=lambda: NOW + 60)
    assert (here.workspace / "folder" / "said.txt").read_text() == "hello"
    [aside] = done.aside
    assert (aside / "workspace" / "folder" / "said.txt").read_text() == "later"


def test_folders_may_be_named_by_links(tmp_path: Path) -> None:
    here = scope(tmp_path)
    furnish(here)
    here.workspace.rename(here.state / "workspace")
    (tmp_path / "link").symlink_to(here.state)
    named = msgspec.structs.replace(
        here,
        state=tmp_path / "link",
        workspace=here.state / "workspace",
        folder=here.state / "kept",
    )
    before = contents(here.state / "workspace"), contents(here.state / "memory")
    path = take(named, clock=Clock(), keep=3).path
    restore(named, path, clock=lambda: NOW + 60)
    assert (contents(here.state / "workspace"), contents(here.state / "memory")) == (
        before[0],
        {"note.md": b"hello"},
    )
    assert [backup.path for backup in list_backups(named.folder)] == [path]
    assert named.state.is_symlink()


def test_untrusted_marks_are_restored(tmp_path: Path) -> None:
    here, there = scope(tmp_path / "a"), scope(tmp_path / "b")
    furnish(here)
    for path in (here.workspace / "folder", here.workspace / "folder" / "said.txt"):
        fd = os.open(path, os.O_RDONLY)
        mark_untrusted(fd)
        os.close(fd)
    restore(there, take(here, clock=Clock(), keep=1).path, clock=lambda: NOW + 60)
    assert is_marked(str(there.workspace / "folder"))
    assert is_marked(str(there.workspace / "folder" / "said.txt"))
    assert not is_marked(str(there.workspace))


def test_the_history_of_the_workspace_comes_back(tmp_path: Path) -> None:
    here, there = scope(tmp_path / "a"), scope(tmp_path / "b")
    furnish(here)
    git(here.workspace, "init", "-q", "-b", "trunk")
    git(here.workspace, "add", ".")
    git(here.workspace, "commit", "-qm", "first")
    (here.workspace / "folder" / "said.txt").write_text("not committed")
    hook = here.workspace / ".git" / "hooks" / "reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    taken = take(here, clock=Clock(), keep=1)
    names = members(taken.path)
    assert names.index("workspace/.git/refs/heads/trunk") < names.index("workspace/.git/objects")
    restore(there, taken.path, clock=lambda: NOW + 60)
    assert not (tmp_path / "hooked").exists()
    assert contents(there.workspace) == contents(here.workspace)
    assert git(there.workspace, "status", "--short", "--branch") == "## trunk\n M folder/said.txt"
    assert git(there.workspace, "fsck") == ""


def test_journals_end_with_their_last_whole_line(tmp_path: Path) -> None:
    here, there = scope(tmp_path / "a"), scope(tmp_path / "b")
    furnish(here)
    journal = here.state / "sessions" / "tg-1.jsonl"
    journal.write_bytes(lines("one", "two") + b'{"seq":3,"prev"')
    damaged = here.state / "usage.jsonl"
    damaged.write_bytes(lines("one", "two").replace(b"one", b"won"))
    taken = take(here, clock=Clock(), keep=1)
    assert "DAMAGED: line 1" in why(taken.manifest.left_out, "state/usage.jsonl")
    restore(there, taken.path, clock=lambda: NOW + 60)
    assert (there.state / "sessions" / "tg-1.jsonl").read_bytes() == lines("one", "two")
    assert (there.state / "usage.jsonl").read_bytes() == damaged.read_bytes()


def test_a_log_closed_during_the_backup_is_complete(tmp_path: Path) -> None:
    here = scope(tmp_path / "a")
    furnish(here)
    # Read before the log that is closed, and long enough that the close is during the read.
    (here.state / "sessions" / "tg-0.jsonl").write_bytes(lines(*["said"] * 5_000))
    began, done = threading.Event(), threading.Event()

    async def write() -> None:
        path = here.state / "sessions" / "tg-2.jsonl"
        disk = Disk(blocking=inline, clock=lambda: NOW)
        journal = Journal[Entry, Counting](path, Entry, Counting, disk, segment=2_000)
        await journal.open()
        while not done.is_set():
            await journal.append(Wrote("said"))
            began.set()

    writer = threading.Thread(target=trio.run, args=(write,))
    writer.start()
    try:
        assert began.wait(30)
        taken = [take(here, clock=Clock(NOW + 1_000 * n), keep=9).path for n in range(5)]
    finally:
        done.set()
        writer.join()
    for number, path in enumerate(taken):
        there = scope(tmp_path / str(number))
        restore(there, path, clock=lambda: NOW + 9_000)
        found = verify(there.state / "sessions" / "tg-2.jsonl")
        assert (found.gone, found.torn) == (0, 0)
        assert found.entries


class Counting(msgspec.Struct):
    """A fold that stays small."""

    entries: int = 0

    def apply(self, seq: int, at: float, entry: Entry) -> None:
        self.entries += 1


def test_conversations_are_read_before_what_they_ask(tmp_path: Path) -> None:
    here = scope(tmp_path)
    furnish(here)
    (here.state / "aaa.jsonl").write_bytes(lines("later helpers"))
    names = members(take(here, clock=Clock(), keep=1).path)
    wanted = ["sessions/tg-1.jsonl", "approvals.jsonl", "usage.jsonl", "aaa.jsonl"]
    order = [
        *(f"state/{name}" for name in (*wanted, "memory/note.md")),
        "workspace",
        "workspace/link",
    ]
    assert [name for name in names if name in order] == order


def test_special_files_and_outside_links_are_listed(tmp_path: Path) -> None:
    here, there = scope(tmp_path / "a"), scope(tmp_path / "b")
    furnish(here)
    os.mkfifo(here.workspace / "fifo")
    for name, target in {"abs": "/etc/passwd", "up": "../state/approvals.jsonl"}.items():
        (here.workspace / name).symlink_to(target)
    os.link(here.workspace / "folder" / "said.txt", here.workspace / "twin")
    deep = here.workspace
    for _ in range(MAX_DEPTH + 2):
        deep /= "d"
        deep.mkdir()
    taken = take(here, clock=Clock(), keep=1)
    left = taken.manifest.left_out
    assert "not a regular file" in why(left, "workspace/fifo")
    assert "/etc/passwd" in why(left, "workspace/abs")
    assert "a link out of its folder" in why(left, "workspace/up")
    assert "folders deep" in why(left, "workspace/" + "/".join("d" * MAX_DEPTH))
    assert len(left) == 4
    restore(there, taken.path, clock=lambda: NOW + 60)
    assert (there.workspace / "twin").read_text() == "hello"


def test_old_backups_go_and_leftovers_are_swept(tmp_path: Path) -> None:
    here = scope(tmp_path)
    furnish(here)
    clock = Clock()
    (here.folder / ".elwood-backup-left").mkdir(parents=True)
    (here.folder / ".elwood-backup-left" / "archive").write_text("half")
    (here.folder / "mine.tar.gz").write_text("somebody's")
    taken = [take(here, clock=clock, keep=3).path for _ in range(5)]
    assert [backup.path for backup in list_backups(here.folder)] == taken[:1:-1]
    there = sorted(path.name for path in here.folder.iterdir())
    assert there == [*(path.name for path in taken[2:]), "mine.tar.gz"]


def test_a_backup_counts_although_an_old_one_cannot_be_removed(tmp_path: Path) -> None:
    """Otherwise it would count as a failure and be repeated until the disk is full."""
    here = scope(tmp_path)
    furnish(here)
    clock = Clock()
    old = take(here, clock=clock, keep=3).path
    old.unlink()
    old.mkdir()
    (here.folder / "elwood-20200101T000000Z.tar.gz").symlink_to("nowhere")
    assert list_backups(here.folder) == []
    taken = take(here, clock=clock, keep=1)
    assert [backup.path for backup in list_backups(here.folder)] == [taken.path]


@contextmanager
def files_of(size: int) -> Iterator[None]:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_full_disk_leaves_no_files(tmp_path: Path) -> None:
    here, there = scope(tmp_path / "a"), scope(tmp_path / "b")
    furnish(here)
    (here.workspace / "noise").write_bytes(os.urandom(300_000))
    with files_of(100_000), pytest.raises(BackupFailed, match=r"the disk of .* is full"):
        take(here, clock=Clock(), keep=3)
    assert list(here.folder.iterdir()) == []
    taken = take(here, clock=Clock(), keep=3)
    furnish(there, "old")
    before = contents(there.state), contents(there.workspace)
    with files_of(100_000), pytest.raises(BackupFailed, match=r"the disk of .* is full"):
        restore(there, taken.path, clock=lambda: NOW + 60)
    (there.state / "lock").write_bytes(b"1\n")
    assert (contents(there.state), contents(there.workspace)) == before


def test_too_much_is_refused(tmp_path: Path) -> None:
    here = scope(tmp_path, limit=10_000)
    furnish(here)
    path = take(here, clock=Clock(), keep=3).path
    (here.workspace / "large").write_bytes(b"x" * 10_000)
    with pytest.raises(BackupFailed, match=r"backup\.size"):
        take(here, clock=lambda: NOW + 9, keep=3)
    with pytest.raises(BackupFailed, match=r"backup\.size"):
        restore(msgspec.structs.replace(here, limit=10), path, clock=lambda: NOW + 60)


def test_received_files_are_left_out_first_and_listed(tmp_path: Path) -> None:
    here = scope(tmp_path, limit=10_000)
    furnish(here)
    for folder in ("received/tg-1", "zoo"):
        (here.workspace / folder).mkdir(parents=True)
        (here.workspace / folder / "cat.jpg").write_bytes(b"x" * 6_000)
    taken = take(here, clock=Clock(), keep=3)
    assert "backup.size has no room" in why(
        taken.manifest.left_out, "workspace/received/tg-1/cat.jpg"
    )
    assert "workspace/zoo/cat.jpg" in [one.name for one in taken.manifest.members]


def test_one_is_taken_at_a_time(tmp_path: Path) -> None:
    here = scope(tmp_path)
    furnish(here)
    take(here, clock=lambda: NOW, keep=3)
    take(here, clock=lambda: NOW, keep=3)
    assert [backup.at for backup in list_backups(here.folder)] == [NOW + 1, NOW]
    held = os.open(here.folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(BackupFailed, match="another backup"):
        take(here, clock=lambda: NOW, keep=3)
    os.close(held)
    take(here, clock=lambda: NOW + 1, keep=3)


@pytest.mark.parametrize("place", ["workspace/backups", "state", "state/memory/backups"])
def test_backups_must_not_be_in_moved_or_visible_folders(tmp_path: Path, place: str) -> None:
    here = msgspec.structs.replace(scope(tmp_path), folder=tmp_path / place)
    furnish(here)
    with pytest.raises(BackupFailed, match=r"backup\.folder"):
        take(here, clock=Clock(), keep=3)


def test_a_restore_needs_a_stopped_app_and_a_valid_backup(tmp_path: Path) -> None:
    here = scope(tmp_path)
    furnish(here)
    path = take(here, clock=lambda: NOW, keep=3).path
    with lock_state(here.state), pytest.raises(AlreadyRunning):
        restore(here, path, clock=lambda: NOW + 60)
    with pytest.raises(BackupFailed, match="clock"):
        restore(here, path, clock=lambda: NOW - 60)
    assert not list(here.state.glob("restor*"))
