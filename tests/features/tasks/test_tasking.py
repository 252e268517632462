"""/tasks: the owner's view of tasks, and changes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import trio

from elwood.agent.channels.messages import Button
from elwood.agent.conversation.settings import OwnerClock
from elwood.agent.session.extension import SlashCommand
from elwood.features.tasks.messages import Adopt, ListTasks, PlanTask, TimetableMail
from elwood.features.tasks.parts import tasks_command
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.foundation.runtime import Address
from tests.agent.session.scene import Process, World, run_process
from tests.features.tasks.timetables import keeping


@asynccontextmanager
async def planning(folder: Path) -> AsyncIterator[tuple[Process, Address[TimetableMail]]]:
    world = World(folder)
    async with keeping(folder / "timetable", world.now) as address:
        world.commands = lambda h: [
            SlashCommand(
                name="tasks",
                help="",
                run=partial(
                    tasks_command,
                    address,
                    OwnerClock(world.now, ZoneInfo("UTC")),
                    world.admission,
                    newest_runs,
                ),
            )
        ]
        async with run_process(world) as h:
            yield h, address


async def newest_runs(id_: str) -> str:
    await trio.lowlevel.checkpoint()
    return f"{id_} ran" if id_ == "mail" else ""


async def said(h: Process, text: str) -> tuple[str, tuple[Button, ...]]:
    """Type *text*; return the answer and its buttons."""
    await h.say(text)
    await h.quiet()
    post = h.world.posts[-1]
    return post.part.text, post.buttons


async def test_the_owner_sees_and_changes_tasks(tmp_path: Path, autojump_clock: object) -> None:
    async with planning(tmp_path) as (h, timetable):
        text, buttons = await said(h, "/tasks")
        assert "There are no tasks" in text
        assert buttons == ()

        mail = Task("mail", "Look for mail", Every(3600.0), prompt="Look.")
        sweep = Task("sweep", "Sweep", Every(3600.0), chore="sweep", origin="house")
        await timetable.ask(PlanTask(task=mail))
        await timetable.ask(Adopt(origin="house", tasks=(sweep,)))
        text, buttons = await said(h, "/tasks")
        assert [line.strip() for line in text.splitlines()][:4] == [
            "mail: Look for mail",
            "every hour",
            "next today, Thu 1970-01-01 01:00 UTC",
            "does: Look.",
        ]
        assert "sweep" not in text
        assert buttons == (Button("/tasks pause mail", "c:0"),)
        assert "sweep" in (await said(h, "/tasks all"))[0]

        # A press types the command of its button.
        text, buttons = await said(h, buttons[0].text)
        assert text == "mail: Paused."
        assert [button.text for button in buttons] == ["/tasks resume mail", "/tasks"]
        text, buttons = await said(h, buttons[0].text)
        assert [button.text for button in buttons] == ["/tasks pause mail", "/tasks"]
        text, _ = await said(h, "/tasks stop mail")
        assert text == "mail: It is not running."
        assert (await said(h, "/tasks run mail"))[0] == "mail: It starts now."
        text, buttons = await said(h, "/tasks cancel mail")
        assert (text, [button.text for button in buttons]) == ("mail: Cancelled.", ["/tasks"])
        assert await timetable.ask(ListTasks()) == ()
        assert h.world.asked == [], "no model request"


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/tasks pause tea", "tea: There is no task 'tea'. /tasks lists all tasks."),
        ("/tasks stop", "I do not understand that."),
        ("/tasks dance", "I do not understand that."),
        ("/tasks pause", "I do not understand that."),
    ],
)
async def test_an_impossible_request_is_explained(
    tmp_path: Path, autojump_clock: object, typed: str, answer: str
) -> None:
    async with planning(tmp_path) as (h, timetable):
        await timetable.ask(PlanTask(task=Task("mail", "Mail", Every(3600.0), prompt="p")))
        assert (await said(h, typed))[0].startswith(answer)
