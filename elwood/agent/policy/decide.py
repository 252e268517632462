"""The policy decision about one call: allow, ask the owner, or deny.

Nothing here loosens with the content of a conversation or with the requester: an additional label,
or a requester other than the owner, gives the same decision or a stricter one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from typing import Literal, TypeGuard, assert_never

import msgspec

from elwood.agent.conversation.calls import (
    Action,
    CallRemote,
    FetchUrl,
    Other,
    Quotation,
    ReadFiles,
    Reschedule,
    RunCommand,
    SaveMemory,
    Schedule,
    SearchWeb,
    SendMessage,
    SendRequest,
    WriteFile,
)
from elwood.agent.conversation.labels import Label
from elwood.agent.media.store import display_name
from elwood.agent.policy.settings import Word
from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.lines import shorten

# Increment it with every change of the decisions: open questions are then asked again (AP-26).
VERSION = 4
# Maximum characters of path and query that a model may choose freely (TA-16).
MAX_EXTRA = 200
# Maximum of sources named in a reason, and characters of each: the question shows them all.
MAX_NAMES = 3
MAX_NAME = 60

Who = Literal["owner", "guest", "task"]


class Allow(msgspec.Struct, frozen=True):
    """The call may run.  *why* is for the receipt."""

    why: str = ""


class Ask(msgspec.Struct, frozen=True):
    """The owner must approve.

    *remember*: a standing permission is accepted, and may be offered with the question.
    """

    why: str
    remember: bool


class Deny(msgspec.Struct, frozen=True):
    """The call must not run, even with an approval."""

    why: str


Decision = Allow | Ask | Deny


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation in which a call is made, and its requester."""

    label: Label
    # A guest has access but is not the owner; a task runs while no one waits for it.
    principal: Who
    # Origins of the untrusted content.
    origins: tuple[str, ...] = ()
    # URLs and hosts (see `mentions`) that the owner wrote before anything untrusted was read.
    named_before: frozenset[str] = frozenset()
    # URLs and hosts that the owner wrote in this turn.
    named_now: frozenset[str] = frozenset()
    # Others than the owner read the result, and it may be private.
    shows: bool = False

    @property
    def is_untrusted(self) -> bool:
        """True if strangers may steer the model; a guest is one already (TA-52)."""
        return self.label.untrusted or self.principal == "guest"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's settings for single tools.

    *tools* maps the name of a tool: "deny" forbids it, "ask" asks for each call, "allow" answers
    questions that a permission could answer, in conversations without strangers' words.
    """

    tools: Mapping[str, Word] = msgspec.field(default_factory=dict)


def decide(tool: str, action: Action, situation: Situation, rules: Rules) -> Decision:
    """Decide about a call of *tool* that would do *action*.

    Pure and total.  The strictest of three rules wins: for the action in this conversation, for
    the requester, and the owner's setting for the tool.  "allow" answers only questions that
    permissions can answer.  Where strangers may steer, no standing permission is accepted
    (AP-15, TA-14, TA-35), except to call an MCP server when the only strangers' words are its own.

    If private data was also read, a page is fetched without a question only at the exact address
    that the owner wrote before.  The model could add the data to a known host's address, so this
    is stricter than the letter of TA-31.

    >>> clean = Situation(label=Label(), principal="owner")
    >>> read = Situation(label=Label(untrusted=True), principal="owner", origins=("example.org",))
    >>> decide("schedule", Schedule(), clean, Rules())
    Allow(why='')
    >>> decide("schedule", Schedule(), read, Rules()).why
    'it plans something for later, and text from example.org may have prompted it'
    >>> decide("mail", SendMessage("person"), clean, Rules())
    Ask(why='it sends a message to someone else', remember=True)
    >>> decide("mail", SendMessage("person"), clean, Rules(tools={"mail": "allow"}))
    Allow(why='your settings allow mail')
    """
    decision = _decide_by_action(action, situation)
    if isinstance(decision, Allow):
        decision = (
            _decide_by_requester(action, situation) or _decide_by_audience(situation) or decision
        )
    may_remember = not situation.is_untrusted or _is_prompted_by_itself(action, situation)
    if isinstance(decision, Ask) and situation.is_untrusted:
        why = _add_sources(decision.why, situation) if situation.label.untrusted else decision.why
        decision = Ask(why, decision.remember and may_remember)
    match rules.tools.get(tool), decision:
        case ("deny", Allow() | Ask()):
            return Deny(f"your settings forbid {tool}")
        case ("ask", Allow()):
            return Ask(f"your settings say to ask about {tool}", may_remember)
        case ("allow", Ask(remember=True)):
            return Allow(f"your settings allow {tool}")
        case _:
            return decision


def version(rules: Rules) -> str:
    """Return a hash of these rules and this policy; an approval under others is not valid.

    >>> version(Rules()) == version(Rules(tools={"mail": "ask"}))
    False
    """
    text = json.dumps([VERSION, sorted(rules.tools.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _decide_by_action(action: Action, situation: Situation) -> Decision:
    untrusted = situation.is_untrusted
    leaking = untrusted and situation.label.private
    match action:
        case ReadFiles() | SaveMemory() | SendMessage("owner"):
            return Allow()
        case WriteFile(protected=True):
            why = "this file can instruct me or start programs"
            return Deny(_add_sources(why, situation)) if untrusted else Ask(why, remember=False)
        case WriteFile(foreign=foreign):
            why = "it replaces or deletes a file that I did not write in this conversation"
            return Ask(why, remember=False) if foreign and untrusted else Allow()
        case RunCommand(judged, why):
            if judged == "forbidden":
                return Deny(why or "the command is forbidden")
            if judged == "ask":
                return Ask(why, remember=False)
            if judged == "unclear" or (judged == "listed" and untrusted):
                return Ask(why or "the command is not on the list of safe commands", remember=True)
            return Allow(why)
        case FetchUrl():
            return _decide_fetch(action, situation)
        case SearchWeb(quotes):
            if _may_leak(quotes, situation):
                return Ask(f"the search words contain {_shorten_name(quotes.what)}", remember=True)
            return Allow()
        case SendRequest(host, destination):
            if destination == "blocked":
                return Deny(f"your settings block {host}")
            if destination == "allowed" and not untrusted:
                return Allow("your settings allow this host")
            return Ask(f"it sends data to {host}", remember=destination != "ask")
        case SendMessage(to):
            whom = "a group" if to == "group" else "someone else"
            return Ask(f"it sends a message to {whom}", remember=True)
        case Reschedule(own=True):
            return Allow("the task changes itself")
        case Schedule(quotes) if not untrusted and _may_leak(quotes, situation):
            why = f"it plans to open an address that contains {_shorten_name(quotes.what)}"
            return Ask(why, remember=False)
        case Schedule() | Reschedule():
            return Ask("it plans something for later", remember=False) if untrusted else Allow()
        case CallRemote("read", open_world, source, quotes=quotes):
            whom = f"the {source}" if source else "an outside service"
            if leaking and open_world:
                why = f"it could send private data of this conversation to {whom}"
                return Ask(why, remember=True)
            if open_world and _may_leak(quotes, situation):
                return Ask(f"it sends {_shorten_name(quotes.what)} to {whom}", remember=True)
            return Allow()
        case CallRemote("write", claim=claim) if claim:
            return Ask(claim, remember=True)
        case CallRemote(risk) | Other(risk):
            return _decide_by_risk(risk)
        case _:
            assert_never(action)


def _decide_fetch(fetch: FetchUrl, situation: Situation) -> Decision:
    host, quotes = fetch.host, fetch.quotes
    if fetch.destination == "blocked":
        return Deny(f"your settings block {host}")
    if fetch.destination == "ask":
        return Ask(f"your settings say to ask about {host}", remember=False)
    untrusted = situation.is_untrusted
    before, named = situation.named_before, situation.named_before | situation.named_now
    if untrusted and situation.label.private:
        if _is_named(fetch, before):
            return Allow("you named this page before I read any text from others")
        what = _shorten_name(quotes.what) if quotes else "private data"
        return Ask(f"the address at {host} could send {what} there", remember=False)
    if _is_named(fetch, named):
        return Allow("you named this page")
    if fetch.destination == "allowed" and not untrusted:
        return Allow("your settings allow this host")
    if _may_leak(quotes, situation):
        return Ask(f"the address at {host} contains {_shorten_name(quotes.what)}", remember=True)
    if fetch.extra > MAX_EXTRA:
        return Ask(f"the address at {host} is long: {fetch.extra} characters", remember=True)
    return Allow("you named the host" if host in named else "")


def _is_named(fetch: FetchUrl, named: Set[str]) -> bool:
    # The empty path or "/" cannot carry data.
    return fetch.url in named or (fetch.host in named and fetch.extra <= 1)


def _may_leak(quotes: Quotation | None, situation: Situation) -> TypeGuard[Quotation]:
    """Return True if the owner must see *quotes*; own words may leave until strangers steer."""
    return quotes is not None and (quotes.private or situation.is_untrusted)


def _is_prompted_by_itself(action: Action, situation: Situation) -> bool:
    """Return True if *action* calls a server, and only its own answers may have prompted that.

    The owner permitted its calls, so they count then.  A task that acts still waits (TA-45).
    """
    if not isinstance(action, CallRemote) or situation.principal == "guest":
        return False
    is_watched = situation.principal == "owner" or not has_effect(action)
    return is_watched and situation.origins == (action.source,)


def _decide_by_risk(risk: Literal["read", "write", "destructive"]) -> Decision:
    if risk == "read":
        return Allow()
    if risk == "write":
        return Ask("it may change something", remember=True)
    return Ask("this cannot be undone", remember=False)


def _decide_by_requester(action: Action, situation: Situation) -> Ask | None:
    """Ask about actions that the owner may do without a question, but this requester may not.

    A guest may talk and use the open web.  A task cannot create tasks: it may only end itself.  A
    task that combines strangers' words, private data and an effect waits for the owner (TA-45,
    Rule of Two).
    """
    if situation.principal == "guest":
        match action:
            case SendMessage("owner") | SearchWeb() | FetchUrl():
                return None
            case _:
                return Ask("this request is not from you", remember=False)
    plans = isinstance(action, Schedule) or action == Reschedule()
    if situation.principal == "task" and plans:
        return Ask("a task asked to change your tasks", remember=False)
    everything = Label(untrusted=True, private=True)
    if situation.principal == "task" and situation.label == everything and has_effect(action):
        return Ask("a task would do this while you are not looking", remember=False)
    return None


def _decide_by_audience(situation: Situation) -> Ask | None:
    """Ask before private data is shown to others."""
    why = "it may find private data, and everyone in the group reads my answer"
    return Ask(why, remember=True) if situation.shows else None


def has_effect(action: Action) -> bool:
    """Return True if *action* does more than read."""
    match action:
        case ReadFiles() | SearchWeb() | FetchUrl():
            return False
        case SendMessage("owner") | RunCommand("safe") | CallRemote("read") | Other("read"):
            return False
        case Reschedule(own=True):
            return False
        case _:
            return True


def _add_sources(why: str, situation: Situation) -> str:
    return f"{why}, and text from {name_sources(situation.origins)} may have prompted it"


def name_sources(origins: Sequence[str]) -> str:
    """Name, for the middle of a sentence, the sources whose words may steer the model.

    >>> name_sources(["example.org", "received/tg-1/2026-11-27-AgADx-a.txt"])
    'example.org and the file “a.txt”'
    """
    names = [name_source(origin, MAX_NAME) for origin in origins[:MAX_NAMES]] or ["strangers"]
    more = len(origins) - MAX_NAMES
    if more > 0:
        names.append(f"{more} more")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def name_source(origin: str, limit: int) -> str:
    """Format the name of a source for people; a received file has its sender's name for it."""
    name = display_name(origin)
    shown = _shorten_name(name, limit)
    if name != origin:
        return f"the file “{shown}”"
    return f"the {shown}" if origin.startswith("MCP server ") else shown


def _shorten_name(name: str, limit: int = MAX_NAME) -> str:
    # Strangers choose these names.
    return escape_invisible(shorten(name, limit)).replace("\n", "")
