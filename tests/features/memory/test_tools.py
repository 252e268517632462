"""The tools that remember and look up."""

from pathlib import Path

import attrs
import msgspec
import pytest

from elwood.agent.conversation.actions import SaveMemory as Saving
from elwood.agent.conversation.actions import SearchMemory as Searching
from elwood.agent.conversation.labels import PRIVATE, Label
from elwood.agent.tools.tool import Hands, Output, ToolFailure
from elwood.features.memory.learning import Observation, draft_of
from elwood.features.memory.messages import Remember
from elwood.features.memory.note import MAX_NOTE
from elwood.features.memory.tools import (
    MAX_FOUND,
    SAVE_MEMORY,
    SEARCH_MEMORY,
    ForgetMemory,
    SaveMemory,
    SearchMemory,
    forget_memory,
    plan_forget,
    plan_save,
    plan_search,
    save_memory,
    search_memory,
)
from elwood.foundation.runtime import inline
from tests.features.memory.actor_alone import hands_of, remembering

STRANGE = Label(untrusted=True, private=True)


def read_strangers(hands: Hands) -> Hands:
    """The same hands in a conversation that has read strangers' words."""
    return attrs.evolve(hands, untrusted=lambda: True, source=lambda: "tg-2 after example.org")


async def search(hands: Hands, query: str, limit: int = 5) -> Output:
    found = await search_memory(SearchMemory(query, limit), hands)
    assert isinstance(found, Output)
    return found


async def test_what_was_saved_is_found_with_where_it_is_from(tmp_path: Path) -> None:
    async with hands_of(tmp_path) as hands:
        given = SaveMemory("tea", "  No **sugar**.\n", ("drinks",))
        assert await save_memory(given, hands) == "saved tea"
        assert await save_memory(given, hands) == "replaced tea"
        found = await search(hands, "any Sugar?")
        assert found == Output(
            "## tea (updated 1970-01-01T00:00:00+00:00; tags: drinks; from tg-1 by tg:1)\n"
            "No **sugar**.",
            private=True,
        )
        assert (
            await search_memory(SearchMemory("coffee"), hands) == "no note has any of these words"
        )


async def test_strangers_words_stay_so_in_the_memory(tmp_path: Path) -> None:
    async with hands_of(tmp_path) as hands:
        await save_memory(SaveMemory("own", "word"), hands)
        said = await save_memory(SaveMemory("read", "word of others"), read_strangers(hands))
        assert isinstance(said, str)
        assert "strangers" in said
        found = await search(hands, "word")
        assert (found.untrusted, found.private, found.origin) == (True, True, "memory: read")
        assert "from tg-2 after example.org; may hold strangers' words" in found.text
        own = await search(hands, "own")
        assert (own.untrusted, own.private, own.origin) == (False, True, "")


async def test_strangers_do_not_replace_what_the_owner_told(tmp_path: Path) -> None:
    async with hands_of(tmp_path) as hands:
        await save_memory(SaveMemory("bank", "the account is 7"), hands)
        with pytest.raises(ToolFailure, match="choose another key"):
            await save_memory(SaveMemory("bank", "the account is 8"), read_strangers(hands))
        assert "is 7" in (await search(hands, "account")).text


async def test_a_search_shows_no_more_than_the_result_may_hold(tmp_path: Path) -> None:
    async with hands_of(tmp_path) as hands:
        for number in range(MAX_FOUND + 1):
            await save_memory(
                SaveMemory(f"n{number}", f"word {number:02} " + "x" * (MAX_NOTE - 8)), hands
            )
        found = (await search(hands, "word", MAX_FOUND)).text
        assert found.count("## ") == MAX_FOUND
        assert len(found) < SEARCH_MEMORY.limit
        assert "limit=1 shows more" in found
        assert len((await search(hands, "word", 1)).text) > MAX_NOTE


async def test_a_day_is_found_with_its_file_and_label(tmp_path: Path) -> None:
    folder = tmp_path / "threads" / "daily"
    folder.mkdir(parents=True)
    (folder / "2026-03-14.md").write_text("- 08:00 s/t1: `drain the boiler`\n- 09:00 s/t2: `tea`\n")
    read = "- 08:00 s/t1 [untrusted] [private]: `a new boiler`\n  - ✓ a tool #call\n"
    (folder / "2026-04-01.md").write_text(read)
    async with hands_of(tmp_path) as hands:
        await save_memory(SaveMemory("boiler", "It is red."), hands)
        found = await search(hands, "what did we do about the boiler in March?")
        assert found.text.index("2026-03-14") < found.text.index("It is red.")
        found = await search(hands, "what did we do about the boiler in March?", 1)
        assert found == Output(
            "## threads/daily/2026-03-14.md (updated 2026-03-14)\n- 08:00 s/t1: `drain the boiler`",
            private=True,
        )
        found = await search(hands, "new boiler", 1)
        assert found.text.endswith(read.strip())
        assert (found.untrusted, found.origin) == (True, "memory: threads/daily/2026-04-01.md")
        with pytest.raises(ToolFailure, match="no such note"):
            await plan_forget(ForgetMemory(query="drain"), hands)


