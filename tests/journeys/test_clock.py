"""Scheduled tasks in the whole app: idle days cost nothing, and news go to the right chat."""

import json
import re
import time

import attrs
import msgspec
import pytest
import trio

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.calls import FetchUrl, Plan, RunCommand
from elwood.agent.conversation.message import Completion, Human, Notice, Results, Usage
from elwood.agent.conversation.run import QUIET, Budget
from elwood.agent.models.client import ModelRequest
from elwood.agent.models.settings import Limits
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import Entry, Replied
from elwood.agent.session.reading.records import CallRecord, History
from elwood.agent.tools.tool import Tool, ToolContext
from elwood.features.tasks.messages import ListTasks, TimetableChanged
from elwood.features.tasks.settings import ConfiguredTasks, HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.foundation.storage.anchors import EVERY
from tests.agent.session.scripted import answer, call, last_message
from tests.every_tool import every_tool
from tests.journeys.home import DONE, EPOCH, Home, Life, newest_message
from tests.journeys.judging import read

HALF_HOUR, DAY = 1800.0, 86_400.0
ALWAYS = {"heartbeat": HeartbeatSettings(hours="00:00-23:59")}
LIST = "- Is there mail in inbox/ that cannot wait?\n\nWatch: inbox/*.md\n"


def write(h: Home, name: str, text: str) -> None:
    path = h.folder / "workspace" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def pass_time(h: Home, life: Life, seconds: float, step: float = HALF_HOUR) -> None:
    """Advance the wall clock in steps, like a machine that sleeps in between.

    The scheduler is woken after each step. It would check within a minute, which is tested
    elsewhere.
    """
    await trio.sleep(DONE)
    for _ in range(round(seconds / step)):
        await life.pass_time(step - DONE)


async def test_an_idle_day_costs_nothing_and_writes_little(h: Home) -> None:
    """Only two chores, a backup and a sweep, and the anchors of their records are written."""

    def size() -> int:
        return sum(path.stat().st_size for path in h.state.rglob("*.jsonl*"))

    h.settings |= ALWAYS
    h.think = lambda request: answer(QUIET)
    write(h, "HEARTBEAT.md", LIST)
    write(h, "inbox/one.md", "hello")
    sizes = []
    async with h.life() as life:
        for _ in range(2):
            for _ in range(24):
                # The records are anchored hourly if they have grown.
                await trio.sleep(EVERY)
                await pass_time(h, life, 2 * HALF_HOUR - EVERY, 2 * HALF_HOUR - EVERY)
            assert len(h.asked) == 1, "a list that was never gone through is"
            sizes.append(size())
        assert 0 < sizes[1] - sizes[0] < 3_000
        write(h, "inbox/two.md", "urgent")
        await pass_time(h, life, DAY / 4)
        assert len(h.asked) == 2
    async with h.life() as life:
        await pass_time(h, life, DAY / 4)
        assert len(h.asked) == 2, "a restart is no news"
    assert h.texts() == []
    assert not h.broken_promises()


async def test_a_plain_checklist_is_checked_at_each_heartbeat(h: Home) -> None:
    """The world changes while the list does not; old news are not repeated."""
    h.settings |= ALWAYS
    is_red = True

    def think(request: ModelRequest) -> Completion:
        if "The build is red" in newest_message(request):
            return answer(f"Still as you were told, so there is nothing new. {QUIET}")
        return answer("The build is red." if is_red else QUIET)

    h.think = think
    write(h, "HEARTBEAT.md", "- See whether the build is red.\n")
    async with h.life() as life:
        await pass_time(h, life, 4 * HALF_HOUR)
        asked = len(h.asked)
        assert asked >= 4
        assert h.texts() == ["The build is red."]
        is_red = False
        await pass_time(h, life, DAY)
        assert len(h.asked) == asked + 48
        write(h, "HEARTBEAT.md", "# Heartbeat\n")
        await pass_time(h, life, DAY / 4)
        assert len(h.asked) == asked + 48, "an empty one costs nothing"
    assert h.texts() == ["The build is red."]
    assert not h.broken_promises()


async def test_an_outage_does_not_pause_the_checklist(h: Home) -> None:
    h.settings |= ALWAYS
    is_well = False
    h.think = lambda request: answer("All is dark." if is_well else "")
    write(h, "HEARTBEAT.md", "- Is the light on?\n")
    async with h.life() as life:
        await pass_time(h, life, DAY / 4)
        [told] = h.texts()
        assert told.startswith('Failed 2 times in a row: "Heartbeat"')
        is_well = True
        await pass_time(h, life, HALF_HOUR)
    assert h.texts()[1:] == ["All is dark."]


