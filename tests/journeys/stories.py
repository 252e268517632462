"""Stories: messages, tasks, the model's actions, and outside events."""

import re
from functools import partial
from operator import attrgetter
from typing import Any

import trio

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.message import Completion, Human, Notice, Results
from elwood.agent.conversation.run import SESSION
from elwood.agent.conversation.settings import Owner
from elwood.agent.media.settings import MediaSettings
from elwood.agent.models.client import ModelRequest
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import CallEnded
from elwood.agent.tools.tool import Output, Tool, ToolContext
from elwood.features.backup.settings import BackupSettings
from elwood.features.tasks.messages import PlanTask
from elwood.features.tasks.settings import ConfiguredTasks, HeartbeatSettings
from elwood.features.tasks.state import TaskRemoved
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every, Once
from tests.agent.session.scripted import Named, answer, call
from tests.fake_http import Reply, Request, json_reply
from tests.journeys.crashing import Story, Trial
from tests.journeys.home import EPOCH, FREE, MINE, Home, follow_message

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
# The first planned time of all tasks, and the id of the task of a story.
DUE, ID = EPOCH + 1200.0, "t"
PLANNED = re.compile(r"planned for \w+ (\d+-\d+-\d+) (\d+):(\d+)")


def run_of(request: ModelRequest) -> str:
    """Return the run of a request by its planned time; "" if it is for none."""
    asked = [m.text for m in request.messages if isinstance(m, Human) and PLANNED.search(m.text)]
    found = PLANNED.search(asked[-1]) if asked else None
    return "-".join(found.groups()) if found else ""


def act_once(trial: Trial, request: ModelRequest) -> Completion:
    """Act once in each run, under its name, and say so; fail immediately while not well."""
    name = run_of(request)
    newest = max(n for n, m in enumerate(request.messages) if isinstance(m, Human))
    if not PLANNED.search(getattr(request.messages[newest], "text", "")):
        return answer("I see.")
    if any(isinstance(message, Results) for message in request.messages[newest:]):
        return answer(f"Acted for {name}." if trial.is_well else "")
    return call(("c1", "act", f'{{"name": "{name}"}}'))


def report(trial: Trial, request: ModelRequest) -> Completion:
    """Report about each run; nothing while not well."""
    return answer(f"Looked for {run_of(request)}." if trial.is_well else "")


async def run_three_times(trial: Trial) -> None:
    """Let three planned times pass, and watch the first."""
    await trial.wait_until_idle()
    trial.disk.armed = True
    await trial.until_time(DUE)
    trial.disk.armed = False
    await trial.until_time(DUE + HOUR)
    await trial.until_time(DUE + 2 * HOUR)


async def begin(trial: Trial) -> None:
    """Load the configuration for the first time, and let the first planned time come."""
    trial.disk.armed = True
    await trial.wait_until_idle()
    await trial.until_time(DUE)
    trial.disk.armed = False
    await trial.until_time(DUE + HOUR)


async def plan_once(trial: Trial) -> None:
    """Plan a task in a conversation, and let its time come."""
    await trial.wait_until_idle()
    task = Task("", "Tea", Once(DUE), message="Time for tea.")
    await trial.life.address("timetable").ask(PlanTask(task=task))
    trial.disk.armed = True
    await trial.until_time(DUE)
    trial.disk.armed = False
    await trial.until_time(DUE + HOUR)


async def change_file(trial: Trial) -> None:
    """Check an unchanged checklist, then a changed one."""
    await trial.wait_until_idle()
    trial.disk.armed = True
    first = EPOCH - EPOCH % 1800 + 1800
    await trial.until_time(first)
    await trial.until_time(first + 1800)
    trial.disk.armed = False
    (trial.home.folder / "workspace" / "inbox.md").write_text("A letter!")
    await trial.until_time(first + 3600)
    await trial.until_time(first + 5400)


async def fail_twice(trial: Trial) -> None:
    """Fail twice, which is reported to the owner, and succeed at the third attempt."""
    trial.is_well = False
    await trial.wait_until_idle()
    await trial.until_time(DUE)
    trial.disk.armed = True
    await trial.until_time(DUE + 2 * MINUTE)
    trial.is_well = True
    await trial.until_time(DUE + 10 * MINUTE)
    trial.disk.armed = False
    await trial.until_time(DUE + HOUR)


