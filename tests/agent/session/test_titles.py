"""Titles of conversations, and the tree of one, as the person sees them."""

from functools import partial
from pathlib import Path

import pytest
import trio

from elwood.agent.models.messages import Complete, Completed, ModelUnavailable
from elwood.agent.session.log.entries import Entry, Titled
from elwood.features.conversations.extension import PROMPT, TitleChooser
from elwood.foundation.storage.journal import entries_of
from tests.agent.session.scene import Process, World, echo, run_process
from tests.agent.session.scripted import answer
from tests.agent.session.test_branching import read_messages, say


@pytest.fixture
def world(tmp_path: Path, virtual_time: None) -> World:
    return World(tmp_path)


def get_title(h: Process) -> str:
    return h.live.states["s"].title


async def test_the_first_words_are_the_title_until_one_is_set(world: World) -> None:
    async with run_process(world) as h:
        await say(h, "/title", "plan a trip to Rome", "/title", "/title Rome  in *May*")
        assert get_title(h) == "Rome in *May*"
        await say(h, "by train", "/undo", "by bus", "/new")
        assert get_title(h) == ""
        await say(h, "buy milk", "/sessions", "/resume rome in *may*", "and hotels")
        assert get_title(h) == "Rome in *May*"

    assert world.said[0].startswith("This conversation has no title yet")
    assert world.said[2].startswith("This conversation is called “plan a trip to Rome”")
    listed = next(one for one in world.said if one.startswith("These are the conversations"))
    assert "2 turns: “Rome in *May*” … “by bus”" in listed
    assert "here, 1 turn: “buy milk”" in listed
    assert read_messages(world) == ["plan a trip to Rome", "by bus", "and hotels"]


async def test_a_restart_keeps_the_title(world: World) -> None:
    async with run_process(world) as h:
        await say(h, "one", "/title Two words")
    async with run_process(world) as h:
        await say(h, "two")
        assert get_title(h) == "Two words"


def choose_titles(world: World) -> None:
    """Let the model choose titles; it answers everything else with `echo`."""
    redact = world.redactor
    world.extend = lambda h: [partial(TitleChooser, h.models.address.ask, redact, world.idle)]


def count_titles_asked(world: World) -> int:
    return sum(one.prompt == PROMPT for one in world.asked)


@pytest.mark.parametrize(
    ("response", "title"),
    [
        (answer("“A trip to Rome with hunter2.”\n"), "A trip to Rome with ***"),
        (answer(" "), "plan a trip"),
        (ModelUnavailable("it is down"), "plan a trip"),
    ],
)
async def test_an_idle_conversation_gets_one_title(
    world: World, response: Completed, title: str
) -> None:
    async def model(request: Complete) -> Completed:
        return response if request.prompt == PROMPT else await echo(request)

    world.model = model
    choose_titles(world)
    async with run_process(world) as h:
        await say(h, "plan a trip", "by train")
        assert count_titles_asked(world) == 0
        await trio.sleep(60)
        assert get_title(h) == title
        await say(h, "and hotels")
        await trio.sleep(60)
        assert count_titles_asked(world) == 1
        await say(h, "/new", "/title Mine", "hello")
        await trio.sleep(60)
        assert get_title(h) == "Mine"
    async with run_process(world) as h:
        await say(h, "/resume 1", "more")
        await trio.sleep(60)

    assert count_titles_asked(world) == 1
    entries = [one for _, _, one in entries_of(world.folder / "sessions/s.jsonl", Entry)]
    assert [one for one in entries if isinstance(one, Titled)] == [Titled(title), Titled("Mine")]
    asked = next(one for one in world.asked if one.prompt == PROMPT)
    assert (asked.session, asked.role) == ("s", "cheap")


async def test_the_tree_shows_the_branches_of_a_conversation(world: World) -> None:
    async with run_process(world) as h:
        await say(h, "old", "/new", "one", "two", "three", "/undo 2", "four", "/retry", "/tree")

    head, _, tree = world.said[-1].partition("\n\n")
    assert head.startswith("The messages of “one”, with 2 other branches.")
    assert tree.splitlines() == ["t2 one", "│ t3 two", "│ t4 three", "│ t5 four", "t6 four ← here"]


async def test_a_message_of_the_tree_can_be_looked_at_and_continued(world: World) -> None:
    async with run_process(world) as h:
        await say(h, "one", "two", "three", "/undo 2", "four", "/tree 2")
        shown = world.posts[-1]
        assert "Message t2, " in shown.part.text
        assert "You: two\n\nElwood: re: two" in shown.part.text
        labels = [button.text for button in shown.buttons]
        assert labels == ["← t1", "t3 three →", "Continue from here"]
        await say(h, "/resume t2", "five", "/tree", "/sessions", "/undo", "/resume T3", "six")

    assert read_messages(world) == ["one", "two", "three", "six"]
    tree = next(one for one in world.said if one.startswith("The messages of"))
    assert tree.split("\n\n", 1)[1].splitlines() == [
        "t1 one",
        "│ t4 four",
        "t2 two",
        "│ t3 three",
        "t5 five ← here",
    ]
    listed = next(one for one in world.said if one.startswith("These are the conversations"))
    assert "2: left " in listed
    assert "2 turns: “one” … “four”" in listed


@pytest.mark.parametrize("given", ["/tree 9", "/tree no", "/resume t9", "/resume t"])
async def test_only_messages_of_the_tree_are_found(world: World, given: str) -> None:
    async with run_process(world) as h:
        await say(h, "/tree", "one", given, "two")

    assert world.said[0] == "This conversation has no messages yet."
    assert world.said[2].startswith("There is no ")
    assert read_messages(world) == ["one", "two"]


async def test_a_long_tree_has_pages(world: World) -> None:
    async with run_process(world) as h:
        await say(h, *(f"words {number}" for number in range(1, 46)), "/tree", "/tree page 1")

    last, first = world.posts[-2:]
    assert last.part.text.splitlines()[2:] == [f"t{n} words {n}" for n in range(41, 45)] + [
        "t45 words 45 ← here"
    ]
    assert [button.text for button in last.buttons] == ["← 2/3"]
    assert "t1 words 1" in first.part.text
