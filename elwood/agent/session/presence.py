"""The sessions in memory, as they show themselves to `elwood inspect`."""

from collections.abc import Callable

import trio

from elwood.agent.session.log.state import Session
from elwood.features.control.view import SessionSeen


class Presence:
    """Knows each session's state from what it publishes; changes none of it.

    *clock* is the actor table's, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._states: dict[str, Session] = {}
        self._turn_since: dict[str, float] = {}
        self._change = trio.Event()

    def publish(self, id_: str, state: Session | None) -> None:
        """Show the state of a session after a change; None when it leaves the memory."""
        if state is None:
            self._states.pop(id_, None)
        else:
            self._states[id_] = state
        if state is None or state.turn is None:
            self._turn_since.pop(id_, None)
        else:
            self._turn_since.setdefault(id_, self._clock())
        self._change.set()
        self._change = trio.Event()

    async def quiet(self) -> None:
        """Wait until no session in memory has anything left to do."""
        while any(not state.is_idle for state in self._states.values()):
            await self._change.wait()

    def failed(self, id_: str) -> bool:
        """Tell whether the newest answer of a session is a failure, or it is gone without one."""
        state = self._states.get(id_)
        return state is None or state.failed

    def seen(self) -> tuple[SessionSeen, ...]:
        """List the sessions that owe something."""
        now = self._clock()
        return tuple(
            SessionSeen(
                id_,
                now - self._turn_since[id_] if id_ in self._turn_since else None,
                len(state.waiting),
                len(state.undelivered),
            )
            for id_, state in self._states.items()
            if not state.is_idle
        )
