"""The class of each AgentDojo function for Elwood's policy: catalogue.toml, written manually.

The functions represent tools of MCP servers in the owner's catalogue, so each result is untrusted:
another party's program answers. There is no default: a function that is not listed has no class,
and `test_every_function_has_its_class` fails.
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

# Accounts that others can write to: senders, invited people, payers, channel members.
ACCOUNT = Label(untrusted=True, private=True)
# Public content.
PUBLIC = Label(untrusted=True)


@attrs.frozen
class Class:
    """The class of a function: the effect of a call, and the label of its result."""

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
    """Parse the address as web_fetch does; AgentDojo omits the scheme."""
    text = str(given["url"])
    url = parse(text if "://" in text else f"http://{text}")
    if isinstance(url, RefusedUrl):
        raise ToolFailure(url.why)
    return url


# By the effect of a call: the action, the label of its result, the risk.
_KINDS: Mapping[str, tuple[Callable[[Arguments], Action], Label, Risk]] = {
    # In the owner's own account, where no other person sees the request.
    "reads its own": (lambda given: CallRemote("read"), ACCOUNT, "read"),
    # In a public service, which sees the request.
    "reads in public": (lambda given: CallRemote("read", open_world=True), PUBLIC, "read"),
    "writes": (lambda given: CallRemote("write"), ACCOUNT, "write"),
    # Strangers can read the text.
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
