"""A call of a tool: what it would do, what exactly will run, and what may become of it."""

import hashlib
import json
from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from elwood.agent.conversation.labels import CLEAN, Label

Effect = Literal["pure", "keyed", "probe", "once"]
# `waiting` is not the end: the call is kept, and runs when the owner allows it.
Outcome = Literal["ok", "failed", "denied", "unknown", "dry run", "waiting"]
# What the owner can answer when asked about a call: this once, for this conversation, always, this
# once and trust what was read in this conversation, no.
OwnerAnswer = Literal["once", "conversation", "always", "source", "denied"]
# How a call was decided.  `once`, `conversation` and `always` are the owner's yes; `standing` is
# one given before; `expired` and `withdrawn` mean no as `denied` does.
Ruling = Literal[
    "once", "conversation", "always", "source", "standing", "denied", "expired", "withdrawn"
]


def allows(ruling: Ruling | None) -> bool:
    """Tell whether a call may run that was decided so.

    >>> allows("standing"), allows("withdrawn"), allows(None)
    (True, False, False)
    """
    return ruling not in (None, "denied", "expired", "withdrawn")


Risk = Literal["read", "write", "destructive"]
# What the owner's rules say about a host: on their list, to be asked about, forbidden, or nothing.
Destination = Literal["allowed", "ask", "blocked", "open"]


class Quotation(msgspec.Struct, frozen=True):
    """Text of a conversation that a call would carry out of Elwood.

    *what* describes it: "text from notes/plan.md".  *private* is False if all of it is also in the
    owner's own words.
    """

    what: str
    private: bool = True


# `asks` is what the owner is asked for in words, may I …; empty: to use the tool by its name.
class ReadFiles(msgspec.Struct, frozen=True):
    """Look at what is the owner's, files or notes; whoever is answered learns of it."""

    asks: ClassVar = "look at this"


class WriteFile(msgspec.Struct, frozen=True):
    """Write a file of the workspace.

    *protected* files instruct Elwood or start programs; *foreign* ones exist already and were
    not written by Elwood in this conversation.
    """

    asks: ClassVar = "change this file"
    protected: bool = False
    foreign: bool = False


class RunCommand(msgspec.Struct, frozen=True):
    """Run a command in the sandbox, judged by its words.

    A "listed" one is safe by the owner's word, which holds while no stranger steers; about an
    "ask" one the owner is asked each time.
    """

    asks: ClassVar = "run this command"
    judged: Literal["safe", "listed", "unclear", "ask", "forbidden"]
    why: str = ""


class FetchUrl(msgspec.Struct, frozen=True):
    """Read a page.  *url* is canonical; *extra* counts the characters of its path and query.

    *quotes* is what the address carries; the gate finds it, as for all actions that have it.
    """

    asks: ClassVar = "open this page"
    url: str
    host: str
    destination: Destination = "open"
    extra: int = 0
    quotes: Quotation | None = None


class SearchWeb(msgspec.Struct, frozen=True):
    """Ask a search engine."""

    asks: ClassVar = "search the web for this"
    quotes: Quotation | None = None


class SendRequest(msgspec.Struct, frozen=True):
    asks: ClassVar = "send this to a web server"
    host: str
    destination: Destination = "open"


class SendMessage(msgspec.Struct, frozen=True):
    asks: ClassVar = "send this message"
    to: Literal["owner", "group", "person"]


class SaveMemory(msgspec.Struct, frozen=True):
    asks: ClassVar = "remember this"


class Schedule(msgspec.Struct, frozen=True):
    """Plan a task.  *quotes* is found only in a text that names an address."""

    asks: ClassVar = "plan this"
    quotes: Quotation | None = None


class Reschedule(msgspec.Struct, frozen=True):
    """Pause, resume or cancel a task; *own* is the one whose run this is."""

    asks: ClassVar = "change this task"
    own: bool = False


class CallRemote(msgspec.Struct, frozen=True):
    """Call a tool of an MCP server, of the class our catalogue gives it."""

    asks: ClassVar = ""
    risk: Risk
    open_world: bool = False
    quotes: Quotation | None = None


class Other(msgspec.Struct, frozen=True):
    """Anything else, of which only the risk is known."""

    asks: ClassVar = ""
    risk: Risk


Action = (
    ReadFiles
    | WriteFile
    | RunCommand
    | FetchUrl
    | SearchWeb
    | SendRequest
    | SendMessage
    | SaveMemory
    | Schedule
    | Reschedule
    | CallRemote
    | Other
)


class ApprovalScope(msgspec.Struct, frozen=True):
    """What the owner may permit together, of which a call is one: more than the very same again.

    *keys* are what its calls have in common, as text; the first is offered, the others are those
    of wider scopes that it is in.  *words* name it ("write in notes/"), *covers* says all of it
    after "would let me".  *note* follows *words* if something must stay as it is (" (same code)").
    """

    keys: tuple[str, ...]
    words: str
    covers: str
    note: str = ""


class Plan(msgspec.Struct, frozen=True):
    """One call, examined.

    *subject* is what will run, complete, as the owner is asked about it.  *facts* are what the
    outcome hangs on besides the arguments: argv after parsing, hashes of named files, resolved
    references, the sandbox.  *outgoing* is the text that would leave Elwood, if any.  *scope* is
    what may be permitted besides exactly this, if there is something that people mean by it.
    """

    action: Action
    subject: str
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)
    outgoing: str = ""
    scope: ApprovalScope | None = None


class Look(msgspec.Struct, frozen=True, omit_defaults=True):
    """The receipt of a call that looked at what a task watches, at Unix time *at*.

    *text* is what it saw; the log has only the rest.
    """

    tool: str
    target: str
    outcome: Outcome
    at: float
    label: Label = CLEAN
    origin: str = ""
    looked: str = ""
    text: str = ""


def exact(tool: str, definition: str, arguments: object, plan: Plan) -> str:
    """Hash the call itself: equal only if the very same thing would run.

    *definition* is the hash of the tool's definition, *arguments* what JSON gave.

    >>> from elwood.agent.conversation.calls import Other
    >>> a = exact("t", "d", {"b": 1, "a": 2}, Plan(Other("write"), ""))
    >>> a == exact("t", "d", {"a": 2, "b": 1}, Plan(Other("write"), ""))
    True
    >>> a == exact("t", "d", {"a": 2, "b": 1}, Plan(Other("write"), "", {"file": "x"}))
    False
    """
    return _hash([tool, definition, arguments, dict(plan.facts)])


def hashed(scope: ApprovalScope, tool: str, definition: str, group: str) -> ApprovalScope:
    """Bind *scope* to the tool, its definition, and the *group* that reads what comes of it."""
    keys = tuple(_hash(["scope", tool, definition, group, key]) for key in scope.keys)
    return msgspec.structs.replace(scope, keys=keys)


def bound(exact_hash: str, untrusted: bool, policy: str) -> str:
    """Hash the call in its circumstances: an approval is good for these only.

    *untrusted* is whether strangers' words had been read, *policy* names the version of the rules.
    Private data are not part of it: what would run is fixed, so it cannot carry what is read later.
    """
    return _hash([exact_hash, untrusted, policy])


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
