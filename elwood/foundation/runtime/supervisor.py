"""Runs children, restarts them by their policy, and stops them in reverse order.

Two facts of Trio matter here: a body that fails while it is being cancelled surfaces as an
ExceptionGroup out of the child's *own* scope, so exceptions are caught around that scope and not
only inside it; and ``except Exception`` around a body is safe, since a group that contains
``Cancelled`` is a BaseExceptionGroup.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import trio

from elwood.foundation.runtime.actor_table import ActorStatus, ActorTable, set_current
from elwood.foundation.runtime.mailbox import Mailbox
from elwood.foundation.runtime.restart import Again, Finished, GaveUp, RestartPolicy, after_exit


class Halt(Exception):
    """Going on would be a lie (a disk that fails fsync): stop Elwood, whatever the policy."""


class Escalated(Exception):
    """Elwood was stopped because of the child *name*; the process should exit with 1."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


class Child(msgspec.Struct, frozen=True):
    """One actor: its mailbox (which carries its name), its body and what to do when it ends.

    *grace* is how long (seconds) it may take to finish when stopped, before it is cancelled.
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
    """A child died of *error*; it runs again after *delay* seconds, or never if that is None."""

    name: str
    error: Exception
    delay: float | None


class Ended(msgspec.Struct, frozen=True):
    """A child is done for good."""

    name: str


Event = Started | Crashed | Ended
Listener = Callable[[Event], None]


class Run:
    """One child being kept running: the life of all its incarnations."""

    def __init__(self, child: Child, listener: Listener, actor_table: ActorTable) -> None:
        self.child = child
        self.gone = trio.Event()
        self.gave_up: Exception | None = None
        self.failed: Exception | None = None  # what it died of, if it will not run again
        self._listener = listener
        self._stopping = trio.Event()
        self._scope: trio.CancelScope | None = None
        mailbox = child.mailbox
        self.status: ActorStatus = actor_table.add(
            mailbox.name,
            mailbox.capacity,
            lambda: mailbox.depth,
            lambda: mailbox.unread_since,
        )

    async def keep_running(self) -> None:
        """Run the child until it is finished, has given up, or was stopped.

        Raises Halt, and Escalated when the policy says so.  The mailbox is left as it is: who
        made the child decides about messages that it did not take.
        """
        try:
            await self._incarnations()
        finally:
            self.gone.set()

    async def _incarnations(self) -> None:
        child, name, status = self.child, self.child.mailbox.name, self.status
        set_current(status)
        crashes: tuple[float, ...] = ()
        while not self._stopping.is_set():
            self._listener(Started(name, status.restarts))
            error = await self._one_incarnation()
            if error is not None:
                status.crashed(describe(error))
                if halts(error):
                    status.turn_to("given up")
                    self._listener(Crashed(name, error, None))
                    raise Halt(f"{name}: {status.last_crash}") from error
            if self._stopping.is_set():
                if error is not None:
                    self._listener(Crashed(name, error, None))
                break
            verdict = after_exit(child.policy, crashes, trio.current_time(), error is not None)
            if isinstance(verdict, Finished):
                if error is not None:
                    self.failed = error
                    self._listener(Crashed(name, error, None))
                break
            if error is None:
                error = RuntimeError("ended, which it must not")
                status.crashed(describe(error))
            match verdict:
                case GaveUp(escalate):
                    status.turn_to("given up")
                    self._listener(Crashed(name, error, None))
                    self.gave_up = self.failed = error
                    if escalate:
                        raise Escalated(name, f"crashed too often: {describe(error)}")
                    return
                case Again(delay, crashes):
                    self._listener(Crashed(name, error, delay))
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
        except Exception as error:  # the one place that may: a child's crash is data here
            return error
        finally:
            self._scope = None
            child.mailbox.end()
        return None

    async def stop(self) -> None:
        """Close the mailbox, wait the child's grace, cancel it, and wait until it has gone."""
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
    """Say in one line what an error is.

    A group is described by its first member.  What a `finally` raised while an error passed by
    does not hide that error.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    before = error.__context__
    if isinstance(before, Exception) and not error.__suppress_context__:
        return f"{_line(error)} (after {_line(before)})"
    return _line(error)


def _line(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def halts(error: BaseException) -> bool:
    """Tell whether there is a Halt or an Escalated in *error*."""
    if isinstance(error, BaseExceptionGroup):
        return any(halts(inner) for inner in error.exceptions)
    return isinstance(error, Halt | Escalated)


async def supervise(
    children: Sequence[Child], *, stop: trio.Event, listener: Listener, actor_table: ActorTable
) -> None:
    """Keep *children* running until *stop* is set, then stop them, the last one first.

    Raises Escalated after an orderly stop if a child gave up or asked to halt.
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
        # It will not run again: whoever waits for room or for an answer must learn that.
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
        raise error if isinstance(error, Escalated) else Escalated("house", str(error)) from error
