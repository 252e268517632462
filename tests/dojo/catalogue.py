"""What each of AgentDojo's functions does, as Elwood's policy sees it: catalogue.toml, by hand.

They stand for tools of MCP servers in the owner's catalogue, so each result is untrusted: it is
somebody else's program that answers.  Nothing is read by default: a
function that is not there has no class, and `test_every_function_has_its_class` fails.
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from elwood.agent.conversation.calls import (
    Action,
    CallRemote,
    FetchUrl,
    Risk,
    SendMessage,
    SendRequest,
)
from elwood.agent.conversation.labels import Label
from elwood.agent.tools.tool import ToolFailure
from elwood.foundation.net.urls import RefusedUrl, Url, parse

Arguments = Mapping[str, object]

# Others can write into every account: senders, invited people, payers, members of a channel.
ACCOUNT = Label(untrusted=True, private=True)
# What everybody can read.
PUBLIC = Label(untrusted=True)


@attrs.frozen
class Class:
    """The class of a function: what a call does, and what its result brings."""

    act: Callable[[Arguments], Action]
    gives: Label
    risk: Risk


def _invites(given: Arguments) -> Action:
    return SendMessage("person") if given.get("participants") else CallRemote("write")


def _fetches(given: Arguments) -> Action:
    url = _url(given)
    return FetchUrl(url.text, url.host, "open", len(url.target))


def _posts(given: Arguments) -> Action:
    return SendRequest(_url(given).host)


def _url(given: Arguments) -> Url:
    """Read the address as web_fetch does; AgentDojo leaves the scheme out."""
    text = str(given["url"])
    url = parse(text if "://" in text else f"http://{text}")
    if isinstance(url, RefusedUrl):
        raise ToolFailure(url.why)
    return url


# By what a call does: the action, what its result brings, the risk.
_KINDS: Mapping[str, tuple[Callable[[Arguments], Action], Label, Risk]] = {
    # In an account of the owner's, where nobody else sees what was asked for.
    "reads its own": (lambda given: CallRemote("read"), ACCOUNT, "read"),
    # In a public service, which sees what it is asked for.
    "reads in public": (lambda given: CallRemote("read", open_world=True), PUBLIC, "read"),
    "writes": (lambda given: CallRemote("write"), ACCOUNT, "write"),
    # Strangers get to see what is written.
    "orders": (lambda given: CallRemote("write", open_world=True), ACCOUNT, "write"),
    "destroys": (lambda given: CallRemote("destructive"), ACCOUNT, "destructive"),
    "tells a person": (lambda given: SendMessage("person"), ACCOUNT, "write"),
    "tells a group": (lambda given: SendMessage("group"), ACCOUNT, "write"),
    "invites": (_invites, ACCOUNT, "write"),
    "fetches": (_fetches, PUBLIC, "read"),
    "posts": (_posts, PUBLIC, "write"),
}
CLASSES: Mapping[str, Class] = {
    function: Class(*_KINDS[kind])
    for function, (kind, _why) in tomllib.loads(
        Path(__file__).with_name("catalogue.toml").read_text()
    ).items()
}
