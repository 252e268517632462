"""A house with two channels, whose owner goes from one to the other: what is told where."""

import json
from collections.abc import Callable
from pathlib import Path

import attrs
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from elwood.agent.channels.channel import Channel
from elwood.agent.channels.messages import OutboxMail, Post, Sent
from elwood.agent.conversation.inbound import Inbound, Principal, Taken
from elwood.agent.conversation.message import Completion, Notice
from elwood.agent.conversation.route import Route
from elwood.agent.feature import Feature
from elwood.agent.models.client import ModelRequest
from elwood.agent.models.settings import Limits
from elwood.agent.parts import Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.features.tasks.messages import Woken
from elwood.features.tasks.settings import ConfiguredTasks
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.foundation.runtime import Mailbox
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import OWNER
from tests.journeys.home import MINE, Home, Life, home, newest

# A chat of several people, in which Elwood may speak.
GROUP = -500
NEWS = Task("news", "News", Every(3600.0), prompt="What is new?", origin="config")
# Seconds in which what the scheduler begins is done.
DONE = 4.0


@attrs.define
class Desk:
    """A second channel, with one reader: the owner, whose conversation there is called desk."""

    now: Callable[[], float]
    core: Core | None = None
    open: trio.Event = attrs.field(factory=trio.Event)
    heard: list[str] = attrs.field(factory=list)
    said: int = 0

    @property
    def channel(self) -> Feature:
        """What Elwood is given."""
        return Feature(name="desk", build=self._build)

    async def _build(self, core: Core, others: Gathered) -> Parts:
        self.core = core
        post: Mailbox[OutboxMail] = Mailbox("outbox desk", 256)
        channel = Channel(
            name="desk",
            outbox=post.address,
            owner=(Route("desk"),),
            owners=frozenset({"desk"}),
            serves=lambda name: name == "desk",
            session=lambda route: "desk",
        )
        intake = Mailbox[None]("desk", 16)
        return Parts(
            channels=[channel],
            actors=[
                Actor(step=1, mailbox=post, body=self._outbox),
                Actor(step=5, mailbox=intake, body=self._intake),
            ],
        )

    async def say(self, text: str) -> None:
        """Say something as the owner."""
        await self.open.wait()
        assert self.core is not None
        self.said += 1
        inbound = Inbound(
            session="desk",
            id=f"desk:{self.said}",
            principal=Principal("desk", "Ann", owner=True),
            route=Route("desk"),
            text=text,
            sent_at=self.now(),
        )
        taken = await self.core.sessions.ask(inbound)
        assert isinstance(taken, Taken)

    async def _outbox(self, mailbox: Mailbox[OutboxMail]) -> None:
        async for message in mailbox:
            if isinstance(message, Post):
                self.heard.append(message.part.text)
                message.reply.set(Sent("1"))

    async def _intake(self, mailbox: Mailbox[None]) -> None:
        self.open.set()
        async for _ in mailbox:
            pass


@attrs.define
class Thinking:
    """A model that waits in runs until it is let go on, and repeats all else."""

    began: trio.Event = attrs.field(factory=trio.Event)
    may: trio.Event = attrs.field(factory=trio.Event)
    plan: str = ""

    async def __call__(self, request: ModelRequest) -> Completion:
        said = newest(request)
        if said == "plan" and self.plan:
            return call(("c1", "schedule", self.plan))
        if "What is new?" in said:
            self.began.set()
            await self.may.wait()
            return answer("It snows.")
        return answer("re: " + said)


def knows(h: Home, session: str) -> bool:
    """Tell whether the newest request of *session* held what the run had told."""
    said = [m.text for m in h.asked[-1].messages if isinstance(m, Notice)]
    return session in h.sessions and any("It snows." in text for text in said)


async def pass_time(h: Home, life: Life, seconds: float) -> None:
    h.clock_error -= seconds
    life.address("scheduler").offer(Woken())
    await trio.sleep(DONE)


