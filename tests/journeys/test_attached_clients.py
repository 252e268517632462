"""Attached clients other than terminals: a page of the tests, with a separate channel."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair

from elwood.agent.channels import frames
from elwood.agent.channels.attached import MAX_CLIENTS, TAKES, TOO_SLOW
from elwood.agent.channels.messages import OutboxMail, Post, Sent, Undeliverable
from elwood.agent.conversation.inbound import Principal
from elwood.agent.conversation.route import Route
from elwood.agent.feature import Feature
from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.attached import SessionClients
from elwood.agent.session.core import Core
from elwood.features.console.feature import FEATURE as CONSOLE
from elwood.features.console.parts import ConsoleChannel
from elwood.foundation.net import control
from elwood.foundation.runtime import Mailbox
from elwood.foundation.text.markdown import Rich
from tests.journeys.home import Home, Life
from tests.journeys.test_terminals import IDLE, Sitting, heard, sitting, texts

PAGE = Route("page")


class Page:
    """A feature whose clients see the sessions "console" and "page"."""

    def __init__(self) -> None:
        self.clients: SessionClients
        self.feature = Feature(name="page", build=self.build, is_channel=True)

    async def build(self, core: Core, others: Gathered) -> Parts:
        owner = Principal("page", "owner", owner=True)
        self.clients = SessionClients(
            core, None, "page", owner, self.route_of, lambda session: f"no page shows {session}"
        )
        post: Mailbox[OutboxMail] = Mailbox("outbox page", 256)
        channel = ConsoleChannel(
            name="page",
            outbox=post.address,
            owner=(PAGE,),
            owners=frozenset({owner.id}),
            clients=self.clients,
            only="page",
            fleeting=True,
        )
        body = self.clients.attached.run
        return Parts(
            channels=[channel], actors=[Actor(step=1, mailbox=post, body=body, policy=WORLD)]
        )

    @staticmethod
    def route_of(session: str) -> Route:
        return PAGE if session == "page" else Route("page", thread="1")

    @asynccontextmanager
    async def visit(self, session: str = "page") -> AsyncIterator[Sitting]:
        here, there = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.clients.serve, session, "talk", there)
            async with here:
                yield Sitting(here, session)


@asynccontextmanager
async def run_page_app(h: Home) -> AsyncIterator[tuple[Life, Page]]:
    page = Page()
    h.more_channels = (CONSOLE, page.feature)
    async with h.life() as life:
        await life.until((h.runtime / control.NAME).exists)
        yield life, page


async def test_a_page_and_a_terminal_share_a_session(h: Home) -> None:
    h.settings["policy"] = PolicySettings()
    async with run_page_app(h) as (_, page), sitting(h) as terminal, page.visit("console") as me:
        await terminal.until(IDLE)
        await me.until(IDLE)
        assert await me.ask("hello") == ["re: hello"]
        while not texts(terminal.frames):
            await terminal.until(IDLE)
        assert heard(terminal.frames) == [("you (page)", "hello")]
        assert texts(terminal.frames) == ["re: hello"]

        await me.say("call act boldly")
        question = (await me.until(frames.Message))[-1]
        assert isinstance(question, frames.Message)
        assert "May I use act?" in question.text
        assert await terminal.say(question.choices[0].says) == ""
        changed = (await me.until(frames.Changed))[-1]
        assert isinstance(changed, frames.Changed)
        assert (changed.id, changed.choices) == (question.id, ())
        assert "Allowed once at the console" in (changed.text or "")
        await me.until(IDLE)
        assert h.effects.done == ["act boldly"]
        assert texts(me.frames)[-1].startswith("re: acted on boldly")
        assert h.texts() == []


async def test_a_client_without_file_access_attaches_no_files(h: Home) -> None:
    path = h.folder / "note.txt"
    path.write_text("milk and bread")
    async with run_page_app(h) as (_, page), page.visit() as me:
        why = await me.say("sum up", files=(str(path),))
        assert why == "you cannot send files of this machine here"
    assert h.asked == []


async def test_a_post_that_no_client_reads_is_undeliverable(h: Home) -> None:
    async with run_page_app(h) as (life, _):
        outbox = life.core.channels.outboxes["page"]
        sent = await outbox.ask(Post(route=PAGE, part=Rich("x")))
        assert sent == Undeliverable("no page shows None")


async def test_a_slow_client_is_detached_with_the_reason(
    h: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets the queued frames and the reason if it reads them in time."""
    async with run_page_app(h) as (life, page), page.visit() as me:
        outbox = life.core.channels.outboxes["page"]
        ends = trio.Event()
        here, there = lockstep_stream_pair()  # no buffer in between

        async def serve() -> None:
            async with there:
                await page.clients.serve("page", "talk", there)
            ends.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            slow = Sitting(here)
            await slow.until(IDLE)
            nursery.start_soon(me.until, None)
            for number in range(frames.MAX_WAITING + 100):
                sent = await outbox.ask(Post(route=PAGE, part=Rich(str(number))))
                assert isinstance(sent, Sent), "the other one takes them"
            with pytest.raises(EOFError):
                await slow.until(None)
            await ends.wait()
            nursery.cancel_scope.cancel()
        assert slow.frames[-1] == frames.Detached(TOO_SLOW)
        read = [text for text in texts(slow.frames) if text.isdigit()]
        assert read == [str(number) for number in range(len(read))]
        assert frames.MAX_WAITING <= len(read) <= frames.MAX_WAITING + 2
        [record] = [one for one in caplog.records if one.msg == "client detached"]
        assert record.__dict__["why"] == TOO_SLOW


async def test_a_client_that_never_reads_is_removed_after_half_a_minute(h: Home) -> None:
    async with run_page_app(h) as (_, page):
        _, there = lockstep_stream_pair()
        began = trio.current_time()
        await page.clients.serve("page", "talk", there)
        assert trio.current_time() - began == pytest.approx(TAKES, abs=1)


async def test_one_client_too_many_is_refused_with_the_reason(h: Home) -> None:
    async with run_page_app(h) as (_, page), trio.open_nursery() as nursery:
        for _ in range(MAX_CLIENTS):
            me = Sitting(await nursery.start(visit, page))
            await me.until(IDLE)
        late = Sitting(await nursery.start(visit, page))
        refused = (await late.until(frames.Detached))[-1]
        assert isinstance(refused, frames.Detached)
        assert f"{MAX_CLIENTS} clients are attached already" in refused.why
        with pytest.raises(EOFError):
            await late.next()
        nursery.cancel_scope.cancel()


async def visit(page: Page, task_status: trio.TaskStatus[trio.abc.Stream]) -> None:
    here, there = memory_stream_pair()
    task_status.started(here)
    async with there:
        await page.clients.serve("page", "talk", there)
