"""The actor kernel: knows Trio and nothing of assistants."""
# Each name once, as itself: mypy takes it for one of this package.
# ruff: noqa: I001

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

from elwood.foundation.runtime.actor_table import (
    ActorStatus as ActorStatus,
    ActorTable as ActorTable,
    Stuck as Stuck,
    clear_error as clear_error,
    report_error as report_error,
    report_warning as report_warning,
    waiting as waiting,
)
from elwood.foundation.runtime.mailbox import (
    ActorCrashed as ActorCrashed,
    ActorDown as ActorDown,
    ActorUnavailable as ActorUnavailable,
    Address as Address,
    Mailbox as Mailbox,
    Reply as Reply,
    Request as Request,
    Signal as Signal,
)
from elwood.foundation.runtime.supervisor import (
    Child as Child,
    Crashed as Crashed,
    Ended as Ended,
    Escalated as Escalated,
    Event as Event,
    Halt as Halt,
    Listener as Listener,
    PoolPolicy as PoolPolicy,
    RestartPolicy as RestartPolicy,
    Started as Started,
    describe as describe,
    run_pool as run_pool,
    supervise as supervise,
)

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
