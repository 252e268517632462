"""What exactly will run, in a form that can be hashed, shown and compared."""

import hashlib
import json
from collections.abc import Mapping

import msgspec

from elwood.agent.conversation.actions import Action


class Plan(msgspec.Struct, frozen=True):
    """One call, examined.

    *subject* is what will run, complete, as the owner is asked about it.  *facts* are what the
    outcome hangs on besides the arguments: argv after parsing, hashes of named files, resolved
    references, the sandbox.  *outgoing* is the text that would leave Elwood, if any.
    """

    action: Action
    subject: str
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)
    outgoing: str = ""


def exact(tool: str, definition: str, arguments: object, plan: Plan) -> str:
    """Hash the call itself: equal only if the very same thing would run.

    *definition* is the hash of the tool's definition, *arguments* what JSON gave.

    >>> from elwood.agent.conversation.actions import Other
    >>> a = exact("t", "d", {"b": 1, "a": 2}, Plan(Other("write"), ""))
    >>> a == exact("t", "d", {"a": 2, "b": 1}, Plan(Other("write"), ""))
    True
    >>> a == exact("t", "d", {"a": 2, "b": 1}, Plan(Other("write"), "", {"file": "x"}))
    False
    """
    return _hash([tool, definition, arguments, dict(plan.facts)])


def bound(exact_hash: str, untrusted: bool, policy: str) -> str:
    """Hash the call in its circumstances: an approval is good for these only.

    *untrusted* is whether strangers' words had been read, *policy* names the version of the rules.
    Private data are not part of it: what would run is fixed, so it cannot carry what is read later.
    """
    return _hash([exact_hash, untrusted, policy])


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
