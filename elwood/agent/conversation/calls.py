"""Tool calls: the action, the plan, the decision and the outcome."""

import hashlib
import json
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import msgspec

from elwood.agent.conversation.labels import CLEAN, Label

Effect = Literal["pure", "keyed", "probe", "once"]
# What a tool does, as claims of an answer name it ("book": bookings, orders and payments).
Deed = Literal["write", "delete", "send", "run", "plan", "remember", "book"]
DEEDS: tuple[Deed, ...] = get_args(Deed)
# `waiting` is not final: the call is kept, and runs when the owner allows it.
Outcome = Literal["ok", "failed", "denied", "unknown", "dry run", "waiting"]
# Answers of the owner: this once, for this conversation, always, this once and trust the content
# of this conversation, no.
OwnerAnswer = Literal["once", "conversation", "always", "source", "denied"]
# The decision about a call.  `once`, `conversation` and `always` are the owner's yes; `standing` is
# an earlier one; `expired` and `withdrawn` mean no, as `denied` does.
Ruling = Literal[
    "once", "conversation", "always", "source", "standing", "denied", "expired", "withdrawn"
]


def allows(ruling: Ruling | None) -> bool:
    """Return True if a call with this ruling may run.

    >>> allows("standing"), allows("withdrawn"), allows(None)
    (True, False, False)
    """
    return ruling not in (None, "denied", "expired", "withdrawn")


Risk = Literal["read", "write", "destructive"]
# The owner's rule about a host: on their list, ask first, forbidden, or no rule.
Destination = Literal["allowed", "ask", "blocked", "open"]


class Quotation(msgspec.Struct, frozen=True):
    """Text of a conversation that a call would send out of Elwood.

    *what* describes it: "text from notes/plan.md".  *private* is False if all of it also occurs
    in the owner's own words.
    """

    what: str
    private: bool = True


# `asks` completes the question to the owner, "May I …"; empty: "use" and the tool's name.
class ReadFiles(msgspec.Struct, frozen=True):
    """Read the owner's files or notes; the reader of the answer learns their content."""

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

    "listed": safe by the owner's settings, unless strangers may steer; "ask": the owner decides
    each time.
    """

    asks: ClassVar = "run this command"
    judged: Literal["safe", "listed", "unclear", "ask", "forbidden"]
    why: str = ""


class FetchUrl(msgspec.Struct, frozen=True):
    """Fetch a page.  *url* is canonical; *extra* is the length of its path and query.

    *quotes* is quoted text in the address; the gate finds it, as for all actions that have it.
    """

    asks: ClassVar = "open this page"
    url: str
    host: str
    destination: Destination = "open"
    extra: int = 0
    quotes: Quotation | None = None


class SearchWeb(msgspec.Struct, frozen=True):
    """Use a search engine."""

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
    """Plan a task.  *quotes* is searched only in a text that contains an address."""

    asks: ClassVar = "schedule this"
    quotes: Quotation | None = None


class Reschedule(msgspec.Struct, frozen=True):
    """Pause, resume or cancel a task; *own*: the task of this run."""

    asks: ClassVar = "change this task"
    own: bool = False


class CallRemote(msgspec.Struct, frozen=True):
    """Call a tool of an MCP server, with the risk from our catalogue.

    *open_world*: the server can pass on what it gets.  *source* is the origin of its answers, and
    *claim* what it says about the tool, as the reason to ask.
    """

    asks: ClassVar = ""
    risk: Risk
    open_world: bool = False
    source: str = ""
    claim: str = ""
    quotes: Quotation | None = None


class Other(msgspec.Struct, frozen=True):
    """Any other action, of which Elwood knows only the risk."""

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
    """A group of calls that the owner may permit together, wider than exactly this call."""

    # Texts that its calls have in common; the first is offered, the others are of wider scopes.
    keys: tuple[str, ...]
    # Short description ("write in notes/").
    words: str
    # Full description, after "I will not ask again before I".
    covers: str
    # Suffix of *words* if something must stay the same (" (same code)").
    note: str = ""
    # The keys name the tools that they cover, with their definitions.
    names_tools: bool = False


class Plan(msgspec.Struct, frozen=True):
    """An examined call."""

    action: Action
    # The complete action, as the question to the owner shows it.
    subject: str
    # Other things that the outcome depends on: parsed argv, hashes of named files,
    # resolved references, the sandbox.
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)
    # The text that would leave Elwood, if any.
    outgoing: str = ""
    # What a permission may cover besides exactly this call, if people have a notion of it.
    scope: ApprovalScope | None = None
    # Completes "May I …" for this call better than the words of its action do.
    asks: str = ""


class Look(msgspec.Struct, frozen=True, omit_defaults=True):
    """The receipt of a call that read the watched target of a task, at Unix time *at*.

    *text* is its result; the log does not contain it.
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
    """Return the hash of a call: equal only if exactly the same would run.

    *definition* is the hash of the tool's definition, *arguments* the decoded JSON.

    >>> from elwood.agent.conversation.calls import Other
    >>> a = exact("t", "d", {"b": 1, "a": 2}, Plan(Other("write"), ""))
    >>> a == exact("t", "d", {"a": 2, "b": 1}, Plan(Other("write"), ""))
    True
    >>> a == exact("t", "d", {"a": 2, "b": 1}, Plan(Other("write"), "", {"file": "x"}))
    False
    """
    return _hash([tool, definition, arguments, dict(plan.facts)])


def bind_scope(scope: ApprovalScope, tool: str, definition: str, group: str) -> ApprovalScope:
    """Bind *scope* to the tool, its definition, and the *group* that reads the result."""
    bound = [group] if scope.names_tools else [tool, definition, group]
    keys = tuple(_hash(["scope", *bound, key]) for key in scope.keys)
    return msgspec.structs.replace(scope, keys=keys)


def hash_binding(exact_hash: str, untrusted: bool, policy: str) -> str:
    """Return the hash of a call in its circumstances: an approval is valid only for these.

    *untrusted*: strangers' words had been read; *policy* is the version of the rules.  Private data
    are not included: the call is fixed, so it cannot send data that is read later.
    """
    return _hash([exact_hash, untrusted, policy])


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