async def fail_once(trial: Trial) -> None:
    """Fail after all work is done, and not the next time."""
    trial.is_well = False
    await trial.wait_until_idle()
    trial.disk.armed = True
    await trial.until_time(DUE)
    trial.disk.armed = False
    await trial.until_time(DUE + 10 * MINUTE)
    trial.is_well = True
    await trial.until_time(DUE + HOUR)


async def pause_and_resume(trial: Trial) -> None:
    """Fail until the task is paused, then resume it by its button."""
    trial.is_well = False
    await trial.wait_until_idle()
    at = DUE
    for _ in range(5):
        trial.disk.armed = trial.table().tasks[ID].failures == 4
        await trial.until_time(at)
        again = trial.table().tasks[ID].retry
        at = again.at + 1 if again else DUE + HOUR
    await trial.until_time(DUE + 2 * HOUR)  # paused: nothing runs
    trial.is_well = True
    await trial.press(f"/tasks resume {ID}")
    await trial.wait_until_idle()
    trial.disk.armed = False
    await trial.until_time(DUE + 3 * HOUR)
    await trial.until_time(DUE + 4 * HOUR)


def has_acted(trial: Trial) -> bool:
    """Return True if the call of the run has ended in any way."""
    entries = trial.home.entries(f"{SESSION}{ID}")
    return any(isinstance(e, CallEnded) and e.outcome != "waiting" for e in entries)


async def allow_call(trial: Trial, wait: bool) -> None:
    """Let the owner allow the run's call, immediately or long after the run."""
    await trial.wait_until_idle()
    trial.disk.armed = True
    trial.home.clock_error -= DUE - trial.home.now()
    trial.wake()
    await trial.until(partial(trial.home.fake.button, "once"))
    if wait:
        await trial.until(lambda: trial.table().tasks[ID].result == "waiting")
        await trial.wait_until_idle()
    await trial.press("once")
    await trial.until(partial(has_acted, trial))
    await trial.wait_until_idle()
    trial.disk.armed = False


async def allow_call_in_the_morning(trial: Trial) -> None:
    """Put a call from the night to the owner in the morning."""
    await trial.wait_until_idle()
    trial.disk.armed = True
    await trial.until_time(DUE)
    await trial.until(lambda: trial.table().tasks[ID].result == "waiting")
    await trial.wait_until_idle()
    assert trial.home.fake.button("once") is None
    trial.home.clock_error -= 10 * HOUR
    await trial.press("once")
    await trial.until(partial(has_acted, trial))
    await trial.wait_until_idle()
    trial.disk.armed = False


async def jump_clock(trial: Trial, seconds: float) -> None:
    """Let the wall clock jump while the model thinks, then set it right."""
    await trial.wait_until_idle()
    trial.disk.armed, trial.jump = True, seconds
    await trial.until_time(DUE)
    trial.wake()
    await trial.wait_until_idle()
    trial.disk.armed = False
    await trial.until_time(DUE + 10.0)
    await trial.until_time(DUE + HOUR)
    await trial.until_time(DUE + DAY + 2 * HOUR)


async def talk_during_run(trial: Trial) -> None:
    """Let the owner write while the task runs in their conversation."""
    await trial.wait_until_idle()
    trial.disk.armed = True
    trial.home.clock_error -= DUE - trial.home.now()
    trial.wake()
    trial.home.fake.say("Are you there?")
    await trial.wait_until_idle()
    trial.disk.armed = False
    await trial.until_time(DUE + HOUR)


async def request_run(trial: Trial) -> None:
    """Let the owner request a run now."""
    await trial.wait_until_idle()
    trial.disk.armed = True
    trial.home.fake.say(f"/tasks run {ID}")
    await trial.wait_until_idle()
    trial.disk.armed = False
    await trial.until_time(DUE)


async def cancel_task(trial: Trial) -> None:
    """Cancel a task whose run waits for a yes, then say yes."""
    await trial.wait_until_idle()
    task = Task("", "Work", Every(HOUR, DUE - HOUR), prompt="Act.")
    await trial.life.address("timetable").ask(PlanTask(task=task))
    await trial.until_time(DUE)
    await trial.until(lambda: trial.table().tasks["work"].result == "waiting")
    await trial.wait_until_idle()
    trial.disk.armed = True
    found = trial.home.fake.button("once")
    assert found is not None
    trial.home.fake.say("/tasks cancel work")
    await trial.until(lambda: any(isinstance(entry, TaskRemoved) for _, _, entry in trial.log()))
    trial.home.fake.press(found[0], message=found[1])
    await trial.wait_until_idle()
    await trial.until(lambda: not trial.home.fold(f"{SESSION}work").pending)
    await trial.wait_until_idle()
    trial.disk.armed = False


