"""The running app as seen from outside: its actors, its sessions, and stuck work.

Times are ages in seconds, because the app's clock has no meaning outside.
"""

from collections.abc import Callable
from math import isinf
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    # `elwood status` reads the records, and starts without Trio.
    from elwood.foundation.runtime import ActorStatus, ActorTable

# Maximum characters of one text; errors can be long.
MAX_TEXT = 300
# Maximum stuck items; more give no new information.
MAX_STUCK = 100


class WaitSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wait of an actor, and its limit in seconds (None: no limit)."""

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
    """The last outcome of a repeated activity, *age* seconds ago."""

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
    """The open work of a session."""

    session: str
    turn_age: float | None = None  # age of its open turn; None: no turn
    waiting: int = 0  # messages that are in no turn yet
    undelivered: int = 0  # replies that have not arrived


class ProcessSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """Elwood's process; *started* is Unix seconds."""

    version: str
    started: float
    pid: int = 0
    python: str = ""
    sessions: tuple[SessionSeen, ...] = ()
    memory: int = 0  # bytes; 0: unknown


class StuckSeen(msgspec.Struct, frozen=True):
    actor: str
    what: str


class Vitals(msgspec.Struct):
    """Periodic measurements."""

    sandbox: str = ""  # sandbox backend for commands
    sandbox_warning: str = ""  # a fault of the sandbox
    sizes: dict[str, int] = {}  # bytes, by name
    budget: dict[str, float | None] = {}  # of today
    last_error: str = ""  # last error in the log
    last_error_at: float = 0.0  # Unix time


class Inspection(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole state at one moment; *left_out* actors and sessions did not fit."""

    process: ProcessSeen
    actors: tuple[ActorSeen, ...]
    stuck: tuple[StuckSeen, ...] = ()
    left_out: int = 0
    vitals: Vitals = msgspec.field(default_factory=Vitals)


def inspect_actors(
    actor_table: "ActorTable", process: ProcessSeen, redact: Callable[[str], str]
) -> Inspection:
    """Read the actor table, with ages instead of times."""
    now = actor_table.get_time()

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
