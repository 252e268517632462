"""Sessions seek the owner's decision about a call: found, or asked for."""

import logging
from collections.abc import Callable, Collection

import msgspec

from elwood.agent.approvals.messages import Pending, Verdict
from elwood.agent.approvals.permissions import (
    TYPED_LENGTH,
    Case,
    Revoked,
    Sought,
    gist,
)
from elwood.agent.approvals.prompt_text import MAX_SHOWN
from elwood.agent.approvals.prompts import QuestionPosts
from elwood.agent.approvals.questions import Question
from elwood.agent.approvals.requests import Cases
from elwood.agent.conversation.calls import Ruling
from elwood.foundation.text.escape_invisible import escape_invisible

log = logging.getLogger(__name__)


class Asking:
    """Knows when to ask, and when there is an answer already.

    *new_code* makes a code of the given length, *redact* takes secrets out of a text.
    """

    def __init__(
        self,
        cases: Cases,
        posts: QuestionPosts,
        *,
        new_id: Callable[[], str],
        new_code: Callable[[int], str],
        redact: Callable[[str], str],
    ) -> None:
        self._cases = cases
        self._posts = posts
        self._new_id = new_id
        self._new_code = new_code
        self._redact = redact

    async def seek(self, question: Question) -> Pending | Verdict:
        """Find the decision about a call, or ask for one; repeating it changes nothing."""
        async with self._cases.deciding:
            return await self._seek(question)

    async def _seek(self, question: Question) -> Pending | Verdict:
        case = self._cases.state.of_call(question.session, question.call)
        same = case is not None and case.question.plan == question.plan
        is_stale = case is not None and self._cases.is_stale(case)
        if case is not None and case.ruling is not None and same and not is_stale:
            return _verdict(case.ruling, case.by, case.question)
        if case is not None and case.ruling is None:
            if self._cases.is_over(case):
                await self._cases.close(case, "expired")
                if same:
                    return Verdict("expired", "")
            elif not same:  # the answer would be about something else (AP-07)
                await self._cases.close(case, "withdrawn")
        standing = self._cases.state.covering(question, self._cases.now())
        if standing is not None:
            by = f"permission {standing.number} of {standing.by}"
            if case is not None and case.ruling is None and same:
                await self._cases.close(case, "standing", by)
            return Verdict("standing", by)
        return Pending() if same and not is_stale else await self._ask(question)

    async def _ask(self, question: Question) -> Pending | Verdict:
        question = msgspec.structs.replace(
            question, subject=self._redact(question.subject), why=self._redact(question.why)
        )
        code = self._new_code(TYPED_LENGTH)
        while self._cases.state.of_code(code) is not None:
            code = self._new_code(TYPED_LENGTH)
        lasts, held = self._cases.settings.expires, self._posts.may_wait(question)
        case = Case(self._cases.now(), self._new_id(), code, question, lasts, held=held)
        refused = self._cases.state.full(question.session)
        if self._posts.place(case) is None:
            refused = "nobody can be asked: no chat of an owner is configured"
        elif (size := len(escape_invisible(question.subject))) > MAX_SHOWN:
            refused = f"{size} characters cannot be shown to the owner, at most {MAX_SHOWN} can"
        if refused is not None:
            return Verdict("denied", "", why=refused)
        if not await self._cases.record(Sought(case.id, code, question, lasts, held)):
            why = "the disk is full, so the question could not be recorded"
            return Verdict("denied", "", why=why)
        log.info("owner asked", extra={"question": gist(question), "session": question.session})
        if not held:
            self._cases.watch(case, 0.0)
        self._posts.ask(case)
        return Pending()

    def learn(self, session: str, call: str, plan: str) -> Pending | Verdict:
        """Find what was decided about a call; what is not known, or over, has expired."""
        case = self._cases.state.of_call(session, call)
        if case is None or case.question.plan != plan:
            return Verdict("expired", "")
        if case.ruling is not None and not self._cases.is_stale(case):
            return _verdict(case.ruling, case.by, case.question)
        return Verdict("expired", "") if case.ruling or self._cases.is_over(case) else Pending()

    async def withdraw(self, session: str, calls: Collection[str], anew: bool) -> bool:
        """Close the open questions about *calls*, and what holds for the conversation if it ends.

        False if there is no room to record all of it; what is not recorded stands.
        """
        async with self._cases.deciding:
            done = True
            if anew:
                standing = self._cases.state.standing(self._cases.now())
                here = [p.number for p in standing if p.session == session]
                if here:
                    ended = [Revoked(number, "a new conversation") for number in here]
                    done = await self._cases.record(*ended)
            for case in self._cases.state.open():
                if case.question.session == session and case.question.call in calls:
                    done = await self._cases.close(case, "withdrawn") and done
            return done


def _verdict(ruling: Ruling, by: str, question: Question) -> Verdict:
    return Verdict(ruling, by, question.origins if ruling == "source" else ())
