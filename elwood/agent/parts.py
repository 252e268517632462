"""The parts that a feature provides for one run of the app."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import attrs
import trio

from elwood.agent.channels.channel import Channel
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.models.embeddings import Embedder
from elwood.agent.session.extension import PromptPart, SessionExtension, SlashCommand, StatusLine
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.tools.tool import MountedRoot, TextSearch, Tool
from elwood.foundation.runtime import Mailbox, RestartPolicy
from elwood.foundation.sandbox.command import Executor, NoSandbox

T = TypeVar("T")

# WORLD: outside failures are retried forever.  OURS: bugs stop Elwood, and systemd restarts it.
WORLD = RestartPolicy(max_crashes=None)
OURS = RestartPolicy()

# Reaction to a signal: the feature stops its own work, the app ends in order, or immediately.
Interruption = Literal["taken", "end", "leave"]


@attrs.frozen(kw_only=True)
class Actor:
    """An actor and its place in the order of actors.

    Step 6: channels, clocks, health; 5: sessions; 4: child runs; 3: approvals, memory; 2: models,
    timetable; 1: outboxes.  Higher steps are stopped first.
    """

    # An actor may send messages only to actors of lower steps; `Address.tell` checks it.
    step: int
    mailbox: Mailbox[Any]
    body: Callable[[Mailbox[Any]], Awaitable[None]]
    policy: RestartPolicy = OURS
    # Seconds that it may take to stop.
    grace: float = 5.0
    # Stop it after all others.
    stops_last: bool = False


@attrs.frozen
class Report:
    """The result of a chore, in *words*.

    With *prompt* it is not finished: a model must answer this, in a run of the chore's task.
    """

    words: str = ""
    failed: bool = False
    prompt: str = ""


Do = Callable[[float], Awaitable[Report]]
"""Does what is due.  Its argument is the Unix time of the last success (0: never)."""


@attrs.frozen(kw_only=True)
class Chore:
    """A background job of a feature."""

    id: str
    title: str
    # Interval in seconds: hours to days.
    every: float
    # May run again after a crash, so running it twice must be harmless.
    do: Do
    # Tools that a model may use if the report has a prompt.
    tools: tuple[str, ...] = ()


class Connected(CommandResult, frozen=True):
    """Success.  *serve* owns the connection until it returns."""

    serve: Callable[[trio.SocketStream], Awaitable[None]]


@attrs.frozen(kw_only=True)
class ControlCommand:
    """A request that ``elwood`` can send to the running service over the control socket."""

    name: str
    run: Callable[[Sequence[str]], Awaitable[CommandResult]]


@attrs.frozen(kw_only=True)
class Parts:
    """The parts that a feature provides for one run of the app; all are optional."""

    actors: Sequence[Actor] = ()
    tools: Sequence[Tool] = ()
    # Tools that come and go, by name: the feature changes these in place.
    live: Sequence[dict[str, Tool]] = ()
    channels: Sequence[Channel] = ()
    sessions: Sequence[Callable[[SessionLog], SessionExtension]] = ()
    prompt: Sequence[PromptPart] = ()
    commands: Sequence[SlashCommand] = ()
    # Return further words that a terminal completes, as NAME (typed /NAME) or @NAME, with texts.
    completions: Sequence[Callable[[], Mapping[str, str]]] = ()
    status: Sequence[StatusLine] = ()
    chores: Sequence[Chore] = ()
    searches: Sequence[TextSearch] = ()
    control: Sequence[ControlCommand] = ()
    embedder: Embedder | None = None
    # Handle a SIGINT or SIGTERM, or return how the app must end.
    interrupt: Callable[[int], Interruption] | None = None
    # Runs commands, or holds the reason why no command can be run.
    sandbox: Executor | NoSandbox | None = None


class ReadTooEarly(Exception):
    """A feature read parts of others before all features were built: a bug of that feature."""


class LaterParts(Sequence[T]):
    """The parts of one *kind*, of all features.  Reading them too early raises ReadTooEarly."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._parts: Sequence[T] | None = None

    def complete(self, parts: Iterable[T]) -> None:
        """Set the parts, which makes them readable."""
        self._parts = tuple(parts)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._complete[index]

    def __len__(self) -> int:
        return len(self._complete)

    @property
    def _complete(self) -> Sequence[T]:
        if self._parts is None:
            raise ReadTooEarly(f"the {self._kind} of all features are not complete yet")
        return self._parts


class Gathered:
    """Some kinds of parts, of all features.

    A feature may keep these while it is built, but must not read them: some features are built
    later.  Only *lent* is complete before, because the records of the features declare it.
    """

    def __init__(self, lent: Iterable[MountedRoot] = ()) -> None:
        # Folders outside the workspace that commands and tools reach.
        self.lent: Sequence[MountedRoot] = tuple(lent)
        self.chores = LaterParts[Chore]("chores")
        self.tools = LaterParts[Tool]("tools")
        self.searches = LaterParts[TextSearch]("searches")
        self.control = LaterParts[ControlCommand]("control commands")
        self.commands = LaterParts[SlashCommand]("slash commands")
        self.completions = LaterParts[Callable[[], Mapping[str, str]]]("completions")
        self._sandbox = LaterParts[Executor | NoSandbox]("sandboxes")

    def complete(self, parts: Sequence[Parts]) -> None:
        """Make the *parts* of all features readable."""
        self.chores.complete(one for made in parts for one in made.chores)
        self.tools.complete(one for made in parts for one in made.tools)
        self.searches.complete(one for made in parts for one in made.searches)
        self.control.complete(one for made in parts for one in made.control)
        self.commands.complete(one for made in parts for one in made.commands)
        self.completions.complete(one for made in parts for one in made.completions)
        brought: Iterable[Executor | NoSandbox | None] = (made.sandbox for made in parts)
        self._sandbox.complete([choose_only("sandbox", brought) or NoSandbox("there is none")])

    @property
    def sandbox(self) -> Executor | NoSandbox:
        """Return the sandbox, or the reason why no command can be run."""
        return self._sandbox[0]

    @property
    def confined(self) -> bool:
        """Return True if commands are sandboxed, or no command can be run."""
        return isinstance(self.sandbox, NoSandbox) or self.sandbox.rung != "direct"

    def map_path(self, path: Path) -> str | None:
        """Return the path at which commands find *path* of the host, or None.  Blocks."""
        return None if isinstance(self.sandbox, NoSandbox) else self.sandbox.map_path(path)


def choose_only(kind: str, brought: Iterable[T | None]) -> T | None:
    """Return the only part of a *kind*, or None.

    Raises ValueError if two features provide one: their order must not decide.
    """
    found = [one for one in brought if one is not None]
    if len(found) > 1:
        raise ValueError(f"two features bring a part that only one may bring: {kind}")
    return found[0] if found else None
