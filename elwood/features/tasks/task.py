"""What is to be done at times: the record of a task."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import msgspec

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import SESSION, Budget
from elwood.agent.conversation.settings import Hours, next_active
from elwood.features.tasks.when import Once, When, next_at
from elwood.foundation.settings import BadSetting
from elwood.foundation.storage.paths import holds_secrets, is_git, refusal

# Seconds that a run may come late, unless the task says otherwise: a morning's job is still of use
# at noon, and not the next morning.
CATCH_UP = 43_200.0
# A plain reminder is of use for longer.
CATCH_UP_ONCE = 7 * 86_400.0
# What a task may be called; its session is named after it, and so a file.
MAX_ID = 64
ID = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{MAX_ID - 1}}}")
# For the session: the conversation that lives where the answer goes.
CURRENT = "current"
# The session of reminders: no task can have this id.
REMINDERS = f"{SESSION}_reminders"
# The id of the checklist of HEARTBEAT.md; those of its entries begin with it.
HEARTBEAT = "heartbeat"
# Tasks at once; a person has dozens.  All are looked at each minute, and all may be told about.
MAX_TASKS = 200
# Patterns of one task; a folder says as much as many files.
MAX_PATTERNS = 20
# With what something begins that a tool is to look at; all else are files.
BY_TOOL = ("https://", "http://", "$ ")
# Characters of a pattern, and folders of any depth in it: each multiplies the work.
MAX_PATTERN, MAX_DEEP = 500, 3

Origin = Literal["talk", "config", "heartbeat", "house", "own"]
"""Where a task stands: made in a conversation, config.toml, HEARTBEAT.md, the code, agent.toml."""


class Task(msgspec.Struct, frozen=True, omit_defaults=True, rename={"budget": "purse"}):
    """Something to be done at planned times.

    One of *prompt*, *message*, *tool* and *chore* is given.  The parts are not records of their
    own, since journals have tasks in this form (docs/decisions/0055-tasks-stay-flat.md).
    """

    id: str  # small letters, digits and dashes
    title: str

    # When it runs.
    when: When
    zone: str = "UTC"  # IANA name
    hours: Hours | None = None  # a time outside of them moves to where they begin
    ends: float | None = None  # Unix seconds; nothing is planned later
    catch_up: float = CATCH_UP  # seconds; a time that has passed by more is missed
    # Files of the workspace, pages (https://…) and commands ($ …).  It runs only if one of them, or
    # the prompt, has changed since the last run.
    watch: tuple[str, ...] | None = None

    # What it does.
    prompt: str = ""  # what the model is asked
    message: str = ""  # posted as it is, without a model
    tool: str = ""  # called without a model
    arguments: str = ""  # of the tool, JSON
    chore: str = ""  # id of what Elwood does itself
    on_success: str = ""  # what the model is asked after a run that was done
    on_failure: str = ""  # what the model is asked if the first try of a run failed

    # Where it is said.
    session: str = ""  # its conversation; `CURRENT`: that of the route; "": a new one for each run
    route: Route | None = None  # of the answer; None: where the owner was heard last
    silent: bool = False  # no answer is posted
    notify: bool = True  # the owner is told if it failed, was missed or paused

    # What bounds its runs (`RunBounds`).
    role: str = "default"
    tools: tuple[str, ...] | None = None
    budget: Budget | None = None
    untrusted: bool = False  # strangers' words may be in it
    origin: Origin = "talk"


def placed(task: Task, session: str) -> Task:
    """Let *task* run in *session*, if that was left open until it runs."""
    return msgspec.structs.replace(task, session=session) if session else task


def session_of(task: Task) -> str:
    """Name the session in which *task* runs: reminders share one, whose log is bounded."""
    return task.session or (REMINDERS if task.message else f"{SESSION}{task.id}")


@lru_cache(maxsize=4 * MAX_TASKS)
def next_run(task: Task, after: float) -> float | None:
    """Return the first time after *after* for which *task* is planned; None if there is none.

    What falls outside of its hours comes when they begin, but for a single time: it was chosen.
    """
    # Asked each minute with the same arguments, until that time has come.
    at = next_at(task.when, after, task.zone, task.id)
    if at is not None and not isinstance(task.when, Once):
        at = next_active(task.hours, at, task.zone)
    return None if at is None or (task.ends is not None and at > task.ends) else at


def runs_after(task: Task, after: float) -> Iterator[float]:
    """List the times after *after* for which *task* is planned; maybe without end."""
    at = next_run(task, after)
    while at is not None:
        yield at
        at = next_run(task, at)


Result = Literal[
    "done",  # it ran, and the answer was posted or there was nothing to tell
    "failed",
    "waiting",  # it ran, and a call of it waits for the owner
    "unchanged",  # nothing that it watches has changed: no model was asked
    "spent",  # a limit or its budget is used up: no model was asked
    "missed",  # too late for it, or another run took so long
]
"""What became of a planned time."""


class TaskStatus(msgspec.Struct, frozen=True):
    """A task as people see it.  Times are Unix seconds.

    *next* is when it runs next (None: never again, or paused), *running* since when it runs,
    *last* when it ran last and *result* what came of it, in *words*; *paused* why it is paused;
    *failures* in a row.
    """

    task: Task
    next: float | None = None
    running: float | None = None
    last: float | None = None
    result: Result | None = None
    words: str = ""
    paused: str = ""
    failures: int = 0


def check_id(text: str) -> None:
    """Raise BadSetting unless *text* may be the id of a task that people or models make."""
    remedy = f"write small letters, digits and dashes, {MAX_ID} at most"
    if not text:
        raise BadSetting("no id can be made of the title", "write one, like water-plants")
    if not ID.fullmatch(text):
        raise BadSetting(f"{text[:MAX_ID]!r} is no id", remedy)
    if text == HEARTBEAT or text.startswith(f"{HEARTBEAT}-"):
        raise BadSetting(f"the id {text!r} is that of a task of HEARTBEAT.md", "write another id")


def check_pattern(pattern: str) -> None:
    """Raise BadSetting unless *pattern* may stand in `Task.watch`."""
    if pattern.startswith(BY_TOOL) and len(pattern) <= MAX_PATTERN:
        return  # the tool says the rest
    leads_out = pattern.startswith(("/", "~")) or ".." in pattern.split("/")
    is_closed = holds_secrets(pattern) or is_git(pattern)
    is_costly = len(pattern) > MAX_PATTERN or pattern.count("**") > MAX_DEEP
    if refusal(pattern) is not None or leads_out or is_closed or is_costly:
        remedy = "write a path within the workspace, like inbox/*.md, or https://… or $ COMMAND"
        raise BadSetting(f"{pattern[:80]!r} cannot be watched", remedy)
