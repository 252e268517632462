"""What the model may do: the contracts of a tool and of a search, and the files tools reach."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import attrs
import msgspec
import trio

from elwood.agent.conversation.calls import Action, ApprovalScope, Effect, Outcome, Plan
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import ToolSpec
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import RunBounds
from elwood.agent.policy.settings import Word
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import escape_name


class ToolFailure(Exception):
    """The tool could not do it; the text is for the model, which may try something else.

    *untrusted* says that the text holds words of strangers, from *origin*.  *unknown*: it may or
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
    """A call from within a tool came to nothing, or nobody knows; *outcome* is as in its receipt.

    A tool that does not catch it fails with the same words.
    """

    def __init__(self, text: str, outcome: Outcome, label: Label = CLEAN, origin: str = "") -> None:
        is_unknown = outcome == "unknown"
        super().__init__(text, untrusted=label.untrusted, origin=origin, unknown=is_unknown)
        self.outcome = outcome


@attrs.frozen
class Output:
    """What a tool gives: *text*, and what it brings into the conversation, from *origin*.

    The text may say why the call *failed*.  A call of effect keyed has *acted* if something was
    done that must not be done twice: its turn is not tried again then.
    """

    text: str
    untrusted: bool = False
    private: bool = False
    origin: str = ""
    failed: bool = False
    acted: bool = False


Call = Callable[[str, Mapping[str, object]], Awaitable[Output]]


async def refuse_call(name: str, arguments: Mapping[str, object]) -> Output:
    """Refuse a call where none can be made: while a call is examined, and within a nested one."""
    await trio.lowlevel.checkpoint()
    raise NestedCallFailed(f"{name}: no call can be made from here", "denied")


@attrs.frozen(kw_only=True)
class ToolContext:
    """What a tool is told of the conversation that calls it.

    *route* is where the running turn's answer goes, *label* what the conversation has taken in,
    *source* which one it is and whose words they are.  *now* is Unix time, *zone* the owner's (an
    IANA name).  *bounds* are those of the run, if it is one; *tools* are the names
    of those that it may use.  *written* are the files that we have written in this conversation,
    as targets of receipts; *sees* tells whether the model still sees a text in a result.  *facts*
    are those of the plan that was allowed: what runs must still be that.  *principal* speaks.
    *number* names a call of the model in its conversation, also when it is repeated after a crash;
    *earlier* counts the calls of the same tool in this turn before it.

    *call* makes a call of another tool, by its name and arguments, through the gate: judged, asked
    about and recorded like a call of the model.  It raises NestedCallFailed.  It may do no more
    than the tool that makes it: only look if that one has the risk "read", and only what is pure
    if that one is pure or keyed, since it may run again.  Its time is not the outer tool's.
    """

    session: str
    route: Route
    now: float
    zone: str = "UTC"
    label: Label = CLEAN
    source: str = ""
    bounds: RunBounds | None = None
    tools: Collection[str] = ()
    written: Collection[str] = ()
    sees: Callable[[str], bool] = lambda text: False
    facts: Mapping[str, str] = attrs.field(factory=dict)
    principal: str = ""
    number: str = ""
    earlier: int = 0
    call: Call = refuse_call


@attrs.frozen
class Tool:
    """Something the model may do; *id* is ``integration.resource.action``.

    *input* is at once the schema that the model sees, the check at the gate, and the type that
    *run* gets; where somebody else checks it is dict, and *schema* is theirs, as JSON.
    *effect* says what a repeat would do; when in doubt, once.
    *plan* examines a call without doing anything: what it would do is what the policy judges, the
    owner is asked about, and an approval is bound to; without it only *risk* is known.
    *scope* finds what may be permitted with a call, where *plan* does not say it: only when the
    owner is to be asked.
    *gives* is what every result brings into the conversation; *policy* is the word that holds for
    the tool unless the owner has one.  One that *writes* leaves the file that its target names;
    one that *forgets* makes the words of its turn something that is not to be kept.  The first line
    of what one *tells* says what was done, better than its target does; one whose effect is pure
    *looks_at* something, which is counted.
    *timeout* is in seconds, *limit* the characters of a result.  *target* says in a few words
    what a call is about, for receipts.  *watched* makes the call that looks at what a task
    watches, None if that is nothing for this tool.  *stop* ends what a call has begun elsewhere,
    when its turn is stopped; it returns the result, None if that is unknown.
    """

    name: str
    description: str
    input: type[Any]
    run: Callable[[Any, ToolContext], Awaitable[str | Output]]
    risk: Literal["read", "write", "destructive"] = "write"
    effect: Effect = "once"
    timeout: float = 60.0
    limit: int = 50_000
    target: Callable[[Any], str] = str
    plan: Callable[[Any, ToolContext], Awaitable[Plan]] | None = None
    gives: Label = CLEAN
    id: str = attrs.field(default=attrs.Factory(lambda tool: f"own.{tool.name}", takes_self=True))
    policy: Word | None = None
    writes: bool = False
    forgets: bool = False
    tells: bool = False
    schema: str = ""
    watched: Callable[[str], object | None] | None = None
    looks_at: str = "thing"
    scope: Callable[[Any, ToolContext], Awaitable[ApprovalScope | None]] | None = None
    stop: Callable[[ToolContext], Awaitable[Output | None]] | None = None

    @property
    def definition(self) -> str:
        """The hash of what the tool is: an approval of another definition does not count."""
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


