"""Results of runs whose conversation has no room."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from msgspec.structs import replace

from elwood.agent.conversation.inbound import Busy, Inbound, Taken
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.state import RunResult
from elwood.agent.session.messages import Await, SessionsMail, StopRun
from elwood.features.tasks.actor import RUN_LIMIT, STOP_LIMIT, TaskRunner, message_of
from elwood.features.tasks.rules import DueRun, Outcome, WatchedState
from elwood.features.tasks.state import PlannedRun
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Once
from elwood.foundation.runtime import Mailbox

TASK = Task("tea", "Tea", Once(0.0), prompt="Put the kettle on.", route=Route("chat", "1"))


async def nothing(task: Task) -> str:
    await trio.lowlevel.checkpoint()
    return ""


async def unseen(task: Task) -> WatchedState:
    await trio.lowlevel.checkpoint()
    return WatchedState()


def runner(
    mailbox: Mailbox[SessionsMail],
    *,
    route: Callable[[Task], Route | None] = lambda task: task.route,
    home: Callable[[Route], str | None] = lambda route: None,
    refusal: Callable[[Task], Awaitable[str]] = nothing,
) -> TaskRunner:
    return TaskRunner(
        mailbox.address,
        chores={},
        watching=unseen,
        route=route,
        home=home,
        refusal=refusal,
        now=lambda: 0.0,
        zone="UTC",
    )


@asynccontextmanager
async def sessions(
    answer: RunResult, taken: list[Inbound] | None = None, full: str = ""
) -> AsyncIterator[Mailbox[SessionsMail]]:
    """Accept each run except in the session *full*, and answer it."""
    mailbox: Mailbox[SessionsMail] = Mailbox("sessions", 8)

    async def run() -> None:
        async for message in mailbox:
            match message:
                case Inbound(session=session):
                    if taken is not None:
                        taken.append(message)
                    message.reply.set(Busy(20) if session == full else Taken())
                case Await():
                    message.reply.set(answer)
                case _:
                    raise AssertionError(message)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield mailbox
        nursery.cancel_scope.cancel()


RUN = DueRun(TASK, PlannedRun("tea", 0.0))


async def test_a_run_succeeds_if_its_conversation_is_full(autojump_clock: object) -> None:
    """For example its answers cannot be delivered, so it is full: the run has not failed."""
    async with sessions(RunResult("It boils.", told=Route("chat", "1")), full="home") as mailbox:
        outcome = await runner(mailbox, home=lambda route: "home").carry_out(RUN)
    assert outcome == Outcome("done", "It boils.")


async def test_only_the_conversation_of_the_answer_is_notified(autojump_clock: object) -> None:
    """The owner may be elsewhere now; the conversation of the answer counts."""
    taken: list[Inbound] = []
    there, elsewhere = Route("chat", "1"), Route("chat", "2")
    async with sessions(RunResult("It boils.", told=there), taken) as mailbox:
        made = runner(
            mailbox,
            route=lambda task: elsewhere if taken else there,
            home=lambda route: f"home-{route.chat}",
        )
        await made.carry_out(replace(RUN, task=replace(TASK, route=None)))
    run, note = taken
    assert run.bounds is not None
    assert run.bounds.follows
    assert (note.session, note.route) == ("home-1", there)


@pytest.mark.parametrize("private", [True, False])
async def test_only_a_group_failure_is_reported_twice(private: bool) -> None:
    """Its conversation reports it; the owner may not be in that group, so they get it too."""
    place = Route("chat", "-1", private=private)

    async def limit(task: Task) -> str:
        await trio.lowlevel.checkpoint()
        return "The limit is reached."

    run = replace(RUN, task=replace(TASK, route=place))
    failed = RunResult("I was cut off.", failed=True, acted=True, told=place)
    async with sessions(failed) as mailbox:
        outcome = await runner(mailbox).carry_out(run)
        spent = await runner(mailbox, refusal=limit).carry_out(replace(run, begun=True))
    assert outcome == Outcome("failed", "I was cut off.", acted=True, told=private)
    assert spent == Outcome("spent", "The limit is reached.", acted=True, told=private)


ID = message_of(RUN.planned)
STOPPED = RunResult("The run took longer than 30 minutes. I was still running “tap”.", failed=True)


@pytest.mark.parametrize(
    ("task", "stopped", "outcome"),
    [
        (TASK, {ID: STOPPED}, Outcome("failed", STOPPED.text)),
        # The run itself finished in time.
        (
            replace(TASK, on_success="Pour it."),
            {ID: RunResult("It boils."), f"{ID}:then": STOPPED},
            Outcome("failed", STOPPED.text),
        ),
        # Its conversation does not answer.
        (TASK, None, Outcome("failed", "it took longer than 30 minutes", acted=True)),
    ],
)
async def test_a_run_is_stopped_before_its_timeout_is_reported(
    task: Task, stopped: dict[str, RunResult] | None, outcome: Outcome, autojump_clock: object
) -> None:
    mailbox: Mailbox[SessionsMail] = Mailbox("sessions", 8)

    async def sessions() -> None:
        async for message in mailbox:
            match message:
                case Inbound():
                    message.reply.set(Taken())
                case Await(id=id_) if stopped and not (done := stopped.get(id_, STOPPED)).failed:
                    message.reply.set(done)
                case StopRun(id=id_) if stopped is not None:
                    message.reply.set(stopped.get(id_))
                case _:
                    pass  # it hangs

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sessions)
        assert await runner(mailbox).carry_out(replace(RUN, task=task)) == outcome
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began <= RUN_LIMIT + STOP_LIMIT
