"""Carries out one run of a task: a message to a session and the wait for its answer, or a chore.

A run is the same two asks however often it is gone on with: the session takes a message once, by
its id, and has one answer for it.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import attrs
import trio

from elwood.agent.approvals.messages import Decided
from elwood.agent.conversation import task_run as errand
from elwood.agent.conversation.inbound import Inbound, Principal, Refused, Taken
from elwood.agent.conversation.route import NOWHERE, Route
from elwood.agent.conversation.task_run import TaskRun
from elwood.agent.parts import Do, Report
from elwood.agent.session.log.state import RunResult
from elwood.agent.session.messages import Await, Interrupt, SessionsMail, Unheard
from elwood.features.tasks import texts
from elwood.features.tasks.rules import DueRun
from elwood.features.tasks.state import PlannedRun
from elwood.features.tasks.task import Result, Task, session_of
from elwood.foundation.runtime import Address, Halt
from elwood.foundation.text.lines import one_line

log = logging.getLogger(__name__)

# Seconds for a run: a turn may take 15 minutes, and another one may be before it.
RUN_LIMIT = 1_800.0
# Seconds until a session that has no room is asked again, doubling up to the last.
FIRST_PAUSE, LAST_PAUSE = 5.0, 60.0
# Seconds for the conversation that is to know what was told: the run is done without.
NOTE_LIMIT = 60.0
# Instead of what a run said in the end whose model strangers may have steered.
UNTOLD = "it failed after reading what strangers wrote; elwood session show {} tells how"


@attrs.frozen
class Outcome:
    """What came of a run, in *words*.

    *acted* says that it did something, or may have, that must not be repeated unasked, *told* that
    its conversation tells this, in a private chat.
    """

    result: Result
    words: str = ""
    acted: bool = False
    told: bool = False


class TaskRunner:
    """Carries out runs by *sessions* and *chores*.

    *watching* gives the fingerprint of what a task watches.  *route* says where the answer of a
    task goes, None if nobody knows; *home* names the conversation that lives there, if one does:
    it is told what was said, or the person could not answer.  *refusal* says why no model may be
    asked for a task now, if none may.  *now* tells Unix time, *zone* is the owner's.
    """

    def __init__(
        self,
        sessions: Address[SessionsMail],
        *,
        chores: Mapping[str, Do],
        watching: Callable[[Task], Awaitable[str]],
        route: Callable[[Task], Route | None],
        home: Callable[[Route], str | None],
        refusal: Callable[[Task], Awaitable[str]],
        now: Callable[[], float],
        zone: str,
    ) -> None:
        self._sessions = sessions
        self._chores = chores
        self._watching = watching
        self._route = route
        self._home = home
        self._refusal = refusal
        self._now = now
        self._zone = zone

    async def look(self, task: Task) -> str | Outcome:
        """Return the fingerprint of what *task* watches; "" if it watches nothing."""
        if task.watch is None:
            return ""
        try:
            return await self._watching(task)
        except Halt:
            raise
        except Exception as error:  # a bug there is this task's failure, not the scheduler's
            log.exception("watching failed", extra={"task": task.id})
            return Outcome("failed", f"what it watches cannot be read: {error}")

    async def carry_out(self, run: DueRun) -> Outcome:
        """Do what is to be done, or go on with it, and say what came of it."""
        course = _Course()
        with trio.move_on_after(RUN_LIMIT):
            return await self._carry_out(run, course)
        return Outcome("failed", f"it took longer than {RUN_LIMIT / 60:.0f} minutes", course.handed)

    def stop(self, id_: str) -> None:
        """Have what works in the own conversation of the task *id_* stopped; its run then ends."""
        self._sessions.offer(Interrupt(f"{errand.SESSION}{id_}"))

    def let_go(self, session: str) -> None:
        """Have *session* look what waits there for the owner, of tasks that were cancelled."""
        self._sessions.offer(Decided(session))

    async def _carry_out(self, run: DueRun, course: "_Course") -> Outcome:
        task = run.task
        if run.begun:
            course.handed = True
            if isinstance(done := await self._await(run), RunResult):
                return await self._ended(run, done)
            course.handed = False
        prompt = task.prompt
        if task.chore:
            report = await self._do(task, run)
            if report.failed or not report.prompt:
                return Outcome("failed" if report.failed else "done", report.words)
            prompt = report.prompt
        if not task.message and (why := await self._refusal(task)):
            return Outcome("spent", why)
        route = self._route(task)
        if task.message and route is None:
            return Outcome("failed", "there is no place yet where it could be said")
        due, now = run.planned.due, self._now()
        if task.message:
            words = texts.said(task, due=due, now=now, zone=self._zone)
        else:
            words = texts.framed(
                task, prompt, due=due, now=now, trouble=run.trouble, zone=self._zone
            )
        refused = await self._hand_on(run, words, route, course)
        if refused is not None:
            return attrs.evolve(refused, acted=run.begun)
        done = await self._await(run)
        if isinstance(done, Unheard):
            return Outcome("failed", "the run is not in the log of its conversation", acted=True)
        if route is None:
            log.info("answer without a place", extra={"task": task.id, "text": done.text})
        return await self._ended(run, done)

    async def _do(self, task: Task, run: DueRun) -> Report:
        chore = self._chores.get(task.chore)
        if chore is None:
            return Report(f"there is no chore {task.chore!r}", failed=True)
        try:
            return await chore(run.good)
        except Halt:
            raise
        except Exception as error:  # a bug in a chore is its own failure, not the scheduler's
            log.exception("chore broke", extra={"task": task.id})
            return Report(f"{task.chore} broke: {type(error).__name__}: {error}", failed=True)

    async def _hand_on(
        self, run: DueRun, words: str, route: Route | None, course: "_Course"
    ) -> Outcome | None:
        """Have the session take the run; return what came of it if it never will."""
        make = partial(self._inbound, run, words, route, self._now())
        taken = await self._insist(make, course)
        return None if isinstance(taken, Taken) else Outcome("failed", taken.why)

    async def _insist(self, make: Callable[[], Inbound], course: "_Course") -> Taken | Refused:
        """Have a session take a message, however long it has no room."""
        pause = FIRST_PAUSE
        while True:
            course.handed = True
            taken = await self._sessions.insist(make)
            if isinstance(taken, Taken | Refused):
                return taken
            course.handed = False
            await trio.sleep(pause)
            pause = min(LAST_PAUSE, 2 * pause)

    def _inbound(self, run: DueRun, words: str, route: Route | None, now: float) -> Inbound:
        task = run.task
        silent = task.silent or route is None
        return Inbound(
            session=session_of(task),
            id=message_of(run.planned),
            principal=Principal(
                f"{errand.PRINCIPAL}{task.id}",
                one_line(task.title) or task.id,
                owner=not task.untrusted,
            ),
            route=route or NOWHERE,
            text=words,
            sent_at=now,
            untrusted=task.untrusted,
            errand=TaskRun(
                task.id,
                task.role,
                task.tools,
                task.purse,
                fresh=not task.session,
                says="text" if task.message else "silent" if silent else "answer",
                series=run.planned.series,
                follows=task.route is None,
            ),
        )

    async def _ended(self, run: DueRun, done: RunResult) -> Outcome:
        """Let the conversation know that lives where the answer went; say what came of the run."""
        route = done.told
        home = self._home(route) if route is not None else None
        if home is not None and route is not None and home != session_of(run.task):
            with trio.move_on_after(NOTE_LIMIT) as scope:
                await self._insist(partial(self._note, run, done, route, home), _Course())
            if scope.cancelled_caught:
                log.warning("not noted what was told", extra={"task": run.task.id, "home": home})
        result: Result = "failed" if done.failed else "waiting" if done.waiting else "done"
        words = done.text
        # In a group others read what the owner must hear as well.
        told = done.failed and route is not None and route.private
        if done.failed and not run.task.message and (why := await self._refusal(run.task)):
            return Outcome("spent", why, done.acted, told)  # it used up what it may spend
        if done.failed and done.label.untrusted and not run.task.untrusted:
            # The next try is told why, in a conversation without the label of this one.
            words = UNTOLD.format(session_of(run.task))
        return Outcome(result, words, done.acted, told)

    def _note(self, run: DueRun, done: RunResult, route: Route, home: str) -> Inbound:
        made = self._inbound(run, done.text, route, self._now())
        return attrs.evolve(
            made,
            session=home,
            id=f"{made.id}:note",
            untrusted=made.untrusted or done.label.untrusted,
            errand=TaskRun(run.task.id, says="note", private=done.label.private),
        )

    async def _await(self, run: DueRun) -> RunResult | Unheard:
        session, id_ = session_of(run.task), message_of(run.planned)
        return await self._sessions.insist(lambda: Await(session=session, id=id_))


def message_of(run: PlannedRun) -> str:
    """Name the message that a run is, for ever."""
    due = int(run.due) if run.due.is_integer() else repr(run.due)
    return f"{errand.MESSAGE}{run.task}:{run.series}:{due}:{run.attempt}"


@attrs.define
class _Course:
    """How far a run has come: what a session has, or may have, may have done something."""

    handed: bool = False
