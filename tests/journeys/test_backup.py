"""A backup taken while Elwood runs, restored elsewhere: equal content, and reports."""

import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import ApprovalBook, ApprovalEntry
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import CallEnded, Received, Replied
from elwood.agent.session.restored import read_restored
from elwood.features.backup.restore import restore
from elwood.features.backup.store import Scope, list_backups, take
from elwood.foundation.settings import Paths
from elwood.foundation.storage import anchors
from elwood.foundation.storage.journal import entries_of
from tests.fake_telegram import OWNER
from tests.journeys.home import EPOCH, OTHER, Home, home
from tests.journeys.service import MARK, Town, town
from tests.journeys.test_approval_journeys import questions
from tests.journeys.test_kill9 import World

STRANGER = 4711
RESTORED = "I was restored from a backup"
# The notice about an interrupted call.
CUT_OFF = "? act x"


def scope(h: Home) -> Scope:
    paths = h.config().get(Paths)
    return Scope(
        state=paths.state, workspace=paths.workspace, folder=h.folder / "backups", limit=1 << 30
    )


def take_now(h: Home) -> Path:
    return take(scope(h), clock=lambda: EPOCH, keep=9).path


@asynccontextmanager
async def restore_elsewhere(h: Home, archive: Path) -> AsyncIterator[Home]:
    """Restore *archive* on another machine, an hour later."""
    await trio.sleep(3600)
    there = attrs.evolve(h, folder=h.folder / "elsewhere", made=None)
    restore(scope(there), archive, clock=h.now)
    yield there


async def places(folder: Path) -> list[str]:
    """List the places of a turn with a call: after each line of its log."""
    async with home(folder) as h:
        async with h.life() as life:
            await life.say("call act x")
        tags = dict.fromkeys(h.names())
    return [f"after write {tag}" for tag in tags]  # not every line has a separate sync


async def test_a_backup_from_any_moment_repeats_nothing_silently(
    tmp_path: Path, virtual_time: None
) -> None:
    endings = set()
    for number, place in enumerate(await places(tmp_path / "plain")):
        async with home(tmp_path / str(number)) as h:
            taken: list[Path] = []
            h.disk.at(place, lambda h=h, taken=taken: taken.append(take_now(h)))  # type: ignore[misc]
            async with h.life() as life:
                await life.say("call act x")
                assert h.effects.done == ["act x"], place
            async with restore_elsewhere(h, taken[0]) as there:
                log = h.journal().read_bytes()
                assert log.startswith(there.journal().read_bytes())
                before = there.fold()
                told = len(h.fake.texts())
                for _ in range(2):
                    async with there.life() as life:
                        await life.wait_until_idle()
                new = h.fake.texts()[told:]
                assert h.effects.done == ["act x"], place
                if before.is_idle:
                    assert new == []
                elif before.undelivered:
                    assert [text.partition(" ")[0] for text in new] == ["(again)"], place
                else:
                    [text] = new
                    assert RESTORED in text
                    cut_off = before.turn is not None and any(
                        call.started and not call.ended for call in before.turn.calls.values()
                    )
                    assert (CUT_OFF in text) == cut_off, place
                endings.add(new[0].split()[0] if new else "")
                entries = there.entries()
                received = [entry.id for entry in entries if isinstance(entry, Received)]
                replies = [entry for entry in entries if isinstance(entry, Replied)]
                assert [id_ for reply in replies for id_ in reply.inputs] == received, place
                async with there.life() as life:
                    await trio.sleep(2)  # messages before the restore are doubtful
                    await life.say("and on")
                assert h.fake.texts()[-1] == "re: and on"
    assert endings == {"", "I", "(again)"}


async def test_an_old_yes_does_not_run_a_restored_call(h: Home) -> None:
    h.settings["policy"] = PolicySettings()
    h.settings["approvals"] = ApprovalSettings(wait=10.0)
    async with h.life() as life:
        h.fake.say("call act x")
        await life.until(lambda: questions(h))
        await life.wait_until_idle()
        assert h.fold().pending
        archive = take_now(h)
        [question] = questions(h)
        yes = question.button("o")
        h.fake.press(yes, user=OWNER, message=question)
        await life.until(lambda: h.effects.done)
        await life.wait_until_idle()
    async with restore_elsewhere(h, archive) as there:
        async with there.life() as life:
            await life.until(lambda: not there.fold().pending)
            h.fake.press(yes, user=OWNER, message=question)
            await trio.sleep(2)  # messages before the restore are doubtful
            await life.say("and on")
        assert h.effects.done == ["act x"]
        book = ApprovalBook()
        for seq, at, entry in entries_of(there.state / "approvals.jsonl", ApprovalEntry):
            book.apply(seq, at, entry)
        assert not book.calls.open()


async def test_a_backup_under_load_is_consistent(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each log in the backup is a prefix of the final log, and together they are consistent."""
    seed = request.config.getoption("--kill-seed")
    seed = random.randrange(10**6) if seed is None else seed
    print(f"to repeat this: --kill-seed {seed}")
    async with town(tmp_path / "here", effectful=True) as here:
        world = World(here, random.Random(seed))
        await here.start()
        here.telegram.say("let me in", chat=STRANGER, user=STRANGER)
        for kind in ("act", "act", "tell"):
            world.push(kind, OWNER)
            await here.wait_for_messages(len(here.sent_texts()) + 1)
            world.push("act", OTHER)
            await trio.to_thread.run_sync(lambda: take(town_scope(here), clock=time.time, keep=9))
        await here.eventually(world.is_settled)
        await here.stop()
        # Updates that Telegram still holds would be new to the restored Elwood.
        assert not here.telegram.unconfirmed
        backups = list_backups(here.state / "backups")
        assert len(backups) == 3
        there = make_other_town(here, tmp_path / "there")
        done = await there.command("backup", "restore", str(backups[1].path), "--yes")
        assert done.returncode == 0, done.stderr.decode()
        for path in {*there.state.rglob("*.jsonl")} - {there.state / anchors.NAME}:
            became = (here.state / path.relative_to(there.state)).read_bytes()
            assert became.startswith(path.read_bytes())
        done_before = list(there.effects)
        receipts = [e for journal in there.journals().values() for e in journal]
        acted = {e.target for e in receipts if isinstance(e, CallEnded) and e.outcome == "ok"}
        # Effects in the receipts are in the workspace, which was copied after the logs.
        assert {target for target in acted if MARK.fullmatch(target)} <= set(done_before)
        await there.start()
        # Telegram dates are whole seconds; messages not later than the restore are doubtful.
        put_back = read_restored(there.state)
        assert put_back is not None
        await trio.sleep(max(0.0, put_back.restored_at + 1.0 - time.time()))
        mark = world.push("tell", OWNER)
        await there.until(lambda: any(mark in text for text in there.sent_texts()))
        await there.stop()
        await there.verify_receipts()
        assert there.effects == done_before
        entries = [e for journal in there.journals().values() for e in journal]
        received = Counter(e.id for e in entries if isinstance(e, Received))
        answered = Counter(id_ for e in entries if isinstance(e, Replied) for id_ in e.inputs)
        assert received == answered
        assert set(received.values()) == {1}


def town_scope(here: Town) -> Scope:
    state = here.state
    return Scope(
        state=state, workspace=here.folder / "workspace", folder=state / "backups", limit=1 << 30
    )


def make_other_town(here: Town, folder: Path) -> Town:
    """Create another town with the same services, and only its configuration."""
    folder.mkdir()
    there = Town(folder, here.telegram, here.models, effectful=True)
    there.config.write_text(here.config.read_text().replace(str(here.folder), str(folder)))
    return there
