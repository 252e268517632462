"""Requests to the timetable: about tasks by tools and commands, about runs by the scheduler."""

import msgspec

from elwood.agent.approvals.messages import Decided
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.session.messages import Interrupt
from elwood.features.tasks.rules import Agenda, Outcome, Verb
from elwood.features.tasks.state import PlannedRun
from elwood.features.tasks.task import Origin, Task, TaskStatus
from elwood.foundation.runtime import Request


class PlanTask(Request[TaskStatus | CommandResult], frozen=True, kw_only=True):
    """Add *task*, made in a conversation.  Without an id it gets one from its title.

    If an equal task exists, that is returned: repeating it changes nothing.
    """

    task: Task


class ListTasks(Request[tuple[TaskStatus, ...]], frozen=True, kw_only=True):
    """List all tasks, the next run first; with *chores* also Elwood's own."""

    chores: bool = False


class WhichCancelled(Request[frozenset[tuple[str, int]]], frozen=True, kw_only=True):
    """Return those *runs*, each a task id and a series, whose task was cancelled.

    Sessions ask before they carry out an approved call of a run.
    """

    runs: frozenset[tuple[str, int]]


class Change(Request[CommandResult], frozen=True, kw_only=True):
    """Pause, resume or cancel the task *id*, run it now, or stop its run.  *by* names the actor.

    Tasks of config.toml or HEARTBEAT.md can be paused, not cancelled.  Cancelling stops a run in
    progress, unless its *own* run does it: then the run goes on, and its approvals stay pending.
    """

    id: str
    verb: Verb
    by: str
    own: bool = False


class Adopt(Request[None], frozen=True, kw_only=True):
    """Replace the tasks of *origin*.  From the scheduler."""

    origin: Origin
    tasks: tuple[Task, ...]


class GetAgenda(Request[Agenda], frozen=True, kw_only=True):
    """Return the agenda at Unix time *now*.  From the scheduler."""

    now: float


class StartRun(Request[bool], frozen=True, kw_only=True):
    """Record the start of a run; False if it must not start any longer.

    *seen* is the fingerprint of its watch, *session* replaces `CURRENT`.  Repeating it changes
    nothing.
    """

    run: PlannedRun
    seen: str = ""
    session: str = ""


class FinishRun(Request[bool], frozen=True, kw_only=True):
    """Record the outcome of a run; False if the disk is full: retry later.

    An `unchanged` run was never started and is not journaled.  Repeating it changes nothing.
    """

    run: PlannedRun
    outcome: Outcome


class NewsDelivered(Request[None], frozen=True, kw_only=True):
    """Record that the news of `Agenda.tell`, up to the entry *upto*, reached the owner."""

    upto: int


class TimetableChanged(msgspec.Struct, frozen=True):
    """The timetable has changed: get the agenda, and forward the *hints* to sessions.

    A hint stops a run or ends the wait for a void approval.  It may be lost or repeated.
    """

    hints: tuple[Interrupt | Decided, ...] = ()


TimetableMail = (
    PlanTask
    | ListTasks
    | WhichCancelled
    | Change
    | Adopt
    | GetAgenda
    | StartRun
    | FinishRun
    | NewsDelivered
)
