"""A cancelled task, and the open questions of its runs: they are withdrawn."""

import json

import trio
from attrs import evolve
from msgspec.structs import replace

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.message import Completion, Notice
from elwood.agent.conversation.run import SESSION
from elwood.agent.models.client import ModelRequest
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import CallDecided
from elwood.features.tasks.messages import ListTasks, PlanTask
from elwood.features.tasks.settings import ConfiguredTasks, HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import SentMessage
from tests.journeys.home import EPOCH, MINE, Home, Life, newest_message
from tests.journeys.test_approval_journeys import press, questions, wait_for_question

ID, HOUR = "water", 3600.0
OWN = f"{SESSION}{ID}"
TASK = Task(ID, "Water", Every(HOUR, EPOCH + 60.0 - HOUR), prompt="Water the plants.")
WAIT = 10.0
GONE = "Already decided (withdrawn): act"


def propose_calls(h: Home) -> Home:
    """Let runs propose a call that needs approval, and the owner cancel tasks."""

    def think(request: ModelRequest) -> Completion:
        said = newest_message(request)
        if "Water the plants." in said:
            return call(("c1", "act", '{"name": "boldly"}'))
        if said.startswith("cancel "):
            given = json.dumps({"task": said.removeprefix("cancel ")})
            return call(("c1", "cancel_task", given))
        return call(("c1", "act", '{"name": "mine"}')) if said == "act" else answer(f"re: {said}")

    h.think, h.more_tools = think, ("cancel_task",)
    h.settings["policy"] = PolicySettings(allow=("cancel_task",))
    h.settings["approvals"] = ApprovalSettings(wait=WAIT)
    h.settings["heartbeat"] = HeartbeatSettings(hours="00:00-23:59")
    return h


async def wait_for_run(h: Home, life: Life, session: str = OWN) -> SentMessage:
    """Wait for a run that has asked and ended; return the question as the phone still shows it."""
    await trio.sleep(1)  # until the tasks of a file are loaded
    before = len(questions(h))
    await life.pass_time(90.0)
    question = evolve(await wait_for_question(h, life, before + 1))
    await life.until(lambda: h.journal(session).exists() and h.fold(session).pending)
    await life.wait_until_idle()
    return question


def withdrawn_calls(h: Home, session: str = OWN) -> list[str]:
    """List the withdrawn calls of a session."""
    found = [entry for entry in h.entries(session) if isinstance(entry, CallDecided)]
    return [entry.call for entry in found if entry.ruling == "withdrawn"]


async def schedule(life: Life, task: Task = TASK) -> None:
    await life.address("timetable").ask(PlanTask(task=task))


async def test_a_cancelled_task_withdraws_its_questions(h: Home) -> None:
    """Cancelled by the assistant; by a command: the story "cancelled"."""
    async with propose_calls(h).life() as life:
        await schedule(life)
        question = await wait_for_run(h, life)
        h.fake.say(f"cancel {ID}")
        await life.until(lambda: withdrawn_calls(h))
        assert withdrawn_calls(h) == ["c1"]
        assert h.fold(OWN).pending == {}
        assert (await press(h, life, question, "o")).startswith(GONE)
        await life.wait_until_idle()
        assert h.effects.done == []
        assert not h.broken_promises()


async def test_a_task_removed_before_a_start_withdraws_its_questions(h: Home) -> None:
    h.settings["tasks"] = ConfiguredTasks((replace(TASK, origin="config"),))
    async with propose_calls(h).life() as life:
        question = await wait_for_run(h, life)
    h.settings["tasks"] = ConfiguredTasks()
    async with h.life() as life:
        await life.until(lambda: withdrawn_calls(h))
        assert (await press(h, life, question, "o")).startswith(GONE)
        await life.wait_until_idle()
    assert h.effects.done == []


async def test_only_questions_of_the_cancelled_task_are_withdrawn(h: Home) -> None:
    """Also in a conversation with other questions; its model gets a notice."""
    async with propose_calls(h).life() as life:
        h.fake.say("act")
        mine = await wait_for_question(h, life)
        await life.wait_until_idle()
        await schedule(life, replace(TASK, session=MINE))
        question = await wait_for_run(h, life, MINE)
        h.fake.say(f"/tasks cancel {ID}")
        await life.until(lambda: withdrawn_calls(h, MINE))
        assert (await press(h, life, question, "o")).startswith(GONE)
        assert (await press(h, life, mine, "o")).startswith("Allowed once: act")
        await life.until(lambda: h.effects.done)
        await life.wait_until_idle()
        assert h.effects.done == ["act mine"]
        told = [n.message.text for n in h.fold().path if isinstance(n.message, Notice)]
        assert "The call that waited was withdrawn and will not run: act boldly." in told
        assert not h.broken_promises()


async def test_a_run_that_ends_its_own_task_keeps_its_question(h: Home) -> None:
    """For example: watch until the build is green, then deploy."""
    async with propose_calls(h).life() as life:

        def think(request: ModelRequest) -> Completion:
            assert "Water the plants." in newest_message(request)
            return call(("c1", "act", '{"name": "boldly"}'), ("c2", "cancel_task", "{}"))

        h.think = think
        await schedule(life)
        question = await wait_for_run(h, life)
        assert await life.address("timetable").ask(ListTasks()) == ()
        assert (await press(h, life, question, "o")).startswith("Allowed once: act")
        await life.until(lambda: h.effects.done)
        await life.wait_until_idle()
        assert h.effects.done == ["act boldly"]
        assert withdrawn_calls(h) == []
        assert not h.broken_promises()