async def test_pages_and_commands_are_watched_only_if_allowed_without_asking(h: Home) -> None:
    """By their tools, as the policy allows; a call that would need approval is reported instead."""
    page, effects = "one", h.effects

    class Address(msgspec.Struct):
        text: str

    def watching(name: str, head: str, plan: Plan) -> Tool:
        async def examine(given: Address, context: ToolContext) -> Plan:
            await trio.lowlevel.checkpoint()
            return plan

        async def look(given: Address, context: ToolContext) -> str:
            await trio.lowlevel.checkpoint()
            effects.done.append(f"look {given.text}")
            return page

        def watched(text: str) -> Address | None:
            return Address(text) if text.startswith(head) else None

        made = Tool(name, "Look.", Address, look, plan=examine, watched=watched)
        return attrs.evolve(made, target=lambda given: given.text)

    url = "https://a.example/"
    h.more_tools = (
        watching("page", "https:", Plan(FetchUrl(url, "a.example"), url)),
        watching("command", "$ ", Plan(RunCommand("unclear", "it changes something"), "make")),
    )
    h.settings |= ALWAYS
    h.think = lambda request: answer(f"It says {page}.")
    write(h, "HEARTBEAT.md", f"Watch: {url}\n- What does it say?\n")
    async with h.life() as life:
        await pass_time(h, life, 2 * HALF_HOUR)
        written = [path.read_bytes() for path in sorted(h.state.rglob("*.jsonl"))]
        await pass_time(h, life, 2 * HALF_HOUR)
        assert h.texts() == ["It says one."]
        # An unchanged look is counted, and not logged.
        assert [path.read_bytes() for path in sorted(h.state.rglob("*.jsonl"))] == written
        page = "two"
        await pass_time(h, life, 4 * HALF_HOUR)
        assert h.texts() == ["It says one.", "It says two."]
        assert set(effects.done) == {f"look {url}"}
        first, *_, last = receipts(h)
        assert (first.tool, first.outcome) == ("page", "ok")
        assert re.fullmatch(rf"{url}( \(\d checks\))?", first.target)
        assert re.fullmatch(rf"{url} \([45] checks\)", last.target)
        write(h, "HEARTBEAT.md", "Watch: $ make\n- What does it say?\n")
        await pass_time(h, life, 4 * HALF_HOUR)
        h.settings["policy"] = PolicySettings(deny=("page",))
    assert h.texts()[2].startswith(
        "Failed 2 times in a row: \"Heartbeat\": '$ make' cannot be watched: it changes something; "
        "watch a web page, or a read-only command that needs no approval."
    )
    assert set(effects.done) == {f"look {url}"}
    write(h, "HEARTBEAT.md", f"Watch: {url}\n- What does it say now?\n")
    async with h.life() as life:
        await pass_time(h, life, 4 * HALF_HOUR)
    assert "cannot be watched: your settings forbid page" in h.texts()[3]


def receipts(h: Home) -> list[CallRecord]:
    """Read the calls of the heartbeat, as `elwood receipts` does."""
    path = h.state / "sessions" / "task-heartbeat.jsonl"
    return History("task-heartbeat", read(path, Entry)).calls


def test_each_watch_uses_the_tool_of_its_kind() -> None:
    found = {
        (tool.name, text): tool.watched(text)
        for tool in every_tool()
        for text in ("https://a.example/x", "$ git log -1", "inbox/*.md")
        if tool.watched is not None and tool.watched(text) is not None
    }
    assert {key: msgspec.to_builtins(given) for key, given in found.items()} == {
        ("web_fetch", "https://a.example/x"): {"url": "https://a.example/x", "offset": 0},
        ("run_command", "$ git log -1"): {"command": "git log -1", "timeout": 60},
    }


