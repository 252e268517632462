"""The record of a task."""

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

# Default seconds that a run may be late: a morning's job is still useful at noon, but not the next
# morning.
CATCH_UP = 43_200.0
# The same for a single reminder, which is useful for longer.
CATCH_UP_ONCE = 7 * 86_400.0
# Characters of a task id, which names its session, and so a file.
MAX_ID = 64
ID = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{MAX_ID - 1}}}")
# Value of `Task.session`: the conversation of the route.
CURRENT = "current"
# The session of reminders: no task can have this id.
REMINDERS = f"{SESSION}_reminders"
# The id of the checklist of HEARTBEAT.md, and prefix of those of its entries.
HEARTBEAT = "heartbeat"
# Most tasks; a person has dozens.  All are checked each minute, and each may have news.
MAX_TASKS = 200
# Patterns of one task; a folder can replace many files.
MAX_PATTERNS = 20
# Prefixes of watches that use a tool; all others are files.
BY_TOOL = ("https://", "http://", "$ ")
# Characters of a pattern, and ``**`` in it: each multiplies the work.
MAX_PATTERN, MAX_DEEP = 500, 3

Origin = Literal["talk", "config", "heartbeat", "house", "own"]
"""Source of a task: a conversation, config.toml, HEARTBEAT.md, the code, agent.toml."""


class Task(msgspec.Struct, frozen=True, omit_defaults=True, rename={"budget": "purse"}):
    """Work for planned times.

    One of *prompt*, *message*, *tool* and *chore* is set.  The parts are not records of their
    own, since journals have tasks in this form (docs/decisions/0055-tasks-stay-flat.md).
    """

    id: str  # lower-case letters, digits and dashes
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
    prompt: str = ""  # for the model
    message: str = ""  # posted as it is, without a model
    tool: str = ""  # called without a model
    arguments: str = ""  # of the tool, JSON
    chore: str = ""  # id of a chore of Elwood
    on_success: str = ""  # prompt of the follow-up after a success
    on_failure: str = ""  # the same if the first try of a run failed

    # Where the answer goes.
    session: str = ""  # its conversation; `CURRENT`: that of the route; "": a new one for each run
    route: Route | None = None  # of the answer; None: the owner's last route
    silent: bool = False  # no answer is posted
    notify: bool = True  # notify the owner of failures, missed times and pauses

    # What bounds its runs (`RunBounds`).
    role: str = "default"
    tools: tuple[str, ...] | None = None
    budget: Budget | None = None
    untrusted: bool = False  # strangers' words may be in it
    origin: Origin = "talk"


def with_session(task: Task, session: str) -> Task:
    """Return *task* with *session*, unless that is ""."""
    return msgspec.structs.replace(task, session=session) if session else task


def session_of(task: Task) -> str:
    """Return the session in which *task* runs: reminders share one, whose log is bounded."""
    return task.session or (REMINDERS if task.message else f"{SESSION}{task.id}")


@lru_cache(maxsize=4 * MAX_TASKS)
def next_run(task: Task, after: float) -> float | None:
    """Return the first time after *after* for which *task* is planned; None if there is none.

    A time outside of its hours moves to their start, except a single time, which was chosen.
    """
    # Cached: called each minute with the same arguments until that time.
    at = next_at(task.when, after, task.zone, task.id)
    if at is not None and not isinstance(task.when, Once):
        at = next_active(task.hours, at, task.zone)
    return None if at is None or (task.ends is not None and at > task.ends) else at


def runs_after(task: Task, after: float) -> Iterator[float]:
    """Yield the planned times of *task* after *after*; maybe without end."""
    at = next_run(task, after)
    while at is not None:
        yield at
        at = next_run(task, at)


Result = Literal[
    "done",  # it ran, and the answer was posted or there was none
    "failed",
    "waiting",  # it ran, and a call of it waits for the owner
    "unchanged",  # its watch has not changed: no model call
    "spent",  # a limit or its budget is used up: no model call
    "missed",  # too late for it, or another run took so long
]
"""Outcome of a planned time."""


class TaskStatus(msgspec.Struct, frozen=True):
    """The status of a task for people.  Times are Unix seconds."""

    task: Task
    next: float | None = None  # None: no further run, or paused
    running: float | None = None  # start of the current run
    last: float | None = None  # end of the last run
    result: Result | None = None
    words: str = ""  # of the result
    paused: str = ""  # the reason
    failures: int = 0  # in a row


def check_id(text: str) -> None:
    """Raise BadSetting unless *text* may be the id of a task that people or models make."""
    remedy = f"use lower-case letters, digits and dashes, at most {MAX_ID}"
    if not text:
        raise BadSetting("the title gives no id", "set id, like water-plants")
    if not ID.fullmatch(text):
        raise BadSetting(f"{text[:MAX_ID]!r} is not a valid id", remedy)
    if text == HEARTBEAT or text.startswith(f"{HEARTBEAT}-"):
        raise BadSetting(f"the id {text!r} is reserved for HEARTBEAT.md", "choose another id")


def check_pattern(pattern: str) -> None:
    """Raise BadSetting unless *pattern* is valid in `Task.watch`."""
    if pattern.startswith(BY_TOOL) and len(pattern) <= MAX_PATTERN:
        return  # the tool checks it
    leads_out = pattern.startswith(("/", "~")) or ".." in pattern.split("/")
    is_closed = holds_secrets(pattern) or is_git(pattern)
    is_costly = len(pattern) > MAX_PATTERN or pattern.count("**") > MAX_DEEP
    if refusal(pattern) is not None or leads_out or is_closed or is_costly:
        remedy = "write a path in the workspace, like inbox/*.md, or https://… or $ COMMAND"
        raise BadSetting(f"{pattern[:80]!r} cannot be watched", remedy)
