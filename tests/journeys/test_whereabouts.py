"""An app with two channels whose owner moves between them: which chat gets what."""

import attrs
import trio
from msgspec.structs import replace

from elwood.agent.conversation.message import Completion, Notice
from elwood.agent.conversation.route import Route
from elwood.agent.models.client import ModelRequest
from elwood.agent.models.settings import Limits
from elwood.features.tasks.settings import ConfiguredTasks
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from tests.agent.session.scripted import answer, call
from tests.journeys.home import MINE, Home, newest_message
from tests.line import Line

# A group chat in which Elwood may write.
GROUP = -500
NEWS = Task("news", "News", Every(3600.0), prompt="What is new?", origin="config")


@attrs.define
class Thinking:
    """A model that waits in runs until it is released, and repeats all other text."""

    began: trio.Event = attrs.field(factory=trio.Event)
    may: trio.Event = attrs.field(factory=trio.Event)
    plan: str = ""

    async def __call__(self, request: ModelRequest) -> Completion:
        said = newest_message(request)
        if said == "plan" and self.plan:
            return call(("c1", "schedule", self.plan))
        if "What is new?" in said:
            self.began.set()
            await self.may.wait()
            return answer("It snows.")
        return answer("re: " + said)


def knows(h: Home, session: str) -> bool:
    """Return True if the newest request of *session* contains the run's news."""
    said = [m.text for m in h.asked[-1].messages if isinstance(m, Notice)]
    return session in h.sessions and any("It snows." in text for text in said)


async def test_answers_of_tasks_follow_the_owner(h: Home) -> None:
    """A task without a route answers in the owner's latest chat."""
    desk, model = Line(), Thinking()
    h.more_channels, h.think = (desk.feature,), model
    h.settings["tasks"] = ConfiguredTasks((NEWS,))
    async with h.life() as life:
        await life.say("hello")
        await life.pass_time(3600.0)
        assert model.began.is_set()
        await desk.say("I am here now")
        await life.until(lambda: desk.texts)
        model.may.set()
        await life.until(lambda: len(desk.texts) > 1)
        assert desk.texts == ["re: I am here now", "It snows."]
        await desk.say("How much?")
        await life.until(lambda: len(desk.texts) > 2)
        assert knows(h, "line")
        await life.say("hello again")
        assert not knows(h, MINE)
    assert "It snows." not in h.texts()


async def test_group_news_stay_in_the_group(h: Home) -> None:
    desk, model = Line(), Thinking()
    model.may.set()
    h.more_channels, h.think = (desk.feature,), model
    group = Route("telegram", str(GROUP), private=False)
    h.settings["tasks"] = ConfiguredTasks((replace(NEWS, route=group),))
    async with h.life() as life:
        await life.say("hello")
        await life.pass_time(3600.0)
        assert h.texts(GROUP) == ["It snows."]
        await life.say("hello again")
        assert not knows(h, MINE)
        await desk.say("hello")
        await life.until(lambda: desk.texts)
        assert not knows(h, "line")
    assert "It snows." not in h.texts()


async def test_news_go_to_the_owners_latest_chat(h: Home) -> None:
    """Of a failing task, and of a limit that is near."""
    broken = Task("bad", "Bad", Every(3600.0), prompt="Fail.", origin="config")
    desk = Line()

    h.more_channels = (desk.feature,)
    h.think = lambda request: answer("" if "Fail." in newest_message(request) else "re: hello")
    h.settings |= {
        "tasks": ConfiguredTasks((broken,)),
        "limits": Limits(day_tokens=100_000, warn=0.0001),
    }
    async with h.life() as life:
        await desk.say("hello")
        await life.until(lambda: len(desk.texts) > 1)
        await life.pass_time(3600.0)
        await life.pass_time(120.0)
        await life.until(lambda: len(desk.texts) > 2)
    assert [text for text in desk.texts if "of the daily limit of 100,000 tokens" in text]
    assert [text for text in desk.texts if text.startswith('Failed 2 times in a row: "Bad"')]
    assert h.texts() == []
