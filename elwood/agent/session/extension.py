"""Interfaces through which features extend conversations: reminders, work, and commands."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from elwood.agent.conversation.labels import CLEAN
from elwood.agent.conversation.message import Notice
from elwood.agent.session.log.entries import Entry, Received, Reminded
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.rights import OWNER, Right

# Reads the text that a turn begins with.
Opening = Callable[[], Awaitable[str]]
# Chooses the reminder of a turn, if any.
Reminder = Callable[[], Awaitable[Reminded | None]]
# Runs of tasks: the task, and the series of the run.
Runs = frozenset[tuple[str, int]]


class TakenBack(msgspec.Struct, frozen=True):
    """Turns that were undone, with the Unix times of their answers.

    *parts* are their spans in the log: first and last entries.
    """

    turns: Mapping[str, float]
    parts: tuple[tuple[int, int], ...]


class SessionExtension:
    """One feature's part in one conversation; lives as long as that is in memory.

    By default each method does nothing. A feature that fails must not block the session: it reports
    the error and returns; an exception is a bug and ends the session.
    """

    @property
    def is_behind(self) -> bool:
        """Whether the conversation must be woken at the next start, for this feature."""
        return False

    def get_opening(self, inputs: Sequence[Received]) -> Opening | None:
        """Return the reader of the text that a turn on *inputs* begins with; None without a text.

        The text is read within the turn, and recorded with *inputs*.
        """
        return None

    def reminder(self) -> Reminder | None:
        """Return the chooser of a reminder for the turn that has begun; None without one.

        Called again after a crash.
        """
        return None

    async def expand(self, command: str) -> str:
        """Return the text that replaces an unknown slash command; "" if unknown here."""
        return ""

    async def find_cancelled(self, runs: Runs) -> Runs:
        """Return those of *runs* whose task was cancelled, so that their calls are cancelled."""
        return frozenset()

    async def remove_turns(self, gone: TakenBack) -> None:
        """Remove the data about *gone*; may be called again."""

    @property
    def work(self) -> Callable[[], Awaitable[None]] | None:
        """The work to do concurrently with the conversation, until cancelled; None for none."""
        return None

    async def finish_previous_turn(self) -> None:
        """Finish the work for the previous turn; the next reply waits for it."""


def build_reminder(
    log: SessionLog, key: str, head: str, text: str, source: str, *, private: bool = False
) -> Reminded | None:
    """Build a reminder of *text* that begins with *head*; None if the newest of *key* is the same.

    So the model reads it once in a conversation, and again if it changed or was compacted.
    """
    notices = (node.message for node in reversed(log.state.path))
    last = next((one.text for one in notices if isinstance(one, Notice) and one.key == key), "")
    said = f"{head}{text or 'nothing'}]"
    if last == said or not (last or text) or log.turn.rounds:
        return None
    return Reminded(log.turn.id, said, CLEAN, source, key, private)


class PromptPart(Protocol):
    """A part of the system prompt, after the documents of the workspace."""

    async def text(self, budget: int) -> str:
        """Return it, in *budget* tokens; the same text as long as nothing has changed."""
        ...


class CommandCall(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command as it was typed in *session*, with the arguments *given*.

    *again*: it may have been run before a crash.
    """

    session: str
    given: str
    received: Received
    again: bool = False


class CommandAnswer(msgspec.Struct, frozen=True):
    """The answer of a command."""

    text: str
    footer: str = ""
    buttons: tuple[str, ...] = ()  # labels, each typed as its own command
    # labels of further buttons, with the command that each types (62 bytes)
    pages: dict[str, str] = {}
    entries: tuple[Entry, ...] = ()  # recorded in one line with the answer


class AnsweredByTurn(msgspec.Struct, frozen=True):
    """A turn's reply answers the command: a new turn, begun by *entries*, or the open one."""

    entries: tuple[Entry, ...] = ()


# The headings of /help, in order.
Group = Literal[
    "Talking with me",
    "Going back",
    "What I know and plan",
    "What I did, and what it cost",
    "What I may do",
    "Looking after me",
]
# How a command is run during a turn:
# short: concurrently;
# long: concurrently, and no other command waits for it;
# rest: when the turn and the messages before the command are answered;
# move: after the turn was stopped.
# Later messages wait for a command that needs rest or moves the conversation.
Handling = Literal["short", "long", "rest", "move"]


class SlashCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One slash command: help, menus, completion and rights are derived from it."""

    name: str
    help: str
    """One line, for /help and menus."""
    run: Callable[[CommandCall], Awaitable[CommandAnswer | AnsweredByTurn]]
    usage: str = ""
    """The other lines of `/help NAME`.  The terminal completes the words that it shows."""
    aliases: tuple[str, ...] = ()
    group: Group = "Looking after me"
    right: Right = OWNER
    menu: Literal["everybody", "owner", "nobody"] = "owner"
    """Whose menu shows it; "nobody" also hides it from /help."""
    handling: Handling = "short"

    @property
    def moves(self) -> bool:
        """Whether it waits for rest, and later messages wait for it."""
        return self.handling in ("rest", "move")

    @property
    def about(self) -> str:
        """All lines of help."""
        return f"{self.help}\n{self.usage}".rstrip()


# Returns a line of /status for the owner; "" without one.  It must not wait long.
StatusLine = Callable[[], Awaitable[str]]


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """The contributions of all features to conversations."""

    sessions: Sequence[Callable[[SessionLog], SessionExtension]] = ()
    prompt: Sequence[PromptPart] = ()
    commands: Sequence[SlashCommand] = ()
    status: Sequence[StatusLine] = ()
