"""What is to be done at times: the record of a task."""

import re
from typing import Literal

import msgspec

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import Hours
from elwood.agent.conversation.task_run import SESSION, Purse
from elwood.features.tasks.when import When

# Seconds that a run may come late, unless the task says otherwise: a morning's job is still of use
# at noon, and not the next morning.
CATCH_UP = 43_200.0
# A plain reminder is of use for longer.
CATCH_UP_ONCE = 7 * 86_400.0
# What a task may be called; its session is named after it, and so a file.
MAX_ID = 64
ID = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{MAX_ID - 1}}}")
# The id of the checklist of HEARTBEAT.md; those of its entries begin with it.
HEARTBEAT = "heartbeat"
# What Elwood does itself has these ids, also when it is off: nobody else's task is to be in its
# way when it is on again.
RESERVED = frozenset({"backup", "sweep", "memory", "daily-notes", "reflections"})
# Failed tries in a row: after so many the owner is told, and after so many the task is paused.
TELL_AFTER, PAUSE_AFTER = 2, 5

Origin = Literal["talk", "config", "heartbeat", "house"]
"""Where a task stands: made in a conversation (agent.toml), config.toml, HEARTBEAT.md, the code."""


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something to be done at the times of *when*, in the zone *zone* (IANA name).

    *id* is of small letters, digits and dashes.  One of *prompt* (what the model is asked),
    *message* (said as it stands, without a model) and *chore* (what Elwood does itself) is
    given.  Outside of *hours* nothing runs.  *session* names the conversation that it runs in; else
    each run has an empty one of its own.  *route* is where the answer goes; else where the owner
    was heard last.  *silent* posts no answer.  *role*, *tools* and *purse* bound the runs
    (`core.errand`).  A planned time that has passed by more than *catch_up* seconds is missed.
    With *watch*, patterns of files in the workspace, a run takes place only if one of them, or the
    prompt, has changed since the last.  Nothing is planned after *ends*.  *untrusted* says that
    strangers' words may be in it.
    """

    id: str
    title: str
    when: When
    zone: str = "UTC"
    prompt: str = ""
    message: str = ""
    chore: str = ""
    hours: Hours | None = None
    session: str = ""
    route: Route | None = None
    silent: bool = False
    role: str = "default"
    tools: tuple[str, ...] | None = None
    purse: Purse | None = None
    catch_up: float = CATCH_UP
    watch: tuple[str, ...] | None = None
    ends: float | None = None
    untrusted: bool = False
    origin: Origin = "talk"


def session_of(task: Task) -> str:
    """Name the session in which *task* runs."""
    return task.session or f"{SESSION}{task.id}"


Result = Literal[
    "done",  # it ran, and the answer was posted or there was nothing to tell
    "failed",
    "waiting",  # it ran, and a call of it waits for the owner
    "unchanged",  # nothing that it watches has changed: no model was asked
    "asleep",  # outside of its hours
    "spent",  # a limit or its purse is used up: no model was asked
    "missed",  # too late for it, or another run took so long
]
"""What became of a planned time."""


class TaskStatus(msgspec.Struct, frozen=True):
    """A task as people see it.  Times are Unix seconds.

    *next* is when it runs next (None: never again, or paused), *running* since when it runs,
    *last* when it ran last and *result* what came of it, in *words*; *paused* why it is paused;
    *failures* in a row; *spent* what its runs have cost this month, in dollars.
    """

    task: Task
    next: float | None = None
    running: float | None = None
    last: float | None = None
    result: Result | None = None
    words: str = ""
    paused: str = ""
    failures: int = 0
    spent: float = 0.0


def bad_id(text: str) -> str:
    """Say what is wrong with the id *text* and what to write instead; "" if it is fine.

    >>> bad_id("water-plants"), bad_id("Water!")
    ('', "'Water!' is no id: write small letters, digits and dashes, 64 at most")
    """
    if not text:
        return "no id can be made of the title: write one, like water-plants"
    if not ID.fullmatch(text):
        shown = text[:MAX_ID]
        return f"{shown!r} is no id: write small letters, digits and dashes, {MAX_ID} at most"
    if text == HEARTBEAT or text.startswith(f"{HEARTBEAT}-"):
        return f"ids like {text!r} are those of HEARTBEAT.md: write another"
    taken = text in RESERVED
    return f"the id {text!r} is that of a task of Elwood: write another" if taken else ""
