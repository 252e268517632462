"""The actor kernel: based on Trio, independent of assistants."""

from collections.abc import Callable
from typing import Protocol, TypeVar, cast

import trio

from elwood.foundation.runtime.actor_table import ActorStatus as ActorStatus
from elwood.foundation.runtime.actor_table import ActorTable as ActorTable
from elwood.foundation.runtime.actor_table import AskedUpward as AskedUpward
from elwood.foundation.runtime.actor_table import Stuck as Stuck
from elwood.foundation.runtime.actor_table import clear_error as clear_error
from elwood.foundation.runtime.actor_table import report_done as report_done
from elwood.foundation.runtime.actor_table import report_error as report_error
from elwood.foundation.runtime.actor_table import report_warning as report_warning
from elwood.foundation.runtime.actor_table import show_wait as show_wait
from elwood.foundation.runtime.mailbox import ActorCrashed as ActorCrashed
from elwood.foundation.runtime.mailbox import ActorDown as ActorDown
from elwood.foundation.runtime.mailbox import ActorUnavailable as ActorUnavailable
from elwood.foundation.runtime.mailbox import Address as Address
from elwood.foundation.runtime.mailbox import Lock as Lock
from elwood.foundation.runtime.mailbox import Mailbox as Mailbox
from elwood.foundation.runtime.mailbox import Reply as Reply
from elwood.foundation.runtime.mailbox import Request as Request
from elwood.foundation.runtime.mailbox import Signal as Signal
from elwood.foundation.runtime.supervisor import Child as Child
from elwood.foundation.runtime.supervisor import Crashed as Crashed
from elwood.foundation.runtime.supervisor import Ended as Ended
from elwood.foundation.runtime.supervisor import Escalated as Escalated
from elwood.foundation.runtime.supervisor import Event as Event
from elwood.foundation.runtime.supervisor import Halt as Halt
from elwood.foundation.runtime.supervisor import Listener as Listener
from elwood.foundation.runtime.supervisor import PoolPolicy as PoolPolicy
from elwood.foundation.runtime.supervisor import RestartPolicy as RestartPolicy
from elwood.foundation.runtime.supervisor import Started as Started
from elwood.foundation.runtime.supervisor import describe as describe
from elwood.foundation.runtime.supervisor import run_pool as run_pool
from elwood.foundation.runtime.supervisor import supervise as supervise

T = TypeVar("T")


class Blocking(Protocol):
    """Runs a blocking function (files, DNS, SQLite): not at all (Cancelled), or to its end."""

    async def __call__(self, fn: Callable[[], T], /) -> T:
        """Return what *fn* returns."""


class _Limiter:
    """Trio's thread limiter, without a checkpoint while there is room."""

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        limiter = trio.to_thread.current_default_thread_limiter()
        try:
            limiter.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            await limiter.acquire_on_behalf_of(borrower)

    def release_on_behalf_of(self, borrower: object) -> None:
        trio.to_thread.current_default_thread_limiter().release_on_behalf_of(borrower)


_limiter = cast("trio.CapacityLimiter", _Limiter())  # Trio calls only these two methods


async def in_thread(fn: Callable[[], T], /) -> T:
    """Run *fn* in one of Trio's worker threads.

    Cancelled before *fn* starts, it never runs; after that it runs to its end and returns.
    """
    return await trio.to_thread.run_sync(fn, limiter=_limiter)


async def inline(fn: Callable[[], T], /) -> T:
    """Run *fn* here: for tests, as Trio's mock clock jumps while threads run (trio#456)."""
    await trio.lowlevel.checkpoint()
    return fn()
