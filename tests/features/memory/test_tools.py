"""The tools that save and search notes."""

from pathlib import Path

import attrs
import pytest

from elwood.agent.conversation.labels import PRIVATE, Label
from elwood.agent.conversation.route import NOWHERE
from elwood.agent.tools.tool import Output, ToolContext, ToolFailure
from elwood.features.daily_notes.store import DailyNoteSearch
from elwood.features.memory.learning import Observation, draft_of
from elwood.features.memory.messages import MemoryMail, Remember
from elwood.features.memory.note import MAX_NOTE
from elwood.features.memory.tools import (
    MAX_FOUND,
    ForgetMemory,
    NoteQuery,
    NoteSearch,
    NoteTools,
    NoteToSave,
    search_all,
    tools,
)
from elwood.foundation.runtime import Mailbox, inline
from tests.features.memory.store_alone import note_tools, remembering

STRANGE = Label(untrusted=True, private=True)


SAVE, SEARCH, _ = tools(Mailbox[MemoryMail]("memory", 1).address, ())
OWN = ToolContext(session="tg-1", route=NOWHERE, now=0.0, source="tg-1 by tg:1")
# A conversation that contains untrusted text.
STRANGERS = attrs.evolve(OWN, label=Label(untrusted=True), source="tg-2 after example.org")


async def search(notes: NoteTools, query: str, limit: int = 5) -> Output:
    found = await notes.search(NoteQuery(query, limit), OWN)
    assert isinstance(found, Output)
    return found


async def test_a_saved_note_is_found_with_its_source(tmp_path: Path) -> None:
    async with note_tools(tmp_path) as notes:
        given = NoteToSave("tea", "  No **sugar**.\n", ("drinks",))
        assert await notes.save(given, OWN) == "saved tea"
        assert await notes.save(given, OWN) == "replaced tea"
        found = await search(notes, "any Sugar?")
        assert found == Output(
            "## tea (updated 1970-01-01; tags: drinks; from tg-1 by tg:1)\nNo **sugar**.",
            private=True,
        )
        assert await notes.search(NoteQuery("coffee"), OWN) == "no note has any of these words"


async def test_untrusted_text_stays_untrusted_in_the_memory(tmp_path: Path) -> None:
    async with note_tools(tmp_path) as notes:
        await notes.save(NoteToSave("own", "word"), OWN)
        said = await notes.save(NoteToSave("read", "word of others"), STRANGERS)
        assert isinstance(said, str)
        assert "strangers" in said
        found = await search(notes, "word")
        assert (found.untrusted, found.private, found.origin) == (True, True, "memory: read")
        assert "from tg-2 after example.org; may contain strangers' words" in found.text
        own = await search(notes, "own")
        assert (own.untrusted, own.private, own.origin) == (False, True, "")


async def test_search_results_fit_the_limit(tmp_path: Path) -> None:
    async with note_tools(tmp_path) as notes:
        for number in range(MAX_FOUND + 1):
            await notes.save(
                NoteToSave(f"n{number}", f"word {number:02} " + "x" * (MAX_NOTE - 8)), OWN
            )
        found = (await search(notes, "word", MAX_FOUND)).text
        assert found.count("## ") == MAX_FOUND
        assert len(found) < SEARCH.limit
        assert "more characters]" in found
        assert len((await search(notes, "word", 1)).text) > MAX_NOTE


async def test_notes_come_first_in_any_order_of_searches(tmp_path: Path) -> None:
    folder = tmp_path / "threads" / "daily"
    folder.mkdir(parents=True)
    (folder / "2026-03-14.md").write_text("- 08:00 s/t1: `drain the boiler`\n")
    async with remembering(tmp_path / "state", workspace=tmp_path) as memory:
        searches = (NoteSearch(memory), DailyNoteSearch(tmp_path / "state", tmp_path, inline))
        await NoteTools(memory, searches).save(NoteToSave("boiler", "It is red."), OWN)
        found = [await search_all(order, ("boiler",), 5) for order in (searches, searches[::-1])]
    assert found[0] == found[1]
    assert found[0][0].text == "It is red."
    assert len(found[0]) == 2


async def test_a_day_is_found_with_its_file_and_label(tmp_path: Path) -> None:
    folder = tmp_path / "threads" / "daily"
    folder.mkdir(parents=True)
    (folder / "2026-03-14.md").write_text("- 08:00 s/t1: `drain the boiler`\n- 09:00 s/t2: `tea`\n")
    read = "- 08:00 s/t1 [untrusted] [private]: `a new boiler`\n  - ✓ a tool #call\n"
    (folder / "2026-04-01.md").write_text(read)
    async with note_tools(tmp_path) as notes:
        await notes.save(NoteToSave("boiler", "It is red."), OWN)
        found = await search(notes, "what did we do about the boiler in March?")
        assert found.text.index("2026-03-14") < found.text.index("It is red.")
        found = await search(notes, "what did we do about the boiler in March?", 1)
        assert found == Output(
            "## threads/daily/2026-03-14.md (updated 2026-03-14)\n- 08:00 s/t1: `drain the boiler`",
            private=True,
        )
        found = await search(notes, "new boiler", 1)
        assert found.text.endswith(read.strip())
        assert (found.untrusted, found.origin) == (True, "memory: threads/daily/2026-04-01.md")


async def test_text_to_forget_is_found_everywhere(tmp_path: Path) -> None:
    now = 0.0
    async with remembering(tmp_path / "state", now=lambda: now) as memory:
        notes = NoteTools(memory, ())
        await notes.save(NoteToSave("tea", "Green tea, for a while", ttl="1h"), OWN)
        await notes.save(NoteToSave("milk", "No tea with milk"), OWN)
        noticed = [
            draft_of(Observation("drinks", text, "fact", "s", label, 0.0, f"s/{n}"))
            for n, (text, label) in enumerate([("Likes tea.", PRIVATE), ("Likes wine.", STRANGE)])
        ]
        for one in noticed:
            await memory.ask(Remember(draft=one))
        now = 7200.0

        plan = await notes.plan_forget(ForgetMemory(("tea", "milk", "drinks", "none")), OWN)
        assert plan.subject == "Delete 4 notes for good: tea, milk, drinks (noticed)"
        plan = await notes.plan_forget(ForgetMemory(("drinks",)), OWN)
        assert plan.subject == "Delete 2 notes for good: drinks (noticed)"
        assert plan.facts["untrusted"] == noticed[1].key
        done = await notes.forget(ForgetMemory(("drinks",)), attrs.evolve(OWN, facts=plan.facts))
        assert noticed[0].key in done.text
        for path in (tmp_path / "state").rglob("*"):
            assert path.is_dir() or b"Likes" not in path.read_bytes()
        with pytest.raises(ToolFailure, match="no such note"):
            await notes.plan_forget(ForgetMemory(("drinks",)), OWN)


async def test_an_impossible_request_is_explained(tmp_path: Path) -> None:
    async with note_tools(tmp_path) as notes:
        with pytest.raises(ToolFailure, match="content is empty"):
            await notes.save(NoteToSave("a", " \n"), OWN)
        with pytest.raises(ToolFailure, match="a key has"):
            await notes.save(NoteToSave("a\n", "x"), OWN)
        with pytest.raises(ToolFailure, match="query has no words"):
            await notes.search(NoteQuery("?!"), OWN)