async def test_what_is_to_be_forgotten_is_found_wherever_it_stands(tmp_path: Path) -> None:
    now = 0.0
    async with remembering(tmp_path / "state", now=lambda: now) as memory:
        hands = Hands(tmp_path, inline, source=lambda: "tg-1 by tg:1", memory=memory)
        await save_memory(SaveMemory("tea", "Green tea, for a while", ttl="1h"), hands)
        await save_memory(SaveMemory("milk", "No tea with milk"), hands)
        noticed = [
            draft_of(Observation("drinks", text, "fact", "s", "t1", label, 0.0, f"s/{n}"))
            for n, (text, label) in enumerate([("Likes tea.", PRIVATE), ("Likes wine.", STRANGE)])
        ]
        await memory.ask(Remember(drafts=tuple(noticed)))
        now = 7200.0

        plan = await plan_forget(ForgetMemory(query="tea"), hands)
        assert plan.subject == "Forget 3 notes for good: tea, milk, drinks (noticed)"
        plan = await plan_forget(ForgetMemory(key="drinks"), hands)
        assert plan.subject == "Forget 2 notes for good: drinks (noticed)"
        assert plan.facts["untrusted"] == noticed[1].key
        done = await forget_memory(ForgetMemory(), attrs.evolve(hands, facts=plan.facts))
        assert noticed[0].key in done.text
        for path in (tmp_path / "state").rglob("*"):
            assert path.is_dir() or b"Likes" not in path.read_bytes()
        with pytest.raises(ToolFailure, match="no such note"):
            await plan_forget(ForgetMemory(query="wine"), hands)


async def test_more_than_can_be_named_is_not_forgotten_in_part(tmp_path: Path) -> None:
    async with hands_of(tmp_path) as hands:
        for number in range(MAX_FOUND + 1):
            await save_memory(SaveMemory(f"n{number}", f"word {number}"), hands)
        with pytest.raises(ToolFailure, match="more than 20 notes have these words"):
            await plan_forget(ForgetMemory(query="word"), hands)


async def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    async with hands_of(tmp_path) as hands:
        with pytest.raises(ToolFailure, match="content is empty"):
            await save_memory(SaveMemory("a", " \n"), hands)
        with pytest.raises(ToolFailure, match="a key has"):
            await save_memory(SaveMemory("a\n", "x"), hands)
        with pytest.raises(ToolFailure, match="query has no words"):
            await search_memory(SearchMemory("?!"), hands)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (SAVE_MEMORY, b'{"key": "../a", "content": "x"}'),
        (SAVE_MEMORY, b'{"key": "A", "content": "x"}'),
        (SAVE_MEMORY, b'{"key": "a", "content": "x", "tags": ["two words"]}'),
        (SEARCH_MEMORY, b'{"query": ""}'),
        (SEARCH_MEMORY, b'{"query": "a", "limit": 0}'),
        (SEARCH_MEMORY, b'{"query": "a", "limit": 1000}'),
    ],
)
def test_the_schema_refuses_what_the_store_would(tool: object, arguments: bytes) -> None:
    assert tool in (SAVE_MEMORY, SEARCH_MEMORY)
    kind = SaveMemory if tool is SAVE_MEMORY else SearchMemory
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(arguments, type=kind)


async def test_what_the_policy_and_the_gate_see(tmp_path: Path) -> None:
    async with hands_of(tmp_path) as hands:
        plan = await plan_save(SaveMemory("tea", "No sugar.", ("drinks",)), hands)
        assert plan.action == Saving()
        assert plan.subject == "Remember as tea [drinks]:\nNo sugar."
        assert (await plan_search(SearchMemory("tea"), hands)).action == Searching()
        assert (SAVE_MEMORY.risk, SAVE_MEMORY.effect) == ("write", "keyed")
        assert (SEARCH_MEMORY.risk, SEARCH_MEMORY.effect) == ("read", "pure")
        assert SEARCH_MEMORY.gives == PRIVATE
        assert SAVE_MEMORY.target(SaveMemory("tea", "x")) == "tea"
