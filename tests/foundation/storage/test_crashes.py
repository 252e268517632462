"""After any crash the journal opens, and no acknowledged entry is lost (P1, P8).

CP-03, CP-17, CP-24, CP-25 and CP-29 for the room that must bear them;
`tests/foundation/storage/crashes.py` says
how hostile the disk is.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import entries_of, verify
from tests.foundation.storage.crashes import (
    Acknowledged,
    Recorder,
    Tree,
    count_acknowledged,
    create_tree,
    power_cuts,
    state_after_kill,
)
from tests.foundation.storage.diary import Counted, Entry, Wrote, make_disk, open_diary

NAME = "sessions/a.jsonl"
# Bytes: small enough for several segments.
SMALL = 500


async def write(base: Path, calls: Recorder, counts: list[int]) -> None:
    """Append lines of *counts* numbered entries, and record the acknowledged ones."""
    journal = await open_diary(base / NAME, make_disk(calls), SMALL)
    for count in counts:
        done = len(journal.state.entries)
        await journal.append(*(Counted(n) for n in range(done, done + count)))
        calls.log.append(Acknowledged(done + count))


async def check(tree: Tree, safe: int, most: int) -> None:
    """Open *tree*: check that it has *safe* to *most* entries, in order, and accepts more."""
    with TemporaryDirectory() as folder:
        create_tree(tree, Path(folder))
        journal = await open_diary(Path(folder) / NAME, segment=SMALL)
        found = [entry.number for entry in journal.state.entries if isinstance(entry, Counted)]
        assert found == list(range(len(found)))
        assert safe <= len(found) <= most
        await journal.append(Wrote("on"))
        again = await open_diary(journal.path, segment=SMALL)
        assert again.state == journal.state
        # Each once, despite any leftovers of the crash.
        assert [entry for _, _, entry in entries_of(journal.path, Entry)] == again.state.entries
        verify(journal.path)


async def test_no_crash_loses_acknowledged_entries(tmp_path: Path) -> None:
    calls = Recorder(tmp_path)
    await write(tmp_path, calls, [1, 3, 1, 1, 2, 3])
    seen = set()
    for end in range(len(calls.log) + 1):
        log = calls.log[:end]
        safe = count_acknowledged(log)
        for tree in [state_after_kill(log), *power_cuts(log)]:
            if (key := (frozenset(tree.items()), safe)) not in seen:
                seen.add(key)
                await check(tree, safe, safe + 3)
    assert len(seen) > 60


async def test_no_second_crash_loses_acknowledged_entries(tmp_path: Path) -> None:
    """A process is killed, the next one recovers and continues, then the power fails (CP-29).

    The second process has used unsynced data of the first, so that data must not vanish.
    """
    calls = Recorder(tmp_path / "first")
    calls.base.mkdir()
    await write(calls.base, calls, [2, 1])
    seen = set()
    for end in range(len(calls.log) + 1):
        base = tmp_path / str(end)
        base.mkdir()
        create_tree(state_after_kill(calls.log[:end]), base)
        second = Recorder(base, calls, end)
        recovered = await open_diary(base / NAME, make_disk(second), SMALL)
        second.log.append(Acknowledged(len(recovered.state.entries)))
        opening = len(second.log)
        await write(base, second, [1])
        for cut in range(end, len(second.log) + 1):
            log = second.log[:cut]
            # During the recovery it acknowledged at most the entries of the first process.
            safe = count_acknowledged(log if cut >= opening else calls.log[:end])
            for tree in power_cuts(log):
                if (key := (frozenset(tree.items()), safe)) not in seen:
                    seen.add(key)
                    await check(tree, safe, safe + 3)
    assert len(seen) > 60


async def test_no_crash_during_recovery_loses_entries(tmp_path: Path) -> None:
    calls = Recorder(tmp_path / "first")
    calls.base.mkdir()
    await write(calls.base, calls, [2, 3])
    tried: set[object] = set()
    seen = set()
    for end in range(len(calls.log) + 1):
        safe = count_acknowledged(calls.log[:end])
        for tree in power_cuts(calls.log[:end]):
            if (once := (frozenset(tree.items()), safe)) in tried:
                continue
            tried.add(once)
            base = tmp_path / str(len(tried))
            base.mkdir()
            create_tree(tree, base)
            second = Recorder(base)
            second.adopt(tree)
            found = len(second.log)
            await open_diary(base / NAME, make_disk(second), SMALL)
            for cut in range(found, len(second.log) + 1):
                for again in power_cuts(second.log[:cut]):
                    kept = {again[name] for name in again if ".torn-" in name}
                    lost = len(again.get(NAME) or b"")
                    assert lost == len(tree.get(NAME) or b"") or (tree[NAME] or b"")[lost:] in kept
                    if (key := (frozenset(again.items()), safe)) not in seen:
                        seen.add(key)
                        await check(again, safe, safe + 3)
    assert len(seen) > 60


@pytest.mark.parametrize("existing", [None, b"old"])
def test_a_replaced_file_is_old_or_new(tmp_path: Path, existing: bytes | None) -> None:
    """CP-24 and CP-25: the rename replaces the file, and the folder's fsync makes it durable."""
    calls = Recorder(tmp_path)
    disk: Disk = make_disk(calls)
    path = tmp_path / "file"
    if existing is not None:
        disk.replace(path, existing)
    before = len(calls.log)
    disk.replace(path, b"new")
    states = 0
    for end in range(before, len(calls.log) + 1):
        for tree in power_cuts(calls.log[:end]):
            states += 1
            assert tree.get("file") in (existing, b"new")
            if end == len(calls.log):
                assert tree == {"file": b"new"}
    assert states > 5
