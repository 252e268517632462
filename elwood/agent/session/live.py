"""The sessions in memory: what each publishes of itself, and who is woken at the next start."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from elwood.agent.session.inspection import SessionSeen
from elwood.agent.session.log.state import Session
from elwood.foundation.storage.disk import Disk


class LiveSessions:
    """Knows each session's state from what it publishes, and marks who lives by a file each.

    A marker is an empty file in *folder*, so that a restart knows whom to wake (decision 3).
    *clock* is the actor table's, in seconds.
    """

    def __init__(self, folder: Path, disk: Disk, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._disk = disk
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

    @property
    def states(self) -> Mapping[str, Session]:
        """The sessions in memory, as they are now."""
        return self._states

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

    async def mark(self, id_: str) -> None:
        """Have a session woken at the next start; on the disk when this returns.

        Raises DiskFull, JournalBroken.
        """
        await self._disk.blocking(lambda: self._make(self._folder / id_))

    async def unmark(self, id_: str) -> None:
        """Let a session sleep until somebody writes."""
        await self._disk.blocking(lambda: self._disk.remove(self._folder / id_))

    async def marked(self) -> Sequence[str]:
        """List the sessions to be woken, in order."""
        return await self._disk.blocking(self._list)

    def _make(self, path: Path) -> None:
        if not path.exists():
            self._disk.make_folder(path.parent)
            self._disk.replace(path, b"")

    def _list(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if path.suffix != ".tmp")
