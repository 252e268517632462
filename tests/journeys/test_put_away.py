"""What is put away before anybody looked at it is learned from in the whole house."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from elwood.agent.session.log.entries import Archived, Observed
from elwood.agent.session.settings import SessionSettings
from tests.journeys.home import Home, home
from tests.journeys.test_learning import BIRTHDAY, QUIET, STRANGER, Watching, said, waiting

TOLD = "My sister has her birthday on 4 May!"


def observed(h: Home) -> int:
    return len([entry for entry in h.entries() if isinstance(entry, Observed)])


@pytest.mark.parametrize("command", ["/new", "/resume first"])
async def test_what_is_left_at_once_is_learned(
    tmp_path: Path, mock_clock: MockClock, command: str
) -> None:
    async with home(tmp_path, mock_clock) as h:
        watching = Watching(h)
        async with h.life() as life:
            await said(h, life, "Hello")
            await said(h, life, "/branch first")
            await trio.sleep(QUIET)
            watching.sees("sister-birthday", BIRTHDAY)
            await said(h, life, TOLD)
            await said(h, life, command)
            assert not waiting(h)
            await trio.sleep(QUIET)
            assert "zanzibar" in await said(h, life, "/memory pending")
        [first, second] = watching.passes
        assert "birthday" not in repr(first.messages)
        assert TOLD in repr(second.messages)
        async with h.life():
            await trio.sleep(QUIET)
        assert len(watching.passes) == observed(h) == 2
        assert not h.broken()


async def test_what_was_archived_unseen_is_learned_after_the_next_start(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Nobody needs to say anything for that; and it is not done again."""
    async with home(tmp_path, mock_clock) as h:
        watching = Watching(h)
        watching.sees("sister-birthday", BIRTHDAY)
        h.settings["sessions"] = SessionSettings(archive=86_400.0)
        async with h.life() as life:
            await said(h, life, TOLD)
        await trio.sleep(2 * 86_400)
        for _ in range(2):
            async with h.life():
                await trio.sleep(QUIET)
                assert not h.fold().path
                assert len(waiting(h)) == 1
        assert any(isinstance(entry, Archived) for entry in h.entries())
        assert len(watching.passes) == observed(h) == 1
        assert not h.broken()


async def test_what_was_taken_back_is_not_learned(tmp_path: Path, mock_clock: MockClock) -> None:
    async with home(tmp_path, mock_clock) as h:
        watching = Watching(h)
        watching.sees("sister-birthday", BIRTHDAY)
        async with h.life() as life:
            for text in (TOLD, "/undo", "/new", TOLD, "/new", "/resume", "/undo"):
                await said(h, life, text)
            await trio.sleep(QUIET)
            assert not watching.passes
            assert await said(h, life, "/memory pending") == "Nothing waits."
        assert not h.broken()


async def test_what_strangers_had_a_part_in_stays_theirs_in_a_fresh_conversation(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """It is shown to the owner who asks for it, and stands in no prompt."""
    async with home(tmp_path, mock_clock) as h:
        watching = Watching(h, mode="auto", threshold=1)
        watching.sees("bank", "The bank account is 4711.")
        async with h.life() as life:
            h.fake.say("My account is 4711", forward_origin=STRANGER)
            await life.settled()
            await said(h, life, "/new")
            assert not h.fold().taint.label.untrusted
            await trio.sleep(QUIET)
            [note] = waiting(h)
            assert "label: untrusted" in note.read_text()
            before = len(h.asked)
            watching.facts = []
            await said(h, life, "What is my bank account?")
            assert "4711" not in repr(h.asked[before:])
            await trio.sleep(QUIET)
        assert "trusted=no" in repr(watching.passes[0].messages)
        assert "4711" not in repr(watching.passes[1].messages)
        assert not h.broken()
