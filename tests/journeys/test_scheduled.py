"""Tasks all the way, from the timetable by a real session to the reader, and through deaths."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.agent.channels.messages import Button, Post, Sent, Undeliverable, Unsent, Unsure
from elwood.agent.conversation.inbound import typing
from elwood.agent.models.messages import Complete, Completed, ModelUnavailable
from elwood.features.tasks.actor import Scheduler, TimetableActor
from elwood.features.tasks.messages import ListTasks, PlanTask, TimetableMail, Unscheduled, Woken
from elwood.features.tasks.run import TaskRunner
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every, Once
from elwood.foundation.runtime import Child, Mailbox
from elwood.foundation.storage.journal import Journal
from elwood.foundation.text.markdown import Rich
from tests.agent.session.scripted import answer, call
from tests.journeys.crashing import CountedCalls, Steps, lived
from tests.journeys.scene import ALWAYS, ROUTE, House, World, living

ACT = Task("act", "Act", Once(100.0), prompt="please act")


class Clocked(House):
    """A house with sessions that also looks at the clock."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.timetable: Mailbox[TimetableMail] = Mailbox("timetable", 64)
        self.scheduler: Mailbox[Woken] = Mailbox("scheduler", 16)

    def children(self) -> Sequence[Child]:
        """All actors, the lowest first."""
        journal: Journal[TimetableEntry, Timetable] = Journal(
            self.world.folder / "schedule.jsonl", TimetableEntry, Timetable, self.disk
        )
        timetable = TimetableActor(
            journal,
            hint=self.scheduler.address.offer,
            changed=self._ignore,
            clock=self.world.now,
            zone="UTC",
        )
        errands = TaskRunner(
            self.sessions.address,
            chores={},
            watching=self._watching,
            route=lambda task: ROUTE,
            home=lambda route: None,
            refusal=self._refusal,
            now=self.world.now,
            zone="UTC",
        )
        scheduler = Scheduler(
            self.timetable.address,
            errands,
            refresh=trio.lowlevel.checkpoint,
            tell=self._tell,
            now=self.world.now,
        )
        lower = super().children()
        return (
            *lower[:-1],
            Child(self.timetable, timetable.run, ALWAYS),
            lower[-1],
            Child(self.scheduler, scheduler.run, ALWAYS, grace=1.0),
        )

    async def schedule(self, task: Task) -> None:
        seen = await self.timetable.address.insist(lambda: PlanTask(task=task))
        assert not isinstance(seen, Unscheduled)

    async def _tell(self, text: str, buttons: tuple[str, ...], again: bool) -> bool:
        under = tuple(Button(one, typing(number)) for number, one in enumerate(buttons))
        post = partial(Post, route=ROUTE, part=Rich(text), buttons=under, repeat=again)
        sent: Sent | Unsure | Unsent | Undeliverable = await self.outbox.address.insist(post)
        return isinstance(sent, Sent)

    async def _ignore(self, tasks: Sequence[Task]) -> None:
        await trio.lowlevel.checkpoint()

    async def _refusal(self, task: Task) -> str:
        await trio.lowlevel.checkpoint()
        return ""

    async def _watching(self, task: Task) -> str:
        await trio.lowlevel.checkpoint()
        return "x"


def clocked(world: World) -> AbstractAsyncContextManager[Clocked]:
    return living(Clocked(world))


async def acting(request: Complete) -> Completed:
    """Act once when asked to."""
    await trio.lowlevel.checkpoint()
    if any(hasattr(message, "results") for message in request.messages):
        return answer("I acted.")
    return call(("c1", "act", '{"name": "boldly"}'))


async def test_a_task_is_done_and_its_answer_arrives(
    tmp_path: Path, autojump_clock: object
) -> None:
    world = World(tmp_path)
    world.model = acting
    async with clocked(world) as h:
        await h.schedule(ACT)
        await h.schedule(Task("tea", "Tea", Once(200.0), message="tea"))
        await trio.sleep(150)
        assert [text.split("\n")[0] for text in world.said] == ["I acted."]
        await trio.sleep(100)
        assert await h.timetable.address.ask(ListTasks()) == ()
    assert world.said[1] == "⏰ tea"
    assert world.effects.done == ["act boldly"]
    assert (world.asked[0].job, len(world.asked)) == ("act", 2)


async def test_a_task_that_fails_is_told_and_paused(tmp_path: Path, autojump_clock: object) -> None:
    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return ModelUnavailable("no net")

    world = World(tmp_path)
    world.model = model
    async with clocked(world) as h:
        await h.schedule(Task("look", "Look", Every(86_400.0), prompt="look"))
        await trio.sleep(86_400 + 6_000)
        (seen,) = await h.timetable.address.ask(ListTasks())
    assert seen.failures == 5
    assert seen.paused
    assert len(world.asked) == 5
    told, paused = world.posts
    assert told.part.text.startswith('Failed twice in a row: "Look": I cannot answer now: no net.')
    assert [button.text for button in paused.buttons] == ["/tasks resume look"]


@pytest.mark.parametrize("first", range(4))
def test_what_a_task_does_is_done_once_wherever_the_house_dies(first: int, tmp_path: Path) -> None:
    """Every fourth step, from the disk of both logs to the tool, the model and the reader."""
    steps = done_by_a_house_that_dies(tmp_path / "whole", None)[1]
    assert steps > 40
    for step in range(1 + first, steps + 1, 4):
        world, _ = done_by_a_house_that_dies(tmp_path / str(step), step)
        assert world.effects.done.count("act boldly") <= 1, step
        told = "\n".join(world.said)
        assert world.effects.done or "? act boldly" in told, step
        answers = [post for post in world.posts if not post.repeat]
        assert len(answers) <= 1, [post.part.text for post in answers]
        assert world.posts, step


def done_by_a_house_that_dies(folder: Path, death: int | None) -> tuple[World, int]:
    """Have one task done by a house that dies at the step *death*."""
    folder.mkdir()
    steps = Steps([] if death is None else [death])
    world = World(folder)
    world.calls = lambda: CountedCalls(steps)
    before = 0.0

    async def model(request: Complete) -> Completed:
        steps.step("before the model is asked")
        return await acting(request)

    world.model = model
    world.effects.before = lambda name: steps.step(f"before {name}")
    world.effects.after = lambda name: steps.step(f"after {name}")
    world.now = lambda: before + trio.current_time()

    async def life() -> None:
        nonlocal before
        try:
            async with clocked(world) as h:
                if world.now() < 100.0:
                    await h.schedule(ACT)
                await trio.sleep(max(0.0, 1000.0 - world.now()))
        finally:
            before = world.now()

    lived(steps, life)
    return world, steps.count
