"""The bounds of a run, which no person typed: they stay with its message."""

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


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the runs of one owner may spend in a day of the user's zone.

    It bounds them in all their conversations together.  None leaves it to `budget.Limits`.
    """

    tokens: int | None = None
    usd: float | None = None  # US dollars


# The names in journals that were written before it was called a budget stay.
class RunBounds(
    msgspec.Struct, frozen=True, omit_defaults=True, rename={"owner": "job", "budget": "purse"}
):
    """The bounds of a run: of work on a message that no person typed.  They stay with the message.

    *says* is what becomes of the text.  "answer" has the model answer it, and sends an answer
    unless it says that there is nothing to report; "silent" sends no answer; "text" is a plain
    reminder: the text is the answer, without a model; "note" is what a run elsewhere has told the
    person of this conversation, for the model to know.
    """

    owner: str  # Who is charged: the id of a task, or the session of the parent.
    role: str = "default"  # Which model thinks: a role or a name (`ModelSettings.role`).
    tools: tuple[str, ...] | None = None  # The tools that it may use; None: all.
    budget: Budget | None = None  # What it may spend in a day.
    deadline: float | None = None  # Unix time at which it is stopped.
    parent: str = ""  # The session that started it for a call, and gets the answer.
    fresh: bool = True  # It begins with an empty conversation.
    says: Literal["answer", "silent", "text", "note"] = "answer"
    private: bool = False  # The text holds private data.
    follows: bool = False  # The answer goes where the owner wrote last when it is given.
    series: int = 0  # Tells its owner from others of the same name (`PlannedRun`).
    tool: str = ""  # Called with *arguments* instead of asking a model; its result is the answer.
    arguments: str = ""  # JSON


def owner_of(bounds: RunBounds | None) -> str:
    """Return the owner of a run; "" if a person typed the message.

    >>> owner_of(RunBounds("tea")), owner_of(None)
    ('tea', '')
    """
    return "" if bounds is None else bounds.owner


# Stands between the name of a session and the number of its child.  People cannot name one so.
_CHILD = "~"


def child_name(parent: str, call: str) -> str:
    """Return the name of the session that a call of *parent* starts: always the same.

    >>> child_name("tg-7", "12"), is_child("tg-7~12"), is_child("tg-7")
    ('tg-7~12', True, False)
    """
    return f"{parent}{_CHILD}{call}"


def is_child(session: str) -> bool:
    """Return True if the session is that of a child run."""
    return _CHILD in session


def without_child(session: str) -> str:
    """Return the name of the parent for that of a child run; else *session* itself.

    >>> without_child("tg--5~12"), without_child("tg--5")
    ('tg--5', 'tg--5')
    """
    return session.partition(_CHILD)[0]


def is_unattended(session: str) -> bool:
    """Return True if no person writes in the session: it is that of a task or a child run."""
    return session.startswith(SESSION) or is_child(session)


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
