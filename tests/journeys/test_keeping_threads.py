"""Threads: logs of subjects that the model writes in addition to the daily notes."""

import pytest

from elwood.agent.conversation.message import Completion, Human
from elwood.agent.models.client import ModelRequest
from elwood.features.daily_notes.notes import MAX_DAILY
from tests.agent.session.scripted import answer, call
from tests.journeys.home import Home, newest_message
from tests.journeys.test_learning import STRANGER
from tests.journeys.test_memory import typed

TOOLS = ("create_thread", "append_thread", "search_memory")


@pytest.fixture
def keeping(h: Home) -> Home:
    def think(request: ModelRequest) -> Completion:
        name, _, given = newest_message(request).partition(" ")
        if isinstance(request.messages[-1], Human) and name in TOOLS:
            return call((f"c{len(request.messages)}", name, given))
        return answer(f"re: {newest_message(request)}")

    h.more_tools, h.think = TOOLS, think
    return h


async def test_a_thread_is_created_extended_found_and_shown(keeping: Home) -> None:
    h = keeping
    async with h.life() as life:
        assert "There are no threads" in await life.say("/threads")
        said = await life.say(typed("append_thread", name="garden", text="Sowed peas"))
        assert "create it with create_thread" in said
        begin = typed("create_thread", name="garden", about="What grows, and when")
        assert "created the thread garden" in await life.say(begin)
        assert "already" in await life.say(begin)
        for text in ("Sowed peas", "Watered, zqdaily", "Peas are\n- up"):
            assert "added to garden" in await life.say(
                typed("append_thread", name="garden", text=text)
            )
        again = await life.say(typed("append_thread", name="garden", text="Peas are - up"))
        assert "already has this entry from today" in again  # as after a crash
        await life.say("/new")
    async with h.life() as life:
        found = await life.say(typed("search_memory", query="peas sowed"))
        assert "threads/topics/garden.md" in found
        assert ": Sowed peas" in found
        assert "garden (3 entries): What grows, and when" in await life.say("/threads")
        shown = (await life.say("/threads garden")).splitlines()
        assert shown[2].startswith("garden (3 entries)")
        assert [line.split(": ")[1] for line in shown[3:]] == [
            "Peas are - up",
            "Watered, zqdaily",
            "Sowed peas",
        ]
        assert "no thread with that name" in await life.say("/threads ../USER")
    assert not h.broken_promises()


async def test_untrusted_text_stays_out_of_trusted_threads(keeping: Home) -> None:
    h = keeping
    async with h.life() as life:
        await life.say(typed("create_thread", name="mine", about="Mine"))
        await life.say("zqobey", forward_origin=STRANGER)
        said = await life.say(typed("append_thread", name="mine", text="zqobey"))
        assert "create another thread" in said
        await life.say(typed("create_thread", name="theirs", about="Theirs"))
        await life.say(typed("append_thread", name="theirs", text="zqobey"))
        assert "theirs (1 entry, may contain text from strangers)" in await life.say("/threads")
        await life.say("/new")
        assert not h.fold().taint.label.untrusted
        await life.say(typed("search_memory", query="zqobey"))
        assert h.fold().taint.label.untrusted


async def test_a_full_thread_is_refused(keeping: Home) -> None:
    h = keeping
    async with h.life() as life:
        await life.say(typed("create_thread", name="long", about="Long"))
        path = h.folder / "workspace" / "threads" / "topics" / "long.md"
        path.write_text("# long\n\n" + "- line\n" * (MAX_DAILY // 7 - 2))
        said = await life.say(typed("append_thread", name="long", text="one more entry"))
        assert "is full" in said
        assert "one more" not in path.read_text()
