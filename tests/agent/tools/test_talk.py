"""The tools that send messages, through a real outbox to a fake Bot API."""

import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from elwood.agent.approvals.messages import ApprovalsMail
from elwood.agent.channels.channel import Channels
from elwood.agent.channels.messages import (
    OutboxMail,
    Post,
    PostResult,
    Sent,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.calls import SendMessage, exact
from elwood.agent.conversation.route import Route
from elwood.agent.people.messages import ListPeople
from elwood.agent.people.state import KnownPerson
from elwood.agent.tools.talk import MAX_BYTES, MAX_UPLOADS, AskUser, MessageToSend, Messenger, Talk
from elwood.agent.tools.tool import ToolContext, ToolFailure
from elwood.features.telegram.channel import TelegramChannel
from elwood.foundation.runtime import Address, Mailbox, Request, inline
from elwood.foundation.storage.files import Root
from tests.fake_telegram import BROKEN, OWNER, FakeTelegram, fake_telegram
from tests.features.telegram.neighbours import outbox

GROUP = Route("telegram", "-100", "4", private=False, reply_to="9")
FRIEND = 55
PNG = b"\x89PNG\r\n\x1a\n" + b"picture"


class People(Address[ApprovalsMail]):
    """A fake approvals actor that lists the people with access."""

    def __init__(self) -> None:
        super().__init__(Mailbox("approvals", 1))

    async def ask(self, request: Request[Any]) -> Any:
        await trio.lowlevel.checkpoint()
        assert isinstance(request, ListPeople)
        return (KnownPerson(f"tg:{FRIEND}", "Eve", "member", 0.0),)


@attrs.define
class Speaker:
    """The sending tools with a workspace and people, called from *here*."""

    workspace: Path
    channels: Channels
    here: Route
    tools: Talk = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        messenger = Messenger(self.channels, People())
        self.tools = Talk(messenger, Root(self.workspace), inline)

    def context(self, facts: Mapping[str, str] | None = None) -> ToolContext:
        return ToolContext(session="s", route=self.here, now=0.0, facts=facts or {})

    async def ask(self, given: AskUser) -> str:
        return await self.tools.ask_user(given, self.context())


def make_speaker(
    folder: Path,
    mailbox: Mailbox[OutboxMail],
    here: Route | None = None,
    *,
    owners: tuple[int, ...] = (OWNER,),
) -> Speaker:
    (folder / "ws").mkdir(exist_ok=True)
    homes = tuple(Route("telegram", str(chat)) for chat in owners)
    channels = Channels()
    channels.add(TelegramChannel(outbox=mailbox.address, owner=homes))
    return Speaker(folder / "ws", channels, here or homes[0])


@asynccontextmanager
async def run_speaker(folder: Path) -> AsyncIterator[tuple[FakeTelegram, Speaker]]:
    async with fake_telegram() as fake, outbox(fake) as out:
        yield fake, make_speaker(folder, out.mailbox)


def write_file(hands: Speaker, name: str, content: bytes) -> None:
    path = hands.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


async def send(hands: Speaker, text: str = "", to: str = "here", *files: str) -> str:
    """Plan and send like the gate."""
    given = MessageToSend(text, to, files)
    plan = await hands.tools.plan_message(given, hands.context())
    return await hands.tools.send_message(given, hands.context(plan.facts))


# --- sending -----------------------------------------------------------------------------------


async def test_files_arrive_byte_for_byte(tmp_path: Path) -> None:
    every = bytes(range(256)) * 50 + b"\r\n--boundary--\r\n"
    async with run_speaker(tmp_path) as (fake, hands):
        write_file(hands, "sub/data.bin", every)
        write_file(hands, 'Übel;"e\n.txt', b"x")
        said = await send(hands, "both", "here", "sub/data.bin")
        assert said == f"sent as message {OWNER}:1"
        [sent] = fake.sent
        assert sent.text == "both"
        assert fake.files == {1: ("data.bin", every)}
        assert fake.counts["sendDocument ok"] == 1
        with pytest.raises(ToolFailure, match="invisible"):
            await send(hands, "", "here", 'Übel;"e\n.txt')
        os.rename(hands.workspace / 'Übel;"e\n.txt', hands.workspace / 'Übel;"e.txt')
        await send(hands, "", "here", 'Übel;"e.txt')
        assert fake.files[2] == ("Übel__e.txt", b"x")


async def test_unsupported_pictures_are_sent_as_files(tmp_path: Path) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        write_file(hands, "a.png", PNG)
        write_file(hands, "b.jpg", b"\xff\xd8\xff" + BROKEN)
        write_file(hands, "c.png", b"no picture")
        write_file(hands, "large.png", PNG + bytes(6 << 20))
        await send(hands, "look", "here", "a.png", "c.png", "b.jpg", "large.png")
        assert [m.text for m in fake.sent] == ["look", "", "", ""]
        assert ["photo" in m.params for m in fake.sent] == [True, False, False, False]
        assert fake.files[3] == ("b.jpg", b"\xff\xd8\xff" + BROKEN)
        assert len(fake.files[4][1]) == (6 << 20) + len(PNG)


async def test_a_long_text_precedes_the_file(tmp_path: Path) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        write_file(hands, "a.txt", b"a")
        write_file(hands, "b.txt", b"b")
        said = await send(hands, "😀" * 600, "here", "a.txt", "b.txt")
        assert said == (
            f"sent as message {OWNER}:1 (the text), {OWNER}:2 (a.txt), {OWNER}:3 (b.txt)"
        )
        assert [(m.text, "document" in m.params) for m in fake.sent] == [
            ("😀" * 600, False),
            ("", True),
            ("", True),
        ]


async def test_a_group_gets_it_in_its_topic(tmp_path: Path) -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        hands = make_speaker(tmp_path, out.mailbox, GROUP)
        write_file(hands, "a.txt", b"a")
        await send(hands, "here", "here", "a.txt")
        await send(hands, "to the owner", "owner")
        assert [m.chat for m in fake.sent] == [-100, OWNER]
        assert fake.sent[0].params["message_thread_id"] == 4
        assert fake.sent[0].params["reply_parameters"]["message_id"] == 9


async def test_the_owner_gets_it_on_their_last_route(tmp_path: Path) -> None:
    other = OWNER + 1
    async with fake_telegram() as fake, outbox(fake) as out:
        hands = make_speaker(tmp_path, out.mailbox, GROUP, owners=(OWNER, other))
        await send(hands, "one", "owner")
        hands.channels.note_owner_route(Route("telegram", str(other), "3", reply_to="9"))
        await send(hands, "two", "owner")
        hands.channels.note_owner_route(Route("telegram", str(OWNER), "5"))
        await send(hands, "three", "owner")
        sent = [(m.chat, m.params.get("message_thread_id")) for m in fake.sent]
        assert sent == [(OWNER, None), (other, 3), (OWNER, 5)]


async def test_a_recipient_must_be_admitted(tmp_path: Path) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        await send(hands, "hi Eve", f"tg:{FRIEND}")
        assert fake.texts(FRIEND) == ["hi Eve"]
        with pytest.raises(ToolFailure, match="no one with this id"):
            await send(hands, "hi", "tg:56")


# --- planning ----------------------------------------------------------------------------------


async def test_the_plan_shows_everything(tmp_path: Path) -> None:
    hands = make_speaker(tmp_path, Mailbox[OutboxMail]("outbox", 1))
    write_file(hands, "sub/a.txt", b"hello")
    sha = hashlib.sha256(b"hello").hexdigest()
    text = f"hi\nFile other.txt: 1 bytes, sha256 {sha}\nTo tg:1"
    plan = await hands.tools.plan_message(
        MessageToSend(text, f"tg:{FRIEND}", ("sub/a.txt",)), hands.context()
    )
    assert plan.action == SendMessage("person")
    assert plan.subject == (
        f"To Eve (tg:55): a private chat, telegram {FRIEND}\n"
        f"File sub/a.txt: 5 bytes, sha256 {sha}\nText:\n{text}"
    )
    assert plan.outgoing == f"{text}\nsub/a.txt"
    assert sha in plan.facts.values()


@pytest.mark.parametrize(
    ("here", "to", "whom"),
    [
        (Route("telegram", str(OWNER)), "here", "owner"),
        (Route("telegram", str(OWNER), "3"), "owner", "owner"),
        (Route("telegram", str(OWNER)), f"tg:{OWNER}", "owner"),
        (GROUP, "here", "group"),
        (GROUP, "owner", "owner"),
        (Route("telegram", str(OWNER), private=False), "here", "group"),
        (Route("telegram", str(FRIEND)), "here", "person"),
        (Route("telegram", str(FRIEND)), "owner", "owner"),
        (Route("console"), "here", "person"),
    ],
)
async def test_only_the_address_names_the_recipient(
    tmp_path: Path, here: Route, to: str, whom: str
) -> None:
    hands = make_speaker(tmp_path, Mailbox[OutboxMail]("outbox", 1), here)
    plan = await hands.tools.plan_message(MessageToSend("hi", to), hands.context())
    assert isinstance(plan.action, SendMessage)
    assert plan.action.to == whom


async def test_changed_files_are_not_sent(tmp_path: Path) -> None:
    """AP-08 and AP-09: a file, or the target of its link, changed after the approval."""
    async with run_speaker(tmp_path) as (fake, hands):
        write_file(hands, "a.txt", b"harmless")
        write_file(hands, "b.txt", b"another")
        (hands.workspace / "link").symlink_to("a.txt")
        for name in ("a.txt", "link"):
            given = MessageToSend("see", files=(name,))
            before = await hands.tools.plan_message(given, hands.context())
            if name == "link":
                (hands.workspace / "link").unlink()
                (hands.workspace / "link").symlink_to("b.txt")
            else:
                write_file(hands, "a.txt", b"harmful!")
            after = await hands.tools.plan_message(given, hands.context())
            assert exact("t", "d", "", before) != exact("t", "d", "", after)
            with pytest.raises(ToolFailure, match="changed after the approval"):
                await hands.tools.send_message(given, hands.context(before.facts))
        with pytest.raises(ToolFailure, match="changed after"):
            await hands.tools.send_message(MessageToSend("never examined"), hands.context())
        assert not fake.sent


async def test_problems_are_reported_before_sending(tmp_path: Path) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        write_file(hands, "good.txt", b"x")
        write_file(hands, ".env", b"x")
        write_file(hands, "empty", b"")
        write_file(hands, "half", b"")
        os.truncate(hands.workspace / "half", MAX_BYTES // 2 + 1)
        write_file(hands, "other", b"")
        os.truncate(hands.workspace / "other", MAX_BYTES // 2)
        (hands.workspace / "out").symlink_to("/etc/passwd")
        for files, words in (
            (("good.txt", "nosuch"), "nosuch does not exist"),
            (("good.txt", "../x"), "leads out"),
            (("out",), "nowhere or out|leads out"),
            ((".env",), "secrets"),
            (("empty",), "is empty"),
            (("half", "other"), "at most 20,971,520 bytes together.*other"),
            (("good.txt", "good.txt"), "named twice"),
            ((), "neither text nor a file"),
        ):
            with pytest.raises(ToolFailure, match=words):
                await hands.tools.plan_message(MessageToSend(" ", files=files), hands.context())
        assert not fake.calls


# --- results -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lose", "drop"])
async def test_a_lost_response_leaves_the_delivery_unknown(tmp_path: Path, kind: str) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        write_file(hands, "a.txt", b"a")
        fake.fault("sendDocument", kind)
        with pytest.raises(ToolFailure, match=r"a\.txt with text may or may not have") as caught:
            await send(hands, "hi", "here", "a.txt")
        assert caught.value.unknown
        assert len(fake.sent) == (kind == "lose")


async def test_a_certain_failure_is_reported(tmp_path: Path) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        fake.blocked.add(FRIEND)
        with pytest.raises(ToolFailure, match=r"not sent: the text: .*blocked") as caught:
            await send(hands, "hi", f"tg:{FRIEND}")
        assert not caught.value.unknown
        with pytest.raises(ToolFailure, match="the channel console is off"):
            await send(attrs.evolve(hands, here=Route("console")), "hi")


async def answer(mailbox: Mailbox[OutboxMail], *outcomes: PostResult | None) -> list[Post]:
    """Answer posts with *outcomes*; do not answer for None."""
    posts = []
    for outcome in outcomes:
        post = await mailbox.receive()
        assert isinstance(post, Post)
        posts.append(post)
        if outcome is not None:
            post.reply.set(outcome)
    return posts


@pytest.mark.parametrize(
    ("outcome", "unknown", "words"),
    [
        (Unsure("broke off"), True, "b.txt may or may not have arrived: broke off"),
        (Unsent("away"), False, "not sent: b.txt: away"),
        (Undeliverable("kicked"), False, "not sent: b.txt: kicked"),
    ],
)
async def test_a_partial_delivery_is_reported(
    tmp_path: Path, outcome: PostResult, unknown: bool, words: str
) -> None:
    mailbox = Mailbox[OutboxMail]("outbox", 8)
    hands = make_speaker(tmp_path, mailbox)
    for name in ("a.txt", "b.txt", "c.txt"):
        write_file(hands, name, b"x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, mailbox, Sent("1"), outcome)
        with pytest.raises(ToolFailure) as caught:
            await send(hands, "hi", "here", "a.txt", "b.txt", "c.txt")
    assert str(caught.value) == (
        f"{words}; sent before it: a.txt with text; nothing after it was sent"
    )
    assert caught.value.unknown is unknown


async def test_a_silent_outbox_is_reported(tmp_path: Path, autojump_clock: MockClock) -> None:
    mailbox = Mailbox[OutboxMail]("outbox", 8)
    hands = make_speaker(tmp_path, mailbox)
    write_file(hands, "a.txt", b"x")
    write_file(hands, "b.txt", b"x")

    async def slowly() -> None:
        await trio.sleep(100)
        await answer(mailbox, Sent("1"), None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slowly)
        with pytest.raises(ToolFailure, match=r"b.txt may or.*sent before it: a.txt") as caught:
            await send(hands, "", "here", "a.txt", "b.txt")
        assert caught.value.unknown
        # The call's own timeout is 180 s and would hide the reason.
        assert trio.current_time() < 180


async def test_a_crashed_outbox_leaves_the_delivery_unknown(tmp_path: Path) -> None:
    mailbox = Mailbox[OutboxMail]("outbox", 8)
    hands = make_speaker(tmp_path, mailbox)

    async def crash() -> None:
        await answer(mailbox, None)
        mailbox.end()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash)
        with pytest.raises(ToolFailure, match="crashed") as caught:
            await send(hands, "hi")
        assert caught.value.unknown
    with pytest.raises(ToolFailure, match="is down") as caught:
        await send(hands, "hi")
    assert not caught.value.unknown


async def test_concurrent_files_are_limited(tmp_path: Path) -> None:
    mailbox = Mailbox[OutboxMail]("outbox", 8)
    hands = make_speaker(tmp_path, mailbox)
    write_file(hands, "a.txt", b"x")
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_UPLOADS):
            nursery.start_soon(partial(send, hands, "", "here", "a.txt"))
        posts = await answer(mailbox, *[None] * MAX_UPLOADS)
        with pytest.raises(ToolFailure, match="not sent: others are sending") as caught:
            await send(hands, "", "here", "a.txt")
        assert not caught.value.unknown
        for post in posts:
            post.reply.set(Sent("1"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(answer, mailbox, Sent("2"))
        assert await send(hands, "", "here", "a.txt") == "sent as message 2"


# --- questions ---------------------------------------------------------------------------------


async def test_a_question_has_buttons_and_does_not_wait(tmp_path: Path) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        said = await hands.ask(AskUser("Which **one**?", ("tea", "no\u202e tea")))
        assert said == (
            "asked (1. tea, 2. no tea); the answer will come as the next message: end your turn"
        )
        [sent] = fake.sent
        assert sent.text == "Which one?"
        assert sent.buttons == ["q:0", "q:1"]
        await hands.ask(AskUser("And why?"))
        assert not fake.sent[1].buttons


async def test_the_fate_of_a_question_is_reported(tmp_path: Path) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        for options in (("a", "a"), ("\u200b",), ("a", "a\u200b")):
            with pytest.raises(ToolFailure, match="options must differ"):
                await hands.ask(AskUser("?", options))
        fake.fault("sendMessage", "lose")
        with pytest.raises(ToolFailure, match="the question may or may not") as caught:
            await hands.ask(AskUser("?"))
        assert caught.value.unknown
        fake.blocked.add(OWNER)
        with pytest.raises(ToolFailure, match=r"not sent: the question: .*blocked") as caught:
            await hands.ask(AskUser("?"))
        assert not caught.value.unknown


async def test_pictures_are_grouped(tmp_path: Path) -> None:
    async with run_speaker(tmp_path) as (fake, hands):
        for name in ("a.png", "b.png"):
            write_file(hands, name, PNG + name.encode())
        write_file(hands, "c.txt", b"text")
        said = await send(hands, "look", "here", "a.png", "b.png", "c.txt")
        assert "(a.png, b.png with text), " in said
        assert said.endswith("(c.txt)")
        assert fake.texts() == ["look", "", ""]
        assert [name for name, _ in fake.calls] == ["sendMediaGroup", "sendDocument"]
