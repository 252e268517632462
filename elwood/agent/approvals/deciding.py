"""Owners decide about calls: by button or by code, once or for good, and take it back."""

import logging
from collections.abc import Collection

import trio

from elwood.agent.approvals.grants import normal
from elwood.agent.approvals.messages import Settled
from elwood.agent.approvals.permissions import (
    MAX_STANDING,
    Case,
    Revoked,
    Ruled,
    Trusted,
    gist,
)
from elwood.agent.approvals.prompt_text import (
    RULINGS,
    domain_of,
    overview,
    pressed,
)
from elwood.agent.approvals.prompts import QuestionPosts
from elwood.agent.approvals.questions import Answer, answers
from elwood.agent.approvals.requests import Cases
from elwood.agent.channels.pacing import Budget, Window
from elwood.agent.conversation.route import Route

log = logging.getLogger(__name__)

# Wrong codes and buttons of one person before all of theirs are refused for a while (AP-20).
GUESSES = (Window(20, 60.0),)
NOT_YOURS = Settled("This is not yours to decide.", ok=False)
EXPIRED = Settled("This has expired or is decided already.", ok=False)
NO_ROOM = Settled("The disk is full; nothing was changed.", ok=False)
TOO_MANY = Settled("Too many wrong codes. Try again in a minute.", ok=False)
NO_SUCH = Settled("No call waits with this code. See /approvals.", ok=False)
ELSEWHERE = Settled("This button counts only where I asked. Type the code instead.", ok=False)
FULL = Settled(
    f"{MAX_STANDING} permissions stand already. Revoke some (/approvals), or allow it once.",
    ok=False,
)


class Deciding:
    """Takes decisions from *owners*, and from nobody else."""

    def __init__(self, cases: Cases, posts: QuestionPosts, owners: Collection[str]) -> None:
        self._cases = cases
        self._posts = posts
        self._owners = owners
        self._wrong: dict[str, Budget] = {}

    async def press(self, data: str, by: str, where: Route | None) -> Settled:
        """Take a press of the button *data*, seen in *where*."""
        found = pressed(data)
        if (refused := self._refused(by)) is not None:
            return refused
        if found is None:
            return self._guessed(by, EXPIRED)
        kind, id, answer = found
        async with self._cases.deciding:
            calls = self._cases.state
            ids = calls.groups.get(id, ()) if kind == "g" else (id,)
            cases = [case for member in ids if (case := calls.cases.get(member)) is not None]
            if not cases:
                return self._guessed(by, EXPIRED)
            asked = {self._posts.place(case) for case in cases}
            if where is None or not any(r and _chat(r) == _chat(where) for r in asked):
                log.warning("press in another chat", extra={"principal": by})
                return ELSEWHERE
            if kind == "a":
                return await self._settle(cases[0], answer, by)
            return await self._settle_all(cases, answer, by)

    async def rule(self, typed: str, answer: Answer, by: str) -> Settled:
        """Take a decision that was typed with a code."""
        if (refused := self._refused(by)) is not None:
            return refused
        async with self._cases.deciding:
            case = self._cases.state.of_code(normal(typed))
            if case is None:
                return self._guessed(by, NO_SUCH)
            return await self._settle(case, answer, by)

    async def trust(self, host: str, by: str) -> Settled:
        """Permit requests to a domain for good."""
        if by not in self._owners:
            return NOT_YOURS
        name = domain_of(host)
        if name is None:
            return Settled("That is not the name of a domain, like example.org.", ok=False)
        async with self._cases.deciding:
            standing = self._cases.state.standing(self._cases.now())
            if any(p.kind == "domain" and p.key == name for p in standing):
                return Settled(f"{name} is trusted already.", ok=True)
            if len(standing) >= MAX_STANDING:
                return FULL
            number, lasts = self._cases.state.numbers + 1, self._cases.settings.standing
            if not await self._cases.record(Trusted(number, name, by, lasts)):
                return NO_ROOM
            log.info("domain trusted", extra={"host": name, "by": by})
            await self._cases.close_covered()
        return Settled(f"{name} and what is below it is trusted; revoke it as {number}.", ok=True)

    async def revoke(self, number: int, by: str) -> Settled:
        """Take back what was permitted for good."""
        if by not in self._owners:
            return NOT_YOURS
        async with self._cases.deciding:
            if number not in {p.number for p in self._cases.state.standing(self._cases.now())}:
                return Settled(f"There is no permission {number}. See /approvals.", ok=False)
            if not await self._cases.record(Revoked(number, by)):
                return NO_ROOM
        log.info("permission revoked", extra={"number": number, "by": by})
        return Settled(f"Permission {number} is revoked.", ok=True)

    def standing(self, by: str) -> Settled:
        """Say in words what is open, and what is permitted for good."""
        if by not in self._owners:
            return NOT_YOURS
        cases = [case for case in self._cases.state.open() if not self._cases.is_over(case)]
        return Settled(overview(cases, self._cases.state.standing(self._cases.now())), ok=True)

    async def _settle(self, case: Case, answer: Answer, by: str) -> Settled:
        what = gist(case.question)
        if case.ruling is not None:
            return Settled(f"This was {RULINGS[case.ruling]} already: {what}", ok=False)
        if self._cases.is_over(case):
            await self._cases.close(case, "expired")
            return Settled(f"This has expired and will not run: {what}", ok=False)
        offered = answers(case.question)
        if answer not in offered:
            return Settled(f"Here you can answer only: {', '.join(offered)}.", ok=False)
        number, lasts = 0, 0.0
        if answer in ("conversation", "always"):
            if len(self._cases.state.standing(self._cases.now())) >= MAX_STANDING:
                return FULL
            number, lasts = self._cases.state.numbers + 1, self._cases.settings.standing
        if not await self._cases.close(case, answer, by, number, lasts):
            return NO_ROOM
        if number:
            await self._cases.close_covered()
        return Settled(f"{RULINGS[answer].capitalize()}: {what}", ok=True)

    async def _settle_all(self, cases: Collection[Case], answer: Answer, by: str) -> Settled:
        """Decide about those of *cases* that are still open, each by its own hash (AP-30)."""
        still = [case for case in cases if case.ruling is None and not self._cases.is_over(case)]
        if not still:
            return EXPIRED
        if not await self._cases.record(*(Ruled(c.id, answer, by, c.question.plan) for c in still)):
            return NO_ROOM
        for case in still:
            self._cases.ended(case, answer, by)
        rest = len(cases) - len(still)
        more = f" {rest} had expired or were decided before." if rest else ""
        return Settled(f"{RULINGS[answer].capitalize()}: {len(still)} calls.{more}", ok=True)

    def _refused(self, by: str) -> Settled | None:
        """Say why nothing that *by* presses or types counts now; None if it does."""
        if by not in self._owners:
            log.warning("decision by somebody else", extra={"principal": by})
            return NOT_YOURS
        wrong = self._wrong.get(by)
        return TOO_MANY if wrong is not None and wrong.delay(trio.current_time()) else None

    def _guessed(self, by: str, answer: Settled) -> Settled:
        self._wrong[by] = self._wrong.get(by, Budget(GUESSES)).spend(trio.current_time())
        return answer


def _chat(route: Route) -> tuple[str, int]:
    return route.channel, route.chat
