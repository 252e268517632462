"""What stands in schedule.jsonl: which tasks there are, and what came of their planned times."""

from typing import Literal

import msgspec

from elwood.features.tasks.task import Result, Task

# Why planned times pass while a task is at work.
LONG = "the run before took so long"


class Planned(msgspec.Struct, frozen=True, omit_defaults=True):
    """The *attempt*-th try at a run of *task* that was planned for Unix time *due*.

    The attempt 0 is one that somebody asked for at *due*; it is not tried again.  *series* is the
    entry from which the task is planned: it tells this task from an earlier one of the same name.
    """

    task: str
    due: float
    attempt: int = 1
    series: int = 0

    @property
    def is_wanted(self) -> bool:
        """Whether somebody asked for it, so that it is none of the task's own times."""
        return self.attempt == 0


class Made(msgspec.Struct, frozen=True, tag="made"):
    """*task* is to be done; its times count from *since* on.

    Without *since* only other things about it have changed, and its times go on.
    """

    task: Task
    since: float | None = None


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The task is no more: *why*; if *cancelled*, nor is what waits for a yes.  A run may end."""

    task: str
    why: str
    cancelled: bool = False


class Halted(msgspec.Struct, frozen=True, tag="halted"):
    """The task was paused, *why* in words; *tell* is what the owner is told of it."""

    task: str
    why: str
    tell: str = ""


class Resumed(msgspec.Struct, frozen=True, tag="resumed"):
    """The task goes on; its times count from *since* on."""

    task: str
    since: float


class Wanted(msgspec.Struct, frozen=True, tag="wanted"):
    """Somebody wants a run now; *due* names it like a planned time."""

    task: str
    due: float


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """A run begins; *seen* is the fingerprint of what the task watches."""

    run: Planned
    seen: str = ""


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """What came of a run, in *words*; with *again* it is tried once more at that Unix time.

    It may never have begun (`unchanged`).  *tell* is what the owner is told of it.
    """

    run: Planned
    result: Result
    words: str = ""
    again: float | None = None
    tell: str = ""


class Passed(msgspec.Struct, frozen=True, tag="passed"):
    """Nothing ran at *count* planned times in a row, from *first* to *last*, *why* in words.

    If *later* the owner is told with others (`Summed`).
    """

    task: str
    first: float
    last: float
    count: int
    result: Literal["missed", "asleep"]
    why: str = ""
    tell: str = ""
    later: bool = False


class Summed(msgspec.Struct, frozen=True, tag="summed"):
    """The owner is told, by *tell*, of all that was to be told of the task *later*."""

    task: str
    tell: str


class Shown(msgspec.Struct, frozen=True, tag="shown"):
    """All news up to the entry *upto* are about to be told; what is told again is a repeat."""

    upto: int


class Told(msgspec.Struct, frozen=True, tag="told"):
    """All news up to the entry *upto* have been told."""

    upto: int


class ClockSet(msgspec.Struct, frozen=True, tag="clock"):
    """The clock was found at Unix time *to*, far from where it was before.

    What was passed over after *to* is planned again; what has run is not.
    """

    to: float
    tell: str = ""


TimetableEntry = (
    Made
    | Left
    | Halted
    | Resumed
    | Wanted
    | Begun
    | Ended
    | Passed
    | Summed
    | ClockSet
    | Shown
    | Told
)
