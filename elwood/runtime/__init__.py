"""The actor kernel: knows Trio and nothing of assistants."""

from elwood.runtime.blocking import Blocking, in_thread, inline
from elwood.runtime.board import Board, Desk, Stuck, Trouble, Wait, trouble, waiting, warn, well
from elwood.runtime.mailbox import (
    ActorCrashed,
    ActorDown,
    ActorUnavailable,
    Address,
    Mailbox,
    Reply,
    Request,
)
from elwood.runtime.pool import PoolPolicy, run_pool
from elwood.runtime.restart import Again, Finished, GaveUp, RestartPolicy, after_exit
from elwood.runtime.supervisor import (
    Child,
    Crashed,
    Ended,
    Escalated,
    Event,
    Halt,
    Listener,
    Started,
    describe,
    supervise,
)

__all__ = [
    "ActorCrashed",
    "ActorDown",
    "ActorUnavailable",
    "Address",
    "Again",
    "Blocking",
    "Board",
    "Child",
    "Crashed",
    "Desk",
    "Ended",
    "Escalated",
    "Event",
    "Finished",
    "GaveUp",
    "Halt",
    "Listener",
    "Mailbox",
    "PoolPolicy",
    "Reply",
    "Request",
    "RestartPolicy",
    "Started",
    "Stuck",
    "Trouble",
    "Wait",
    "after_exit",
    "describe",
    "in_thread",
    "inline",
    "run_pool",
    "supervise",
    "trouble",
    "waiting",
    "warn",
    "well",
]
