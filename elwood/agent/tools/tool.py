"""Contracts of a tool and of a search, and the files that tools can reach."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import attrs
import msgspec
import trio

from elwood.agent.conversation.calls import (
    DEEDS,
    Action,
    ApprovalScope,
    Deed,
    Effect,
    Outcome,
    Plan,
)
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import ReceivedFile, ToolSpec
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import RunBounds
from elwood.agent.policy.settings import Word
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import escape_name, one_line


class ToolFailure(Exception):
    """The tool failed; the text is for the model, which may try something else.

    *untrusted*: the text contains words of strangers, from *origin*.  *unknown*: the tool may or
    may not have acted.
    """

    def __init__(
        self, text: str, *, untrusted: bool = False, origin: str = "", unknown: bool = False
    ) -> None:
        super().__init__(text)
        self.unknown = unknown
        self.untrusted = untrusted
        self.origin = origin


class NestedCallFailed(ToolFailure):
    """A call made by a tool failed or its result is unknown; *outcome* is as in its receipt.

    If the tool does not catch it, the tool fails with the same words.
    """

    def __init__(self, text: str, outcome: Outcome, label: Label = CLEAN, origin: str = "") -> None:
        is_unknown = outcome == "unknown"
        super().__init__(text, untrusted=label.untrusted, origin=origin, unknown=is_unknown)
        self.outcome = outcome


@attrs.frozen
class Output:
    """The result of a tool."""

    text: str
    # Labels that it adds to the conversation, and their origin.
    untrusted: bool = False
    private: bool = False
    origin: str = ""
    # The call failed, and the text gives the reason.
    failed: bool = False
    # A call of effect keyed did something that must not be repeated: its turn is not retried.
    acted: bool = False
    # Names of tools that it found: from now on they are in the prompt of the conversation.
    opens: tuple[str, ...] = ()
    # Files in the workspace that a model may see if the call succeeded; the text names them.
    files: tuple[ReceivedFile, ...] = ()


Call = Callable[[str, Mapping[str, object]], Awaitable[Output]]


async def refuse_call(name: str, arguments: Mapping[str, object]) -> Output:
    """Refuse a call: while another call is examined, and within a nested call."""
    await trio.lowlevel.checkpoint()
    raise NestedCallFailed(f"{name} cannot be called from here", "denied")


@attrs.frozen(kw_only=True)
class ToolContext:
    """The circumstances of a call."""

    session: str
    # Where the answer of the running turn goes.
    route: Route
    # Unix time.
    now: float
    # The owner's time zone (an IANA name).
    zone: str = "UTC"
    # Labels of the conversation's content.
    label: Label = CLEAN
    # Which conversation it is and whose words it contains.
    source: str = ""
    # Bounds of the run, if it is one.
    bounds: RunBounds | None = None
    # Names of the tools that the run may use.
    tools: Collection[str] = ()
    # Files written in this conversation, as targets of receipts.
    written: Collection[str] = ()
    # Return True if a result with this text is still in the model's context.
    sees: Callable[[str], bool] = lambda text: False
    # Facts of the plan that was allowed; they must still hold when the call runs.
    facts: Mapping[str, str] = attrs.field(factory=dict)
    # The person or task that caused the call.
    principal: str = ""
    # Id of a call of the model in its conversation, the same when it is repeated after a crash.
    number: str = ""
    # Number of earlier calls of the same tool in this turn.
    earlier: int = 0
    # Show the end of the output while the call runs; the function returns it.
    show: Callable[[Callable[[], str]], None] = lambda peek: None
    # Call another tool through the gate: judged, asked about and recorded like a call of the model.
    # Raises NestedCallFailed.  Under risk "read" it may only read; under effect pure or keyed it
    # must be pure, since it may run again.  Its time does not count for the outer tool.
    call: Call = refuse_call


@attrs.frozen
class Tool:
    """A tool for the model."""

    name: str
    description: str
    # Type of the arguments, checked at the gate; also the schema for the model.  It is dict if the
    # provider of the tool checks them.
    input: type[Any]
    run: Callable[[Any, ToolContext], Awaitable[str | Output]]
    risk: Literal["read", "write", "destructive"] = "write"
    # The effect of a repetition; when in doubt, once.
    effect: Effect = "once"
    # Seconds.
    timeout: float = 60.0
    # Maximum characters of a result.
    limit: int = 50_000
    # Describe the subject of a call in a few words, for receipts.
    target: Callable[[Any], str] = str
    # Examine a call without doing anything.  The policy judges the plan, a question
    # shows it, and an approval is bound to it.  Without a plan there is only *risk*.
    plan: Callable[[Any, ToolContext], Awaitable[Plan]] | None = None
    # Labels that every result adds to the conversation.
    gives: Label = CLEAN
    # ``integration.resource.action``
    id: str = attrs.field(default=attrs.Factory(lambda tool: f"own.{tool.name}", takes_self=True))
    # Default policy, if the owner has not set one.
    policy: Word | None = None
    # Leaves the file that its target names.
    writes: bool = False
    # What its calls do: the claims of an answer that a successful call supports.
    deeds: tuple[Deed, ...] = DEEDS
    # Makes the words of its turn something that must not be kept.
    forgets: bool = False
    # The first line of its result describes the action better than its target does.
    tells: bool = False
    # JSON schema of the provider of the tool, if *input* is dict.
    schema: str = ""
    # Build the call that reads the target a task watches; None if this tool cannot.
    watched: Callable[[str], object | None] | None = None
    # Noun of the things that a tool of effect pure reads, for counting.
    looks_at: str = "thing"
    # Find the coverage of a permission if *plan* does not include it; called only to ask the owner.
    scope: Callable[[Any, ToolContext], Awaitable[ApprovalScope | None]] | None = None
    # When it is in the prompt: always; only with few tools, or once a search found it; only with
    # many, as the search does; never, as its calls only explain why it is off.
    shown: Literal["always", "few", "many", "never"] = "always"
    # Stop remote work of a call when its turn is stopped; None: the result is unknown.
    stop: Callable[[ToolContext], Awaitable[Output | None]] | None = None

    @property
    def definition(self) -> str:
        """Hash of the definition: an approval of another definition does not count."""
        return _definition(self)

    @property
    def spec(self) -> ToolSpec:
        if self.schema:
            return ToolSpec(self.name, self.description, msgspec.Raw(self.schema.encode()))
        (schema,), components = msgspec.json.schema_components(
            [self.input], ref_template="#/$defs/{name}"
        )
        name = schema["$ref"].rsplit("/", 1)[-1]
        body = components.pop(name)
        body.pop("title", None)
        if components:
            body["$defs"] = components
        return ToolSpec(self.name, self.description, msgspec.Raw(msgspec.json.encode(body)))


@lru_cache(maxsize=256)
def _definition(tool: Tool) -> str:
    spec = tool.spec
    parts = [spec.name, spec.description, bytes(spec.schema).decode(), tool.risk, tool.effect]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def decode_arguments(text: str, tool: Tool) -> object:
    """Decode the JSON arguments of a call of *tool*.  Raises ValueError or RecursionError."""
    given = msgspec.json.decode(text, type=tool.input)
    json.loads(text, object_pairs_hook=_refuse_repeated, parse_int=str)
    return given


def _refuse_repeated(pairs: Sequence[tuple[str, object]]) -> None:
    """Raise ValueError for a repeated key of a JSON object: a person may read the other value."""
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise ValueError(f"the key {one_line(key)!r} occurs {count} times; give it once")


def always(action: Action, asks: str) -> Callable[[Any, object], Awaitable[Plan]]:
    """Build a plan function for a tool whose calls all have the same action and question."""

    async def plan(given: object, context: object) -> Plan:
        await trio.lowlevel.checkpoint()
        return Plan(action, in_words(given), asks=asks)

    return plan


def in_words(given: object) -> str:
    r"""Format the arguments of a call, one per line, without those that have their default.

    Ambiguous values, such as those with line breaks, are formatted as JSON.

    >>> print(in_words({"to": "Bo", "text": "a\nto: Eve", "times": 2}))
    to: Bo
    text: "a\nto: Eve"
    times: 2
    """
    fields = msgspec.structs.fields(given) if isinstance(given, msgspec.Struct) else ()
    usual = {one.encode_name: one.default for one in fields}
    named = msgspec.to_builtins(given)
    return "\n".join(
        f"{_plain(name)}: {_plain(value)}"
        for name, value in named.items()
        if value != usual.get(name, msgspec.NODEFAULT)
    )


def _plain(value: object) -> str:
    is_plain = isinstance(value, str) and value.isprintable() and value[:1] not in ("", '"')
    return str(value) if is_plain else msgspec.json.encode(value).decode()


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A *text* that was found."""

    text: str
    # Where it is from.
    origin: str
    # Labels that it adds to the conversation.
    label: Label
    # Date or time (ISO 8601).
    updated: str = ""
    # A short description.
    about: str = ""
    # Number of words of the query in it.
    words: int = 0
    # Kind of the text, if its origin has kinds.
    kind: str = ""


