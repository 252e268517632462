"""What the model may do: the contract of a tool."""

import hashlib
import inspect
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec
import trio

from elwood.agent.conversation.actions import Action
from elwood.agent.conversation.calls import Effect
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import ToolSpec
from elwood.agent.conversation.plans import Plan
from elwood.agent.conversation.route import NOWHERE, Route
from elwood.agent.conversation.task_run import TaskRun, job_of
from elwood.agent.policy.settings import Word
from elwood.agent.tools.messenger import Messenger
from elwood.agent.tools.searches import TextSearch
from elwood.features.memory.messages import MemoryMail
from elwood.features.skills.git_client import Git
from elwood.features.skills.installer import SkillInstaller
from elwood.features.skills.store import SkillStore
from elwood.features.tasks.bounds import Reach
from elwood.features.tasks.messages import TimetableMail
from elwood.features.web.client import Web
from elwood.features.web.search_client import Search
from elwood.foundation.runtime import Address, Blocking
from elwood.foundation.sandbox.command import Executor, NoSandbox
from elwood.foundation.storage.files import Root
from elwood.foundation.text.characters import escape_invisible


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


def _root(hands: "Hands") -> Root:
    return Root(hands.workspace)


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
class Hands:
    """What a tool is given to act with.  *workspace* is the folder files are confined to.

    *untrusted* tells whether the conversation has taken strangers' words in, *source* which one it
    is and whose words they are, *wrote* whether it was we who wrote a file, in this conversation,
    *sees* whether a text stands in a result that the model still sees.  *sandbox* runs commands, or
    says why none can be run.  Without *web*, *search* or *memory* there is none of it.  *searches*
    are what the memory is searched by.  *skills* are those there are; *git* and *places* take
    others in.  *facts* are those of the plan that was allowed: what runs must still be that.
    *root* is the workspace, held open from its first use on: make one for the whole house.
    *timetable* is asked about tasks, if there are any; *zone* is the owner's (an IANA name), *now*
    the wall clock in Unix seconds, *session* the conversation, *job* the task whose run this is,
    or ""; *reach* is what a task may have at most that is made now.
    """

    workspace: Path
    blocking: Blocking
    untrusted: Callable[[], bool] = lambda: False
    source: Callable[[], str] = lambda: ""
    wrote: Callable[[str], bool] = lambda path: False
    sandbox: Executor | NoSandbox = attrs.field(factory=lambda: NoSandbox("there is none"))
    web: Web | None = None
    search: Search | None = None
    messenger: Messenger | None = None
    route: Route = NOWHERE
    memory: Address[MemoryMail] | None = None
    searches: Sequence[TextSearch] = ()
    facts: Mapping[str, str] = attrs.field(factory=dict)
    skills: SkillStore | None = None
    git: Git | None = None
    places: SkillInstaller | None = None
    sees: Callable[[str], bool] = lambda text: False
    timetable: Address[TimetableMail] | None = None
    zone: str = "UTC"
    now: Callable[[], float] = time.time
    session: str = ""
    job: Callable[[], str] = lambda: ""
    reach: Callable[[], Reach] = Reach
    root: Root = attrs.field(
        kw_only=True, eq=False, repr=False, default=attrs.Factory(_root, takes_self=True)
    )


@attrs.frozen
class Tool:
    """Something the model may do; *id* is ``integration.resource.action``.

    *input* is at once the schema that the model sees, the check at the gate, and the type that
    *run* gets.  *effect* says what a repeat would do (reliability.md §1.1); when in doubt, once.
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
    run: Callable[[Any, Any], Awaitable[str | Output]]
    risk: Literal["read", "write", "destructive"] = "write"
    effect: Effect = "once"
    timeout: float = 60.0
    limit: int = 50_000
    target: Callable[[Any], str] = str
    plan: Callable[[Any, Any], Awaitable[Plan]] | None = None
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


def with_hands(tool: Tool, hands: Hands) -> Tool:
    """Let a tool that still takes `Hands` be called with a `ToolContext`."""

    def adapted(step: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        second = list(inspect.signature(step).parameters.values())[1]
        if second.annotation not in (Hands, "Hands"):
            return step

        def call(given: Any, context: ToolContext) -> Awaitable[Any]:
            return step(given, _hands(hands, context))

        return call

    return attrs.evolve(tool, run=adapted(tool.run), plan=tool.plan and adapted(tool.plan))


def _hands(hands: Hands, context: ToolContext) -> Hands:
    run = context.task_run
    return attrs.evolve(
        hands,
        untrusted=lambda: context.label.untrusted,
        source=lambda: context.source,
        wrote=lambda path: escape_invisible(path) in context.written,
        facts=context.facts,
        sees=context.sees,
        zone=context.zone,
        now=lambda: context.now,
        session=context.session,
        route=context.route,
        job=lambda: job_of(run),
        reach=lambda: attrs.evolve(hands.reach(), tools=tuple(sorted(context.tools)), errand=run),
    )
