"""kill -9 at steps of a backup and of a restore, in real processes: nothing is half-done."""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from elwood.agent.session.restored import read_restored
from elwood.features.backup.restore import mend, restore
from elwood.features.backup.store import Scope, list_backups, take
from elwood.foundation.storage.disk import lock_state
from tests.features.backup.keeping import NOW, contents, furnish, is_kept, scope

# How many of the last steps a process is killed at, and about how many of those before: the first,
# and others at equal distances.
LAST, OTHERS = 12, 5
# Maximum steps of mending; it is killed at another one each time.
MENDING = 30
# Changes of the disk, as named by Python's audit hooks.
STEPS = frozenset({"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.symlink"})


def killed_at(step: int, do: Callable[[], object]) -> bool:
    """Run *do* in a process that is killed before its *step*-th step; False if it had fewer."""
    child = os.fork()
    if child == 0:
        steps = itertools.count(1)

        def hook(event: str, given: tuple[object, ...]) -> None:
            if event in STEPS and next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            do()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def steps_of(do: Callable[[], object]) -> list[int]:
    """Choose steps to be killed at, of all that *do* has: the first, the last ones, some between.

    They are the same in every run: before the first nothing is done, after the last all.
    """
    given, taken = os.pipe()
    child = os.fork()
    if child == 0:
        seen: list[str] = []
        try:
            sys.addaudithook(lambda event, _: seen.append(event) if event in STEPS else None)
            do()
            os.write(taken, b"%d" % len(seen))
        finally:
            os._exit(0)
    os.close(taken)
    os.waitpid(child, 0)
    most = int(os.read(given, 20))
    os.close(given)
    before = most - LAST
    return [*range(1, before + 1, before // OTHERS), *range(before + 1, most + 1)]


def test_a_killed_backup_leaves_no_backup_and_no_litter(tmp_path: Path) -> None:
    numbers = itertools.count()

    def here() -> Scope:
        one = scope(tmp_path / str(next(numbers)))
        furnish(one)
        return one

    def take_(one: Scope) -> Callable[[], object]:
        return lambda: take(one, clock=lambda: NOW, keep=2)

    take_(here())()  # a late import is not a step
    for step in steps_of(take_(here())):
        one = here()
        before = contents(one.state, is_kept)
        assert killed_at(step, take_(one))
        for left in list_backups(one.folder):
            restore(scope(one.state / "run" / "early"), left.path, clock=lambda: NOW + 60)
        taken = take(one, clock=lambda: NOW + 1, keep=1)
        assert [path.name for path in one.folder.iterdir()] == [taken.path.name]
        assert contents(one.state, is_kept) == before
        there = scope(one.state / "run" / "there")
        restore(there, taken.path, clock=lambda: NOW + 60)


def test_a_killed_restore_is_complete_or_did_not_begin(tmp_path: Path) -> None:
    source = scope(tmp_path / "source")
    furnish(source, "then")
    (source.state / "added.jsonl").write_bytes(b"")
    archive = take(source, clock=lambda: NOW, keep=1).path
    numbers, over = itertools.count(), []

    def there() -> Scope:
        one = scope(tmp_path / str(next(numbers)))
        furnish(one, "now")
        (one.state / "gone.jsonl").write_bytes(b"")
        return one

    def restore_(one: Scope) -> Callable[[], object]:
        return lambda: restore(one, archive, clock=lambda: NOW + 60)

    def all_of(one: Scope) -> object:
        return contents(one.state, is_kept), contents(one.workspace)

    then, now = all_of(source), all_of(there())
    restore_(there())()  # a late import is not a step
    for step in steps_of(restore_(there())):
        one = there()
        assert killed_at(step, restore_(one))
        killed_at(1 + step % MENDING, lambda one=one: mended(one))  # type: ignore[misc]
        mended(one)  # as the next start does
        over.append(read_restored(one.state) is not None)
        assert all_of(one) == (then if over[-1] else now), step
        # Nothing is lost, and only the files moved aside are left.
        if over[-1]:
            assert [path.read_bytes() for path in one.state.glob("before-*/gone.jsonl")] == [b""]
        assert not (one.state / "restoring").exists()
        restore_(one)()
        assert all_of(one) == then
        assert not list(one.workspace.parent.glob(".workspace.*"))
    assert over == sorted(over)
    assert {*over} == {False, True}


def mended(one: Scope) -> None:
    with lock_state(one.state):
        mend(one.state)