def always(action: Action) -> Callable[[Any, object], Awaitable[Plan]]:
    """Make the plan of a tool whose calls all do the same kind of thing."""

    async def plan(given: object, context: object) -> Plan:
        await trio.lowlevel.checkpoint()
        return Plan(action, in_words(given))

    return plan


def in_words(given: object) -> str:
    r"""List the arguments of a call, a line each, but for those left as they are by default.

    What could pass for another line, or for JSON, is JSON.

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
    """A *text* that was found, what it is from (*origin*), and what it brings along.

    *updated* is a date or time (ISO 8601), *about* says more of it in a few words; *words* counts
    those of the question that are in it.  *kind* says what it is, if its origin tells.
    """

    text: str
    origin: str
    label: Label
    updated: str = ""
    about: str = ""
    words: int = 0
    kind: str = ""


class TextSearch(Protocol):
    """What `search_memory` asks, and what has to forget as well."""

    name: str

    async def search(self, query: str, limit: int) -> Sequence[SearchResult]:
        """Find the best *limit* texts, the best first."""

    async def forget(self, key: str, text: str, tool: str) -> Sequence[str]:
        """Let no place of ours say *text* (noted as *key* by *tool*); name those that still do.

        Raises ForgettingFailed.
        """


class ForgettingFailed(Exception):
    """It may still be said somewhere; the text says why."""


@attrs.frozen
class LentFolder:
    """The folder *root* beside the workspace; file tools find it at *place* as well.

    Only conversations in *chats* (`Route.address`) reach it; if there are none, all do.
    Strangers may have written what is in an *untrusted* one.
    """

    root: Root
    place: str = ""
    chats: Collection[str] = ()
    untrusted: bool = False

    def is_open(self, route: Route) -> bool:
        return not self.chats or route.address in self.chats


class ReachedPath(NamedTuple):
    """A *path* in *root*; *start* stands before it where people and models read it."""

    root: Root
    path: str
    start: str = ""


class WorkspaceFiles:
    """The workspace *root*, and the folders *lent* beside it.

    *place* says where commands find a path of this machine, None if they do not; it blocks.
    """

    def __init__(
        self,
        root: Root,
        lent: Sequence[LentFolder] = (),
        place: Callable[[Path], str | None] = lambda path: None,
    ) -> None:
        self.root = root
        self._lent = lent
        self._place = place

    def reached(self, path: str, route: Route) -> ReachedPath:
        """Say which root the *path* is in, and where there, for a conversation at *route*; blocks.

        An absolute path may be as commands see it, or as it is on this machine.  What is beneath
        none of the roots is left to the workspace, which refuses it.
        """
        if path.startswith("/"):
            for start, root in self._starts(route):
                if path == start or path.startswith(f"{start}/"):
                    inner = path[len(start) :].lstrip("/") or "."
                    return ReachedPath(root, inner, "" if root is self.root else f"{start}/")
        return ReachedPath(self.root, path)

    def named_mounts(self, command: str, route: Route) -> list[LentFolder]:
        """List the mounts that *command* names, of those that are open at *route*."""
        mounts = [one for one in self._lent if one.place and one.is_open(route)]
        return [one for one in mounts if _is_named(one, command)]

    def _starts(self, route: Route) -> Iterator[tuple[str, Root]]:
        for one in (LentFolder(self.root), *self._lent):
            if not one.is_open(route):
                continue
            for place in (str(one.root.path), one.place, self._place(one.root.path)):
                if place:
                    yield place, one.root


def _is_named(mount: LentFolder, command: str) -> bool:
    """Return True if *command* has the path of *mount*, or one that may mean any mount."""
    parent = re.escape(mount.place.rpartition("/")[0])
    is_any = re.search(rf"{parent}(?![\w-]|/[\w-]+(?![\w*?\[{{$-]))", command) is not None
    return is_any or mount.place in command or str(mount.root.path) in command


@contextmanager
def reaching(path: str) -> Iterator[None]:
    """Say to the model why *path* was refused in the block."""
    name = escape_name(path) or "the path"
    try:
        yield
    except PathMissing as error:
        raise ToolFailure(f"{name} {error.why}; list its folder to see what is there") from error
    except PathRefused as error:
        raise ToolFailure(f"{name}: {error.why}") from error
    except Unconfined as error:
        raise ToolFailure(f"files cannot be used on this machine: {error}") from error
