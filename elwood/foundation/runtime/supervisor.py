"""Runs children, restarts them by their policy, and stops them in reverse order.

Two facts of Trio matter here: a body that fails while it is being cancelled surfaces as an
ExceptionGroup out of the child's *own* scope, so exceptions are caught around that scope and not
only inside it; and ``except Exception`` around a body is safe, since a group that contains
``Cancelled`` is a BaseExceptionGroup.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
import trio

from elwood.foundation.runtime.actor_table import ActorStatus, ActorTable, set_current
from elwood.foundation.runtime.mailbox import Mailbox

M = TypeVar("M")


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When to restart a child, and after which delay, in the terms of supervisor(3erl).

    *mode* permanent: always restart; too many crashes stop Elwood. Transient: restart after a
    crash, but not after a normal end; too many crashes leave the child stopped. The delay doubles
    from *first_delay* to *max_delay* (seconds). More than *max_crashes* within *within* seconds are
    too many; None: no limit. After *within* seconds, old crashes no longer count, which also resets
    the delay.
    """

    mode: Literal["permanent", "transient"] = "permanent"
    first_delay: float = 0.5
    max_delay: float = 60.0
    max_crashes: int | None = 5
    within: float = 300.0

    def delay(self, crashes: int) -> float | None:
        """Return the delay after so many crashes *within* the time; None if they are too many.

        >>> [RestartPolicy(max_crashes=2000).delay(count) for count in (1, 2, 3, 8, 2000, 2001)]
        [0.5, 1.0, 2.0, 60.0, 60.0, None]
        """
        if self.max_crashes is not None and crashes > self.max_crashes:
            return None
        # 2.0**64 is far beyond any max_delay; the bound keeps the power finite.
        return min(self.max_delay, self.first_delay * 2.0 ** min(crashes - 1, 64))


class Halt(Exception):
    """Continuing would be unsafe (a disk that fails fsync): stop Elwood, whatever the policy."""


class Escalated(Exception):
    """Elwood was stopped because of the child *name*; the process should exit with 1."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


class Child(msgspec.Struct, frozen=True):
    """One actor: its mailbox (which has its name), its body, and its restart policy.

    *grace* is its time in seconds to finish when stopped, before it is cancelled.
    """

    mailbox: Mailbox[Any]
    body: Callable[[Mailbox[Any]], Awaitable[None]]
    policy: RestartPolicy = msgspec.field(default_factory=RestartPolicy)
    grace: float = 5.0


class Started(msgspec.Struct, frozen=True):
    """A child runs."""

    name: str
    restart: int


class Crashed(msgspec.Struct, frozen=True):
    """A child crashed with *error*; it restarts after *delay* seconds, or never if None."""

    name: str
    error: Exception
    delay: float | None


class Ended(msgspec.Struct, frozen=True):
    """A child has ended for good."""

    name: str


Event = Started | Crashed | Ended
Listener = Callable[[Event], None]


class Run:
    """One child with all its incarnations."""

    def __init__(self, child: Child, listener: Listener, actor_table: ActorTable) -> None:
        self.child = child
        self.gone = trio.Event()
        self.gave_up: Exception | None = None
        self._listener = listener
        self._stopping = trio.Event()
        self._scope: trio.CancelScope | None = None
        mailbox = child.mailbox
        self.status: ActorStatus = actor_table.add(
            mailbox.name,
            mailbox.capacity,
            lambda: mailbox.depth,
            lambda: mailbox.unread_since,
            mailbox.step,
        )

    async def keep_running(self) -> None:
        """Run the child until it has finished, given up, or been stopped.

        Raises Halt, and Escalated if the policy says so. The mailbox keeps its messages: the caller
        decides about those that were not received.
        """
        try:
            await self._incarnations()
        finally:
            self.gone.set()

    async def _incarnations(self) -> None:
        child, name, status = self.child, self.child.mailbox.name, self.status
        set_current(status)
        crashes: list[float] = []
        while not self._stopping.is_set():
            self._listener(Started(name, status.restarts))
            error = await self._one_incarnation()
            if error is not None:
                status.note_crash(describe(error))
                if halts(error):
                    status.turn_to("given up")
                    self._listener(Crashed(name, error, None))
                    raise Halt(f"{name}: {status.last_crash}") from error
            if self._stopping.is_set():
                if error is not None:
                    self._listener(Crashed(name, error, None))
                break
            if error is None:
                if child.policy.mode == "transient":
                    break
                # It counts as a crash: a body that returns immediately would spin.
                error = RuntimeError("ended without a request to stop")
                status.note_crash(describe(error))
            now = trio.current_time()
            crashes = [*(at for at in crashes if now - at < child.policy.within), now]
            delay = child.policy.delay(len(crashes))
            self._listener(Crashed(name, error, delay))
            if delay is None:
                status.turn_to("given up")
                self.gave_up = error
                if child.policy.mode == "permanent":
                    raise Escalated(name, f"crashed too often: {describe(error)}")
                return
            status.restarts += 1
            status.turn_to("restarting")
            with trio.move_on_after(delay):
                await self._stopping.wait()
        status.turn_to("stopped")
        self._listener(Ended(name))

    async def _one_incarnation(self) -> Exception | None:
        child = self.child
        child.mailbox.begin()
        self.status.turn_to("running")
        self.status.waits.clear()
        try:
            with trio.CancelScope() as self._scope:
                await child.body(child.mailbox)
        except Exception as error:  # the only such place: here a child's crash is data
            return error
        finally:
            self._scope = None
            child.mailbox.end()
        return None

    async def stop(self) -> None:
        """Close the mailbox, wait the child's grace, cancel it, and wait for its end."""
        self._stopping.set()
        self.child.mailbox.close()
        if self.gone.is_set():
            return
        self.status.turn_to("stopping")
        with trio.move_on_after(self.child.grace):
            await self.gone.wait()
        if self._scope is not None:
            self._scope.cancel()
        await self.gone.wait()


