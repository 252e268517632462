"""Bounded mailboxes, typed addresses, and requests with one answer.

A mailbox outlives the incarnations of its actor: a crash loses the message in progress, never the
queue. Use `ask` for requests that may be lost or repeated, and `tell` with an id for messages that
must survive.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast
from weakref import WeakSet

import msgspec
import outcome
import trio

from elwood.foundation.runtime.actor_table import check_is_lower, show_wait

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)
T = TypeVar("T")

# Seconds after which `insist` asks again even without a sign that the actor is back.
INSIST_EVERY = 5.0


class ActorUnavailable(Exception):
    """The actor cannot answer; an expected failure that the caller must handle."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} {why}")
        self.name = name


class ActorCrashed(ActorUnavailable):
    """It received the request and crashed; whether it acted is unknown."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "crashed before it answered")


class ActorDown(ActorUnavailable):
    """It is between two incarnations or stopped; it has not seen the request."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "is down")


class Reply(Generic[T]):
    """The future of one answer.  The first result counts; later ones are ignored."""

    def __init__(self) -> None:
        self._outcome: outcome.Outcome[T] | None = None
        self._settled = trio.Event()
        self._is_abandoned = False
        # Scope of the work for the caller.
        self._work: trio.CancelScope | None = None

    def __repr__(self) -> str:
        return "Reply()"

    @property
    def is_settled(self) -> bool:
        """Whether there is an answer, or the caller has stopped waiting."""
        return self._settled.is_set() or self._is_abandoned

    def set(self, value: T) -> None:
        self._set_result(outcome.Value(value))

    def fail(self, error: Exception) -> None:
        """Answer with an exception, raised in the caller."""
        self._set_result(outcome.Error(error))

    async def wait(self) -> T:
        """Wait for the answer; cancellation here abandons the request."""
        try:
            await self._settled.wait()
        except trio.Cancelled:
            self._is_abandoned = True
            if self._work is not None:
                self._work.cancel()
            raise
        assert self._outcome is not None
        return self._outcome.unwrap()

    @contextmanager
    def while_wanted(self) -> Iterator[None]:
        """Cancel the block when the caller stops waiting.  For one block at a time."""
        with trio.CancelScope() as self._work:
            if self._is_abandoned:
                self._work.cancel()
            yield

    def _set_result(self, result: outcome.Outcome[T]) -> None:
        if self._outcome is None:
            self._outcome = result
            self._settled.set()


