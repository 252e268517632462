"""The bounds of a run, which no person typed.  They are stored with its message."""

import re
from typing import Literal

import msgspec

# Prefixes of the principals and sessions of tasks, and of the ids of their messages.
PRINCIPAL, SESSION, MESSAGE = "task:", "task-", "task:"
# Answer of a model that has nothing to report; as a part of an answer it is removed.
QUIET = "HEARTBEAT_OK"
# Maximum of other words that are removed with it: models often add a remark.
FEW_WORDS = 10
# Spellings by models.  Another one may be part of a sentence.
_TOKEN = re.compile(r"\b(?:(?i:heartbeat_ok)|HEARTBEAT[ -]OK)\b")
_ALONE = re.compile(r"[\W_]*heartbeat[ _-]?ok[\W_]*", re.IGNORECASE)


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """Budget for the runs of one owner in a day of the user's time zone.

    It applies to all their conversations together.  None: the default in `budget.Limits`.
    """

    tokens: int | None = None
    usd: float | None = None  # US dollars


# Early journals have the names "job" and "purse".
class RunBounds(
    msgspec.Struct, frozen=True, omit_defaults=True, rename={"owner": "job", "budget": "purse"}
):
    """The bounds of a run, on a message that no person typed.  They are stored with the message.

    *says* is the use of the text.  "answer": the model answers it, and the answer is sent unless
    there is nothing to report; "silent": no answer is sent; "text": the text is the answer, without
    a model; "note": a run elsewhere sent this to the person of this conversation, for the model to
    know.
    """

    owner: str  # The account to charge: the id of a task, or the session of the parent.
    role: str = "default"  # The model: a role or a name (`ModelSettings.role`).
    tools: tuple[str, ...] | None = None  # The tools that it may use; None: all.
    budget: Budget | None = None  # Its budget for a day.
    deadline: float | None = None  # Unix time at which it is stopped.
    parent: str = ""  # The session whose call started it, and which gets the answer.
    fresh: bool = True  # It starts with an empty conversation.
    says: Literal["answer", "silent", "text", "note"] = "answer"
    private: bool = False  # The text contains private data.
    follows: bool = False  # The answer goes to the owner's last route at that time.
    series: int = 0  # Distinguishes its owner from others of the same name (`PlannedRun`).
    tool: str = ""  # Called with *arguments* instead of a model; its result is the answer.
    arguments: str = ""  # JSON


def owner_of(bounds: RunBounds | None) -> str:
    """Return the owner of a run; "" if a person typed the message.

    >>> owner_of(RunBounds("tea")), owner_of(None)
    ('tea', '')
    """
    return "" if bounds is None else bounds.owner


# Separates the name of a session and the number of its child.  People cannot use it in names.
_CHILD = "~"


def child_name(parent: str, call: str) -> str:
    """Return the name of the session that a call of *parent* starts; deterministic.

    >>> child_name("tg-7", "12"), is_child("tg-7~12"), is_child("tg-7")
    ('tg-7~12', True, False)
    """
    return f"{parent}{_CHILD}{call}"


def is_child(session: str) -> bool:
    """Return True if the session is of a child run."""
    return _CHILD in session


def without_child(session: str) -> str:
    """Return the name of the parent of a child run; else *session* itself.

    >>> without_child("tg--5~12"), without_child("tg--5")
    ('tg--5', 'tg--5')
    """
    return session.partition(_CHILD)[0]


def is_unattended(session: str) -> bool:
    """Return True if no person writes in the session: it is of a task or a child run."""
    return session.startswith(SESSION) or is_child(session)


def without_quiet(text: str) -> str:
    """Return the text to send; empty if the answer says briefly that there is nothing to report.

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