def describe(error: BaseException) -> str:
    """Describe an error in one line; a group is described by its first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def halts(error: BaseException) -> bool:
    """Return True if *error* contains a Halt, an Escalated, or an ImportError.

    After an ImportError the installation has changed since the start, and only a restart helps.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(halts(inner) for inner in error.exceptions)
    return isinstance(error, Halt | Escalated | ImportError)


async def supervise(
    children: Sequence[Child], *, stop: trio.Event, listener: Listener, actor_table: ActorTable
) -> None:
    """Keep *children* running until *stop* is set, then stop them, the last one first.

    Raises Escalated after an orderly stop if a child gave up or raised Halt.
    """
    runs = [Run(child, listener, actor_table) for child in children]
    failed: list[Exception] = []
    ending = trio.Event()

    async def keep(run: Run) -> None:
        try:
            await run.keep_running()
        except (Halt, Escalated) as error:
            failed.append(error)
            ending.set()
        # It will not run again: tasks that wait for room or for an answer must learn that.
        run.child.mailbox.close()
        run.child.mailbox.discard()

    async def watch_stop() -> None:
        await stop.wait()
        ending.set()

    async with trio.open_nursery() as nursery:
        for run in runs:
            nursery.start_soon(keep, run)
        nursery.start_soon(watch_stop)
        await ending.wait()
        for run in reversed(runs):
            await run.stop()
        nursery.cancel_scope.cancel()
    if failed:
        error = failed[0]
        raise error if isinstance(error, Escalated) else Escalated("elwood", str(error)) from error


# A supervisor that creates its children on demand, one per key.

SESSION_LIKE = RestartPolicy(mode="transient", max_crashes=3, within=600.0)


class PoolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a pool's children: queue of each, restart policy, grace at the stop."""

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
    """Route each message to the child of its key, starting the child if necessary.

    *wake* returns the children to start immediately. The pool only receives and offers: a message
    for a child that is full or has given up goes to *refuse* with the reason; *refuse* must not
    wait. A child that gave up may be started again when its policy no longer counts the crashes.
    """
    runs: dict[str, Run] = {}
    dropped: dict[str, float] = {}

    async with trio.open_nursery() as nursery:

        def start(name: str) -> Run:
            name_ = f"{mailbox.name}/{name}"
            child_mailbox = Mailbox[M](name_, policy.capacity, mailbox.step)

            async def child_body(box: Mailbox[M]) -> None:
                await body(name, box)

            child = Child(child_mailbox, child_body, policy.restart, policy.grace)
            run = runs[name] = Run(child, listener, actor_table)
            nursery.start_soon(keep, name, run)
            return run

        async def keep(name: str, run: Run) -> None:
            await run.keep_running()
            # No checkpoint from here on, so that no message can come in between.
            del runs[name]
            left: list[M] = run.child.mailbox.take_left()
            if run.gave_up is not None:
                dropped[name] = trio.current_time() + policy.restart.within
                for message in left:
                    refuse(message, "it crashed too often")
                return  # its status stays, so that inspect and the watchdog show it
            actor_table.leave(run.child.mailbox.name)
            for message in left:  # arrived while the child was ending
                if mailbox.is_closed:
                    refuse(message, "it is stopping")
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
                refuse(message, "its queue is full")

        for name in await wake():
            if name not in runs:
                start(name)
        async for message in mailbox:
            route(message)
        async with trio.open_nursery() as stopping:
            for run in list(runs.values()):
                stopping.start_soon(run.stop)
        nursery.cancel_scope.cancel()
