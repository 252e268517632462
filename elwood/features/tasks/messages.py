"""What the timetable is asked: about tasks by tools and commands, about runs by the scheduler."""

import msgspec

from elwood.agent.approvals.messages import Decided
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.session.messages import Interrupt
from elwood.features.tasks.rules import Agenda, Outcome, Verb
from elwood.features.tasks.state import PlannedRun
from elwood.features.tasks.task import Origin, Task, TaskStatus
from elwood.foundation.runtime import Request


class PlanTask(Request[TaskStatus | CommandResult], frozen=True, kw_only=True):
    """Take *task*, made in a conversation.  Without an id it gets one of its title.

    What differs from a task that is there in nothing but the id is that task: repeating it changes
    nothing.
    """

    task: Task


class ListTasks(Request[tuple[TaskStatus, ...]], frozen=True, kw_only=True):
    """All tasks, those that run next first; with *chores* also what Elwood does itself."""

    chores: bool = False


class WhichCancelled(Request[frozenset[tuple[str, int]]], frozen=True, kw_only=True):
    """Which of *runs*, each a task and the series of its run, belong to a task that was cancelled?

    From sessions, before they do what the owner has allowed such a run.
    """

    runs: frozenset[tuple[str, int]]


class Change(Request[CommandResult], frozen=True, kw_only=True):
    """Pause, resume, cancel the task *id*, run it now, or stop its run.  *by* is who wants it.

    What stands in config.toml or HEARTBEAT.md can be paused and not cancelled.  The run of a task
    that is cancelled is stopped.  What its *own* run cancels has come to its end: that goes on,
    and what waits for the owner's yes goes on waiting.
    """

    id: str
    verb: Verb
    by: str
    own: bool = False


class Adopt(Request[None], frozen=True, kw_only=True):
    """These are the tasks of *origin* now; others of it are gone.  From the scheduler."""

    origin: Origin
    tasks: tuple[Task, ...]


class Consult(Request[Agenda], frozen=True, kw_only=True):
    """What is to be done at Unix time *now*, and when to ask again.  From the scheduler."""

    now: float


class Begin(Request[bool], frozen=True, kw_only=True):
    """Write down that a run begins; False if it must not, as things have changed meanwhile.

    *seen* is the fingerprint of what its task watches, *session* where it runs if that was left
    open.  Repeating it changes nothing.
    """

    run: PlannedRun
    seen: str = ""
    session: str = ""


class End(Request[bool], frozen=True, kw_only=True):
    """Write down what became of a run; False if there is no room: ask again later.

    One that found things `unchanged` has not begun, and is not written.  Repeating it changes
    nothing.
    """

    run: PlannedRun
    outcome: Outcome


class Heard(Request[None], frozen=True, kw_only=True):
    """The owner has been told what `Agenda.tell` said, up to the entry *upto*."""

    upto: int


class Woken(msgspec.Struct, frozen=True):
    """The timetable has changed: look again, and pass the *hints* on to sessions.

    A run is to be stopped, or waits for a yes that is of no use any more.  It may be lost, and
    repeating it is harmless.
    """

    hints: tuple[Interrupt | Decided, ...] = ()


TimetableMail = (
    PlanTask | ListTasks | WhichCancelled | Change | Adopt | Consult | Begin | End | Heard
)
