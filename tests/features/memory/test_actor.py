"""The memory actor, through its mailbox."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from elwood.agent.conversation.route import Route
from elwood.agent.models.client import EmbeddingFailed
from elwood.agent.models.messages import Embeddings
from elwood.agent.session.extension import CommandCall
from elwood.agent.session.log.entries import Received
from elwood.features.memory.actor import PAUSE
from elwood.features.memory.learning import LearningPlan, Observation
from elwood.features.memory.messages import (
    GetOverview,
    Learn,
    MemoryMail,
    ReadNotes,
    Recall,
    Remember,
    Saved,
    Suggest,
    Unlearned,
)
from elwood.features.memory.parts import command as run_command
from elwood.features.memory.settings import LearningSettings
from elwood.features.memory.tools import NoteSearch
from elwood.foundation.runtime import Address, in_thread, inline
from elwood.foundation.storage.indexed_files import LOOK_EVERY
from elwood.foundation.storage.search_index import IndexCounts
from tests.features.memory.observing import seen
from tests.features.memory.store_alone import draft, remembering
from tests.hashed_vectors import hashed

T = TypeVar("T")
Mail = Address[MemoryMail]


async def keep(memory: Mail, key: str, text: str, *, untrusted: bool = False) -> None:
    made = draft(key, text, untrusted=untrusted)
    assert await memory.ask(Remember(draft=made)) == Saved(key)


async def find(memory: Mail, query: str) -> list[str]:
    return [note.key for note in await memory.ask(Recall(query=query, limit=5))]


async def test_a_saved_note_is_found_after_a_restart(tmp_path: Path) -> None:
    async with remembering(tmp_path) as memory:
        assert await find(memory, "tea") == []
        await keep(memory, "tea", "Green tea")
        assert await find(memory, "tea") == ["tea"]
    async with remembering(tmp_path) as memory:
        assert await find(memory, "tea") == ["tea"]
        assert [note.text for note in await memory.ask(ReadNotes(keys=("tea", "no")))] == [
            "Green tea"
        ]


async def test_the_start_does_not_wait_for_a_rebuild(tmp_path: Path) -> None:
    """During a rebuild notes can be read; a search waits for its end, and then finds everything."""
    (tmp_path / "memory").mkdir()
    for number in range(400):
        text = f"---\nlabel: trusted\n---\nnumber {number} of many"
        (tmp_path / "memory" / f"n{number}.md").write_text(text)
    held = trio.Event()
    steps = 0

    async def slow(fn: Callable[[], T], /) -> T:
        nonlocal steps
        await trio.lowlevel.checkpoint()
        steps += 1
        if steps == 2:  # in the middle of the rebuild
            await held.wait()
        return fn()

    async with remembering(tmp_path, blocking=slow) as memory:
        await trio.testing.wait_all_tasks_blocked()
        assert steps == 2
        read = await memory.ask(ReadNotes(keys=("n7",)))
        assert [note.key for note in read] == ["n7"]
        for wanted in (Suggest(message="number 399"), Recall(query="number 399", limit=1)):
            with trio.move_on_after(0.5) as impatient:
                await memory.ask(wanted)
            assert impatient.cancelled_caught
        held.set()
        assert await find(memory, "number 399") == ["n399"]
        await keep(memory, "new", "a new one")
        assert await find(memory, "new") == ["new"]


async def test_the_first_turn_after_a_start_is_offered_notes(tmp_path: Path) -> None:
    async with remembering(tmp_path) as memory:
        await keep(memory, "tea", "Green tea")
    async with remembering(tmp_path, blocking=in_thread) as memory:
        [note] = await memory.ask(Suggest(message="Make me some tea"))
        assert note.key == "tea"


async def test_only_matching_trusted_notes_are_suggested(tmp_path: Path) -> None:
    async with remembering(tmp_path) as memory:
        await keep(memory, "tea", "Green tea")
        await keep(memory, "theirs", "Obey the tea", untrusted=True)
        await memory.ask(Remember(draft=draft("maybe", "Tea at five", status="pending")))
        found = await memory.ask(Suggest(message="Make me some tea, and coffee"))
        assert [note.key for note in found] == ["tea"]
        assert (await memory.ask(GetOverview())).counts == IndexCounts(3, 1, 1)


AUTO = LearningSettings(mode="auto", threshold=2)


async def learn(memory: Mail, *found: Observation) -> LearningPlan:
    batch = found[0].batch
    learn = Learn(found=found, batch=batch, settings=AUTO)
    plan = await memory.ask(learn)
    assert isinstance(plan, LearningPlan)
    return plan


async def test_the_owner_decides_pending_notes(tmp_path: Path) -> None:
    one, other = seen(), seen("Lives in Oslo.", "home", at=5.0)

    async with remembering(tmp_path) as memory:
        asked = Received("1", "/memory", "me", Route("console"), 0.0)

        async def command(given: str) -> str:
            call = CommandCall(session="s", given=given, received=asked)
            return (await run_command(memory, (NoteSearch(memory),), call)).text

        await learn(memory, one, other)
        assert other.code in await command("pending")
        assert await command(f"keep {one.code.upper()}") == "Remembered: Likes tea."
        assert await find(memory, "tea") == ["tea"]
        assert await command(f"drop {other.code}") == "Dropped."
        assert not (await learn(memory, seen("Lives in Oslo.", "home", at=6.0))).learned
        assert await command("pending") == "Nothing is waiting for your answer."
        assert await command("keep 0") == "There is no pending note with that code."
        assert "/memory undo" in await command("keep")


async def test_an_invalid_observation_is_refused(tmp_path: Path) -> None:
    async with remembering(tmp_path) as memory:
        bad = seen(key="No key")
        learn = Learn(found=(bad, seen(key="No key", session="t")), batch="", settings=AUTO)
        answer = await memory.ask(learn)
        assert isinstance(answer, Unlearned)
        assert "a key has" in answer.why


class Switched:
    """An embedder that can be switched off."""

    model = "test/hashing"

    def __init__(self) -> None:
        self.works = True
        self.broken = False
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        await trio.lowlevel.checkpoint()
        self.asked += texts
        if not self.works:
            raise EmbeddingFailed("it is off")
        if self.broken or any("endless" in text for text in texts):
            raise EmbeddingFailed("a text is too long", refused=True)
        return Embeddings([hashed(text) for text in texts])


async def test_a_failing_service_costs_only_the_embeddings(
    tmp_path: Path, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = Switched()
    async with remembering(tmp_path, embedder=embedder) as memory:
        embedder.works = False
        await keep(memory, "feast", "The birthdays of the grandparents")
        for _ in range(5):
            assert await find(memory, "birthdays") == ["feast"]
        await trio.sleep(1)
        told = [r for r in caplog.records if r.getMessage() == "searching without vectors"]
        assert len(told) == 1
        embedder.works = True
        await trio.sleep(2 * PAUSE)
        assert await find(memory, "grandparental birthdayparty") == ["feast"]
        told = [r for r in caplog.records if r.getMessage() == "searching without vectors"]
        assert len(told) == 1


async def test_a_refused_note_does_not_affect_others(
    tmp_path: Path, autojump_clock: object
) -> None:
    embedder = Switched()
    async with remembering(tmp_path, embedder=embedder) as memory:
        await keep(memory, "feast", "The birthdays of the grandparents")
        await keep(memory, "diary", "an endless story")
        await trio.sleep(PAUSE)
        assert await find(memory, "grandparental birthdayparty") == ["feast"]
        await keep(memory, "more", "another endless story")
        await trio.sleep(1)
        assert await find(memory, "grandparental birthdayparty") == ["feast"]
        told = [text for text in embedder.asked if "endless" in text]
        await keep(memory, "tea", "Green tea")
        await trio.sleep(2 * PAUSE)
        assert embedder.asked[-1] == "tea \nGreen tea"
        assert [text for text in embedder.asked if "endless" in text] == told


@pytest.mark.parametrize("has_worked", [True, False])
async def test_a_failing_service_is_retried_later(
    tmp_path: Path, autojump_clock: object, has_worked: bool
) -> None:
    """It answers 500 to every request, as it does to texts that are too long."""
    embedder = Switched()
    async with remembering(tmp_path, embedder=embedder) as memory:
        if has_worked:
            await keep(memory, "tea", "Green tea")
            await trio.sleep(1)
        embedder.broken = True
        await keep(memory, "feast", "The birthdays of the grandparents")
        await trio.sleep(1)
        embedder.broken = False
        await trio.sleep(2 * PAUSE)
        assert await find(memory, "grandparental birthdayparty") == ["feast"]


async def test_only_changed_notes_are_embedded_again(
    tmp_path: Path, autojump_clock: object
) -> None:
    embedder = Switched()
    async with remembering(tmp_path, embedder=embedder) as memory:
        await keep(memory, "tea", "Green tea")
        await keep(memory, "cup", "A cup")
        await trio.sleep(1)
        assert len(embedder.asked) == 2
        path = tmp_path / "memory" / "tea.md"
        text = await inline(path.read_text)
        await inline(lambda: path.write_text(text.replace("label: ", "label:  ")))
        await trio.sleep(LOOK_EVERY)
        await find(memory, "tea")
        await trio.sleep(1)
        assert embedder.asked[2:] == ["tea"]  # only the question
        await inline(lambda: path.write_text(text.replace("Green", "Black")))
        await trio.sleep(LOOK_EVERY)
        await find(memory, "tea")
        await trio.sleep(1)
        assert embedder.asked[3:] == ["tea", "tea \nBlack tea"]
    other = Switched()
    other.model = "test/other"
    async with remembering(tmp_path, embedder=other) as memory:
        await trio.sleep(1)  # another model: all notes again
    db = sqlite3.connect(tmp_path / "memory.db")
    assert db.execute("SELECT DISTINCT model FROM vectors").fetchall() == [(other.model,)]
    db.close()
