"""What is seen of the running app from outside: its actors, its sessions, what is stuck.

Times are ages in seconds, since the clock of the app means nothing outside of it.
"""

from collections.abc import Callable
from math import isinf
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    # `elwood status` reads the records, and starts without Trio.
    from elwood.foundation.runtime import ActorStatus, ActorTable

# Characters of one text that is seen from outside; errors can be long.
MAX_TEXT = 300
# Stuck things listed; more say nothing new.
MAX_STUCK = 100


class WaitSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something an actor waits for, and after how many seconds that is too long (None: never)."""

    what: str
    age: float
    limit: float | None = None


class TroubleSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """*count* tries at *what* failed in a row since *age* seconds, the last with *error*."""

    what: str
    error: str
    age: float
    count: int


class DoneSeen(msgspec.Struct, frozen=True):
    """How something that is done again and again went last, *age* seconds ago."""

    what: str
    outcome: str
    age: float


class ActorSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """One actor: in *state* for *age* seconds, with *depth* messages in a queue of *capacity*."""

    name: str
    state: str
    age: float
    depth: int = 0
    capacity: int = 0
    restarts: int = 0
    last_crash: str | None = None
    last_crash_age: float | None = None
    waits: tuple[WaitSeen, ...] = ()
    troubles: tuple[TroubleSeen, ...] = ()
    done: tuple[DoneSeen, ...] = ()


class SessionSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a session owes.

    *turn_age* is how long its turn is open (None: no turn), *waiting* the messages that no turn
    has taken up, *undelivered* the replies that have not arrived.
    """

    session: str
    turn_age: float | None = None
    waiting: int = 0
    undelivered: int = 0


class ProcessSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Elwood says of itself; *started* is Unix seconds."""

    version: str
    started: float
    pid: int = 0
    python: str = ""
    sessions: tuple[SessionSeen, ...] = ()


class StuckSeen(msgspec.Struct, frozen=True):
    actor: str
    what: str


class Vitals(msgspec.Struct):
    """What is measured now and then: *sizes* in bytes, by what it is, and the *budget* of today.

    *sandbox* is the rung that commands run on, *sandbox_warning* what is wrong with it.
    *last_error* is the last error in the log, at a Unix time.
    """

    sandbox: str = ""
    sandbox_warning: str = ""
    sizes: dict[str, int] = {}
    budget: dict[str, float | None] = {}
    last_error: str = ""
    last_error_at: float = 0.0


class Inspection(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything at one moment; *left_out* actors and sessions did not fit."""

    process: ProcessSeen
    actors: tuple[ActorSeen, ...]
    stuck: tuple[StuckSeen, ...] = ()
    left_out: int = 0
    vitals: Vitals = msgspec.field(default_factory=Vitals)


def look(
    actor_table: "ActorTable", process: ProcessSeen, redact: Callable[[str], str]
) -> Inspection:
    """Read the actor table off, with ages instead of times."""
    now = actor_table.now()

    def text(raw: str) -> str:
        return redact(raw.encode("utf-8", "replace").decode())[:MAX_TEXT]

    def seen(status: "ActorStatus") -> ActorSeen:
        return ActorSeen(
            name=text(status.name),
            state=status.state,
            age=now - status.since,
            depth=status.depth(),
            capacity=status.capacity,
            restarts=status.restarts,
            last_crash=None if status.last_crash is None else text(status.last_crash),
            last_crash_age=None if status.last_crash is None else now - status.last_crash_at,
            waits=tuple(
                WaitSeen(text(w.what), now - w.since, None if isinf(w.limit) else w.limit)
                for w in status.waits.values()
            ),
            troubles=tuple(
                TroubleSeen(text(t.what), text(t.error), now - t.since, t.count)
                for t in status.troubles.values()
            ),
            done=tuple(
                DoneSeen(text(what), text(outcome), now - at)
                for what, (outcome, at) in status.done.items()
            ),
        )

    return Inspection(
        process=process,
        actors=tuple(seen(status) for status in actor_table.statuses.values()),
        stuck=tuple(
            StuckSeen(text(s.actor), text(s.what)) for s in actor_table.stuck()[:MAX_STUCK]
        ),
    )


def shorten(inspection: Inspection, keep: int) -> Inspection:
    """Keep the first *keep* actors and sessions, and count the rest as left out."""
    sessions, actors = inspection.process.sessions, inspection.actors
    lost = len(sessions[keep:]) + len(actors[keep:])
    return msgspec.structs.replace(
        inspection,
        process=msgspec.structs.replace(inspection.process, sessions=sessions[:keep]),
        actors=actors[:keep],
        left_out=inspection.left_out + lost,
    )
