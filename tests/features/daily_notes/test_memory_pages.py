"""The actor that remembers finds daily notes and reflections, when it is asked to."""

from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.labels import PRIVATE
from elwood.features.memory.messages import (
    Forget,
    MemoryMail,
    Rebuild,
    Recall,
    Remember,
    Suggest,
    Tidy,
)
from elwood.features.memory.note import Draft
from elwood.features.memory.upkeep import LOOK_EVERY
from elwood.foundation.runtime import Address
from tests.features.memory.memories import remembering

DAY = "threads/daily/2026-03-14.md"


@pytest.fixture
def day(tmp_path: Path) -> Path:
    path = tmp_path / "workspace" / DAY
    path.parent.mkdir(parents=True)
    path.write_text("- 08:00 s/t1: `the boiler leaks`\n")
    return path


async def keys(memory: Address[MemoryMail], query: str, *, every: bool = False) -> list[str]:
    found = await memory.ask(Recall(query=query, limit=5, every=every))
    return [note.key for note in found.notes]


async def test_days_are_found_only_by_who_looks_them_up(
    tmp_path: Path, day: Path, autojump_clock: object
) -> None:
    async with remembering(tmp_path / "state", workspace=tmp_path / "workspace") as memory:
        draft = Draft("water", "The boiler makes it hot.", PRIVATE)
        await memory.ask(Remember(drafts=(draft,)))
        assert await keys(memory, "the boiler that leaks") == [DAY, "water"]
        assert await keys(memory, "boiler", every=True) == ["water"]
        offered = await memory.ask(Suggest(message="the boiler leaks"))
        assert [note.key for note in offered.notes] == ["water"]
        done = await memory.ask(Forget(keys=(DAY, "water")))
        assert "Forgot water" in done.text
        assert await trio.Path(day).exists()


async def test_an_edit_is_noticed_and_leaves_no_byte_in_the_index(
    tmp_path: Path, day: Path, autojump_clock: object
) -> None:
    state = tmp_path / "state"

    def held() -> bytes:
        return b"".join(path.read_bytes() for path in state.glob("threads.db*"))

    async with remembering(state, workspace=tmp_path / "workspace") as memory:
        assert await keys(memory, "leaks") == [DAY]
        await trio.sleep(LOOK_EVERY)
        assert b"leaks" in held()
        await trio.Path(day).write_text("- 08:00 s/t1: `the boiler sings`\n")
        assert await keys(memory, "sings") == [DAY]
        assert await keys(memory, "leaks") == []
        await trio.sleep(LOOK_EVERY)
        await trio.Path(day).unlink()
        assert await keys(memory, "sings") == []
        await trio.sleep(LOOK_EVERY)
        assert await keys(memory, "boiler") == []
        assert (await memory.ask(Tidy())).ok
        for word in (b"leaks", b"sings", b"boiler"):
            assert word not in held()


async def test_an_index_that_cannot_be_used_keeps_nobody_from_the_notes(
    tmp_path: Path, day: Path, autojump_clock: object
) -> None:
    state = tmp_path / "state"
    (state / "threads.db").mkdir(parents=True)
    async with remembering(state, workspace=tmp_path / "workspace") as memory:
        await memory.ask(Remember(drafts=(Draft("tea", "Green tea.", PRIVATE),)))
        assert await keys(memory, "tea") == ["tea"]
        assert await keys(memory, "leaks") == [DAY]
        await trio.Path(state / "threads.db").rmdir()
        assert (await memory.ask(Rebuild())).ok
        assert await keys(memory, "leaks") == [DAY]
        await trio.sleep(LOOK_EVERY)
        assert await trio.Path(state / "threads.db").is_file()
