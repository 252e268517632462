"""The actor kernel: knows Trio and nothing of assistants."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

from elwood.foundation.runtime.actor_table import (
    ActorStatus,
    ActorTable,
    Stuck,
    clear_error,
    report_done,
    report_error,
    report_warning,
    waiting,
)
from elwood.foundation.runtime.mailbox import (
    ActorCrashed,
    ActorDown,
    ActorUnavailable,
    Address,
    Mailbox,
    Reply,
    Request,
    Signal,
)
from elwood.foundation.runtime.supervisor import (
    Child,
    Crashed,
    Ended,
    Escalated,
    Event,
    Halt,
    Listener,
    PoolPolicy,
    RestartPolicy,
    Started,
    describe,
    run_pool,
    supervise,
)

__all__ = [
    "ActorCrashed",
    "ActorDown",
    "ActorStatus",
    "ActorTable",
    "ActorUnavailable",
    "Address",
    "Blocking",
    "Child",
    "Crashed",
    "Ended",
    "Escalated",
    "Event",
    "Halt",
    "Listener",
    "Mailbox",
    "PoolPolicy",
    "Reply",
    "Request",
    "RestartPolicy",
    "Signal",
    "Started",
    "Stuck",
    "clear_error",
    "describe",
    "in_thread",
    "inline",
    "report_done",
    "report_error",
    "report_warning",
    "run_pool",
    "supervise",
    "waiting",
]

T = TypeVar("T")


class Blocking(Protocol):
    """Runs a blocking function (files, DNS, SQLite): not at all (Cancelled), or to its end."""

    async def __call__(self, fn: Callable[[], T], /) -> T:
        """Return what *fn* returns."""


async def in_thread(fn: Callable[[], T], /) -> T:
    """Run *fn* in one of Trio's worker threads.

    Cancelled before *fn* starts, it never runs; after that it runs to its end and returns.
    """
    return await trio.to_thread.run_sync(fn)


async def inline(fn: Callable[[], T], /) -> T:
    """Run *fn* here: for tests, as Trio's mock clock jumps while threads run (trio#456)."""
    await trio.lowlevel.checkpoint()
    return fn()
