"""What a feature may add to conversations: along with messages, beside turns, and by commands."""

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
# Chooses what goes along with a turn, if anything does.
Reminder = Callable[[], Awaitable[Reminded | None]]
# Runs of tasks: the task, and the series of the run.
Runs = frozenset[tuple[str, int]]


class TakenBack(msgspec.Struct, frozen=True):
    """Turns that were taken back, with the Unix times of their answers.

    *parts* are where they stand in the log: first and last entries.
    """

    turns: Mapping[str, float]
    parts: tuple[tuple[int, int], ...]


class SessionExtension:
    """One feature's part in one conversation; lives as long as that is in memory.

    Each method does nothing until a feature says otherwise.  What a feature fails at holds up
    nobody: it reports the trouble and returns; anything it raises is a bug and ends the session.
    """

    @property
    def is_behind(self) -> bool:
        """Whether the conversation must be woken at the next start for this feature's sake."""
        return False

    def opening(self, inputs: Sequence[Received]) -> Opening | None:
        """Return the reader of the text that a turn on *inputs* begins with; None without a text.

        The text is recorded with *inputs*.  It is read within the turn.
        """
        return None

    def reminder(self) -> Reminder | None:
        """Return the chooser of what goes along with the turn that has begun; None without one.

        Asked again after a crash.
        """
        return None

    async def expand(self, command: str) -> str:
        """Say in words what an unknown slash command asks for; empty if it means nothing here."""
        return ""

    async def cancelled(self, runs: Runs) -> Runs:
        """Tell which of *runs* are of a task that was cancelled: what they asked for is let go."""
        return frozenset()

    async def taken_back(self, gone: TakenBack) -> None:
        """Let go of what was kept of *gone*; may be asked again."""

    @property
    def work(self) -> Callable[[], Awaitable[None]] | None:
        """What is to be done beside the conversation, until cancelled; None for nothing."""
        return None

    async def settle(self) -> None:
        """Bring to its end what is owed for the turn before; the next reply waits for it."""


def news(
    log: SessionLog, key: str, head: str, text: str, source: str, *, private: bool = False
) -> Reminded | None:
    """Make of *text* a reminder that begins with *head*; None if the newest of *key* says the same.

    So the model reads it once in a conversation, and again if it has changed or was summed up.
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
        """Give it, in *budget* tokens; the same text for as long as nothing has changed."""
        ...


class CommandCall(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command as it was typed in *session*, with the words *given* behind it.

    *again* says that it may have been carried out before: a crash came between.
    """

    session: str
    given: str
    received: Received
    again: bool = False


class CommandAnswer(msgspec.Struct, frozen=True):
    """What a command comes to; *buttons* type what stands on them.

    *pages* are buttons, too: what stands on each, and the command that it types (62 bytes).
    *entries* go into the log in one line with the answer.
    """

    text: str
    footer: str = ""
    buttons: tuple[str, ...] = ()
    pages: dict[str, str] = {}
    entries: tuple[Entry, ...] = ()


class AnsweredByTurn(msgspec.Struct, frozen=True):
    """The reply of a turn answers the command: of one that *entries* begin, or of one that runs."""

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
# How a command is carried out while a turn runs:
# short: beside it;
# long: beside it, and no other command waits for it;
# rest: when the turn and the messages before the command are answered;
# move: after the turn was stopped.
# Messages behind a command that needs rest, or moves the conversation, wait for it.
Handling = Literal["short", "long", "rest", "move"]


class SlashCommand(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one slash command: help, menus, completion and rights follow from it."""

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
    """Whose menu shows it; a command in nobody's menu is not in /help either."""
    handling: Handling = "short"

    @property
    def moves(self) -> bool:
        """Whether it waits for rest, and the messages behind it wait for it."""
        return self.handling in ("rest", "move")

    @property
    def about(self) -> str:
        """All lines of help."""
        return f"{self.help}\n{self.usage}".rstrip()


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """What all features together add to conversations."""

    sessions: Sequence[Callable[[SessionLog], SessionExtension]] = ()
    prompt: Sequence[PromptPart] = ()
    commands: Sequence[SlashCommand] = ()
    status: Sequence[Callable[[], str]] = ()
