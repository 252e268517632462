"""send_message behind the gate: what the owner allowed is what goes out, to the byte."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import msgspec
import pytest
import trio

from elwood.agent.approvals.messages import Verdict
from elwood.agent.channels.channel import Channel, Channels
from elwood.agent.channels.last_heard import LastHeard
from elwood.agent.channels.messages import OutboxMail, Post, Sent
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.policy.decide import Rules
from elwood.agent.session.log.entries import (
    CallEnded,
    CallStarted,
    Entry,
    Received,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import Session
from elwood.agent.tools import talk
from elwood.agent.tools.talk import MessageToSend, Messenger
from elwood.foundation.runtime import Mailbox, inline
from elwood.foundation.secrets.redaction import Redactor, Secret
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root
from tests.agent.session.gates import Approver, gate_for

GROUP = Route("telegram", -100, private=False)
YES = Verdict("once", "tg:1")


@attrs.define
class Scene:
    folder: Path
    session: Session = attrs.field(factory=Session)
    approver: Approver = attrs.field(factory=Approver)
    posts: list[Post] = attrs.field(factory=list)
    before: Callable[[Entry], Awaitable[None]] | None = None
    entries: int = 0

    def begin(self, given: MessageToSend, here: Route) -> None:
        call = ToolCall("c", "send_message", msgspec.json.encode(given).decode())
        said = Said("t", Assistant((call,), "s", "m", msgspec.Raw(b"[]")), Usage())
        self.apply(Received("a", "hi", "tg:1", here, 0.0), TurnStarted("t", ("a",), 1, "hi"), said)

    def apply(self, *entries: Entry) -> None:
        for entry in entries:
            self.entries += 1
            self.session.apply(self.entries, 0.0, entry)

    async def record(self, *entries: Entry, last_words: bool = False) -> None:
        await trio.lowlevel.checkpoint()
        self.apply(*entries)
        if self.before is not None:
            await self.before(entries[0])

    async def outbox(self, mailbox: Mailbox[OutboxMail]) -> None:
        async for post in mailbox:
            assert isinstance(post, Post)
            self.posts.append(post)
            post.reply.set(Sent(str(len(self.posts))))

    async def perform(self) -> CallEnded:
        turn = self.session.turn
        assert turn is not None
        mailbox = Mailbox[OutboxMail]("outbox", 4)
        disk = Disk(blocking=inline, clock=lambda: 0.0)
        channels = Channels(LastHeard(self.folder / "heard.json", disk))
        channel = Channel(
            name="telegram",
            outbox=mailbox.address,
            owner=(Route("telegram", 1),),
            serves=lambda name: True,
        )
        channels.add(channel)
        messenger = Messenger(channels, self.approver.mailbox.address)
        gate = gate_for(
            lambda: self.session,
            talk.tools(messenger, Root(self.folder), inline),
            self.record,
            approver=self.approver,
            rules=Rules(),
            redactor=Redactor([Secret("hunter2")]),
        )
        self.approver.hint = gate.approvals.hints.give
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.approver.run, self.approver.mailbox)
            nursery.start_soon(self.outbox, mailbox)
            await gate.perform()
            nursery.cancel_scope.cancel()
        return turn.receipts[-1]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "a.txt").write_bytes(b"as it was shown")
    return Scene(tmp_path)


async def test_the_owner_hears_without_being_asked(scene: Scene) -> None:
    scene.begin(MessageToSend("hi", files=("a.txt",)), Route("telegram", 1))
    assert (await scene.perform()).outcome == "ok"
    [post] = scene.posts
    assert [file.data for file in post.files] == [b"as it was shown"]
    assert not scene.approver.asked


async def test_a_group_hears_what_the_owner_allowed(scene: Scene) -> None:
    scene.begin(MessageToSend("hi", files=("a.txt",)), GROUP)
    scene.approver.verdicts["send_message"] = YES
    ended = await scene.perform()
    assert (ended.outcome, ended.ruling) == ("ok", "once tg:1")
    [asked] = scene.approver.asked
    assert "a.txt: 15 bytes, sha256 " in asked.question.subject
    assert [post.route for post in scene.posts] == [GROUP]


async def test_a_file_that_changes_at_the_last_moment_stays_here(scene: Scene) -> None:
    """AP-08: between the last examination and the reading of what is sent."""

    async def swap(entry: Entry) -> None:
        await trio.lowlevel.checkpoint()
        if isinstance(entry, CallStarted):
            (scene.folder / "a.txt").write_bytes(b"something else!")

    scene.begin(MessageToSend("hi", files=("a.txt",)), GROUP)
    scene.approver.verdicts["send_message"] = YES
    scene.before = swap
    ended = await scene.perform()
    assert (ended.outcome, scene.posts) == ("failed", [])
    assert "changed since it was allowed" in ended.text


async def test_a_no_sends_nothing(scene: Scene) -> None:
    scene.begin(MessageToSend("hi"), GROUP)
    scene.approver.verdicts["send_message"] = Verdict("denied", "tg:1")
    assert (await scene.perform()).outcome == "denied"
    assert not scene.posts


async def test_a_configured_secret_goes_nowhere(scene: Scene) -> None:
    scene.begin(MessageToSend("the word is hunter2"), Route("telegram", 1))
    assert (await scene.perform()).outcome == "denied"
    assert not scene.posts


async def test_after_a_crash_it_is_not_sent_again(scene: Scene) -> None:
    scene.begin(MessageToSend("hi"), Route("telegram", 1))
    turn = scene.session.turn
    assert turn is not None
    [key] = turn.calls
    scene.apply(CallStarted("t", key, "send_message", "once"))
    assert (await scene.perform()).outcome == "unknown"
    assert not scene.posts
