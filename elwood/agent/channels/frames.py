"""The wire protocol of attached clients: frames of JSON, one a line, in both directions.

A client is a program that shows one session to a person, such as a terminal.  Frames go both ways
until one end closes the connection.  Does not import Trio: a client in another process needs none.
"""

from typing import Literal

import msgspec

# Maximum bytes of a frame, including the newline, in either direction.
MAX_FRAME = 1 << 20
# Maximum of frames that wait for one client.  A slower client is detached; it may attach again.
MAX_WAITING = 256
# Maximum of files of a message, and bytes of its text.
MAX_FILES, MAX_TEXT = 10, 256 * 1024
Mode = Literal["talk", "watch", "once"]
"""Role of a client: it talks, only watches, or is a program that sends one message.

A program gets answers but no questions.
"""


class Choice(msgspec.Struct, frozen=True):
    """A choice below a message; pressing it sends *says*."""

    text: str
    says: str


class ShownFile(msgspec.Struct, frozen=True):
    """A file of a message, with its path on this machine, if it has one."""

    name: str
    size: int
    path: str = ""


# --- from Elwood to a client ----------------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """A posted message."""

    # Id for `Changed`.
    id: str
    text: str
    # The text as Markdown without its records, which list the real effects; both are empty for
    # plain text, such as a notice.
    markdown: str = ""
    records: str = ""
    is_reply: bool = False
    is_repeat: bool = False
    # From before the client was attached.
    is_old: bool = False
    choices: tuple[Choice, ...] = ()
    files: tuple[ShownFile, ...] = ()
    # Parts of *text* on lines of their own that are code: what a call would run.
    code: tuple[str, ...] = ()
    # Text of the model before its calls, which is not part of an answer.
    is_said: bool = False


class Changed(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """The message *id* has the text *text* (None: unchanged) and *choices* now."""

    id: str
    text: str | None = None
    choices: tuple[Choice, ...] = ()


class HeardElsewhere(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """A message of *who* in this conversation, written elsewhere or before we attached."""

    who: str
    text: str
    is_old: bool = False


class Writing(msgspec.Struct, frozen=True, tag=True):
    """The unfinished answer as Markdown; replaces the previous one."""

    markdown: str


class Thinking(msgspec.Struct, frozen=True, tag=True):
    """The model's thoughts so far in this response, or their end; they are not stored."""

    text: str


class Running(msgspec.Struct, frozen=True, tag=True):
    """One line about running work; an empty *text* removes it."""

    text: str


class Detail(msgspec.Struct, frozen=True, tag=True):
    """More about the call *step*: the change of a file, or the last lines of output so far."""

    step: str
    text: str


class Took(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The result of the `SaidHere` *id*: without *why* it was taken and will have one outcome."""

    id: str
    why: str = ""


class StopWanted(msgspec.Struct, frozen=True, tag=True):
    """The process got the signal *number*: stop the turn.  For `once`, in the same process."""

    number: int


class Detached(msgspec.Struct, frozen=True, tag=True):
    """The last frame: Elwood closes the connection because of *why*."""

    why: str


class State(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """State of the conversation, sent at the start and after each change.

    With neither *busy* nor *waiting* all messages have their outcome.
    """

    busy: bool = False
    waiting: int = 0
    # The newest outcome is a failure.
    failed: bool = False
    # Number of calls that wait for the owner.
    asks: int = 0
    # The model of the next turn.
    model: str = ""
    # The title of the conversation.
    title: str = ""


# --- from a client to Elwood ----------------------------------------------------------------------


class SaidHere(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """A message or command from the client.  Repeating it with its *id* changes nothing.

    *files* are absolute paths on this machine.
    """

    id: str
    text: str
    files: tuple[str, ...] = ()


Frame = (
    Message
    | Changed
    | HeardElsewhere
    | Writing
    | Running
    | Detail
    | Took
    | State
    | Thinking
    | StopWanted
)
ToClient = Frame | Detached
FromClient = SaidHere


def encode(frame: ToClient | FromClient) -> bytes:
    return msgspec.json.encode(frame) + b"\n"
