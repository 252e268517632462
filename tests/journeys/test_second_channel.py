"""Telegram's journeys in a different channel, without any Telegram."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from elwood.agent.channels.messages import Post
from elwood.agent.conversation.message import Completion
from elwood.agent.feature import Feature
from elwood.agent.models.client import ModelRequest
from elwood.agent.parts import Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import Received
from elwood.app import serving
from elwood.foundation.command_line import OK
from elwood.foundation.runtime import Mailbox
from tests.agent.session.scripted import answer, call
from tests.app.test_serving import make_config, restore_collector
from tests.forum import LIMIT, OWNER, SIZE, Forum, home
from tests.journeys.home import Home, Life, newest_message
from tests.journeys.judging import broken_promises, journals
from tests.journeys.test_approval_journeys import require_approval

MINE, ROOM = f"dm.{OWNER}", "room.tea"


@pytest.fixture
async def forum(h: Home) -> AsyncIterator[Forum]:
    """Make the forum Elwood's only channel."""
    made = Forum()
    h.telegram, h.more_channels = False, (made.feature,)
    yield made
    sent = [(one.route.chat, one.part.text) for one in made.posts]
    assert not broken_promises(journals(h.state), sent, h.effects.done, SIZE)


async def wait_for_post(
    forum: Forum, life: Life, words: str, chat: str = MINE, thread: str = ""
) -> Post:
    """Wait for a post with *words*."""

    def found() -> list[Post]:
        there = [one for one in forum.posts if (one.route.chat, one.route.thread) == (chat, thread)]
        return [one for one in there if words in one.part.text]

    await life.until(found)
    return found()[-1]


async def admit(forum: Forum, life: Life, user: str) -> None:
    await forum.say(user, "hello")
    question = await wait_for_post(forum, life, f"{user.title()} (fo:{user})")
    assert "may talk to me now" in await forum.press(question, "Approve")
    await wait_for_post(forum, life, "You can talk to me now", f"dm.{user}")


async def test_private_threads_continue_after_a_restart(h: Home, forum: Forum) -> None:
    async with h.life() as life:
        await forum.say(OWNER, "one")
        await forum.say(OWNER, "two", thread="a.1")
        await life.wait_until_idle()
        assert forum.texts(MINE) == ["re: one"]
        assert forum.texts(MINE, "a.1") == ["re: two"]
    async with h.life() as life:
        await forum.say(OWNER, "three", thread="a.1")
        await life.wait_until_idle()
    assert [one.text for one in h.entries("fo-dm.ann_a.1") if isinstance(one, Received)] == [
        "two",
        "three",
    ]
    assert forum.texts(MINE, "a.1") == ["re: two", "re: three"]


async def test_the_owner_admits_a_stranger_in_their_own_chat(h: Home, forum: Forum) -> None:
    async with h.life() as life:
        await forum.say(OWNER, "I am here", thread="desk")
        await life.wait_until_idle()
        await forum.say("bo", "hello")
        await wait_for_post(forum, life, "Your code: ", "dm.bo")
        question = await wait_for_post(forum, life, "Bo (fo:bo)", thread="desk")
        assert "Only my owner" in await forum.press(question, "Approve", user="bo")
        await forum.press(question, "Approve")
        await wait_for_post(forum, life, "You can talk to me now", "dm.bo")
        await life.until(lambda: forum.edits)
        [edit] = forum.edits
        assert edit.part is not None
        assert "decided by you" in edit.part.text
        await forum.say("bo", "thanks")
        await life.wait_until_idle()
        assert forum.texts("dm.bo")[-1] == "re: thanks"
        assert not h.fold("fo-dm.bo").taint.label.untrusted


async def test_an_allowed_group_is_answered_in_its_threads(h: Home, forum: Forum) -> None:
    rules = h.folder / "workspace" / ".agents" / "groups"
    rules.mkdir(parents=True)
    (rules / f"forum.{ROOM}.md").write_text("Answer in verse.")
    async with h.life() as life:
        await forum.say(OWNER, "come in", "tea")
        question = await wait_for_post(forum, life, "wants me in the group tea (fo:room.tea)")
        await forum.press(question, "Answer there")
        await wait_for_post(forum, life, "I answer here now", ROOM)
        await forum.say("cy", "what is tea?", "tea", thread="t.9")
        await life.wait_until_idle()
        [post] = [one for one in forum.posts if one.route.thread == "t.9"]
        assert (post.part.text, post.route.reply_to) == ("re: what is tea?", "said.2")
        assert "Answer in verse." in h.asked[-1].prompt.system
        assert h.fold("fo-room.tea_t.9").taint.label.untrusted
        await forum.say(OWNER, "/people guest fo:room.tea")
        await wait_for_post(forum, life, "Only a person can be a member or a guest.")
        await forum.say(OWNER, "/people")
        listed = await wait_for_post(forum, life, "a group that I answer in")
        assert "fo:room.tea" in listed.part.text


