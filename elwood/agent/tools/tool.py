"""What the model may do: the contract of a tool."""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import attrs
import msgspec
import trio

from elwood.agent.conversation.calls import Action, Effect, Plan
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import ToolSpec
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import TaskRun
from elwood.agent.policy.settings import Word


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


@attrs.frozen
class Output:
    """What a tool gives: *text*, and what it brings into the conversation, from *origin*."""

    text: str
    untrusted: bool = False
    private: bool = False
    origin: str = ""


@attrs.frozen(kw_only=True)
class ToolContext:
    """What a tool is told of the conversation that calls it.

    *route* is where the running turn's answer goes, *label* what the conversation has taken in,
    *source* which one it is and whose words they are.  *now* is Unix time, *zone* the owner's (an
    IANA name).  *task_run* is the run of a task that this is, if it is one; *tools* are the names
    of those that it may use.  *written* are the files that we have written in this conversation,
    as targets of receipts; *results* the texts of results that the model still sees.  *facts* are
    those of the plan that was allowed: what runs must still be that.
    """

    session: str
    route: Route
    now: float
    zone: str = "UTC"
    label: Label = CLEAN
    source: str = ""
    task_run: TaskRun | None = None
    tools: Collection[str] = ()
    written: Collection[str] = ()
    results: Sequence[str] = ()
    facts: Mapping[str, str] = attrs.field(factory=dict)

    def sees(self, text: str) -> bool:
        """Tell whether *text* stands in a result that the model still sees."""
        return any(text in result for result in self.results)


@attrs.frozen
class Tool:
    """Something the model may do; *id* is ``integration.resource.action``.

    *input* is at once the schema that the model sees, the check at the gate, and the type that
    *run* gets.  *effect* says what a repeat would do; when in doubt, once.
    *plan* examines a call without doing anything: what it would do is what the policy judges, the
    owner is asked about, and an approval is bound to; without it only *risk* is known.
    *gives* is what every result brings into the conversation; *policy* is the word that holds for
    the tool unless the owner has one.  One that *writes* leaves the file that its target names.
    *timeout* is in seconds, *limit* the characters of a result.  *target* says in a few words
    what a call is about, for receipts.
    """

    name: str
    description: str
    input: type[msgspec.Struct]
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

    @property
    def definition(self) -> str:
        """The hash of what the tool is: an approval of another definition does not count."""
        return _definition(self)

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
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

    async def plan(given: msgspec.Struct, context: object) -> Plan:
        await trio.lowlevel.checkpoint()
        return Plan(action, msgspec.json.encode(given).decode())

    return plan
