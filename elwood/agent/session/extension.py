"""What a feature may add to conversations: along with messages, beside turns, and by commands."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from elwood.agent.conversation.labels import CLEAN
from elwood.agent.conversation.message import Notice
from elwood.agent.session.commands.rights import OWNER, Right
from elwood.agent.session.log.entries import Received, Reminded
from elwood.agent.session.log.session_log import SessionLog

# Reads the text that a turn begins with.
Opening = Callable[[], Awaitable[str]]
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

    async def remind(self) -> Reminded | None:
        """Choose what goes along with the turn that has begun; asked again after a crash."""
        return None

    async def expand(self, command: str) -> str:
        """Say in words what an unknown slash command asks for; empty if it means nothing here."""
        return ""

    async def cancelled(self, runs: Runs) -> Runs:
        """Tell which of *runs* are of a task that was cancelled: what they asked for is let go."""
        return frozenset()

    async def taken_back(self, gone: TakenBack) -> None:
        """Let go of what was kept of *gone*; may be asked again."""

    async def run(self) -> None:
        """Work beside the conversation, until cancelled."""

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
    """

    text: str
    footer: str = ""
    buttons: tuple[str, ...] = ()
    pages: dict[str, str] = {}


class SlashCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that a feature brings; the first line of *help* stands in /help and in menus.

    The others are what `/help NAME` says besides; *group* is the heading that it stands under,
    *right* says who may use it.
    """

    name: str
    help: str
    run: Callable[[CommandCall], Awaitable[CommandAnswer]]
    right: Right = OWNER
    group: str = "Looking after me"


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """What all features together add to conversations."""

    sessions: Sequence[Callable[[SessionLog], SessionExtension]] = ()
    prompt: Sequence[PromptPart] = ()
    commands: Sequence[SlashCommand] = ()
    status: Sequence[Callable[[], str]] = ()

    def command(self, name: str) -> SlashCommand | None:
        return next((one for one in self.commands if one.name == name), None)
