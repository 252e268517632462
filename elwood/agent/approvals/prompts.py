"""Puts questions about calls before the owner: one by one, or together when there are many."""

from collections.abc import Callable, Sequence

import msgspec
import trio

from elwood.agent.approvals.permissions import Case, Grouped
from elwood.agent.approvals.prompt_text import (
    buttons,
    group_buttons,
    one,
    packs,
    together,
)
from elwood.agent.approvals.questions import Question, place
from elwood.agent.approvals.requests import Cases
from elwood.agent.channels.post_until_delivered import Posting
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import PRINCIPAL

# Seconds for which questions are collected once there are too many to come one by one.
GATHER = 5.0
# Seconds at most between two looks at the clock while the owner sleeps: it may be set meanwhile.
LOOK = 60.0


class QuestionPosts:
    """Posts what is open; *owners* are the places where they can be asked.

    After `group_after` questions within `group_within` seconds further ones wait for a moment and
    come as one message (AP-21).  Questions of tasks wait until the owner is awake, and come then
    together (AP-25): *awake* says when that is, at a Unix time.  Only then their time begins.
    """

    def __init__(
        self,
        cases: Cases,
        posting: Posting,
        *,
        owners: Sequence[Route],
        new_id: Callable[[], str],
        awake: Callable[[float], float],
    ) -> None:
        self._cases = cases
        self._post = posting
        self._owners = owners
        self._new_id = new_id
        self._awake = awake
        self._slept: dict[Route, list[str]] = {}
        self._waiting: dict[Route, list[str]] = {}

    def place(self, case: Case) -> Route | None:
        """Say where *case* is asked."""
        return place(case.question, self._owners)

    def ask(self, case: Case) -> None:
        """Have *case* posted, at once or with others."""
        route = self.place(case)
        if route is None:
            return
        settings, tasks = self._cases.settings, self._cases.tasks
        if case.held:
            self._hold(_bare(route), case)
            return
        recent = self._cases.state.recent(self._cases.now(), settings.group_within)
        if recent <= settings.group_after:
            tasks.start_soon(self._one, route, case, False)
            return
        route = _bare(route)
        waiting = self._waiting.setdefault(route, [])
        waiting.append(case.id)
        if len(waiting) == 1:
            tasks.start_soon(self._gather, route)

    def ask_again(self) -> None:
        """Have everything open posted anew after a start, marked as a repeat."""
        self._waiting, self._slept = {}, {}
        calls, tasks = self._cases.state, self._cases.tasks
        singles = {case.id: case for case in calls.open()}
        # They would be open for ever, if nobody can be asked any more.
        lost = [case for case in singles.values() if self.place(case) is None]
        tasks.start_soon(self._cases.shown, lost)
        for id, members in calls.groups.items():
            cases = [case for m in members if (case := singles.pop(m, None)) is not None]
            route = self.place(cases[0]) if cases else None
            if route is not None:
                tasks.start_soon(self._group, _bare(route), id, cases, True)
        for case in [found for found in singles.values() if self.may_wait(found.question)]:
            if (route := self.place(case)) is not None:
                self._hold(_bare(route), singles.pop(case.id))
        if len(singles) <= self._cases.settings.group_after:
            for case in singles.values():
                if (route := self.place(case)) is not None:
                    tasks.start_soon(self._one, route, case, True)
            return
        places: dict[Route, list[Case]] = {}
        for case in singles.values():
            if (route := self.place(case)) is not None:
                places.setdefault(_bare(route), []).append(case)
        for route, cases in places.items():
            tasks.start_soon(self._divide, route, cases, True)

    def may_wait(self, question: Question) -> bool:
        """Tell whether *question* is held until the owner is awake."""
        now = self._cases.now()
        return question.principal.startswith(PRINCIPAL) and self._awake(now) > now

    def _hold(self, route: Route, case: Case) -> None:
        slept = self._slept.setdefault(route, [])
        slept.append(case.id)
        if len(slept) == 1:
            self._cases.tasks.start_soon(self._morning, route)

    async def _morning(self, route: Route) -> None:
        """Put together before the owner what came up while they slept."""
        while True:
            now = self._cases.now()
            if (left := self._awake(now) - now) <= 0:
                break
            await trio.sleep(min(left, LOOK))
        ids = self._slept.pop(route)
        cases = [self._cases.state.cases[id] for id in ids if self._is_open(id)]
        await self._divide(route, cases, False)

    async def _gather(self, route: Route) -> None:
        await trio.sleep(GATHER)
        ids = self._waiting.pop(route)
        cases = [self._cases.state.cases[id] for id in ids if self._is_open(id)]
        await self._divide(route, cases, False)

    async def _divide(self, route: Route, cases: Sequence[Case], repeat: bool) -> None:
        for pack in packs(cases):
            id = self._new_id()
            grouped = Grouped(id, tuple(case.id for case in pack))
            if len(pack) > 1 and await self._cases.record(grouped):
                await self._group(route, id, pack, repeat)
            else:
                for case in pack:
                    await self._one(route, case, repeat)

    async def _one(self, route: Route, case: Case, repeat: bool) -> None:
        await self._post(
            route,
            one(case, route),
            buttons(case),
            repeat=repeat,
            wanted=lambda: self._is_open(case.id),
        )
        # Also what can never arrive: it would be open for ever.
        await self._cases.shown((case,))

    async def _group(self, route: Route, id: str, cases: Sequence[Case], repeat: bool) -> None:
        await self._post(
            route,
            together(cases),
            group_buttons(id, len(cases)),
            repeat=repeat,
            wanted=lambda: any(self._is_open(case.id) for case in cases),
        )
        await self._cases.shown(cases)

    def _is_open(self, id: str) -> bool:
        case = self._cases.state.cases.get(id)
        return case is not None and case.ruling is None


def _bare(route: Route) -> Route:
    """Return *route* without the message that it answers: a list answers many."""
    return msgspec.structs.replace(route, reply_to=None)
