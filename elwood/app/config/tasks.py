"""Knows how the tables of tasks become tasks."""

from collections.abc import Sequence

from elwood.agent.models.routing import split_name
from elwood.app.config.settings import Config
from elwood.app.config.source import Complain
from elwood.features.tasks import heartbeat
from elwood.features.tasks.task import Task
from elwood.features.tasks.task_toml import TaskForm, read_task

# More are no longer written by people.
MAX_TASKS = 200


def read_tasks(forms: Sequence[object], zone: str, complain: Complain) -> tuple[Task, ...]:
    """Make the tasks of the *forms* that were sound, and complain of what does not go together.

    *zone* is the owner's.
    """
    if len(forms) > MAX_TASKS:
        complain(("tasks",), f"more than {MAX_TASKS} tasks", "take some away")
    tasks: dict[str, Task] = {}
    for place, form in enumerate(forms[:MAX_TASKS]):
        if not isinstance(form, TaskForm):
            continue  # complained about already
        task = read_task(form, zone, "config")
        if isinstance(task, list):
            for key, what, remedy in task:
                complain(("tasks", place, key), what, remedy)
        elif task.id in tasks:
            complain(("tasks", place, "id"), f"there is another {task.id}", "write another id")
        else:
            tasks[task.id] = task
    return tuple(tasks.values())


def read_checklist(config: Config, text: str) -> heartbeat.Checklist:
    """Make the tasks of the *text* of HEARTBEAT.md, as *config* has it."""
    owner = config.owner
    # Others have no client.
    providers = {split_name(model)[0] for model in config.models_in_use}
    return heartbeat.read(text, config.heartbeat, owner.timezone, owner.hours, providers)
