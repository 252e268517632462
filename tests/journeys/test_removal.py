"""Removed records are detected: lines at an end, a file, the anchors themselves."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import Entry, Received, Replied
from elwood.agent.session.log.state import Session
from elwood.features.backup.restore import restore
from elwood.features.tasks.messages import Change
from elwood.foundation.command_line import CliFailure
from elwood.foundation.runtime import inline
from elwood.foundation.storage import anchors
from elwood.foundation.storage.disk import Disk, lock_state
from elwood.foundation.storage.journal import Journal, segments
from tests.agent.session.test_reading_cli import run
from tests.journeys.home import MINE, Home
from tests.journeys.test_backup import restore_elsewhere, scope, take_now

NAME = anchors.NAME
CLOSED = "anchors.0000000001.jsonl.gz"
BEHIND = ("before write", "torn write", "after write", "after sync")
LONG_ENOUGH = anchors.EVERY + 5
DAY = 86_400.0


Verifying = Callable[..., list[str]]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verifying:
    """Return a function that returns the complaints of `elwood receipts verify`."""

    def complaints(h: Home, *words: str) -> list[str]:
        code = run(h.config(), "receipts", "verify", *words)
        out, err = capsys.readouterr()
        assert bool(code) == (bool(err) and "Accepted." not in out)
        return list(err.splitlines())

    return complaints


async def talk(h: Home, *said: str, later: float = 0.0) -> None:
    """Run a process; then let *later* seconds pass."""
    async with h.life() as life:
        await life.say(*said)
        await trio.sleep(1)
    h.clock_error -= later


def cut_lines(path: Path, lines: int) -> int:
    """Remove lines from the end; return how many entries there were."""
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:-lines]))
    return len(whole)


async def test_missing_last_lines_are_reported(h: Home, verify: Verifying) -> None:
    await talk(h, "one", "call act x")
    assert verify(h) == []

    cut_lines(h.journal(), 6)

    [problem] = verify(h)
    assert problem.startswith(f"{h.journal()}: DAMAGED: entries ")
    assert "are missing at its end: it had " in problem
    assert "on 2026-05-28 20:" in problem
    assert verify(h, str(h.journal())) == [problem]


@pytest.mark.parametrize("name", [f"sessions/{MINE}.jsonl", "usage.jsonl", "schedule.jsonl"])
async def test_a_missing_file_is_reported(h: Home, verify: Verifying, name: str) -> None:
    await talk(h, "one", "call act x")
    (h.state / name).unlink()

    [problem] = verify(h)
    assert problem.startswith(f"{h.state / name}: MISSING: it had ")
    assert verify(h, str(h.state / name)) == [problem]


async def test_a_missing_closed_segment_is_a_loss(h: Home, verify: Verifying) -> None:
    await talk(h, "one", "call act x")
    disk = Disk(blocking=inline, clock=h.now)
    closed = Journal[Entry, Session](h.journal(), Entry, Session, disk, segment=1)
    await closed.open()
    [segment] = segments(h.journal()).values()
    await talk(h, "two")
    assert verify(h) == []
    assert not any("records are missing" in text for text in h.fake.texts())

    segment.unlink()

    [problem] = verify(h)
    assert problem.startswith(f"{h.journal()}: DAMAGED: entries 1 to ")
    assert "are missing at its beginning: it had " in problem


async def test_expired_records_are_deleted_and_not_reported(h: Home, verify: Verifying) -> None:
    await talk(h, "one", "call act x")
    disk, once = Disk(blocking=inline, clock=h.now), h.state / "sessions" / "once-1.jsonl"
    closed = Journal[Entry, Session](h.journal(), Entry, Session, disk, segment=1)
    await closed.open()
    other = Journal[Entry, Session](once, Entry, Session, disk)
    await other.open()
    await other.append(Received("a", "hi", "me", Route("telegram"), 0.0))
    await other.append(Replied("a", None, ("a",), Route("telegram"), "re", quiet=True))
    await talk(h, "two")
    [segment] = segments(h.journal()).values()
    for path in (segment, once):
        os.utime(path, (h.now() - 3 * 365 * DAY,) * 2)

    async with h.life() as life:
        await life.address("timetable").ask(Change(id="sweep", verb="run", by="me"))
        await life.until(lambda: not once.exists())
        await trio.sleep(LONG_ENOUGH)
        assert not segment.exists()
        await life.say("three")

    assert h.texts()[-1] == "re: three"
    assert verify(h) == []
    assert not any("records are missing" in text for text in h.fake.texts())


async def test_unanchored_records_are_anchored_at_the_next_start(
    h: Home, verify: Verifying
) -> None:
    async with h.life() as life:
        await life.say("one")
        life.kill()
        await life.wait_for_kill()
    assert verify(h) == []
    await talk(h)
    cut_lines(h.journal(), 1)
    assert verify(h) != []


async def test_removed_lines_are_detected_while_running(h: Home, verify: Verifying) -> None:
    await talk(h, "one", "two", "three")
    cut_lines(h.journal(), 6)

    async with h.life() as life:
        for number in range(9):
            await life.say(f"and {number}")
        await trio.sleep(LONG_ENOUGH)
        what = f"records are missing: sessions/{MINE}.jsonl; run: elwood receipts verify"
        assert [what in text for text in h.fake.texts()].count(True) == 1

    [problem] = verify(h)
    assert "differs from the one of " in problem
    assert "but no longer on 2026-05-28 20:" in problem


async def test_accepted_gaps_are_no_longer_reported(h: Home, verify: Verifying) -> None:
    await talk(h, "one")
    h.journal().unlink()
    with lock_state(h.state), pytest.raises(CliFailure, match="Nothing was accepted"):
        run(h.config(), "receipts", "verify", "--accept")

    assert verify(h, "--accept") != []

    assert verify(h) == []
    await talk(h, "two")
    assert verify(h) == []
    cut_lines(h.journal(), 1)
    assert verify(h) != []


async def test_daily_notes_protect_the_anchors(h: Home, verify: Verifying) -> None:
    await talk(h, "one", later=2 * DAY)
    await talk(h, "two", later=2 * DAY)
    await talk(h, "three", later=2 * DAY)
    notes = sorted((h.folder / "workspace/threads/daily").glob("*.md"))
    assert [len(anchors.extract_head(one.read_text())) for one in notes] == [64] * 3
    assert verify(h) == []
    whole = (h.state / NAME).read_bytes()

    cut_lines(h.state / NAME, whole.count(b"\n") - 1)
    assert {problem.partition(":")[0] for problem in verify(h)} == {str(one) for one in notes[1:]}
    # Also if others have replaced them.
    (h.state / NAME).unlink()
    assert len(verify(h)) == 3
    await talk(h, "four", later=2 * DAY)
    assert len(verify(h)) == 3
    assert verify(h, "--accept") != []
    assert verify(h) == []


async def test_a_backup_contains_its_anchors(h: Home, verify: Verifying) -> None:
    await talk(h, "one", "two")
    archive = take_now(h)
    shutil.copy(h.journal(), h.folder / "before")
    cut_lines(h.journal(), 3)
    (h.state / NAME).unlink()
    for note in (h.folder / "workspace/threads/daily").iterdir():
        note.unlink()
    assert verify(h) == []

    [problem] = verify(h, "--against", str(archive))
    assert "are missing at its end" in problem
    shutil.copy(h.folder / "before", h.journal())
    assert verify(h, "--against", str(archive)) == []
    [problem] = verify(h, "--against", str(h.journal()))
    assert "has no readable anchors" in problem


async def test_a_restore_is_not_a_removal(h: Home, verify: Verifying) -> None:
    await talk(h, "one")
    archive = take_now(h)
    await talk(h, "two", later=2 * DAY)
    later = take_now(h)
    restore(scope(h), archive, clock=h.now)
    assert verify(h) == []
    assert verify(h, "--against", str(archive)) == []
    assert verify(h, "--against", str(later)) == []
    await talk(h, "three", later=2 * DAY)
    assert verify(h) == []
    async with restore_elsewhere(h, later) as there:
        assert verify(there) == []


@pytest.fixture
def long() -> Iterator[None]:
    """Make the anchors start a new file soon."""
    before, anchors.LONG = anchors.LONG, 2000
    yield
    anchors.LONG = before


async def test_the_anchors_are_bounded(h: Home, verify: Verifying, long: None) -> None:
    for number in range(20):
        await talk(h, f"message {number}", later=DAY / 2)
        assert verify(h) == []
    [(begins, closed)] = segments(h.state / NAME).items()
    assert begins > 1
    assert closed.stat().st_size + (h.state / NAME).stat().st_size < 10_000

    closed.unlink()
    assert verify(h) == []
    cut_lines(h.journal(), 1)
    assert verify(h) != []


async def test_anchoring_adds_no_sync_to_a_turn(h: Home) -> None:
    async with h.life() as life:
        await life.say("one", "two")
        await trio.sleep(20)
        assert not (h.state / "sessions" / NAME).exists()
        known = (h.state / NAME).read_bytes()
        await life.say("three")
        await trio.sleep(20)
        assert (h.state / NAME).read_bytes() == known


PLACES = [
    *(f"{when} anchored" for when in BEHIND),
    *(f"{when} rename {name}" for when in ("before", "after") for name in (CLOSED, NAME)),
]


async def test_a_kill_during_anchoring_harms_nothing(
    h: Home, verify: Verifying, long: None
) -> None:
    for place in PLACES:
        h.kill(place)
        for number in range(20):
            async with h.life() as life:
                h.fake.say(f"{place} {number}")
                await trio.sleep(1)
            assert verify(h) == [], place
            if life.was_killed:
                break
        assert life.was_killed, place
    await talk(h, "and on")
    assert verify(h) == []
