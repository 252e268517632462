"""What a feature brings to one run of the app, and what that is made of."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import attrs
import trio

from elwood.agent.channels.channel import Channel
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.models.embeddings import Embedder
from elwood.agent.session.extension import PromptPart, SessionExtension, SlashCommand
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.tools.tool import LentFolder, TextSearch, Tool
from elwood.foundation.runtime import Mailbox, RestartPolicy
from elwood.foundation.sandbox.command import Executor, NoSandbox

T = TypeVar("T")

# Failures of the world are waited for; failures of ours stop Elwood, and systemd starts it anew.
WORLD = RestartPolicy(max_crashes=None)
OURS = RestartPolicy()

# How a feature meets a signal: it stops its own work, the app ends in order, or immediately.
Interruption = Literal["taken", "end", "leave"]


@attrs.frozen(kw_only=True)
class Actor:
    """An actor, and its *step*: it may ask and tell actors on lower steps only.

    6: ways in, clocks, health; 5: sessions; 4: child runs; 3: approvals, memory; 2: models,
    timetable; 1: outboxes.  `Address.tell` checks it.  The highest are stopped first, but for one
    that *stops_last*; *grace* is how long (seconds) it may take to finish then.
    """

    step: int
    mailbox: Mailbox[Any]
    body: Callable[[Mailbox[Any]], Awaitable[None]]
    policy: RestartPolicy = OURS
    grace: float = 5.0
    stops_last: bool = False


@attrs.frozen
class Report:
    """What came of a chore, in *words*.

    With *prompt* it is not done yet: a model is to be asked this, in the run of the chore's task.
    """

    words: str = ""
    failed: bool = False
    prompt: str = ""


Do = Callable[[float], Awaitable[Report]]
"""Does what is due; is given when it was last done well, Unix seconds (0: never)."""


@attrs.frozen(kw_only=True)
class Chore:
    """Something a feature does by itself every *every* seconds: hours, days, or between them.

    *do* is given when it was last done well, Unix seconds (0: never).  It may run again after a
    crash, so doing it twice must be harmless.  *tools* are what a model may use if *do* asks for
    one.
    """

    id: str
    title: str
    every: float
    do: Do
    tools: tuple[str, ...] = ()


class Connected(CommandResult, frozen=True):
    """A good answer, behind which the connection is *serve*'s until that returns."""

    serve: Callable[[trio.SocketStream], Awaitable[None]]


@attrs.frozen(kw_only=True)
class ControlCommand:
    """Something that ``elwood`` may ask of the running service over the control socket."""

    name: str
    run: Callable[[Sequence[str]], Awaitable[CommandResult]]


@attrs.frozen(kw_only=True)
class Parts:
    """What a feature brings to one run of the app; all of it optional."""

    actors: Sequence[Actor] = ()
    tools: Sequence[Tool] = ()
    # Tools that come and go, by name: who brings them changes these in place.
    live: Sequence[dict[str, Tool]] = ()
    channels: Sequence[Channel] = ()
    sessions: Sequence[Callable[[SessionLog], SessionExtension]] = ()
    prompt: Sequence[PromptPart] = ()
    commands: Sequence[SlashCommand] = ()
    status: Sequence[Callable[[], str]] = ()
    chores: Sequence[Chore] = ()
    searches: Sequence[TextSearch] = ()
    control: Sequence[ControlCommand] = ()
    embedder: Embedder | None = None
    # Takes a SIGINT or SIGTERM, or says how the app ends.
    interrupt: Callable[[int], Interruption] | None = None
    # What runs commands, or why none can be run.
    sandbox: Executor | NoSandbox | None = None


class ReadTooEarly(Exception):
    """A feature read parts of others before all features were built: a bug of that feature."""


class LaterParts(Sequence[T]):
    """The parts of one *kind*, of all features.  Reading it too early raises ReadTooEarly."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._parts: Sequence[T] | None = None

    def complete(self, parts: Iterable[T]) -> None:
        """Set the parts; from here on they can be read."""
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
    """What all features bring of some kinds.

    A feature that is being built may keep these, and must not read them: some features are built
    after it.  Only *lent* is complete before, since it is declared in the records of the features.
    """

    def __init__(self, lent: Iterable[LentFolder] = ()) -> None:
        # Folders beside the workspace that commands and tools reach.
        self.lent: Sequence[LentFolder] = tuple(lent)
        self.chores = LaterParts[Chore]("chores")
        self.tools = LaterParts[Tool]("tools")
        self.searches = LaterParts[TextSearch]("searches")
        self.control = LaterParts[ControlCommand]("control commands")
        self.commands = LaterParts[SlashCommand]("slash commands")
        self._sandbox = LaterParts[Executor | NoSandbox]("sandboxes")

    def complete(self, parts: Sequence[Parts]) -> None:
        """Let *parts* be read, which are those of all features."""
        self.chores.complete(one for made in parts for one in made.chores)
        self.tools.complete(one for made in parts for one in made.tools)
        self.searches.complete(one for made in parts for one in made.searches)
        self.control.complete(one for made in parts for one in made.control)
        self.commands.complete(one for made in parts for one in made.commands)
        brought: Iterable[Executor | NoSandbox | None] = (made.sandbox for made in parts)
        self._sandbox.complete([choose_only("sandbox", brought) or NoSandbox("there is none")])

    @property
    def sandbox(self) -> Executor | NoSandbox:
        """Return what runs commands, or why none can be run."""
        return self._sandbox[0]

    @property
    def confined(self) -> bool:
        """Tell whether commands have walls around them, if any can be run."""
        return isinstance(self.sandbox, NoSandbox) or self.sandbox.rung != "direct"

    def place(self, path: Path) -> str | None:
        """Say where commands find *path* of this machine; None if they do not.  Blocks."""
        return None if isinstance(self.sandbox, NoSandbox) else self.sandbox.place(path)


def choose_only(kind: str, brought: Iterable[T | None]) -> T | None:
    """Return the only part of a *kind*, None if there is none.

    Raises ValueError if two features bring one: their order must not choose.
    """
    found = [one for one in brought if one is not None]
    if len(found) > 1:
        raise ValueError(f"two features bring a part that only one may bring: {kind}")
    return found[0] if found else None
