"""Admission to one provider's key: so many calls at once, and one probe at a time after trouble."""

import trio

from elwood.agent.models.routing import FailureKind, Fault

# Failures that say something about the provider rather than about one request: all calls wait
# until one of them has got through again (LLM-44).
SHARED: frozenset[FailureKind] = frozenset(
    {"rate_limit", "overloaded", "offline", "bad_key", "forbidden", "spend_limit"}
)


class Ticket:
    """The right to make one call."""


class CircuitBreaker:
    """At most *in_flight* calls at once; while *fault* is set, a single one from *not_before* on.

    *failures* counts the failed probes in a row; ten calls that fail together count once.  Times
    are those of Trio's clock.
    """

    def __init__(self, in_flight: int) -> None:
        self.fault: Fault | None = None
        self.failures = 0
        self.not_before = 0.0
        self._slots = trio.Semaphore(in_flight)
        self._probe: Ticket | None = None
        self._changed = trio.Event()

    async def enter(self) -> Ticket | None:
        """Wait for a place, to be given back by `leave`; None when things have changed.

        Who gets None looks at *fault* again before entering once more.
        """
        if self.fault is None:
            await self._slots.acquire()
            if self.fault is None:
                return Ticket()
            self._slots.release()
            return None
        if self._probe is not None:
            await self._changed.wait()
            return None
        ticket = self._probe = Ticket()
        try:
            await trio.sleep_until(self.not_before)
            await self._slots.acquire()
        except trio.Cancelled:
            self._end_probe(ticket)
            raise
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give a place back."""
        self._slots.release()
        self._end_probe(ticket)

    def succeeded(self) -> None:
        """The provider has begun to answer: everybody may go on."""
        if self.fault is not None:
            self.fault = None
            self.failures = 0
            self._probe = None
            self._wake()

    def failed(self, ticket: Ticket, fault: Fault) -> int:
        """Note a failure of the provider; return how many there were in a row."""
        if self.fault is None or self._probe is ticket:
            self.fault = fault
            self.failures += 1
        return self.failures

    def hold(self, seconds: float) -> None:
        """Let nobody in for so long."""
        self.not_before = max(self.not_before, trio.current_time() + seconds)

    def _end_probe(self, ticket: Ticket) -> None:
        if self._probe is ticket:
            self._probe = None
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
