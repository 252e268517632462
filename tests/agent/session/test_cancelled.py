"""A session whose task was cancelled: a yes that came too late begins nothing, hint or no hint."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from elwood.agent.approvals.messages import Decided, Verdict
from elwood.agent.conversation.task_run import TaskRun
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.session.log.entries import CallDecided, Entry, TurnStarted
from elwood.agent.session.log.state import RunResult, Session
from elwood.features.tasks.messages import TimetableMail, WhichCancelled
from elwood.features.tasks.parts import TaskExtension
from elwood.foundation.runtime import Mailbox, inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal
from tests.agent.session.scene import House, World, house
from tests.agent.session.scripted import answer, call
from tests.agent.session.test_task_runs import run

SESSION, JOB, SERIES = "task-inbox", "inbox", 3
Runs = frozenset[tuple[str, int]]


async def acting(request: Complete) -> Completed:
    """Want to act when asked, and say so."""
    await trio.lowlevel.checkpoint()
    results = any(hasattr(message, "results") for message in request.messages)
    return answer("So be it.") if results else call(("c1", "act", '{"name": "boldly"}'))


@asynccontextmanager
async def living(world: World, cancelled: Runs = frozenset()) -> AsyncIterator[House]:
    """Run a house whose tools ask, beside a timetable that knows what was *cancelled*."""
    box: Mailbox[TimetableMail] = Mailbox("timetable", 16)

    async def timetable() -> None:
        async for message in box:
            assert isinstance(message, WhichCancelled)
            message.reply.set(message.runs & cancelled)

    world.model, world.free = acting, ()
    world.extend = lambda h: [lambda log: TaskExtension(box.address)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timetable)
        async with house(world) as h:
            h.approver.hint = lambda: h.sessions.address.offer(Decided(SESSION))
            yield h
        nursery.cancel_scope.cancel()


async def asked(h: House) -> None:
    """Have a run ask for something, and end without an answer."""
    done = await run(h, "task:1", "look", TaskRun(JOB, series=SERIES))
    assert isinstance(done, RunResult)
    assert done.waiting


CANCELLED, ANOTHER = frozenset({(JOB, SERIES)}), frozenset({(JOB, SERIES + 1)})


@pytest.mark.parametrize("cancelled", [CANCELLED, ANOTHER])
async def test_a_yes_behind_the_cancelling_begins_nothing(
    tmp_path: Path, autojump_clock: object, cancelled: Runs
) -> None:
    world = World(tmp_path)
    async with living(world) as h:
        await asked(h)
        (seek,) = h.approver.asked
    async with living(world, cancelled) as h:
        # Both are there before the session looks for the first time.
        h.approver.decided[seek.question.plan] = Verdict("once", "me")
        await trio.sleep(10)
        assert h.approver.withdrawn == (["t1/c1"] if cancelled is CANCELLED else [])
    assert world.effects.done == ([] if cancelled is CANCELLED else ["act boldly"])


@pytest.mark.parametrize("cancelled", [CANCELLED, ANOTHER])
async def test_what_was_begun_on_a_yes_and_cut_off_is_not_gone_on_with(
    tmp_path: Path, autojump_clock: object, cancelled: Runs
) -> None:
    world = World(tmp_path)
    async with living(world) as h:
        await asked(h)
        (seek,) = h.approver.asked
    journal: Journal[Entry, Session] = Journal(
        tmp_path / f"sessions/{SESSION}.jsonl",
        Entry,
        Session,
        Disk(blocking=inline, clock=world.now),
    )
    await journal.open()
    await journal.append(CallDecided("t1", "c1", seek.question.plan, "once", "me"))
    await journal.append(TurnStarted("t2", (), 1, "", ("t1/c1",)))
    async with living(world, cancelled):
        await trio.sleep(10)
    if cancelled is CANCELLED:
        assert world.effects.done == []
        assert world.said[-1].startswith("Stopped.")
    else:
        assert world.effects.done == ["act boldly"]
