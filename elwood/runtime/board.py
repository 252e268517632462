"""What every actor is doing right now: the ledger behind ``elwood inspect`` and the watchdog.

The supervisor keeps one *desk* per actor.  Code that waits for the world or for another actor
says so with ``waiting(...)``; code that meets an error it will retry says so with ``trouble(...)``.
Outside of a supervised actor both do nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from math import inf
from typing import Literal

import attrs

State = Literal["starting", "running", "restarting", "stopping", "stopped", "given up"]

# Equal errors in a row that make a trouble worth telling (reliability.md, P6).
REPEATED = 3


@attrs.define
class Wait:
    """Something an actor waits for: since when, and after how many seconds that is too long."""

    what: str
    since: float
    limit: float


@attrs.define
class Trouble:
    """An error that an actor handles by trying again; *count* equal ones came in a row."""

    what: str
    error: str
    since: float
    count: int = 1


@attrs.define(eq=False)
class Desk:
    """The ledger page of one actor; written by the runtime, by ``waiting`` and ``trouble``."""

    name: str
    capacity: int
    depth: Callable[[], int]
    clock: Callable[[], float]
    state: State = "starting"
    since: float = 0.0
    restarts: int = 0
    last_crash: str | None = None
    waits: dict[int, Wait] = attrs.field(factory=dict)
    troubles: dict[str, Trouble] = attrs.field(factory=dict)

    def turn_to(self, state: State) -> None:
        """Enter *state* now."""
        self.state = state
        self.since = self.clock()


@attrs.frozen
class Stuck:
    """One thing that has gone on for too long, in words for the owner.

    *key* stays the same while the thing does, so that it is told once.
    """

    key: str
    actor: str
    what: str


class Board:
    """All desks, by the order in which the actors first started."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.desks: dict[str, Desk] = {}

    def desk(self, name: str, capacity: int, depth: Callable[[], int]) -> Desk:
        """Give the actor *name* its desk; a restarted actor gets a new page."""
        desk = Desk(name, capacity, depth, self._clock)
        desk.since = self._clock()
        self.desks[name] = desk
        return desk

    def leave(self, name: str) -> None:
        """Forget an actor that is done for good (a session that went idle)."""
        self.desks.pop(name, None)

    def stuck(self) -> list[Stuck]:
        """List what is older than its limit, and errors that keep coming."""
        now = self._clock()
        found = []
        for desk in self.desks.values():
            for number, wait in desk.waits.items():
                age = now - wait.since
                if age > wait.limit:
                    what = f"{wait.what} has taken {age:.0f} s (limit {wait.limit:.0f} s)"
                    found.append(Stuck(f"{desk.name}/{number}", desk.name, what))
            for trouble in desk.troubles.values():
                if trouble.count >= REPEATED:
                    what = f"{trouble.what} failed {trouble.count} times: {trouble.error}"
                    key = f"{desk.name}/{trouble.what}/{trouble.since}"
                    found.append(Stuck(key, desk.name, what))
            if desk.state == "given up":
                found.append(
                    Stuck(f"{desk.name}/given up", desk.name, f"gave up: {desk.last_crash}")
                )
        return found


_current: ContextVar[Desk | None] = ContextVar("elwood_desk", default=None)
_numbers = count(1)


def sit_at(desk: Desk) -> None:
    """Make *desk* the one of the running task and of the tasks it starts."""
    _current.set(desk)


@contextmanager
def waiting(what: str, *, limit: float = inf) -> Iterator[None]:
    """Show on the board that the current actor waits for *what*, at most *limit* seconds."""
    desk = _current.get()
    if desk is None:
        yield
        return
    number = next(_numbers)
    desk.waits[number] = Wait(what, desk.clock(), limit)
    try:
        yield
    finally:
        del desk.waits[number]


def trouble(what: str, error: str) -> None:
    """Note that *what* failed with *error* and will be tried again."""
    desk = _current.get()
    if desk is None:
        return
    known = desk.troubles.get(what)
    if known is not None and known.error == error:
        known.count += 1
    else:
        desk.troubles[what] = Trouble(what, error, desk.clock())


def well(what: str) -> None:
    """Note that *what* works (again)."""
    desk = _current.get()
    if desk is not None:
        desk.troubles.pop(what, None)
