"""What every actor is doing right now: the ledger behind ``elwood inspect`` and the watchdog.

The supervisor keeps one `ActorStatus` per actor.  Code that waits for the world or for another
actor says so with ``waiting(...)``; code that meets an error it will retry says so with
``report_error(...)``, and code that sees what a person should know says so with
``report_warning(...)``.  Outside of a supervised actor all of them do nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from math import inf
from typing import Literal

import msgspec

State = Literal["starting", "running", "restarting", "stopping", "stopped", "given up"]

# Equal errors in a row, or crashes, that make a trouble worth telling.
REPEATED = 3
# Errors in a row, whatever they say, that make one.
FAILING = 9
# Seconds an actor may leave its queue untouched; loops that take messages never wait for others.
DEAF = 45.0
# Seconds without a crash after which an actor is well again.
CALM = 60.0
# Seconds without news of a trouble after which it is history: no retry is that far apart.
STALE = 900.0


class Wait(msgspec.Struct):
    """Something an actor waits for: since when, and after how many seconds that is too long."""

    what: str
    since: float
    limit: float


class Trouble(msgspec.Struct):
    """Errors that an actor handles by trying again; none of the tries since *since* worked.

    *count* of them came in a row, the last *equal* ones said the same.  Once it is *stuck* it
    stays so until a try works, also if the error changes.  What was never tried, *count* 0, is a
    warning: *error* says all.
    """

    what: str
    error: str
    since: float
    latest: float
    count: int = 1
    equal: int = 1
    stuck: bool = False

    def again(self, error: str, now: float) -> None:
        self.count += 1
        self.equal = self.equal + 1 if error == self.error else 1
        self.error = error
        self.latest = now
        self.stuck = self.stuck or self.equal >= REPEATED or self.count >= FAILING


class ActorStatus(msgspec.Struct, eq=False):
    """What one actor is doing; written by the runtime, by ``waiting`` and ``report_error``.

    *done* says of what it does again and again how it went last, and when.  *step* is that of its
    mailbox.
    """

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
    done: dict[str, tuple[str, float]] = msgspec.field(default_factory=dict)
    step: int | None = None

    def turn_to(self, state: State) -> None:
        self.state = state
        self.since = self.clock()

    def crashed(self, error: str) -> None:
        """Note a crash of the incarnation that still stands as running."""
        self.last_crash, self.last_crash_at = error, self.clock()
        calm = self.last_crash_at - self.since >= CALM
        self.crashes_in_a_row = 1 if calm else self.crashes_in_a_row + 1

    def stuck(self, now: float) -> "Iterator[Stuck]":
        """Name what has gone on for too long here."""
        for number, wait in self.waits.items():
            age = now - wait.since
            if age > wait.limit:
                what = f"{wait.what} has taken {age:.0f} s (limit {wait.limit:.0f} s)"
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
            what = f"has taken none of its {self.depth()} messages for {age:.0f} s"
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
    """One thing that has gone on for too long, in words for the owner.

    *key* stays the same while the thing does, so that it is told once; *subject* stays the same
    when the like of it happens to the actor again, so that it is not told without end.  A warning
    is nobody's: its *actor* is empty.  One that *lasts* holds for the whole life of the process.
    """

    key: str
    actor: str
    what: str
    subject: str
    lasts: bool = False

    @property
    def told(self) -> str:
        """What the owner is told of it: the words of a warning say all by themselves."""
        return f"Stuck: {self.actor}: {self.what}" if self.actor else self.what


class ActorTable:
    """All statuses, by the order in which the actors first started."""

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
        """Give the actor *name* its status; a restarted actor gets a new one.

        *unread_since* says since when messages have waited there with none of them being taken.
        """
        status = ActorStatus(name, capacity, depth, self._clock, unread_since, step=step)
        status.since = self._clock()
        self.statuses[name] = status
        return status

    def now(self) -> float:
        """Return the time by the clock that all statuses use, in seconds."""
        return self._clock()

    def leave(self, name: str) -> None:
        """Forget an actor that is done for good (a session that went idle)."""
        self.statuses.pop(name, None)

    def warn(self, what: str, words: str) -> None:
        """Note that *what* is so until `end_warning`; *words* say it all."""
        self._warnings.append(Stuck(f"/{what}", "", words, what, lasts=True))

    def end_warning(self, what: str) -> None:
        self._warnings = [one for one in self._warnings if one.subject != what]

    def stuck(self) -> list[Stuck]:
        """List what is older than its limit, errors that keep coming, and warnings."""
        now = self.now()
        found = [found for status in self.statuses.values() for found in status.stuck(now)]
        return [*self._warnings, *found]


_current: ContextVar[ActorStatus | None] = ContextVar("elwood_desk", default=None)
_numbers = count(1)


def set_current(status: ActorStatus) -> None:
    """Make *status* the one of the running task and of the tasks it starts."""
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
        "an actor may ask lower steps only, and hint to the others with offer"
    )


@contextmanager
def waiting(what: str, *, limit: float = inf) -> Iterator[None]:
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
        status.waits.pop(number, None)  # a new incarnation has cleared them


def report_error(what: str, error: str, *, times: int = 1) -> None:
    """Note that *what* failed with *error* and will be tried again.

    *times* says how often, where the first failures were too young to be worth a word.
    """
    status = _current.get()
    if status is None:
        return
    known = status.troubles.get(what)
    now = status.clock()
    if known is not None and now - known.latest < STALE:
        known.again(error, now)
    else:
        known = status.troubles[what] = Trouble(what, error, now, now)
        for _ in range(1, times):
            known.again(error, now)


def report_warning(what: str, words: str) -> None:
    """Note that *what* is so, which is nobody's failure but should be known: *words* say it all."""
    status = _current.get()
    if status is not None:
        known, now = status.troubles.get(what), status.clock()
        since = now if known is None else known.since
        status.troubles[what] = Trouble(what, words, since, now, count=0, stuck=True)


def clear_error(what: str) -> None:
    """Note that *what* works (again), or is no longer so."""
    status = _current.get()
    if status is not None:
        status.troubles.pop(what, None)


def report_done(what: str, outcome: str = "ok") -> None:
    """Note that *what* was done now, and that it works (again)."""
    clear_error(what)
    if (status := _current.get()) is not None:
        status.done[what] = outcome, status.clock()
