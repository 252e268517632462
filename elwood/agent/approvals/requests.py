"""One decision per question: recorded, told, and never two of them, whoever comes first."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import attrs
import trio

from elwood.agent.approvals.grants import STEP_BACK
from elwood.agent.approvals.messages import Decided
from elwood.agent.approvals.permissions import (
    Case,
    PermissionEntry,
    Permissions,
    Ruled,
    Shown,
    gist,
    is_fresh,
    is_over,
)
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.calls import Ruling, allows

log = logging.getLogger(__name__)

# Seconds between two tries to give a session a hint.
HINT_PAUSE = 1.0
# Seconds until it is written once more that a question was shown, while the disk is full.
SHOWN_PAUSE = 5.0


class Record(Protocol):
    """Writes entries down; False if there is no room for them."""

    def __call__(self, *entries: PermissionEntry) -> Awaitable[bool]:
        """Append *entries* in one line."""


@attrs.define(eq=False)
class _Watch:
    """An open question of this process: its age by the steady clock, and its end."""

    since: float
    over: trio.Event = attrs.field(factory=trio.Event)


class Cases:
    """The open questions of this process, their age, and how they end.

    *calls* is the journal's state, changed by *record* only; whoever decides holds `deciding`.
    *hint* tells a session to seek again, and must not wait.  *now* is the wall clock.
    """

    def __init__(
        self,
        calls: Callable[[], Permissions],
        record: Record,
        *,
        hint: Callable[[Decided], bool],
        now: Callable[[], float],
        settings: ApprovalSettings,
    ) -> None:
        self._calls = calls
        self._record = record
        self._hint = hint
        self.now = now
        self.settings = settings

    @property
    def state(self) -> Permissions:
        """What the journal says."""
        return self._calls()

    async def begin(self, tasks: trio.Nursery) -> None:
        """Take up what the journal says; tell again what was decided of late."""
        self.tasks = tasks
        self.deciding = trio.Lock()  # what expires must not be decided meanwhile (AP-05)
        self._watches: dict[str, _Watch] = {}
        now = self.now()
        async with self.deciding:
            for case in self.state.open():
                if case.held:
                    continue
                age = now - case.at
                # By a clock that was set back far nobody knows how old it is.
                self.watch(case, max(0.0, age) if age >= -STEP_BACK else case.lasts)
                if self.is_over(case):
                    await self.close(case, "expired")
        for session in {
            case.question.session
            for case in self.state.cases.values()
            if case.ruling is not None and now - case.decided_at < self.settings.expires
        }:
            tasks.start_soon(self._tell, session)

    async def record(self, *entries: PermissionEntry) -> bool:
        """Write *entries* down; False if there is no room for them."""
        return await self._record(*entries)

    async def close(
        self, case: Case, ruling: Ruling, by: str = "", number: int = 0, lasts: float = 0.0
    ) -> bool:
        """Decide *case*: for those who hold the lock and have seen that it is open."""
        ruled = Ruled(case.id, ruling, by, case.question.plan, number, lasts)
        if not await self._record(ruled):
            return False
        self.ended(case, ruling, by)
        return True

    def ended(self, case: Case, ruling: Ruling, by: str) -> None:
        """Spread the word that *case* was decided."""
        log.info("call decided", extra={"question": gist(case.question), "as": ruling, "by": by})
        watch = self._watches.pop(case.id, None)
        if watch is not None:
            watch.over.set()
        if ruling != "withdrawn":  # those who withdraw know it
            self.tasks.start_soon(self._tell, case.question.session)

    async def close_covered(self) -> None:
        """Let a new permission answer what it covers of the open questions."""
        for case in self.state.open():
            standing = self.state.covering(case.question, self.now())
            if standing is not None and not self.is_over(case):
                await self.close(case, "standing", f"permission {standing.number} of {standing.by}")

    def watch(self, case: Case, age: float) -> None:
        """Let *case*, *age* seconds old, end when its time is up."""
        watch = self._watches[case.id] = _Watch(trio.current_time() - age)
        self.tasks.start_soon(self._expire, case, watch)

    async def shown(self, cases: Iterable[Case]) -> None:
        """Let the time of those of *cases* run that were held; that may wait for the disk."""
        ids = [case.id for case in cases]
        while True:
            async with self.deciding:
                open_ = [case for case in self.state.open() if case.held and case.id in ids]
                if not open_:
                    return
                if await self._record(Shown(tuple(case.id for case in open_))):
                    for case in open_:
                        self.watch(case, 0.0)
                    return
            await trio.sleep(SHOWN_PAUSE)

    def is_over(self, case: Case) -> bool:
        """Tell whether the time of an open question is up, by either clock."""
        if case.held:
            return False
        watch = self._watches.get(case.id)
        steady = trio.current_time() - watch.since if watch else 0.0
        return is_over(case.lasts, self.now() - case.at, steady)

    def is_stale(self, case: Case) -> bool:
        """Tell whether a yes is older than a question may be: it has to be asked for anew (CP-13).

        A no stands.
        """
        return allows(case.ruling) and not is_fresh(case.lasts, self.now() - case.decided_at)

    async def _expire(self, case: Case, watch: _Watch) -> None:
        """Close *case* when its time is up, so that its session need not ask for that."""
        with trio.move_on_at(watch.since + case.lasts):
            await watch.over.wait()
        async with self.deciding:
            if case.id in self._watches:
                await self.close(case, "expired")

    async def _tell(self, session: str) -> None:
        while True:
            if self._hint(Decided(session)):
                return
            await trio.sleep(HINT_PAUSE)
