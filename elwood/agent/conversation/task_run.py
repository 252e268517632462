"""What bounds a run that nobody typed: the part of a task that goes along with its message."""

import re
from typing import Literal

import msgspec

# With what the principals and the sessions of tasks begin, and the ids of their messages.
PRINCIPAL, SESSION, MESSAGE = "task:", "task-", "task:"
# What a model answers that has nothing to tell; it stands for the whole answer or is left out.
QUIET = "HEARTBEAT_OK"
# How models write it.  In other words than its own it may be part of a sentence.
_TOKEN = re.compile(r"\b(?:(?i:heartbeat_ok)|HEARTBEAT[ -]OK)\b")
_ALONE = re.compile(r"heartbeat[ _-]?ok", re.IGNORECASE)
# What they say beside it that says no more than it does.
_NO_NEWS = re.compile(
    r"(?:there (?:is|'s) |i have )?nothing (?:new|urgent|more|else|to (?:report|tell|do|add|say)|"
    r"(?:has |have )?changed|needs (?:your |the owner's )?attention)|no (?:news|changes?|updates?)"
    r"|(?:all (?:is )?|everything (?:is )?)(?:quiet|clear|good|well|fine|ok|okay|in order)|"
    r"(?:es gibt )?nichts (?:neues|zu (?:melden|berichten))|alles (?:ruhig|gut|in ordnung|ok)",
    re.IGNORECASE,
)


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
    tells the task from others of the same name (`Planned`).
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


def job_of(errand: TaskRun | None) -> str:
    """Name the job whose run it is; "" if somebody typed what it is about.

    >>> job_of(TaskRun("tea")), job_of(None)
    ('tea', '')
    """
    return "" if errand is None else errand.job


def without_quiet(text: str) -> str:
    """Return what there is to tell; empty if the answer says that there is nothing.

    >>> without_quiet("**HEARTBEAT_OK**."), without_quiet("The disk is full. HEARTBEAT_OK")
    ('', 'The disk is full.')
    >>> without_quiet("Nothing new. heartbeat_ok"), without_quiet("Nothing new on the disk.")
    ('', 'Nothing new on the disk.')
    """
    if _ALONE.fullmatch(_bare(text)):
        return ""
    rest = _TOKEN.sub("", text).strip()
    if len(rest) == len(text.strip()):
        return text
    said = _bare(rest)
    return "" if not said or _NO_NEWS.fullmatch(said) else rest


def _bare(text: str) -> str:
    """Take the marks around *text* away."""
    return re.sub(r"^[\W_]+|[\W_]+$", "", text)
