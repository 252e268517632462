"""What sessions and features are built on, and what is seen of it from outside."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import islice
from math import isinf
from pathlib import Path

import attrs
import msgspec
import trio

from elwood import __version__
from elwood.agent.approvals.messages import ApprovalsMail, Decided
from elwood.agent.channels.channel import Channels
from elwood.agent.conversation.run import is_child
from elwood.agent.conversation.settings import OwnerClock
from elwood.agent.models.messages import ModelsMail
from elwood.agent.session.inspection import (
    ActorSeen,
    DoneSeen,
    Inspection,
    ProcessSeen,
    SessionSeen,
    StuckSeen,
    TroubleSeen,
    Vitals,
    WaitSeen,
)
from elwood.agent.session.log.restored import Restored
from elwood.agent.session.log.state import Session
from elwood.agent.session.messages import Interrupt, SessionsMail
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import ActorStatus, ActorTable, Address, Event, Mailbox, Signal
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.settings import Config, Paths, Settings
from elwood.foundation.storage.anchors import AnchoringMail
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root

# Characters of one text that is seen from outside; errors can be long.
MAX_TEXT = 300
# Stuck things listed; more say nothing new.
MAX_STUCK = 100


class Admission(msgspec.Struct):
    """What stands against taking messages in, for all conversations alike.

    *refusal* says why no new work is taken, if none is: whoever watches over the disk sets it.
    *restored* is there if the state came out of a backup.
    """

    restored: Restored | None = None
    refusal: str = ""


class OwnConfig:
    """The assistant's half of the configuration, agent.toml: *now* is all as last read well.

    It is *config* with what stands there in *sections*; *read* makes that of a text, and raises
    CliFailure with all that is wrong.  Whoever keeps the file sets *now*; others ask it each time.
    """

    def __init__(
        self, config: Config, read: Callable[[str], Config], sections: Sequence[type[Settings]] = ()
    ) -> None:
        self.now = config
        self.read = read
        self.sections = sections


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
        self._waits: dict[str, trio.CancelScope] = {}
        self._change = Signal()
        # Marked together by whoever comes first: in a crowd that is one sync for many.
        self._unmarked: set[str] = set()
        self._marking = trio.Lock()

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
        self._change.give()

    @property
    def states(self) -> Mapping[str, Session]:
        return self._states

    @contextmanager
    def awaiting(self, id_: str, wait: trio.CancelScope, most: int) -> Iterator[None]:
        """Within, a session waits for its next message.

        If more than *most* do, the waits of those that were spoken to longest ago are cancelled,
        unless there is work left.  A few are looked at each time, which is enough.
        """
        self._waits[id_] = wait
        for name in list(islice(self._waits, max(0, min(2, len(self._waits) - most)))):
            longest = self._waits.pop(name)
            if self._states[name].is_idle:
                longest.cancel()
            else:
                self._waits[name] = longest
        try:
            yield
        finally:
            self._waits.pop(id_, None)

    async def quiet(self) -> None:
        """Wait until no session in memory has anything left to do."""
        while any(not state.is_idle for state in self._states.values()):
            await self.wait_change()

    async def wait_change(self) -> None:
        """Wait until the state of any session changes."""
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
        """Let a session sleep until somebody writes."""
        await self._disk.blocking(lambda: self._disk.remove(self._folder / id_))

    async def marked(self) -> Sequence[str]:
        """List the sessions to be woken, in order."""
        return await self._disk.blocking(self._list)

    def _list(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if path.name[0] != ".")


@attrs.frozen(kw_only=True)
class Core:
    """What sessions and features are built on; each part of them is given only what it needs.

    *sessions* are conversations with people and of tasks, *children* the child runs, a step below.
    *events* is told what becomes of actors.  *up* is set when the actors start, *stop* ends the
    app; what must be closed then goes into *closing*.  One that *stays* does what is due by the
    clock.  *own* is what the assistant has set itself.  *started* is Unix seconds.  *vitals* are
    written by whoever watches over the app.
    """

    config: Config
    environment: Environment
    clock: OwnerClock
    redactor: Redactor
    disk: Disk
    workspace: Root
    table: ActorTable
    sessions: Address[SessionsMail]
    children: Address[SessionsMail]
    approvals: Address[ApprovalsMail]
    models: Address[ModelsMail]
    anchoring: Address[AnchoringMail]
    channels: Channels
    live: LiveSessions
    admission: Admission
    events: Mailbox[Event]
    up: trio.Event
    stop: trio.Event
    closing: AsyncExitStack
    stays: bool = True
    own: OwnConfig = attrs.field(
        default=attrs.Factory(
            lambda core: OwnConfig(core.config, lambda text: core.config), takes_self=True
        )
    )
    started: float = attrs.field(
        default=attrs.Factory(lambda core: core.clock.now(), takes_self=True)
    )

    vitals: Vitals = attrs.field(factory=Vitals)

    @property
    def paths(self) -> Paths:
        return self.config.of(Paths)

    def hint(self, hint: Decided | Interrupt) -> bool:
        """Pass *hint* up to its session; False if there is no room."""
        return (self.children if is_child(hint.session) else self.sessions).offer(hint)


def inspect(core: Core) -> Inspection:
    python, seen = platform.python_version(), core.live.seen()
    process = ProcessSeen(__version__, core.started, os.getpid(), python, seen)
    seen_now = look(core.table, process, core.redactor)
    return msgspec.structs.replace(seen_now, vitals=core.vitals)


def look(actor_table: ActorTable, process: ProcessSeen, redact: Callable[[str], str]) -> Inspection:
    """Read the actor table off, with ages instead of times."""
    now = actor_table.now()

    def text(raw: str) -> str:
        return redact(raw.encode("utf-8", "replace").decode())[:MAX_TEXT]

    def seen(status: ActorStatus) -> ActorSeen:
        return ActorSeen(
            name=text(status.name),
            state=status.state,
            age=now - status.since,
            depth=status.depth(),
            capacity=status.capacity,
            restarts=status.restarts,
            last_crash=None if status.last_crash is None else text(status.last_crash),
            last_crash_age=None if status.last_crash is None else now - status.last_crash_at,
            waits=tuple(
                WaitSeen(text(w.what), now - w.since, None if isinf(w.limit) else w.limit)
                for w in status.waits.values()
            ),
            troubles=tuple(
                TroubleSeen(text(t.what), text(t.error), now - t.since, t.count)
                for t in status.troubles.values()
            ),
            done=tuple(
                DoneSeen(text(what), text(outcome), now - at)
                for what, (outcome, at) in status.done.items()
            ),
        )

    return Inspection(
        process=process,
        actors=tuple(seen(status) for status in actor_table.statuses.values()),
        stuck=tuple(
            StuckSeen(text(s.actor), text(s.what)) for s in actor_table.stuck()[:MAX_STUCK]
        ),
    )
