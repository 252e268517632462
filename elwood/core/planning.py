"""What is to be done now about the tasks of the timetable."""

import attrs
import msgspec

from elwood.core.tasks import Task


class Planned(msgspec.Struct, frozen=True):
    """The *attempt*-th try at a run of *task* that was planned for Unix time *due*."""

    task: str
    due: float
    attempt: int = 1


@attrs.frozen
class Agenda:
    """What is to be done.

    *runs* are to be begun, or gone on with; *next* is when to ask again, Unix seconds; *tell* are
    lines for the owner, which stand in the timetable up to its entry *upto*.
    """

    runs: tuple[tuple[Task, Planned], ...] = ()
    next: float | None = None
    tell: tuple[str, ...] = ()
    upto: int = 0