class Request(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Base of the messages that expect one answer; a repeated one needs a new *reply*."""

    reply: Reply[T] = msgspec.field(default_factory=Reply)


class Address(Generic[M_contra]):
    """The sending half of a mailbox; survives every restart of the actor behind it."""

    def __init__(self, mailbox: "Mailbox[M_contra]") -> None:
        self._mailbox = mailbox
        self.name = mailbox.name

    async def tell(self, message: M_contra) -> None:
        """Put *message* into the queue, waiting for room.  Raises ActorDown after the stop.

        With room this is no checkpoint: a pass of the scheduler costs more than the rest. Raises
        AskedUpward if the current actor is not on a higher step.
        """
        check_is_lower(self.name, self._mailbox.step)
        if self.offer(message):
            return
        try:
            await self._mailbox.send.send(message)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise ActorDown(self.name) from None
        self._mailbox.note_receive()

    def offer(self, message: M_contra) -> bool:
        """Put *message* into the queue if there is room now; never waits."""
        try:
            self._mailbox.send.send_nowait(message)
        except (trio.WouldBlock, trio.ClosedResourceError, trio.BrokenResourceError):
            return False
        self._mailbox.note_receive()
        return True

    async def ask(self, request: Request[T]) -> T:
        """Wait for the answer to *request*; the caller sets any deadline.

        Raises ActorDown immediately while the actor is away, ActorCrashed if it crashes with the
        request.
        """
        with show_wait(f"an answer from {self.name} ({type(request).__name__})"):
            if not self._mailbox.is_up:
                raise ActorDown(self.name)
            # The `match` of the actor checks the type of the request.
            await self.tell(cast("M_contra", request))
            return await request.reply.wait()

    async def insist(self, make: Callable[[], Request[T]]) -> T:
        """Repeat a request after every crash, when the actor is up again, until there is an answer.

        An actor that is stopped for good never answers; the caller waits until it is cancelled.
        """
        while True:
            try:
                return await self.ask(make())
            except ActorUnavailable:
                with trio.move_on_after(INSIST_EVERY):
                    await self._mailbox.wait_up()


class Mailbox(Generic[M]):
    """A bounded queue with a name, used by one incarnation of its actor at a time.

    *capacity* messages fit. A body iterates over it and never closes it. Requests that were
    abandoned in the queue are dropped. Only actors on a higher *step* than its own may wait for it;
    None disables this check.
    """

    def __init__(self, name: str, capacity: int, step: int | None = None) -> None:
        self.name = name
        self.capacity = capacity
        self.step = step
        self.send: trio.MemorySendChannel[M]
        self.send, self._receive = trio.open_memory_channel[M](capacity)
        # Replies of received requests; abandoned ones are garbage-collected.
        self._in_hand: WeakSet[Reply[Any]] = WeakSet()
        self._up = trio.Event()
        self._up.set()  # a message sent before the first start simply waits
        # The stop of the actor has begun.
        self.is_closed = False
        self.unread_since: float | None = None

    @property
    def address(self) -> Address[M]:
        return Address(self)

    @property
    def depth(self) -> int:
        return self._receive.statistics().current_buffer_used

    @property
    def is_up(self) -> bool:
        return self._up.is_set() and not self.is_closed

    async def wait_up(self) -> None:
        """Wait until the next incarnation runs; after the stop, wait forever."""
        await self._up.wait()
        if self.is_closed:
            await trio.sleep_forever()

    def __aiter__(self) -> AsyncIterator[M]:
        return self

    async def __anext__(self) -> M:
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def receive(self) -> M:
        """Wait for one message.  Raises trio.EndOfChannel when the actor is being stopped."""
        while not self._is_wanted(message := await self._receive.receive()):
            pass
        return message

    def receive_nowait(self) -> M:
        """Return a queued message, or raise trio.WouldBlock or EndOfChannel."""
        while not self._is_wanted(message := self._receive.receive_nowait()):
            pass
        return message

    # Only for the runtime:

    def note_receive(self) -> None:
        """Update the time since when messages have waited without any being received."""
        if self.unread_since is None and self.depth:
            self.unread_since = trio.current_time()

    def begin(self) -> None:
        self._up.set()

    def end(self) -> None:
        """End the incarnation: fail the received requests that have no answer."""
        if self._up.is_set():
            self._up = trio.Event()
        for reply in list(self._in_hand):
            reply.fail(ActorCrashed(self.name))
        self._in_hand.clear()

    def close(self) -> None:
        """Refuse new messages; queued ones can still be received, then iteration ends."""
        self.is_closed = True
        self.send.close()

    def take_left(self) -> list[M]:
        """Empty the queue of an actor that will not run again."""
        left = []
        while True:
            try:
                left.append(self._receive.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                self.unread_since = None
                return left

    def discard(self) -> None:
        """Empty the queue of a stopped actor; its requests fail with ActorDown."""
        for message in self.take_left():
            if isinstance(message, Request):
                message.reply.fail(ActorDown(self.name))

    def _is_wanted(self, message: M) -> bool:
        """Record that *message* was received; return False if no one waits for its answer.

        A caller that gave up has reported that, or asks again: acting now would be unseen or
        repeated.
        """
        self.unread_since = trio.current_time() if self.depth else None
        if isinstance(message, Request):
            if message.reply.is_settled:
                return False
            self._in_hand.add(message.reply)
        return True


class Signal:
    """Wakes the tasks that wait at that moment; later ones wait for the next time."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def give(self) -> None:
        self._event.set()
        self._event = trio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class Lock:
    """A fair lock that is acquired without a checkpoint if it is free."""

    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def __aenter__(self) -> None:
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()
