"""What the house does for itself, as tasks."""

from collections.abc import Iterable

from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Cadence, Every

# The chores, as `agent.chores.Chore`s are named.
BACKUP, SWEEP, MEMORY, REFLECTIONS = "backup", "sweep", "memory", "reflections"
# Also when they are off: nobody else's task is to be in their way when they are on again.
IDS = frozenset({BACKUP, SWEEP, MEMORY, REFLECTIONS})
# Seconds: what was missed in a week of holidays is made up for.
LATE = 8 * 86_400.0
# What a reflection may do: look at notes, and write one.
REFLECTS = ("read_file", "write_file")


def house_tasks(zone: str, *, backup_every: float, off: Iterable[str] = ()) -> tuple[Task, ...]:
    """List them, but those that are *off*; *backup_every* is in seconds, 0 for never.

    >>> [task.id for task in house_tasks("UTC", backup_every=0, off={"reflections"})]
    ['sweep', 'memory']
    """
    tasks = [
        _task(SWEEP, "put quiet conversations away", Cadence("hourly"), zone),
        _task(MEMORY, "tidy the memory up", Cadence("daily"), zone),
        _task(
            REFLECTIONS, "reflect on the week or the month", Cadence("daily"), zone, tools=REFLECTS
        ),
    ]
    if backup_every:
        when = Cadence("daily") if backup_every == 86_400 else Every(backup_every)
        tasks.append(_task(BACKUP, "take a backup", when, zone))
    return tuple(task for task in tasks if task.id not in set(off))


def _task(
    id_: str, title: str, when: Cadence | Every, zone: str, tools: tuple[str, ...] | None = None
) -> Task:
    return Task(
        id_,
        title,
        when,
        zone,
        chore=id_,
        role="cheap",
        tools=tools,
        catch_up=LATE,
        origin="house",
    )
