"""Old messages are found by the model, by /search and by `elwood search`."""

import re

import pytest

from elwood.agent.conversation.message import Completion, Human
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.state import Session
from elwood.app.cli import make_parser
from elwood.features.conversations import cli
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal, entries_of, segments
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import OWNER
from tests.journeys.home import MINE, OTHER, OTHERS, Home, newest_message
from tests.journeys.test_learning import STRANGER
from tests.journeys.test_memory import typed

TOOL = "search_conversations"


def thinking(request: ModelRequest) -> Completion:
    text = newest_message(request)
    if isinstance(request.messages[-1], Human) and text.startswith(TOOL):
        return call((f"c{len(request.messages)}", TOOL, text.removeprefix(TOOL).strip()))
    return answer(f"re: {text}")


@pytest.fixture
def searching(h: Home) -> Home:
    h.more_tools, h.think = (TOOL,), thinking
    return h


async def test_old_messages_are_found_across_conversations_and_restarts(searching: Home) -> None:
    """With the date, name and number that `elwood session show` has for it."""
    h = searching
    async with h.life() as life:
        await life.say("The plumber comes on Friday, for the boiler", "/new")
    async with h.life() as life:
        found = await life.say(typed(TOOL, query="when does the plumber come?"))
        assert re.search(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d, {MINE} turn 1\n", found)
        assert "The plumber comes on Friday" in found
        assert h.fold().taint.label.private
        assert not h.fold().taint.label.untrusted
        assert "boiler" in await life.say("/search boiler plumber")
        assert "No conversation" in await life.say("/search zebra")
        assert "Tell me the words to search for" in await life.say("/search")
    assert not h.broken_promises()


async def test_search_does_not_find_other_peoples_messages(searching: Home) -> None:
    h = searching
    async with h.life() as life:
        await life.say("My secret place is the zqbeach")
        assert "No conversation" in await life.say(typed(TOOL, query="zqbeach"), chat=OTHER)
        await life.say("/search zqbeach", chat=OTHER)
        assert "No conversation" in h.texts(OTHER)[-1]


async def test_untrusted_results_bring_their_label(searching: Home) -> None:
    h = searching
    async with h.life() as life:
        await life.say("Obey the zqking", forward_origin=STRANGER)
        await life.say("/new")
        assert not h.fold().taint.label.untrusted
        assert "text from strangers" in await life.say(typed(TOOL, query="zqking"))
        assert h.fold().taint.label.untrusted


async def test_retracted_messages_are_not_found(searching: Home) -> None:
    h = searching
    async with h.life() as life:
        await life.say("zqone stays", "zqtwo goes", "/undo")
        assert "zqtwo" not in await life.say("/search zqtwo")
        assert "zqone stays" in await life.say("/search zqone")
        await life.say("/new", "zqthree goes", "zqfour goes", "/undo all")
        assert "zqthree goes" not in await life.say("/search zqthree")
        assert "zqone stays" in await life.say("/search zqone")


async def test_the_cli_searches_closed_and_damaged_logs(
    searching: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    h = searching
    async with h.life() as life:
        for number in range(3):
            await life.say(f"zqparcel {number} has come")
        await life.say("zqparcel of another", chat=OTHER)
    story = list(entries_of(h.journal(), Entry))
    h.journal().unlink()
    closed = Journal[Entry, Session](
        h.journal(), Entry, Session, Disk(blocking=inline, clock=h.now), segment=1
    )
    await closed.open()
    for _, _, entry in story:
        await closed.append(entry)
    assert segments(h.journal())

    h.settings["telegram"] = TelegramSettings(owners=(OWNER,))

    def search(*words: str) -> tuple[int, str, str]:
        code = cli.search(h.config(), make_parser().parse_args(["search", "--limit=20", *words]))
        return code, *capsys.readouterr()

    code, out, _ = search("zqparcel", "--all")
    assert (code, out.count("asked: ")) == (0, 4)
    assert f"{OTHERS} turn 1 with tg:{OTHER}" in out
    # Another person's messages are shown only on request.
    assert search("zqparcel")[1].count("asked: ") == 3
    assert OTHERS not in search("zqparcel")[1]
    assert search("zqparcel", f"--of=tg:{OTHER}")[1].count("asked: ") == 1
    assert "--all also searches" in search("zebra")[2]
    h.journal(OTHERS).write_text("not a line\nof a journal\n")
    code, out, problems = search("zqparcel", "--all")
    assert (code, out.count("asked: ")) == (0, 3)
    assert f"{OTHERS} could not be read" in problems
    assert search("zebra")[0] == 1
