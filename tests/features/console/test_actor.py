"""The console channel, with bare mailboxes as its neighbours and pipes of memory as its world."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import attrs
import pytest
import trio
from trio.testing import memory_stream_one_way_pair, wait_all_tasks_blocked

from elwood.agent.channels.messages import (
    Attachment,
    Button,
    Draft,
    OutboxMail,
    Post,
    Sent,
    Typing,
    Undeliverable,
)
from elwood.agent.conversation.inbound import Busy, Inbound, Refused, Taken
from elwood.agent.session.messages import SessionsMail
from elwood.features.console.actor import (
    MAX_LINE,
    OWNER,
    ROUTE,
    ConsoleIntake,
    ConsoleOutbox,
    Lines,
)
from elwood.foundation.runtime import Mailbox
from elwood.foundation.text.markdown import Entity, Rich

pytestmark = pytest.mark.usefixtures("virtual_time")
Answer = Taken | Busy | Refused


@attrs.define
class World:
    """What stands around an Intake: a session that answers as told, and what was said."""

    type_in: Callable[[bytes], Awaitable[None]]
    end: Callable[[], None]
    done: trio.Event
    mailbox: Mailbox[None]
    interrupt: Callable[[bool], bool]
    answers: list[Answer] = attrs.field(factory=list)
    taken: list[Inbound] = attrs.field(factory=list)
    seen: list[Inbound] = attrs.field(factory=list)
    said: list[str] = attrs.field(factory=list)
    idle: trio.Event = attrs.field(factory=trio.Event)
    deaf: bool = False

    async def feed(self, typed: bytes) -> None:
        """Type all of it, and wait until it is done."""
        await self.type_in(typed)
        self.end()
        await self.done.wait()


@asynccontextmanager
async def intake(*, terminal: bool = False, idle: bool = True) -> AsyncIterator[World]:
    send, receive = memory_stream_one_way_pair()

    async def receive_some() -> bytes:
        return bytes(await receive.receive_some(1000))

    world = World(
        send.send_all,
        send.close,
        trio.Event(),
        Mailbox[None]("console", 1),
        interrupt=lambda busy: actor.interrupt(busy=busy),
    )
    if idle:
        world.idle.set()
    sessions = Mailbox[SessionsMail]("sessions", 4)
    outbox = Mailbox[OutboxMail]("outbox", 4)

    async def session() -> None:
        async for message in sessions:
            assert isinstance(message, Inbound)
            world.seen.append(message)
            if world.deaf:
                continue
            answer = world.answers.pop(0) if world.answers else Taken()
            if isinstance(answer, Taken):
                world.taken.append(message)
            message.reply.set(answer)

    async def printer() -> None:
        async for message in outbox:
            assert isinstance(message, Post)
            world.said.append(message.part.text)
            message.reply.set(Sent("1"))

    async def quiet() -> None:
        await world.idle.wait()

    numbers = count(1)
    actor = ConsoleIntake(
        Lines(receive_some),
        sessions.address,
        outbox.address,
        new_id=lambda: str(next(numbers)),
        now=lambda: 1000.0 + trio.current_time(),
        quiet=quiet,
        done=world.done,
        terminal=terminal,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session)
        nursery.start_soon(printer)
        nursery.start_soon(actor.run, world.mailbox)
        yield world
        world.mailbox.close()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_each_line_becomes_a_message_of_its_own() -> None:
    async with intake() as world:
        await world.feed("hello\n\n  \n/status now\nthe last line, grüß Gott".encode())
        assert [m.text for m in world.taken] == ["hello", "/status now", "the last line, grüß Gott"]
        assert [m.id for m in world.taken] == ["console:1", "console:2", "console:3"]
        first = world.taken[0]
        assert (first.session, first.principal, first.route) == ("console", OWNER, ROUTE)
        assert first.sent_at >= 1000.0
        assert world.said == []


@pytest.mark.parametrize("ending", [b"", b"/quit\nnever read\n"])
async def test_it_is_done_only_when_no_session_has_work(ending: bytes) -> None:
    async with intake(idle=False) as world:
        await world.type_in(b"hello\n" + ending)
        world.end()
        await trio.sleep(100)
        assert not world.done.is_set()
        world.idle.set()
        await world.done.wait()
        assert [m.text for m in world.taken] == ["hello"]


async def test_a_pipe_waits_for_room_and_loses_nothing() -> None:
    async with intake() as world:
        world.answers = [Taken(), Busy(20), Busy(20), Taken()]
        await world.feed(b"one\ntwo\nthree\n")
        assert [m.text for m in world.taken] == ["one", "two", "three"]
        assert {m.id for m in world.seen if m.text == "two"} == {"console:2"}
        assert world.said == []


async def test_a_person_is_told_that_there_is_no_room() -> None:
    async with intake(terminal=True) as world:
        world.answers = [Busy(20)]
        await world.feed(b"one\n/stop\n\n")
        assert [m.text for m in world.taken] == ["/stop"]
        # The empty line brings the prompt back.
        assert world.said == ["20 messages are waiting already; I did not take that one.", ""]


async def test_a_refusal_is_told_with_its_reason() -> None:
    async with intake() as world:
        world.answers = [Refused("the journal is damaged")]
        await world.feed(b"one\ntwo\n")
        assert [m.text for m in world.taken] == ["two"]
        assert world.said == ["I did not take that: the journal is damaged"]


async def test_a_line_that_is_too_long_is_left_out_aloud() -> None:
    async with intake() as world:
        await world.feed(b"x" * (MAX_LINE + 1) + b"\ntwo\n")
        assert [m.text for m in world.taken] == ["two"]
        assert world.said == ["That line was longer than 64 KiB; I left it out."]


async def test_it_stops_while_it_waits_for_input() -> None:
    async with intake() as world:
        await world.type_in(b"one\nand")
        await trio.sleep(1000)
        assert [m.text for m in world.taken] == ["one"]
        assert not world.done.is_set()
        world.mailbox.close()


async def test_an_interrupt_stops_the_answer_and_at_the_prompt_the_second_ends() -> None:
    async with intake(terminal=True) as world:
        await world.type_in(b"one\n")
        await wait_all_tasks_blocked()
        assert world.interrupt(True)
        await wait_all_tasks_blocked()
        assert [m.text for m in world.taken] == ["one", "/stop"]
        assert world.interrupt(False), "the answer was stopped: that was another matter"
        await wait_all_tasks_blocked()
        assert world.said == ["Press Ctrl-C again to end."]
        await world.type_in(b"two\n")
        await wait_all_tasks_blocked()
        assert world.interrupt(False), "and so is what was asked before the last line"
        assert not world.interrupt(False)
        world.mailbox.close()


async def test_an_answer_that_does_not_stop_cannot_keep_us() -> None:
    async with intake(terminal=True) as world:
        world.deaf = True
        await world.type_in(b"one\n")
        await wait_all_tasks_blocked()
        assert world.interrupt(True)
        assert not world.interrupt(True)
        world.mailbox.close()


# --- the Outbox ---------------------------------------------------------------------------------


class Screen:
    """What was written; broken once the reader has gone.  *entered* are lines that were typed."""

    def __init__(self) -> None:
        self.text = ""
        self.entered = 0
        self.gone = False

    async def write(self, text: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.gone:
            raise BrokenPipeError
        self.text += text

    def take(self) -> str:
        text, self.text = self.text, ""
        return text


@asynccontextmanager
async def outbox(*, terminal: bool) -> AsyncIterator[tuple[Mailbox[OutboxMail], Screen]]:
    screen, mailbox = Screen(), Mailbox[OutboxMail]("outbox", 8)
    actor = ConsoleOutbox(screen.write, entered=(lambda: screen.entered) if terminal else None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run, mailbox)
        await wait_all_tasks_blocked()
        yield mailbox, screen
        mailbox.close()


def post(text: str, *, repeat: bool = False) -> Post:
    return Post(route=ROUTE, part=Rich(text), repeat=repeat)


async def test_a_pipe_gets_the_bare_text_with_blank_lines_between() -> None:
    async with outbox(terminal=False) as (mailbox, screen):
        assert await mailbox.address.ask(post("hello")) == Sent("")
        assert await mailbox.address.ask(post("one\ntwo\n")) == Sent("")
        assert await mailbox.address.ask(post("maybe", repeat=True)) == Sent("")
        mailbox.address.offer(Typing(route=ROUTE))
        mailbox.address.offer(Draft(route=ROUTE, draft=1, unredacted="so far"))
        assert await mailbox.address.ask(post("")) == Sent("")
    assert screen.text == "hello\n\none\ntwo\n\n(again) maybe\n"


async def test_a_terminal_gets_prompts_around_the_text() -> None:
    async with outbox(terminal=True) as (mailbox, screen):
        assert screen.take() == "you> "
        await mailbox.address.ask(post("hello"))
        assert screen.take() == "\r\x1b[Kelwood> hello\nyou> "
        await mailbox.address.ask(post("one\ntwo"))
        assert screen.take() == "\r\x1b[Kelwood>\none\ntwo\nyou> "
        await mailbox.address.ask(post(""))
        assert screen.take() == "\r\x1b[Kyou> "
    assert screen.take() == "\r\x1b[K"


async def test_a_terminal_shows_the_end_of_what_is_being_written_in_one_line() -> None:
    async with outbox(terminal=True) as (mailbox, screen):
        screen.take()
        screen.entered += 1
        mailbox.address.offer(Typing(route=ROUTE))
        await wait_all_tasks_blocked()
        assert screen.take() == "\r\x1b[K…"
        mailbox.address.offer(Draft(route=ROUTE, draft=1, unredacted="one\ntwo \x1b[2J\u202eX"))
        await wait_all_tasks_blocked()
        assert screen.take() == "\r\x1b[K… one two ?[2J?X"
        for text in ("word " * 200, "語" * 200):
            mailbox.address.offer(Draft(route=ROUTE, draft=1, unredacted=text))
            await wait_all_tasks_blocked()
            shown = screen.take().removeprefix("\r\x1b[K")
            assert 60 < sum(1 if c.isascii() else 2 for c in shown) < 80


async def test_why_it_takes_so_long_is_shown_or_goes_aside_once() -> None:
    async with outbox(terminal=True) as (mailbox, screen):
        screen.entered += 1
        mailbox.address.offer(Typing(route=ROUTE))
        await wait_all_tasks_blocked()
        screen.take()
        mailbox.address.offer(Typing(route=ROUTE, why="no \x1b network"))
        await wait_all_tasks_blocked()
        assert screen.take() == "\r\x1b[K… no ? network"
    screen, aside, mailbox = Screen(), Screen(), Mailbox[OutboxMail]("outbox", 8)
    for why in ("no network", "no network", "", "overloaded\x1b"):
        mailbox.address.offer(Typing(route=ROUTE, why=why))
    mailbox.close()
    await ConsoleOutbox(screen.write, aside=aside.write).run(mailbox)
    assert (screen.text, aside.text) == ("", "no network\noverloaded⟨U+001B⟩\n")


async def test_nothing_but_a_post_wipes_away_what_somebody_types() -> None:
    async with outbox(terminal=True) as (mailbox, screen):

        async def signs() -> list[str]:
            screen.take()
            shown = []
            for sign in (Typing(route=ROUTE), Draft(route=ROUTE, draft=1, unredacted="so")):
                mailbox.address.offer(sign)
                await wait_all_tasks_blocked()
                shown.append(screen.take())
            return shown

        assert await signs() == ["", ""]  # nothing was asked yet
        screen.entered += 1
        assert await signs() == ["\r\x1b[K…", "\r\x1b[K… so"]
        assert await signs() == ["", "\r\x1b[K… so"]  # dots alone would say nothing new
        await mailbox.address.ask(post("May I?"))
        assert await signs() == ["", ""]  # the answer is being typed behind the prompt
        screen.entered += 1
        assert await signs() == ["\r\x1b[K…", "\r\x1b[K… so"]


async def test_nothing_that_is_posted_commands_the_terminal() -> None:
    link = Entity("text_link", 0, 1, url="https://example.org")
    async with outbox(terminal=False) as (mailbox, screen):
        await mailbox.address.ask(Post(route=ROUTE, part=Rich("a\x1b]0;title\x07b\rc", (link,))))
    assert screen.text == "a (https://example.org)⟨U+001B⟩]0;title⟨U+0007⟩b⟨U+000D⟩c\n"


async def test_files_and_answers_are_listed_and_other_buttons_are_not() -> None:
    async with outbox(terminal=False) as (mailbox, screen):
        files = (Attachment("a\x1b.txt", b"x" * 1234), Attachment("b.txt", b"x"))
        buttons = (Button("tea", "q:0"), Button("no tea", "q:1"), Button("Approve", "p:x:y"))
        await mailbox.address.ask(
            Post(route=ROUTE, part=Rich("Which?"), files=files, buttons=buttons)
        )
        await mailbox.address.ask(Post(route=ROUTE, part=Rich(""), files=files[1:]))
    assert screen.text == (
        "Which?\n[file a\\x1b.txt, 1,234 bytes]\n[file b.txt, 1 bytes]\n1. tea\n2. no tea\n"
        "\n[file b.txt, 1 bytes]\n"
    )


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_reader_that_has_gone_makes_posts_undeliverable(terminal: bool) -> None:
    async with outbox(terminal=terminal) as (mailbox, screen):
        screen.gone = True
        answer = await mailbox.address.ask(post("hello"))
        assert isinstance(answer, Undeliverable)
        mailbox.address.offer(Draft(route=ROUTE, draft=1, unredacted="x"))
        answer = await mailbox.address.ask(post("again"))
        assert isinstance(answer, Undeliverable)
