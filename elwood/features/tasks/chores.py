"""What features do by themselves, as tasks."""

from elwood.agent.parts import Chore
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Cadence, Every, When

# Seconds: what was missed in a week of holidays is made up for.
LATE = 8 * 86_400.0


def chore_task(chore: Chore, zone: str) -> Task:
    """Make the task that does *chore*; `task.RESERVED` keeps the names of ours."""
    words: dict[float, When] = {3_600.0: Cadence("hourly"), 86_400.0: Cadence("daily")}
    return Task(
        chore.id,
        chore.title,
        words.get(chore.every) or Every(chore.every),
        zone,
        chore=chore.id,
        role="cheap",
        tools=chore.tools or None,
        catch_up=LATE,
        origin="house",
    )