class TextSearch(Protocol):
    """A source that `search_memory` searches, and from which a text can be forgotten."""

    name: str

    async def search(self, query: str, limit: int) -> Sequence[SearchResult]:
        """Return the best *limit* texts, the best first."""

    async def forget(self, key: str, text: str, tool: str) -> Sequence[str]:
        """Remove *text* (noted as *key* by *tool*); return the places that still contain it.

        Raises ForgettingFailed.
        """


class ForgettingFailed(Exception):
    """The text may still exist somewhere; the message gives the reason."""


@attrs.frozen
class MountedRoot:
    """The folder *root* outside the workspace, also accessible at *place* for file tools."""

    root: Root
    place: str = ""
    # Conversations (`Route.address`) that reach it; all if empty.
    chats: Collection[str] = ()
    # Its content may be from strangers.
    untrusted: bool = False

    def is_open(self, route: Route) -> bool:
        return not self.chats or route.address in self.chats


class ReachedPath(NamedTuple):
    """A *path* in *root*; *start* is its prefix in texts for people and models."""

    root: Root
    path: str
    start: str = ""


@attrs.define(eq=False)
class WorkspaceFiles:
    """The workspace *root* and the folders *lent* outside it.

    *place* returns the path at which commands find a path of the host, or None; it blocks.
    """

    root: Root
    _lent: Sequence[MountedRoot] = ()
    _place: Callable[[Path], str | None] = lambda path: None

    def resolve(self, path: str, route: Route) -> ReachedPath:
        """Resolve *path* for a conversation at *route*; blocks.

        An absolute path may be as commands see it, or as on the host.  A path outside all roots is
        passed to the workspace, which refuses it.
        """
        if path.startswith("/"):
            for start, root in self._starts(route):
                if path == start or path.startswith(f"{start}/"):
                    inner = path[len(start) :].lstrip("/") or "."
                    return ReachedPath(root, inner, "" if root is self.root else f"{start}/")
        return ReachedPath(self.root, path)

    def find_named_mounts(self, command: str, route: Route) -> list[MountedRoot]:
        """Return the mounts that *command* names, of those that are open at *route*."""
        mounts = [one for one in self._lent if one.place and one.is_open(route)]
        return [one for one in mounts if _is_named(one, command)]

    def _starts(self, route: Route) -> Iterator[tuple[str, Root]]:
        for one in (MountedRoot(self.root), *self._lent):
            if not one.is_open(route):
                continue
            for place in (str(one.root.path), one.place, self._place(one.root.path)):
                if place:
                    yield place, one.root


def _is_named(mount: MountedRoot, command: str) -> bool:
    """Return True if *command* has the path of *mount*, or a path that may mean any mount."""
    parent = re.escape(mount.place.rpartition("/")[0])
    is_any = re.search(rf"{parent}(?![\w-]|/[\w-]+(?![\w*?\[{{$-]))", command) is not None
    return is_any or mount.place in command or str(mount.root.path) in command


@contextmanager
def convert_refusals(path: str) -> Iterator[None]:
    """Convert refusals of *path* in the block into a ToolFailure for the model."""
    name = escape_name(path) or "the path"
    try:
        yield
    except PathMissing as error:
        raise ToolFailure(f"{name} {error.why}; list its folder to see its files") from error
    except PathRefused as error:
        raise ToolFailure(f"{name}: {error.why}") from error
    except Unconfined as error:
        raise ToolFailure(f"files cannot be used on this machine: {error}") from error
