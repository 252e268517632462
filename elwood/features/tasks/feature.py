"""Tasks: the timetable, the scheduler, their tools and commands."""

from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.foundation.command_line import CliCommand, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser


def _arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("--all", action="store_true", help="also list Elwood's own jobs")
    json_switch(parser)


COMMAND = CliCommand(
    "tasks",
    "List the tasks with their next run and last result.",
    import_lazily("elwood.features.tasks.cli", "list_tasks"),
    _arguments,
)

FEATURE = Feature(
    name="tasks",
    build=import_lazily("elwood.features.tasks.parts", "build"),
    settings=(
        "elwood.features.tasks.settings:HeartbeatSettings",
        "elwood.features.tasks.settings:ConfiguredTasks",
    ),
    own=("elwood.features.tasks.settings:OwnTasks", "elwood.features.tasks.heartbeat:OwnHeartbeat"),
    chores=("sweep",),
    cli=(COMMAND,),
    checks=(import_lazily("elwood.features.tasks.parts", "check"),),
    set_up=import_lazily("elwood.features.tasks.parts", "set_up"),
    tools={
        "schedule": "tasks.task.create",
        "list_tasks": "tasks.task.list",
        "pause_task": "tasks.task.pause",
        "resume_task": "tasks.task.resume",
        "cancel_task": "tasks.task.cancel",
    },
)