async def test_a_task_tool_runs_without_a_model_unless_it_fails(h: Home) -> None:
    every = Every(3600.0)
    tidy = Task("tidy", "Tidy", every, tool="act", arguments='{"name": "x"}', origin="config")
    after = Task("after", "After", every, tool="look", arguments='{"name": "y"}', origin="config")
    after = msgspec.structs.replace(after, silent=True, on_success="What was seen?")
    wrong = Task("wrong", "Wrong", every, tool="fail", arguments="{}", origin="config")
    wrong = msgspec.structs.replace(wrong, notify=False, on_failure="Why is that?")
    h.settings["tasks"] = ConfiguredTasks((tidy, after, wrong))
    h.think = lambda request: answer(f"re: {newest_message(request).split(']')[-1].strip()}")
    async with h.life() as life:
        await pass_time(h, life, 2 * HALF_HOUR)
        told = sorted(h.texts())
        assert [text.split("\n")[0] for text in told] == ["acted on x", "re: Why is that?"]
        assert "✓ act x" in told[0]
        kept = [e.text for e in h.entries("task-after") if isinstance(e, Replied)]
        assert kept[0].startswith("saw y")
        assert kept[1].startswith("re: What was seen?")
        assert len(h.asked) == 2
        assert "saw y" in str(h.asked), "it goes on where the tool was"
        await life.say("/tasks log tidy")
        assert ": acted on x" in h.texts()[-1]
        assert "done in 1 s" in h.texts()[-1]
        await pass_time(h, life, DAY / 4)
    assert not [text for text in h.texts() if "Wrong" in text], "its owner is not told"
    assert not h.broken_promises()


async def test_a_tool_call_outlives_its_run_while_waiting_for_a_yes(h: Home) -> None:
    task = Task("tidy", "Tidy", Every(3600.0), tool="act", arguments='{"name": "x"}')
    h.settings |= {"tasks": ConfiguredTasks((task,)), "policy": PolicySettings()}
    h.settings["approvals"] = ApprovalSettings(wait=1.0)
    async with h.life() as life:
        await pass_time(h, life, 3600.0, 3600.0)
        [seen] = await life.address("timetable").ask(ListTasks())
        assert (seen.result, h.effects.done) == ("waiting", [])
        data, message = h.fake.button("once") or ("", None)
        h.fake.press(data, message=message)
        await life.until(lambda: h.effects.done)
        await life.wait_until_idle()
    assert (h.effects.done, h.asked) == (["act x"], [])
    assert h.texts()[-1].startswith("acted on x")
    assert not h.broken_promises()


async def test_a_denied_call_of_a_task_is_not_asked_again(h: Home) -> None:
    task = Task("tidy", "Tidy", Every(3600.0), tool="act", arguments='{"name": "x"}')
    h.settings |= {"tasks": ConfiguredTasks((task,)), "policy": PolicySettings()}
    async with h.life() as life:
        await trio.sleep(DONE)
        h.clock_error -= 3600.0
        life.address("scheduler").offer(TimetableChanged())
        await life.until(lambda: h.fake.button("Deny"))
        data, message = h.fake.button("Deny") or ("", None)
        h.fake.press(data, message=message)
        await life.wait_until_idle()
        await pass_time(h, life, HALF_HOUR, 120.0)
    asked = [sent for sent in h.fake.sent if "May I use" in sent.text]
    assert (len(asked), h.effects.done) == (1, [])
    assert h.texts()[-1].startswith('Failed: "Tidy": ')


async def test_a_task_can_run_in_the_owners_conversation(h: Home) -> None:
    task = Task("news", "News", Every(3600.0), prompt="What is new?", session="current")
    h.settings["tasks"] = ConfiguredTasks((task,))
    h.think = lambda request: answer(f"after {len(request.messages)}")
    async with h.life() as life:
        await life.say("hello")
        await pass_time(h, life, 2 * HALF_HOUR)
    assert h.texts() == ["after 1", "after 3"]
    assert not [name for name in h.sessions if name.startswith("task-")]


async def test_heartbeat_news_are_known_where_the_owner_answers(h: Home) -> None:
    h.settings |= ALWAYS

    def think(request: ModelRequest) -> Completion:
        if "checklist" in newest_message(request):
            return answer("There is a letter from the bank.")
        return answer("re: " + newest_message(request))

    h.think = think
    write(h, "HEARTBEAT.md", LIST)
    async with h.life() as life:
        await pass_time(h, life, 2 * HALF_HOUR)
        assert h.texts() == ["There is a letter from the bank."]
        await life.say("Answer it, please")
    request = h.asked[-1]
    told = [m.text for m in request.messages if isinstance(m, Notice)]
    assert any("There is a letter from the bank." in text for text in told)
    assert len([m for m in request.messages if isinstance(m, Human)]) == 1
    assert not h.broken_promises()


