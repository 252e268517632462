"""Scheduling, from the request on Telegram to the results."""

import json

import msgspec
import trio

from elwood.agent.conversation.message import Completion, Usage
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import MAX_WAITING
from elwood.agent.session.reading.receipts import NOTHING
from elwood.features.tasks.messages import ListTasks, PlanTask
from elwood.features.tasks.task import REMINDERS, Task
from elwood.features.tasks.when import Once
from tests.agent.session.scripted import answer, call
from tests.journeys.home import MINE, Home, Scripted, newest_message
from tests.model_roles import asking

TOOLS = ("schedule", "list_tasks", "cancel_task")
MUM = {"title": "call mum", "in_minutes": 1, "remind": "Call mum!"}
PROMISE = "I'll remind you in a minute."


def make_planner(h: Home, *calls: tuple[str, str, str]) -> None:
    """Let the model make *calls* when asked to plan, and always promise it."""

    h.more_tools = TOOLS
    h.think = lambda request: call(*calls) if newest_message(request) == "plan" else answer(PROMISE)


async def test_a_reminder_is_planned_confirmed_and_delivered(h: Home) -> None:
    make_planner(h, ("c1", "schedule", json.dumps(MUM)))
    async with h.life() as life:
        await life.say("plan")
        [told] = h.texts()
        assert told.startswith(PROMISE)
        assert NOTHING not in told
        assert "✓ scheduled: call mum, today, " in told
        asked = len(h.asked)
    # The reminder is still planned after a restart, and involves no model.
    async with h.life() as life:
        await life.until(lambda: len(h.texts()) > 1)
        await life.wait_until_idle()
    assert h.texts()[1:] == ["⏰ Call mum!"]
    assert len(h.asked) == asked


async def test_many_reminders_share_one_log(h: Home) -> None:
    """They come due while Elwood is off."""
    many = 3 * MAX_WAITING
    async with h.life() as life:
        for number in range(many):
            at = life.core.clock.now() + 60.0
            task = Task(f"r{number}", f"r{number}", Once(at), message=f"m{number}")
            await life.address("timetable").ask(PlanTask(task=task))
    await trio.sleep(120)
    async with h.life() as life:
        await life.until(lambda: len(h.texts()) == many, 1_000)
        await life.wait_until_idle()
        assert await life.address("timetable").ask(ListTasks()) == ()
    assert sorted(h.texts()) == sorted(f"⏰ m{number}" for number in range(many))
    assert [name for name in h.sessions if name.startswith("task-")] == [REMINDERS]


DEAR, CHEAP = "claude-sonnet-5-5", "claude-haiku-5-5"
NEWS = {
    "title": "the news",
    "every": {"n": 20, "unit": "minute"},
    "do": "What is new?",
    "cheap": True,
    "budget_usd": 0.05,
    "tools": ["list_tasks"],
}
# One call of the cheap model costs five cents.
FIVE_CENTS = Usage(output=100_000)


def set_prices(h: Home) -> None:
    """Let two models with known prices answer."""
    h.providers = {"anthropic": lambda client, now: Scripted(h)}
    h.more_tools = TOOLS
    models = asking(f"anthropic/{DEAR}", f"anthropic/{CHEAP}")
    h.made = h.config().replace(models)


def plan_on_request(h: Home, given: dict[str, object]) -> list[ModelRequest]:
    """Let the model plan *given* on request; return a list that will hold the requests of runs."""
    runs: list[ModelRequest] = []

    def think(request: ModelRequest) -> Completion:
        said = newest_message(request)
        if said == "plan":
            return call(("c1", "schedule", json.dumps(given)))
        if "What is new?" in said or runs:
            runs.append(request)
            looked = call(("c2", "list_tasks", "{}"))
            return msgspec.structs.replace(looked, usage=FIVE_CENTS)
        return answer("re: " + said)

    h.think = think
    return runs


async def test_a_run_has_its_own_model_tools_and_budget(h: Home) -> None:
    set_prices(h)
    runs = plan_on_request(h, NEWS)
    async with h.life() as life:
        await life.say("plan")
        assert h.asked[0].model == DEAR
        bounds = "with the cheap model, only with list_tasks, at most $0.05 a day"
        assert bounds.replace(", ", "; ") in h.texts()[-1]
        for minutes in (20, 2):  # the run, and its possible retry
            await life.pass_time(60.0 * minutes)
        await life.say("/tasks")
    [run] = runs
    assert run.model == CHEAP
    assert [spec.name for spec in run.prompt.tools] == ["list_tasks"]
    *_, told, listed = h.texts()
    assert told.startswith(
        'Not done: "the news": The daily limit of $0.05 for the job the-news is used up'
    )
    assert f"\n{bounds}\n" in listed
    assert not h.broken_promises()


async def test_a_run_cannot_use_an_unnamed_tool(h: Home) -> None:
    """The gate refuses it, and no run can delegate a tool that it lacks."""
    wanted = {"title": "more", "in_minutes": 60, "do": "x", "tools": ["cancel_task"]}
    set_prices(h)
    given = {**NEWS, "every": None, "in_minutes": 1, "tools": ["schedule"]}

    def think(request: ModelRequest) -> Completion:
        said = newest_message(request)
        if said == "plan":
            return call(("c1", "schedule", json.dumps(given)))
        if "What is new?" in said:
            calls = (("c2", "cancel_task", "{}"), ("c3", "schedule", json.dumps(wanted)))
            return call(*calls)
        return answer("re: " + said)

    h.think = think
    async with h.life() as life:
        await life.say("plan")
        await life.until(lambda: "task-the-news" in h.sessions)
        await life.wait_until_idle()
        tasks = await life.address("timetable").ask(ListTasks())
    text = newest_message(h.asked[-1])
    assert "no such tool: cancel_task; available: schedule" in text
    assert "tools: cancel_task not available here; available: schedule" in text
    assert [seen.task.id for seen in tasks] == []
    assert MINE in h.sessions