async def test_an_answer_and_its_knowledge_follow_the_owner(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """A task that names no route answers where the owner is when it has an answer."""
    async with home(tmp_path, mock_clock) as h:
        desk, model = Desk(h.now), Thinking()
        h.more_channels, h.think = (desk.channel,), model
        h.settings["tasks"] = ConfiguredTasks((NEWS,))
        async with h.life() as life:
            h.fake.say("hello")
            await life.settled()
            await pass_time(h, life, 3600.0)
            assert model.began.is_set()
            await desk.say("I am here now")
            await life.until(lambda: desk.heard)
            model.may.set()
            await life.until(lambda: len(desk.heard) > 1)
            assert desk.heard == ["re: I am here now", "It snows."]
            await desk.say("How much?")
            await life.until(lambda: len(desk.heard) > 2)
            assert knows(h, "desk")
            h.fake.say("hello again")
            await life.settled()
            assert not knows(h, MINE)
        assert "It snows." not in h.texts()


async def test_a_task_of_a_conversation_answers_there_wherever_the_owner_is(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with home(tmp_path, mock_clock) as h:
        given = {"title": "news", "in_minutes": 1, "do": "What is new?"}
        desk, model = Desk(h.now), Thinking(plan=json.dumps(given))
        h.more_channels, h.think, h.more_tools = (desk.channel,), model, ("schedule",)
        async with h.life() as life:
            h.fake.say("plan")
            await life.settled()
            await pass_time(h, life, 60.0)
            assert model.began.is_set()
            await desk.say("I am here now")
            await life.until(lambda: desk.heard)
            model.may.set()
            await life.until(lambda: "It snows." in h.texts())
            await desk.say("And?")
            await life.until(lambda: len(desk.heard) > 1)
            assert not knows(h, "desk")
            h.fake.say("How much?")
            await life.settled()
            assert knows(h, MINE)
        assert desk.heard == ["re: I am here now", "re: And?"]


async def test_what_is_told_in_a_group_no_other_conversation_is_told_of(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with home(tmp_path, mock_clock) as h:
        desk, model = Desk(h.now), Thinking()
        model.may.set()
        h.more_channels, h.think = (desk.channel,), model
        group = Route("telegram", GROUP, private=False)
        h.settings["tasks"] = ConfiguredTasks((replace(NEWS, route=group),))
        async with h.life() as life:
            h.fake.say("hello")
            await life.settled()
            await pass_time(h, life, 3600.0)
            assert h.texts(GROUP) == ["It snows."]
            h.fake.say("hello again")
            await life.settled()
            assert not knows(h, MINE)
            await desk.say("hello")
            await life.until(lambda: desk.heard)
            assert not knows(h, "desk")
        assert "It snows." not in h.texts()


async def test_news_and_warnings_go_where_the_owner_was_heard_last(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Of a task that fails, and of a limit that is near; also after a restart."""
    broken = Task("bad", "Bad", Every(3600.0), prompt="Fail.", origin="config")
    async with home(tmp_path, mock_clock) as h:
        desk = Desk(h.now)

        async def think(request: ModelRequest) -> Completion:
            await trio.lowlevel.checkpoint()
            said = newest(request)
            return answer("" if "Fail." in said else "re: " + said)

        h.more_channels, h.think = (desk.channel,), think
        h.settings |= {
            "tasks": ConfiguredTasks((broken,)),
            "limits": Limits(day_tokens=100_000, warn=0.0001),
        }
        async with h.life() as life:
            await desk.say("hello")
            await life.until(lambda: len(desk.heard) > 1)
            await trio.sleep(70.0)  # where somebody was heard is saved within a minute
        async with h.life() as life:
            await pass_time(h, life, 3600.0)
            await pass_time(h, life, 120.0)
            await life.until(lambda: len(desk.heard) > 2)
        assert [text for text in desk.heard if "of the limit of 100,000 tokens a day" in text]
        assert [text for text in desk.heard if text.startswith('Failed twice in a row: "Bad"')]
        assert h.texts() == []


async def test_a_topic_of_the_owners_chat_is_a_place_of_theirs(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with home(tmp_path, mock_clock) as h:
        model = Thinking()
        model.may.set()
        h.think = model
        h.settings["tasks"] = ConfiguredTasks((NEWS,))
        async with h.life() as life:
            h.fake.say("hello", message_thread_id=4, is_topic_message=True)
            await life.settled()
            await pass_time(h, life, 3600.0)
        [_, told] = h.fake.sent
        assert (told.chat, told.text) == (OWNER, "It snows.")
        assert told.params["message_thread_id"] == 4
