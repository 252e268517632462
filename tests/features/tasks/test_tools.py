"""The tools that schedule, list and change tasks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.approvals.messages import ApprovalsMail
from elwood.agent.channels.channel import Channels
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.calls import Plan, Reschedule, Schedule
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import Budget, RunBounds
from elwood.agent.conversation.settings import Hours
from elwood.agent.tools.talk import Messenger
from elwood.agent.tools.tool import ToolContext, ToolFailure
from elwood.features.tasks.messages import Adopt, ListTasks, PlanTask, TimetableMail
from elwood.features.tasks.task import CATCH_UP, CATCH_UP_ONCE, Task
from elwood.features.tasks.tools import (
    ChangeTask,
    Interval,
    ListTheTasks,
    ScheduleTask,
    TaskTools,
    Verb,
    bounds_of,
)
from elwood.features.tasks.when import Cron, Every, Once
from elwood.features.telegram.channel import TelegramChannel
from elwood.foundation.runtime import Address, Mailbox
from elwood.foundation.settings import BadSetting
from tests.features.tasks.timetables import keeping

# Sunday 2026-11-22 12:00 in Paris.
NOW = 1_795_345_200.0
DAY = 86_400.0
CHAT = Route("telegram", "7")
USUAL = Budget(2000, 1.0)


@attrs.define
class World:
    """The tools in a conversation, with a real timetable."""

    tools: TaskTools
    timetable: Address[TimetableMail]
    messenger: Messenger
    at: float = NOW

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            session="tg-7", route=CHAT, now=self.at, zone="Europe/Paris", tools=("shell", "web")
        )

    async def plan(self, given: ScheduleTask, context: ToolContext | None = None) -> Plan:
        return await self.tools.plan_schedule(given, context or self.context)

    async def do(self, given: ScheduleTask, context: ToolContext | None = None) -> str:
        """Plan, then run, like the gate for a call that needs no approval."""
        context = context or self.context
        plan = await self.plan(given, context)
        return await self.tools.schedule(given, attrs.evolve(context, facts=plan.facts))

    async def listed(self, task: str = "") -> str:
        return (await self.tools.list_tasks(ListTheTasks(task), self.context)).text

    async def change(self, verb: Verb, task: str = "", context: ToolContext | None = None) -> str:
        context = context or self.context
        plan = await self.tools.plan_change(verb, ChangeTask(task), context)
        allowed = attrs.evolve(context, facts=plan.facts)
        return await self.tools.change(verb, ChangeTask(task), allowed)

    async def tasks(self) -> list[Task]:
        return [seen.task for seen in await self.timetable.ask(ListTasks())]

    async def put(self, *tasks: Task) -> None:
        for task in tasks:
            await self.timetable.ask(PlanTask(task=task))


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    channels = Channels()
    box: Mailbox[OutboxMail] = Mailbox("outbox", 1)
    channels.add(TelegramChannel(outbox=box.address, owner=(CHAT,)))
    people: Mailbox[ApprovalsMail] = Mailbox("approvals", 1)
    messenger = Messenger(channels, people.address)
    async with keeping(folder, lambda: one.at, "Europe/Paris") as address:
        one = World(TaskTools(address, messenger, USUAL), address, messenger)
        yield one


async def test_a_planned_reminder_reports_its_next_run(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        said = await w.do(ScheduleTask("call mum", "2026-11-23T09:00", remind="Call mum!"))

        assert said == (
            "scheduled: call mum, tomorrow, Mon 2026-11-23 09:00 CET\n"
            "id call-mum; once, Mon 2026-11-23 09:00 CET; time zone Europe/Paris; "
            "next: tomorrow, Mon 2026-11-23 09:00 CET"
        )
        assert await w.tasks() == [
            Task(
                "call-mum",
                "call mum",
                Once(NOW + 21 * 3600),
                "Europe/Paris",
                message="Call mum!",
                route=CHAT,
                catch_up=CATCH_UP_ONCE,
            )
        ]


async def test_a_job_is_planned_with_its_bounds(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        given = ScheduleTask(
            "build",
            every=Interval(20, "minute"),
            do="Look at the build; if it is green, say so and cancel this task.",
            only_between="mon-fri 8-18:30",
            until="2026-12-24",
            here=True,
            silent=True,
        )
        said = await w.do(given)

        assert "every 20 minutes, only mon-fri 08:00-18:30, until Fri 2026-12-25 00:00 CET" in said
        assert "next: tomorrow, Mon 2026-11-23 08:00 CET" in said, "not on a Sunday"
        (task,) = await w.tasks()
        assert task.when == Every(1200.0, start=NOW)
        assert task.prompt == given.do
        assert task.hours == Hours("08:00", "18:30", (0, 1, 2, 3, 4))
        assert (task.session, task.silent) == ("tg-7", True)
        assert (task.message, task.untrusted, task.catch_up) == ("", False, CATCH_UP)


async def test_a_later_message_is_not_a_reply(tmp_path: Path) -> None:
    """In a group each result replies to its message; a repeated request is the same task."""
    async with world(tmp_path) as w:
        given = ScheduleTask("call mum", "2026-11-23T09:00", remind="Call mum!")
        here = Route("telegram", "-5", private=False)
        asked = [msgspec.structs.replace(here, reply_to=message) for message in (11, 12)]
        for route in asked:
            await w.do(given, attrs.evolve(w.context, route=route))
        (task,) = await w.tasks()
        assert task.route == here


async def test_untrusted_text_marks_the_task(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        read = attrs.evolve(w.context, label=Label(untrusted=True))
        await w.do(ScheduleTask("a", in_minutes=60, do="x"), read)
        await w.do(ScheduleTask("b", in_minutes=60, do="x"))
        assert [task.untrusted for task in await w.tasks()] == [True, False]

        listed = await w.tools.list_tasks(ListTheTasks(), w.context)
        assert (listed.untrusted, listed.private, listed.origin) == (True, True, "tasks: a")
        one = await w.tools.list_tasks(ListTheTasks("b"), w.context)
        assert (one.untrusted, one.origin) == (False, "")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (ScheduleTask("a", remind="x"), "one of at, in_minutes.*now Sun 2026-11-22 12:00"),
        (ScheduleTask("a", "2026-11-23T09:00", in_minutes=5, remind="x"), "exactly one time"),
        (ScheduleTask("a", "2026-11-22 09:00", remind="x"), "past.*now Sun 2026-11-22 12:00"),
        (ScheduleTask("a", "2026-11-27", remind="x"), "no time of day"),
        (ScheduleTask("a", cron="0 25 * * *", do="x"), "bad hour; write minute"),
        (ScheduleTask("a", every=Interval(600, "day"), do="x"), "at most 366 days"),
        (ScheduleTask("a", every=Interval(1, "day", "friday"), do="x"), "every.first: 'friday'"),
        (ScheduleTask("a", in_minutes=60), "either remind or do"),
        (ScheduleTask("a", in_minutes=60, remind="x", silent=True), "only with do"),
        (ScheduleTask(" ", in_minutes=60, remind="x"), "title"),
        (ScheduleTask("a", in_minutes=60, do="x", only_between="mornings"), "08:00-22:00"),
        (ScheduleTask("a", cron="0 9 * * *", do="x", until="2026-11-22T18:00"), "never run"),
        (ScheduleTask("a", cron="0 9 * * *", do="x", until="2026-11-21"), "until: .*in the past"),
        (ScheduleTask("a", in_minutes=60, remind="x", tools=()), "without a model"),
        (
            ScheduleTask("a", in_minutes=60, do="x", tools=("shell", "fly")),
            "fly not available here.*shell, web",
        ),
        (ScheduleTask("a", in_minutes=60, do="x", budget_usd=1.01), r"at most \$1.00 a day"),
    ],
)
async def test_a_refused_schedule_names_valid_ones(
    tmp_path: Path, given: ScheduleTask, why: str
) -> None:
    async with world(tmp_path) as w:
        with pytest.raises(ToolFailure, match=why):
            await w.do(given)
        assert await w.tasks() == []


async def test_the_question_shows_the_whole_task(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        given = ScheduleTask("inbox", cron="0 8 * * 1", do="Read it.\nNext: never", silent=True)
        plan = await w.plan(given)

        assert plan.action == Schedule()
        assert plan.subject.splitlines() == [
            "Job: inbox",
            "When: every Mon at 08:00",
            "Next: tomorrow, Mon 2026-11-23 08:00 CET; Mon 2026-11-30 08:00 CET; "
            "Mon 2026-12-07 08:00 CET",
            "Answers go to: this conversation: your own chat, telegram 7",
            "Its answers are not sent.",
            "Text:",
            "Read it.",
            "Next: never",
        ]
        assert plan.asks == "do this job every Mon at 08:00"
        reminder = ScheduleTask("tea", at="2026-11-30 09:00", remind="Tea!")
        assert (await w.plan(reminder)).asks == "remind you on Mon 2026-11-30 at 09:00"
        assert await w.tasks() == []


async def test_a_yes_covers_only_the_shown_time(tmp_path: Path) -> None:
    """A day later "in 20 minutes" still means the allowed time; a past time is refused."""
    async with world(tmp_path) as w:
        lasting = ScheduleTask("a", in_minutes=20, remind="x")
        passing = ScheduleTask("b", "2026-11-23T09:00", remind="x")
        plans = [await w.plan(given) for given in (lasting, passing)]
        w.at += DAY
        await w.tools.schedule(lasting, attrs.evolve(w.context, facts=plans[0].facts))
        with pytest.raises(ToolFailure, match="in the past"):
            await w.tools.schedule(passing, attrs.evolve(w.context, facts=plans[1].facts))
        assert [task.when for task in await w.tasks()] == [Once(NOW + DAY + 1200.0)]


async def test_tasks_are_listed_and_shown_completely(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        assert await w.listed() == ("there are no tasks\n(now: Sun 2026-11-22 12:00 CET)")
        zone = "Europe/Paris"
        inbox = Task("inbox", "The inbox", Cron("0 8 * * 1"), zone, prompt="Sum it.\nAll of it.")
        sweep = Task("sweep", "Sweep", Cron("0 3 * * *"), zone, chore="sweep", origin="house")
        await w.put(inbox)
        await w.timetable.ask(Adopt(origin="house", tasks=(sweep,)))
        assert (await w.listed()).splitlines() == [
            "inbox: The inbox",
            "  every Mon at 08:00",
            "  next tomorrow, Mon 2026-11-23 08:00 CET",
            "  does: Sum it. All of it.",
            "(now: Sun 2026-11-22 12:00 CET)",
        ]
        whole = await w.listed("INBOX")
        assert "does: Sum it.\nAll of it." in whole
        with pytest.raises(ToolFailure, match="there is no task tea: list_tasks"):
            await w.listed("tea")


async def test_tasks_are_paused_resumed_and_cancelled_by_id(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        given = ScheduleTask("The inbox", every=Interval(1, "hour"), do="Look.")
        said = await w.do(given)
        assert await w.do(given) == said, "it is scheduled once"
        assert await w.change("pause", "the-inbox") == "the-inbox: Paused."
        assert "paused by the assistant" in await w.listed()
        assert await w.change("resume", "the-inbox") == "the-inbox: Resumed."
        assert await w.change("cancel", "the-inbox") == "the-inbox: Cancelled."
        assert await w.tasks() == []
        for wanted in ("the-inbox", ""):
            with pytest.raises(ToolFailure, match=r"no task|name the task"):
                await w.change("cancel", wanted)


async def test_a_run_can_end_only_its_own_task(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.put(*(Task(id_, id_, Every(3600.0), prompt="p") for id_ in ("build", "mum")))
        run = attrs.evolve(w.context, bounds=RunBounds("build"), session="task-build")
        given = [ChangeTask(task) for task in ("", "build", "mum")]
        plans = [await w.tools.plan_change("cancel", one, run) for one in given]
        assert [plan.action for plan in plans] == [
            Reschedule(own=True),
            Reschedule(own=True),
            Reschedule(own=False),
        ]
        assert await w.change("cancel", "", run) == "build: Cancelled."


names = st.lists(st.sampled_from(("shell", "web", "fly")), max_size=3).map(tuple)
dollars = st.none() | st.floats(0, 100)


@given(
    st.none() | names,
    dollars,
    st.none() | st.integers(0, 10**7),
    dollars,
    st.none() | names,
    st.none() | st.floats(0.001, 100),
)
def test_a_task_has_no_more_rights_than_its_conversation(
    held: tuple[str, ...] | None,
    held_usd: float | None,
    held_tokens: int | None,
    usual_usd: float | None,
    wanted: tuple[str, ...] | None,
    usd: float | None,
) -> None:
    """The same holds for tasks made by its runs, and so on."""
    run = RunBounds("t", tools=held, budget=Budget(held_tokens, held_usd))
    context = ToolContext(
        session="s", route=CHAT, now=NOW, zone="UTC", tools=("shell", "web"), bounds=run
    )
    given = ScheduleTask("a", tools=wanted, budget_usd=usd)
    try:
        tools, budget = bounds_of(given, context, Budget(usd=usual_usd))
    except BadSetting:
        return
    assert held is None or (tools is not None and set(tools) <= set(held))
    assert budget.tokens == held_tokens
    for most in (held_usd, usual_usd if usd is not None else None):
        assert most is None or (budget.usd is not None and budget.usd <= most)