async def test_an_approval_works_in_the_forum(h: Home, forum: Forum) -> None:
    require_approval(h)
    async with h.life() as life:
        await forum.say(OWNER, "call act boldly")
        question = await wait_for_post(forum, life, "May I ")
        assert not h.effects.done
        assert "asked for this" not in question.part.text, "the owner asked for it here"
        assert "Only my owner" in await forum.press(question, "Allow once", user="bo")
        await forum.press(question, "Details")
        await life.until(
            lambda: any(one.part and "Arguments: " in one.part.text for one in forum.edits)
        )
        await forum.press(question, "Allow once")
        await life.wait_until_idle()
        await life.until(
            lambda: any(one.part and "Allowed once by you" in one.part.text for one in forum.edits)
        )
    assert len(h.effects.done) == 1


async def test_a_message_is_sent_to_a_person_in_the_forum(h: Home, forum: Forum) -> None:
    sent = {"to": "fo:bo", "text": "Ahoy"}
    nobody = {"to": "fo:room.tea", "text": "Ahoy"}

    def think(request: ModelRequest) -> Completion:
        wanted = {"greet": sent, "greet all": nobody}.get(newest_message(request))
        given = wanted and call(("c1", "send_message", json.dumps(wanted)))
        return given or answer(newest_message(request))

    h.think = think
    async with h.life() as life:
        await admit(forum, life, "bo")
        await forum.say(OWNER, "greet")
        question = await wait_for_post(forum, life, "May I ")
        assert "To Bo (fo:bo): a private chat, forum dm.bo" in question.part.text
        await forum.press(question, "Allow once")
        await wait_for_post(forum, life, "Ahoy", "dm.bo")
        await life.wait_until_idle()
        await forum.say(OWNER, "greet all")
        await wait_for_post(forum, life, "fo:room.tea cannot be reached")


async def test_a_reminder_is_delivered_to_its_thread(h: Home, forum: Forum) -> None:
    mum = {"title": "call mum", "in_minutes": 1, "remind": "Call mum!"}
    h.more_tools = ("schedule",)
    h.think = lambda request: (
        call(("c1", "schedule", json.dumps(mum)))
        if newest_message(request) == "plan"
        else answer("I will.")
    )
    async with h.life() as life:
        await forum.say(OWNER, "plan", thread="a.1")
        await life.wait_until_idle()
    async with h.life() as life:
        await wait_for_post(forum, life, "⏰ Call mum!", thread="a.1")
        await life.wait_until_idle()


async def test_a_long_answer_is_split_by_the_channels_message_size(h: Home, forum: Forum) -> None:
    """Characters with two UTF-16 units count as one."""
    text = " ".join(["😀" * 9] * 500)
    h.think = lambda request: answer(text)
    async with h.life() as life:
        await forum.say(OWNER, "much")
        await life.wait_until_idle()
    texts = forum.texts(MINE)
    assert " ".join(texts) == text
    assert [len(one) for one in texts] == [1979, 1979, 1039]
    assert max(map(len, texts)) <= LIMIT


def test_the_service_runs_without_telegram(tmp_path: Path) -> None:
    forum = Forum()

    async def talk(core: Core, others: Gathered) -> Parts:
        async def body(mailbox: Mailbox[None]) -> None:
            await core.up.wait()
            assert set(core.channels.outboxes) == {"console", "forum"}
            assert not core.channels.serves("tg-5")
            assert core.channels.is_off("tg-5")
            await forum.say(OWNER, "help")
            with trio.fail_after(60):
                await forum.came.wait()
            core.stop.set()
            async for _ in mailbox:
                pass

        return Parts(actors=[Actor(step=6, mailbox=Mailbox[None]("talk", 1), body=body)])

    with restore_collector():
        features = (forum.feature, Feature(name="talk", build=talk))
        assert serving.run(make_config(tmp_path), more=features) == OK
    assert forum.posts[0].route == home(OWNER)
