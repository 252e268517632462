"""What the oracle of `outcomes` knows of a task, as it was planned for a while."""

import math
from collections import defaultdict
from collections.abc import Iterator

import attrs

from elwood.agent.conversation.settings import is_active
from elwood.features.tasks import when as timing
from elwood.features.tasks.state import RunFinished, RunsMissed
from elwood.features.tasks.task import Task


@attrs.define
class Series:
    """The times of a task as it was planned from entry *number* on, until it was another.

    Times in (*since*, *must*] need an outcome; up to *may* they can have one, as the clock had
    once shown more; so can those of *pauses*, and those of *taken*, when an earlier series ran.
    """

    number: int
    task: Task
    since: float
    must: float = math.inf
    may: float = math.inf
    pauses: list[tuple[float, float]] = attrs.field(factory=list)
    attempts: dict[float, list[RunFinished]] = attrs.field(factory=lambda: defaultdict(list))
    passed: list[RunsMissed] = attrs.field(factory=list)
    begun: set[float] = attrs.field(factory=set)
    exempt: float = 0.0
    taken: tuple[float, float] = (0.0, 0.0)

    def times(self, end: float, since: float | None = None) -> Iterator[float]:
        """List the planned times, one by one."""
        at: float | None = self.since if since is None else since
        while True:
            at = timing.next_at(self.task.when, at or 0.0, self.task.zone, self.task.id)
            if at is None or at > end or (self.task.ends is not None and at > self.task.ends):
                return
            yield at

    def is_awake(self, at: float) -> bool:
        """Tell whether something planned for *at* may run then."""
        chosen = isinstance(self.task.when, timing.Once)
        return chosen or is_active(self.task.hours, at, self.task.zone)


def kind(task: Task) -> str:
    """Say what kind of task it is."""
    if task.chore:
        return "chore"
    if task.watch is not None:
        return "watch"
    word = type(task.when).__name__.lower()
    return f"{word}+hours" if task.hours else word
