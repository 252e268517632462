"""The policy decision about one call: allow, ask the owner, or deny.

Nothing here loosens with the content of a conversation or with the requester: an additional label,
or a requester other than the owner, gives the same decision or a stricter one.
"""

import hashlib
import json
from collections.abc import Mapping, Set
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
from elwood.agent.policy.settings import Word
from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.lines import cut

# Increment it with every change of the decisions: open questions are then asked again (AP-26).
VERSION = 3
# Maximum characters of path and query that a model may choose freely: a page needs no more (TA-16).
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
    (AP-15, TA-14, TA-35).

    If private data was also read, a page is fetched without a question only at the exact address
    that the owner wrote before.  The model could add the data to a known host's address, so this
    is stricter than the letter of TA-31.

    >>> clean = Situation(label=Label(), principal="owner")
    >>> read = Situation(label=Label(untrusted=True), principal="owner", origins=("example.org",))
    >>> decide("schedule", Schedule(), clean, Rules())
    Allow(why='')
    >>> decide("schedule", Schedule(), read, Rules()).why
    'it has something done later, and this conversation has read example.org'
    >>> decide("mail", SendMessage("person"), clean, Rules())
    Ask(why='it says something to somebody else', remember=True)
    >>> decide("mail", SendMessage("person"), clean, Rules(tools={"mail": "allow"}))
    Allow(why='your settings allow mail')
    """
    decision = _decide_by_action(action, situation)
    if isinstance(decision, Allow):
        decision = (
            _decide_by_requester(action, situation) or _decide_by_audience(situation) or decision
        )
    if isinstance(decision, Ask) and situation.is_untrusted:
        read = f", and {_describe_sources(situation)}" if situation.label.untrusted else ""
        decision = Ask(f"{decision.why}{read}", remember=False)
    match rules.tools.get(tool), decision:
        case ("deny", Allow() | Ask()):
            return Deny(f"your settings forbid {tool}")
        case ("ask", Allow()):
            return Ask(f"your settings ask about {tool}", remember=not situation.is_untrusted)
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
            why = "the file instructs Elwood or starts programs"
            return (
                Deny(f"{why}, and {_describe_sources(situation)}")
                if untrusted
                else Ask(why, remember=False)
            )
        case WriteFile(foreign=foreign):
            why = "it overwrites or deletes a file not written in this conversation"
            return Ask(why, remember=False) if foreign and untrusted else Allow()
        case RunCommand(judged, why):
            if judged == "forbidden":
                return Deny(why or "the command is forbidden")
            if judged == "ask":
                return Ask(why, remember=False)
            if judged == "unclear" or (judged == "listed" and untrusted):
                return Ask(why or "the command is not one of the safe ones", remember=True)
            return Allow(why)
        case FetchUrl():
            return _decide_fetch(action, situation)
        case SearchWeb(quotes):
            if _may_leak(quotes, situation):
                return Ask(
                    f"the words to search for carry {_shorten_name(quotes.what)}", remember=True
                )
            return Allow()
        case SendRequest(host, destination):
            if destination == "blocked":
                return Deny(f"your settings block {host}")
            if destination == "allowed" and not untrusted:
                return Allow("the host is on your list")
            return Ask(f"it sends something to {host}", remember=destination != "ask")
        case SendMessage(to):
            whom = "a group" if to == "group" else "somebody else"
            return Ask(f"it says something to {whom}", remember=True)
        case Reschedule(own=True):
            return Allow("it is the task whose run this is")
        case Schedule(quotes) if not untrusted and _may_leak(quotes, situation):
            return Ask(f"it plans an address with {_shorten_name(quotes.what)}", remember=False)
        case Schedule() | Reschedule():
            return Ask("it has something done later", remember=False) if untrusted else Allow()
        case CallRemote("read", open_world, quotes):
            if leaking and open_world:
                why = "it takes private data to a service that others can see"
                return Ask(why, remember=False)
            if open_world and _may_leak(quotes, situation):
                why = f"it takes {_shorten_name(quotes.what)} to a service that others can see"
                return Ask(why, remember=True)
            return Allow()
        case CallRemote(risk) | Other(risk):
            return _decide_by_risk(risk)
        case _:
            assert_never(action)


def _decide_fetch(fetch: FetchUrl, situation: Situation) -> Decision:
    host, quotes = fetch.host, fetch.quotes
    if fetch.destination == "blocked":
        return Deny(f"your settings block {host}")
    if fetch.destination == "ask":
        return Ask(f"your settings ask about {host}", remember=False)
    untrusted = situation.is_untrusted
    before, named = situation.named_before, situation.named_before | situation.named_now
    if untrusted and situation.label.private:
        if _is_named(fetch, before):
            return Allow("you named this page before anything untrusted was read")
        what = _shorten_name(quotes.what) if quotes else "private data"
        return Ask(f"the address at {host} could carry {what} out", remember=False)
    if _is_named(fetch, named):
        return Allow("you named this page")
    if fetch.destination == "allowed" and not untrusted:
        return Allow("the host is on your list")
    if _may_leak(quotes, situation):
        return Ask(f"the address at {host} carries {_shorten_name(quotes.what)}", remember=True)
    if fetch.extra > MAX_EXTRA:
        return Ask(f"the address at {host} carries {fetch.extra} characters", remember=True)
    return Allow("you named the host" if host in named else "")


def _is_named(fetch: FetchUrl, named: Set[str]) -> bool:
    # The empty path or "/" cannot carry data.
    return fetch.url in named or (fetch.host in named and fetch.extra <= 1)


def _may_leak(quotes: Quotation | None, situation: Situation) -> TypeGuard[Quotation]:
    """Return True if the owner must see *quotes*; own words may leave until strangers steer."""
    return quotes is not None and (quotes.private or situation.is_untrusted)


def _decide_by_risk(risk: Literal["read", "write", "destructive"]) -> Decision:
    if risk == "read":
        return Allow()
    if risk == "write":
        return Ask("it changes something", remember=True)
    return Ask("it destroys something", remember=False)


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
                return Ask("a guest wants it", remember=False)
    plans = isinstance(action, Schedule) or action == Reschedule()
    if situation.principal == "task" and plans:
        return Ask("a task wants to change what is done later", remember=False)
    everything = Label(untrusted=True, private=True)
    if situation.principal == "task" and situation.label == everything and has_effect(action):
        return Ask("it would be done while nobody looks", remember=False)
    return None


def _decide_by_audience(situation: Situation) -> Ask | None:
    """Ask before private data is shown to others."""
    why = "what it finds may be private, and the answer is in a group, where others read it too"
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


def _describe_sources(situation: Situation) -> str:
    """Name, for the middle of a sentence, the sources whose words may steer the model."""
    names = [_shorten_name(name) for name in situation.origins[:MAX_NAMES]] or ["strangers' words"]
    more = len(situation.origins) - MAX_NAMES
    if more > 0:
        names.append(f"{more} more")
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"this conversation has read {joined}"


def _shorten_name(name: str) -> str:
    # Strangers choose these names.
    return escape_invisible(cut(name, MAX_NAME)).replace("\n", "")