def checklist(h: Home) -> None:
    """Write a checklist that watches a file."""
    folder = h.folder / "workspace"
    folder.mkdir()
    (folder / "HEARTBEAT.md").write_text("- Is there mail?\n\nWatch: inbox.md\n")
    (folder / "inbox.md").write_text("Nothing.")


def settings(prompt: str = "Act.", *, free: tuple[str, ...] = FREE, **about: Any) -> dict[str, Any]:
    """Plan an hourly task."""
    task = Task(ID, "Work", Every(HOUR, DUE - HOUR), prompt=prompt, origin="config", **about)
    return {
        "tasks": ConfiguredTasks((task,)),
        "policy": PolicySettings(allow=free),
        "heartbeat": HeartbeatSettings(hours="00:00-23:59"),
        "backup": BackupSettings(every=0),
    }


NO_TASKS = {"tasks": ConfiguredTasks()}
OF_TASKS = {
    "acts": Story(happen=run_three_times, think=act_once, settings=settings()),
    "first start": Story(happen=begin, think=report, settings=settings()),
    "reminder": Story(
        happen=run_three_times, think=act_once, settings=settings("", message="Time for tea.")
    ),
    "reminder once": Story(happen=plan_once, think=act_once, settings=settings() | NO_TASKS),
    "heartbeat": Story(
        happen=change_file, think=report, settings=settings() | NO_TASKS, prepare=checklist
    ),
    "silent": Story(happen=run_three_times, think=act_once, settings=settings(silent=True)),
    "fails twice": Story(happen=fail_twice, think=report, settings=settings()),
    "acts and fails": Story(happen=fail_once, think=act_once, settings=settings()),
    "paused": Story(happen=pause_and_resume, think=report, settings=settings()),
    "allowed in time": Story(
        happen=partial(allow_call, wait=False), think=act_once, settings=settings(free=())
    ),
    "allowed late": Story(
        happen=partial(allow_call, wait=True), think=act_once, settings=settings(free=())
    ),
    "allowed in the morning": Story(
        happen=allow_call_in_the_morning,
        think=act_once,
        settings=settings(free=(), ends=DUE)
        | {"owner": Owner(hours="06:00-20:30"), "approvals": ApprovalSettings(expires=HOUR)},
    ),
    "a day back": Story(
        happen=partial(jump_clock, seconds=-DAY), think=act_once, settings=settings()
    ),
    "a day forward": Story(
        happen=partial(jump_clock, seconds=DAY), think=act_once, settings=settings()
    ),
    "in the conversation": Story(
        happen=talk_during_run, think=act_once, settings=settings(session=MINE)
    ),
    "a tool, and then a model": Story(
        happen=run_three_times,
        think=report,
        settings=settings("", tool="act", arguments='{"name": "x"}', on_success="Sum it up."),
    ),
    "wanted": Story(happen=request_run, think=act_once, settings=settings()),
    "cancelled": Story(
        happen=cancel_task,
        think=act_once,
        settings=settings(free=()) | NO_TASKS | {"owner": Owner(hours="00:00-23:59")},
    ),
}


def follow_newest(trial: Trial, request: ModelRequest) -> Completion:
    """Follow the newest message, except calls already made."""
    if any(isinstance(m, Notice) and "✓ act x" in m.text for m in request.messages):
        return answer("It is done already.")
    return follow_message(request)


# Steps that are not messages: an orderly restart, and a wait of some seconds. A message after a
# "!", and a command, do not wait for earlier work.
RESTART, PAUSE = "restart", "pause "


def tell_story(*said: str, asks: bool = True, slow: float = 0.0, nests: bool = False) -> Story:
    """Return a story of the owner's messages; tools ask, and the owner answers by `MANNERS`.

    If it *nests*, there is a tool that makes nested calls.
    """

    async def happen(trial: Trial) -> None:
        await trial.wait_until_idle()
        trial.home.slow, trial.disk.armed = slow, True
        for text in said:
            if text == RESTART:
                await trial.wait_until_idle()
                await trial.restart()
            elif text.startswith(PAUSE):
                await trio.sleep(float(text.removeprefix(PAUSE)))
            else:
                if not text.startswith(("/", "!")):
                    await trial.wait_until_idle()
                trial.home.fake.say(text.removeprefix("!"))
        await trial.wait_until_idle()
        trial.disk.armed = False

    about = {
        "policy": PolicySettings(allow=("chain",) if nests else () if asks else FREE),
        "backup": BackupSettings(every=0),
    }
    prepare = add_nesting_tool if nests else add_reading_tool
    return Story(happen=happen, think=follow_newest, settings=NO_TASKS | about, prepare=prepare)