async def test_a_failing_task_is_reported_paused_and_resumed(h: Home) -> None:
    task = Task("news", "News", Every(3600.0), prompt="What is new?", origin="config")
    h.settings["tasks"] = ConfiguredTasks((task,))
    broken = True

    h.think = lambda request: answer("") if broken else answer("Nothing much.")
    async with h.life() as life:
        await pass_time(h, life, DAY)
        told = h.texts()
        assert len(told) == 2, told
        assert told[1].startswith("Paused: ")
        broken = False
        paused = h.fake.sent[-1]
        h.fake.press(paused.buttons[0], message=paused)
        await life.wait_until_idle()
        await pass_time(h, life, 2 * 3600.0)
    assert h.texts()[2:] == ["news: Resumed.", "Nothing much.", "Nothing much."]


@pytest.mark.parametrize("verb", ["stop", "cancel"])
async def test_a_run_is_stopped(h: Home, verb: str) -> None:
    """Its model request is cancelled immediately; that is no failure, and it is not repeated."""
    h.more_tools = ("schedule",)
    given = {"title": "news", "in_minutes": 1, "do": "What is new?"}
    began, gone = trio.Event(), trio.Event()

    async def think(request: ModelRequest) -> Completion:
        await trio.lowlevel.checkpoint()
        if "What is new?" not in newest_message(request):
            said = newest_message(request)
            return call(("c1", "schedule", json.dumps(given))) if said == "plan" else answer("")
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            gone.set()
        raise AssertionError

    h.think = think
    async with h.life() as life:
        await life.say("plan")
        with trio.fail_after(120):
            await began.wait()
        h.fake.say(f"/tasks {verb} news")
        with trio.fail_after(2):
            await gone.wait()
        await life.wait_until_idle()
        told = h.texts()[1:]
        words = "Stopped." if verb == "stop" else "Cancelled. Stopped."
        assert sorted(told) == ["Stopped. I was still writing the answer.", f"news: {words}"]
        asked = len(h.asked)
    async with h.life() as life:
        await pass_time(h, life, DAY / 8)
        assert await life.address("timetable").ask(ListTasks()) == ()
    assert h.texts()[1:] == told
    assert len(h.asked) == asked
    assert not h.broken_promises()


async def test_an_empty_budget_is_not_a_failure(h: Home) -> None:
    """It is reported once; the next day the budget is full again, and no one must resume it."""
    budget = Budget(tokens=20_000)
    task = Task(
        "news", "News", Every(3600.0), prompt="What is new?", budget=budget, origin="config"
    )
    h.settings["tasks"] = ConfiguredTasks((task,))
    h.settings["limits"] = Limits(warn=0)

    dear = msgspec.structs.replace(answer("News."), usage=Usage(output=19_000))
    h.think = lambda request: dear
    async with h.life() as life:
        await pass_time(h, life, DAY)
    days = {time.strftime("%F", time.gmtime(EPOCH + n * 3600.0)) for n in range(25)}
    assert len(h.asked) == len(days) == 2
    told = [text for text in h.texts() if text.startswith('Not done: "News": The daily limit of')]
    assert len(told) == 2
    assert h.texts().count("News.") == 2


async def test_a_repeated_call_of_a_task_is_asked_once(h: Home) -> None:
    task = Task("act", "Act", Every(3600.0), prompt="Act.", origin="config")
    h.settings |= {"tasks": ConfiguredTasks((task,)), "policy": PolicySettings()}
    h.settings["approvals"] = ApprovalSettings(wait=1.0)

    def think(request: ModelRequest) -> Completion:
        done = isinstance(last_message(request.messages), Results)
        return answer("I see.") if done else call(("c1", "act", '{"name": "x"}'))

    h.think = think
    async with h.life() as life:
        await pass_time(h, life, 3 * 3600.0, 3600.0)
        [seen] = await life.address("timetable").ask(ListTasks())
    asked = [sent for sent in h.fake.sent if "May I " in sent.text]
    assert (len(asked), len(h.asked)) == (1, 6)
    assert "\nThe task act asked for this." in asked[0].text
    assert (seen.result, seen.failures) == ("waiting", 0)
    assert h.effects.done == []


async def test_checklist_mistakes_are_reported_at_start_and_edit(h: Home) -> None:
    h.settings |= ALWAYS
    wrong = "## Mail\nCadence: often\nPrompt: Look.\n"
    counts = []
    for _ in range(2):
        write(h, "HEARTBEAT.md", wrong)
        async with h.life() as life:
            for text in (wrong, f"{wrong}And so on.\n"):
                write(h, "HEARTBEAT.md", text)
                await pass_time(h, life, HALF_HOUR)
                counts.append(len([one for one in h.texts() if "'often' is not a" in one]))
    assert counts == [1, 2, 3, 4]
    assert not h.broken_promises()
