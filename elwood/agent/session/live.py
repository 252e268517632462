"""The sessions in memory: their states, and the markers that wake them after a restart."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import trio

from elwood.agent.session.inspection import SessionSeen
from elwood.agent.session.log.state import Session
from elwood.foundation.runtime import Lock, Signal
from elwood.foundation.storage.disk import Disk

# Maximum bytes of the newest log files of the sessions in memory that wait for a message. Their
# states need about as much memory.
MAX_IDLE = 8 << 20


class LiveSessions:
    """Stores the published state of each session, and marks live sessions with a file each.

    A marker is an empty file in *folder*, so that a restart wakes the session (decision 3). *clock*
    is the actor table's, in seconds.
    """

    def __init__(self, folder: Path, disk: Disk, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._disk = disk
        self._clock = clock
        self._states: dict[str, Session] = {}
        self._turn_since: dict[str, float] = {}
        self._waits: dict[str, tuple[trio.CancelScope, int]] = {}
        self._change = Signal()
        # Marked together by the first task: under load, one sync is enough for many.
        self._unmarked: set[str] = set()
        self._marking = Lock()

    def publish(self, id_: str, state: Session | None) -> None:
        """Publish the state of a session after a change; None when it leaves the memory."""
        if state is None:
            self._states.pop(id_, None)
        else:
            self._states[id_] = state
        if state is None or state.turn is None:
            self._turn_since.pop(id_, None)
        else:
            self._turn_since.setdefault(id_, self._clock())
        self._change.give()

    @property
    def states(self) -> Mapping[str, Session]:
        return self._states

    @contextmanager
    def register_waiting(
        self, id_: str, wait: trio.CancelScope, size: int, most: int
    ) -> Iterator[None]:
        """Register a session, with *size* bytes in its log file, that waits during the block.

        If more than *most* wait, or their files are larger than `MAX_IDLE`, cancel the waits of
        the longest inactive ones, unless they have work left. A few are checked each time, which
        is enough.
        """
        self._waits[id_] = wait, size
        total = sum(bytes_ for _, bytes_ in self._waits.values())
        for name in list(islice(self._waits, min(2, len(self._waits) - 1))):
            if len(self._waits) <= most and total <= MAX_IDLE:
                break
            longest, bytes_ = self._waits.pop(name)
            if self._states[name].is_idle:
                longest.cancel()
                total -= bytes_
            else:
                self._waits[name] = longest, bytes_
        try:
            yield
        finally:
            self._waits.pop(id_, None)

    async def quiet(self) -> None:
        """Wait until no session in memory has work left."""
        while any(not state.is_idle for state in self._states.values()):
            await self.wait_change()

    async def wait_change(self) -> None:
        """Wait until the state of any session changes."""
        await self._change.wait()

    def list_busy(self) -> tuple[SessionSeen, ...]:
        """Return the sessions that have work left."""
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

    async def mark(self, id_: str) -> None:
        """Mark a session to be woken at the next start, durably.

        Raises DiskFull, JournalBroken.
        """
        self._unmarked.add(id_)
        try:
            async with self._marking:
                if id_ in self._unmarked:
                    ids = sorted(self._unmarked)
                    paths = [self._folder / each for each in ids]
                    await self._disk.blocking(lambda: self._disk.make_empty(paths))
                    self._unmarked.difference_update(ids)
        finally:
            self._unmarked.discard(id_)

    async def unmark(self, id_: str) -> None:
        """Remove the marker of a session, which then sleeps until the next message."""
        await self._disk.blocking(lambda: self._disk.remove(self._folder / id_))

    async def list_marked(self) -> Sequence[str]:
        """Return the sessions to wake, in order."""
        return await self._disk.blocking(self._list)

    def _list(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if path.name[0] != ".")
