"""What bounds a run that nobody typed: the part of a task that goes along with its message."""

import re
from typing import Literal

import msgspec

# With what the principals and the sessions of tasks begin, and the ids of their messages.
PRINCIPAL, SESSION, MESSAGE = "task:", "task-", "task:"
# What a model answers that has nothing to tell; it stands for the whole answer or is left out.
QUIET = "HEARTBEAT_OK"
# Words beside it that are left out with it: models cannot help a remark.
FEW_WORDS = 10
# How models write it.  In other words than its own it may be part of a sentence.
_TOKEN = re.compile(r"\b(?:(?i:heartbeat_ok)|HEARTBEAT[ -]OK)\b")
_ALONE = re.compile(r"[\W_]*heartbeat[ _-]?ok[\W_]*", re.IGNORECASE)


class Purse(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job may spend in a day of the owner's zone; None leaves it to `budget.Limits`.

    It bounds the job in all its runs and conversations together; *usd* are US dollars.
    """

    tokens: int | None = None
    usd: float | None = None


class TaskRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """What bounds the run that a message stands for; it is kept with the message.

    *job* is the task that is charged, *purse* what it may spend in a day, *role* which model
    thinks (`routing.candidates`), *tools* those it may use (None: all).  A *fresh* run begins
    with an empty conversation.  *says* is what becomes of the text: "answer" has the model answer
    it, and keeps an answer that says that there is nothing to tell; "silent" keeps every answer;
    "text" is a plain reminder, which is the answer itself and needs no model; "note" is what a run
    elsewhere has told the person of this conversation, for the model to know; it may hold *private*
    data.  An answer that *follows* goes where the owner was heard last when it is given.  *series*
    tells the task from others of the same name (`Planned`).  With *tool* no model has a part in it:
    that is called with *arguments*, JSON, and its result is the answer.
    """

    job: str
    role: str = "default"
    tools: tuple[str, ...] | None = None
    purse: Purse | None = None
    fresh: bool = True
    says: Literal["answer", "silent", "text", "note"] = "answer"
    private: bool = False
    follows: bool = False
    series: int = 0
    tool: str = ""
    arguments: str = ""


def job_of(errand: TaskRun | None) -> str:
    """Name the job whose run it is; "" if somebody typed what it is about.

    >>> job_of(TaskRun("tea")), job_of(None)
    ('tea', '')
    """
    return "" if errand is None else errand.job


def without_quiet(text: str) -> str:
    """Return what there is to tell; empty if the answer says, in few words, that there is nothing.

    >>> without_quiet("**HEARTBEAT_OK**."), without_quiet("Nothing new in the inbox. heartbeat_ok")
    ('', '')
    >>> without_quiet("Nothing new on the disk.")
    'Nothing new on the disk.'
    """
    if _ALONE.fullmatch(text):
        return ""
    rest, count = _TOKEN.subn("", text)
    if not count:
        return text
    return rest.strip() if len(rest.split()) > FEW_WORDS else ""