def add_reading_tool(h: Home) -> None:
    """Add a tool that returns untrusted text."""

    async def browse(given: Named, context: ToolContext) -> Output:
        await trio.sleep(1)
        return Output(f"saw {given.name}", untrusted=True, origin=given.name)

    h.more_tools = (Tool("browse", "See.", Named, browse, risk="read", effect="pure"),)


def add_nesting_tool(h: Home) -> None:
    """Add a tool that reads, acts and reads by nested calls."""

    async def chain(given: Named, context: ToolContext) -> str:
        before = await context.call("look", {"name": given.name})
        done = await context.call("act", {"name": given.name})
        after = await context.call("look", {"name": given.name})
        return "; ".join(one.text for one in (before, done, after))

    name = attrgetter("name")
    h.more_tools = (Tool("chain", "Chain.", Named, chain, target=name),)


async def transcribe(asked: Request) -> Reply:
    """Transcribe a recording in ten seconds; refuse one without words."""
    await trio.sleep(10)
    [(_, data)] = asked.form()[1].values()
    words = data.removeprefix(b"OggS").decode()
    return json_reply({"text": words}, 200 if words else 500)


def add_transcription(h: Home) -> None:
    """Let a service transcribe recordings."""
    h.settings["media"] = MediaSettings(transcription_url=h.network.serve(transcribe))


async def send_recordings(trial: Trial) -> None:
    """Send recordings: with a text after it, failing, failing with words, and until a stop."""
    fake = trial.home.fake
    await trial.wait_until_idle()
    trial.disk.armed = True
    fake.say(None, voice=fake.voice(b"buy milk"))
    fake.say("and bread")
    await trial.wait_until_idle()
    fake.say(None, voice=fake.voice(b""))
    await trial.wait_until_idle()
    fake.say(None, voice=fake.voice(b""), caption="hear this")
    await trial.wait_until_idle()
    fake.say(None, voice=fake.voice(b"and no butter"))
    await trio.sleep(5)
    fake.say("/stop")
    await trial.wait_until_idle()
    trial.disk.armed = False


OF_TALK = {
    "talk": tell_story("hello", "call look around, act boldly", "/status", asks=False),
    "in time, and late": tell_story("call act soon a, act late b", "and?"),
    "denied, in time and late": tell_story("call act no a, act tooLate b", "pause 120", "and?"),
    "while its neighbour runs": tell_story("call act edge a, act soon b", "and?"),
    "while it is put aside": tell_story("call act brink a", slow=2.0),
    "denied while others run": tell_story(
        "call act tooLate a", "pause 99.5", "!call look there, look here", "and?"
    ),
    "for good": tell_story("call act always a", "call act always a"),
    "after a restart": tell_story("call act next a", RESTART, "and?"),
    "stopped while it asks": tell_story("call act never a", "pause 10", "/stop", "hello"),
    "stopped while it waits": tell_story("call act never a", "pause 70", "/stop", "hello"),
    "stopped while it runs": tell_story(
        "call act soon a", "pause 5.5", "!and", "/btw why", "/stop", "hello"
    ),
    "a new conversation while it waits": tell_story(
        "call act never a", "pause 70", "/new", "hello"
    ),
    "a new conversation while it asks": tell_story("call act never a", "pause 10", "/new", "hello"),
    "for a conversation": tell_story(
        "call act here a", "call act here a", "pause 10", "/new", "call act here a"
    ),
    "strangers' words": tell_story(
        "call browse site.example", "call act trust a", "call act soon b"
    ),
    "left open": tell_story("call act never a", "hello"),
    "back and forth": tell_story(
        "one", "call act x", "two", "/undo", "/retry", "/resume", "last", asks=False
    ),
    "many together": tell_story("call act soon a, act soon b, act soon c"),
    "within a call": tell_story(
        "call chain soon a", "call chain no b", "pause 10", "and?", nests=True
    ),
    "within a call, too late": tell_story("call chain late a", "pause 100", "and?", nests=True),
    "stopped within a call": tell_story(
        "call chain soon a", "pause 6.5", "/stop", "hello", nests=True
    ),
    "recordings": Story(
        happen=send_recordings,
        think=follow_newest,
        settings=NO_TASKS | {"backup": BackupSettings(every=0)},
        prepare=add_transcription,
    ),
}
STORIES = OF_TALK | OF_TASKS
