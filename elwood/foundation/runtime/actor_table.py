"""The present activity of every actor: the data of ``elwood inspect`` and the watchdog.

The supervisor has one `ActorStatus` per actor. Code that waits for the outside world or for another
actor uses ``show_wait(...)``; code that retries after an error calls ``report_error(...)``; code
that finds something a person should know calls ``report_warning(...)``. Outside a supervised actor
they do nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from math import inf
from typing import Literal

import msgspec

State = Literal["starting", "running", "restarting", "stopping", "stopped", "given up"]

# Equal errors in a row, or crashes, before a trouble is reported.
REPEATED = 3
# Errors in a row, with any texts, before a trouble is reported.
FAILING = 9
# Seconds an actor may leave its queue untouched; receive loops never wait for other actors.
DEAF = 45.0
# Seconds without a crash after which an actor is healthy again.
CALM = 60.0
# Seconds without an update after which a trouble is outdated: retries are more frequent.
STALE = 900.0


class Wait(msgspec.Struct):
    """Something an actor waits for: since when, and its limit in seconds."""

    what: str
    since: float
    limit: float


class Trouble(msgspec.Struct):
    """Errors that an actor handles with retries; no try since *since* succeeded."""

    what: str
    error: str
    since: float
    latest: float
    count: int = 1  # errors in a row; 0 for a warning, whose whole text is *error*
    equal: int = 1  # errors in a row with the present text
    stuck: bool = False  # stays set until a try succeeds, even if the error changes

    def repeat(self, error: str, now: float) -> None:
        self.count += 1
        self.equal = self.equal + 1 if error == self.error else 1
        self.error = error
        self.latest = now
        self.stuck = self.stuck or self.equal >= REPEATED or self.count >= FAILING


class ActorStatus(msgspec.Struct, eq=False):
    """The present activity of one actor; written by the runtime, `show_wait` and `report_error`."""

    name: str
    capacity: int
    depth: Callable[[], int]
    clock: Callable[[], float]
    unread_since: Callable[[], float | None] = lambda: None
    state: State = "starting"
    since: float = 0.0
    restarts: int = 0
    last_crash: str | None = None
    last_crash_at: float = 0.0
    crashes_in_a_row: int = 0
    waits: dict[int, Wait] = msgspec.field(default_factory=dict)
    troubles: dict[str, Trouble] = msgspec.field(default_factory=dict)
    # last outcome and time of repeated activities
    done: dict[str, tuple[str, float]] = msgspec.field(default_factory=dict)
    step: int | None = None  # of its mailbox

    def turn_to(self, state: State) -> None:
        self.state = state
        self.since = self.clock()

    def note_crash(self, error: str) -> None:
        """Record a crash of the incarnation that is still marked as running."""
        self.last_crash, self.last_crash_at = error, self.clock()
        calm = self.last_crash_at - self.since >= CALM
        self.crashes_in_a_row = 1 if calm else self.crashes_in_a_row + 1

    def stuck(self, now: float) -> "Iterator[Stuck]":
        """Yield the activities that exceed their limits."""
        for number, wait in self.waits.items():
            age = now - wait.since
            if age > wait.limit:
                what = f"waits for {wait.what}, {age:.0f} s (limit {wait.limit:.0f} s)"
                yield Stuck(f"{self.name}/{number}", self.name, what, wait.what)
        for trouble in self.troubles.values():
            if trouble.stuck and now - trouble.latest < STALE:
                key = f"{self.name}/{trouble.what}/{trouble.since}"
                if not trouble.count:
                    yield Stuck(key, "", trouble.error, trouble.what)
                    continue
                what = f"{trouble.what} failed {trouble.count} times: {trouble.error}"
                yield Stuck(key, self.name, what, trouble.what)
        unread_since = self.unread_since()
        if unread_since is not None and (age := now - unread_since) > DEAF:
            what = f"has read none of its {self.depth()} messages for {age:.0f} s"
            yield Stuck(f"{self.name}/deaf/{unread_since}", self.name, what, "unread messages")
        if self.state == "given up":
            what = f"gave up: {self.last_crash}"
            yield Stuck(f"{self.name}/given up", self.name, what, "given up")
        elif self.crashes_in_a_row >= REPEATED and not self._is_calm(now):
            what = f"crashed {self.crashes_in_a_row} times in a row, last: {self.last_crash}"
            yield Stuck(f"{self.name}/crashing", self.name, what, "crashes")

    def _is_calm(self, now: float) -> bool:
        gone = self.state in ("stopping", "stopped")
        return gone or (self.state == "running" and now - self.since >= CALM)


class Stuck(msgspec.Struct, frozen=True):
    """One problem, such as an exceeded limit, in words for the owner."""

    key: str  # constant as long as the problem lasts, so that it is reported once
    actor: str  # empty for a warning, which belongs to no actor
    what: str
    subject: str  # constant for similar problems of the actor, to limit repeated reports
    lasts: bool = False  # whether it holds for the whole life of the process

    @property
    def told(self) -> str:
        """The text for the owner. A warning needs no further text."""
        return f"Problem in {self.actor}: {self.what}" if self.actor else self.what


class ActorTable:
    """All statuses, in the order in which the actors first started."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._warnings: list[Stuck] = []
        self.statuses: dict[str, ActorStatus] = {}

    def add(
        self,
        name: str,
        capacity: int,
        depth: Callable[[], int],
        unread_since: Callable[[], float | None] = lambda: None,
        step: int | None = None,
    ) -> ActorStatus:
        """Create the status of the actor *name*; a restarted actor gets a new one.

        *unread_since* returns since when messages have waited without any being received.
        """
        status = ActorStatus(name, capacity, depth, self._clock, unread_since, step=step)
        status.since = self._clock()
        self.statuses[name] = status
        return status

    def get_time(self) -> float:
        """Return the time of the clock that all statuses use, in seconds."""
        return self._clock()

    def leave(self, name: str) -> None:
        """Remove an actor that has ended for good (an idle session)."""
        self.statuses.pop(name, None)

    def warn(self, what: str, words: str) -> None:
        """Report the condition *what* with the text *words* until `end_warning`."""
        self._warnings.append(Stuck(f"/{what}", "", words, what, lasts=True))

    def end_warning(self, what: str) -> None:
        self._warnings = [one for one in self._warnings if one.subject != what]

    def stuck(self) -> list[Stuck]:
        """Return exceeded limits, repeated errors, and warnings."""
        now = self.get_time()
        found = [found for status in self.statuses.values() for found in status.stuck(now)]
        return [*self._warnings, *found]


