"""A supervisor whose children are made on demand, one per key."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import msgspec
import trio

from elwood.foundation.runtime.actor_table import ActorTable
from elwood.foundation.runtime.mailbox import Mailbox
from elwood.foundation.runtime.restart import RestartPolicy
from elwood.foundation.runtime.supervisor import Child, Listener, Run

M = TypeVar("M")


SESSION_LIKE = RestartPolicy(mode="transient", max_crashes=3, within=600.0, exhausted="drop")


class PoolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How the children of a pool live: queue of each, restart policy, grace at the stop."""

    capacity: int = 16
    restart: RestartPolicy = SESSION_LIKE
    grace: float = 20.0


async def run_pool(
    mailbox: Mailbox[M],
    *,
    key: Callable[[M], str],
    body: Callable[[str, Mailbox[M]], Awaitable[None]],
    wake: Callable[[], Awaitable[Iterable[str]]],
    refuse: Callable[[M, str], None],
    policy: PoolPolicy,
    listener: Listener,
    actor_table: ActorTable,
) -> None:
    """Route each message to the child of its key, starting the child if it is not there.

    *wake* names the children to start at once.  The pool only receives and offers: a message for
    a child that is full or has given up goes to *refuse* with the reason, which must not wait.
    A child that gave up may be started again once its policy has forgotten the crashes.
    """
    runs: dict[str, Run] = {}
    dropped: dict[str, float] = {}

    async with trio.open_nursery() as nursery:

        def start(name: str) -> Run:
            child_mailbox = Mailbox[M](f"{mailbox.name}/{name}", policy.capacity)

            async def child_body(box: Mailbox[M]) -> None:
                await body(name, box)

            child = Child(child_mailbox, child_body, policy.restart, policy.grace)
            run = runs[name] = Run(child, listener, actor_table)
            nursery.start_soon(keep, name, run)
            return run

        async def keep(name: str, run: Run) -> None:
            await run.keep_running()
            # No checkpoint from here on: nobody can put a message in between.
            del runs[name]
            left: list[M] = run.child.mailbox.take_left()
            if run.gave_up is not None:
                dropped[name] = trio.current_time() + policy.restart.within
                for message in left:
                    refuse(message, "it crashed too often")
                return  # its status stays, so that inspect and the watchdog show it
            actor_table.leave(run.child.mailbox.name)
            for message in left:  # came in while the child was ending
                if mailbox.is_closed:
                    refuse(message, "it is stopping")
                elif run.failed is not None:  # it may have died before it took anything
                    refuse(message, "it crashed")
                else:
                    route(message)

        def route(message: M) -> None:
            name = key(message)
            until = dropped.get(name)
            if until is not None:
                if trio.current_time() < until:
                    refuse(message, "it crashed too often")
                    return
                del dropped[name]
            run = runs.get(name) or start(name)
            if not run.child.mailbox.address.offer(message):
                refuse(message, "too much is waiting there already")

        for name in await wake():
            if name not in runs:
                start(name)
        async for message in mailbox:
            route(message)
        async with trio.open_nursery() as stopping:
            for run in list(runs.values()):
                stopping.start_soon(run.stop)
        nursery.cancel_scope.cancel()