_current: ContextVar[ActorStatus | None] = ContextVar("elwood_desk", default=None)
_numbers = count(1)


def set_current(status: ActorStatus) -> None:
    """Set the status of the running task and of the tasks it starts."""
    _current.set(status)


class AskedUpward(RuntimeError):
    """An actor waited for one that is not on a lower step: two could wait for each other."""


def check_is_lower(name: str, step: int | None) -> None:
    """Raise AskedUpward unless the actor *name* is on a lower step than the current actor."""
    status = _current.get()
    if status is None or status.step is None or step is None or step < status.step:
        return
    raise AskedUpward(
        f"{status.name} (step {status.step}) asks {name} (step {step}): "
        "an actor may ask only lower steps; use offer for the others"
    )


@contextmanager
def show_wait(what: str, *, limit: float = inf) -> Iterator[None]:
    """Show on the actor table that the current actor waits for *what*, at most *limit* seconds."""
    status = _current.get()
    if status is None:
        yield
        return
    number = next(_numbers)
    status.waits[number] = Wait(what, status.clock(), limit)
    try:
        yield
    finally:
        status.waits.pop(number, None)  # a new incarnation may have cleared them


def report_error(what: str, error: str, *, times: int = 1) -> None:
    """Record that *what* failed with *error* and will be retried.

    *times* counts the failures, if the first ones were too early to report.
    """
    status = _current.get()
    if status is None:
        return
    known = status.troubles.get(what)
    now = status.clock()
    if known is not None and now - known.latest < STALE:
        known.repeat(error, now)
    else:
        known = status.troubles[what] = Trouble(what, error, now, now)
        for _ in range(1, times):
            known.repeat(error, now)


def report_warning(what: str, words: str) -> None:
    """Record the condition *what* with its complete text *words*; it is not a failure."""
    status = _current.get()
    if status is not None:
        known, now = status.troubles.get(what), status.clock()
        since = now if known is None else known.since
        status.troubles[what] = Trouble(what, words, since, now, count=0, stuck=True)


def clear_error(what: str) -> None:
    """Record that *what* works (again), or has ended."""
    status = _current.get()
    if status is not None:
        status.troubles.pop(what, None)


def report_done(what: str, outcome: str = "ok") -> None:
    """Record that *what* was just done, and works (again)."""
    clear_error(what)
    if (status := _current.get()) is not None:
        status.done[what] = outcome, status.clock()
