"""The wire protocol of attached clients: frames of JSON, one a line, in both directions.

A client is a program that shows one session to a person, such as a terminal.  Frames go both ways
until one end closes the connection.  Free of Trio: a client in another process has no use for it.
"""

from typing import Literal

import msgspec

# Bytes of one frame, newline included, in either direction.
MAX_FRAME = 1 << 20
# Frames that wait for one client.  A client that reads slower than that is detached; it may attach
# again.
MAX_WAITING = 256
# Files that go along with one message, and bytes of its text.
MAX_FILES, MAX_TEXT = 10, 256 * 1024
Mode = Literal["talk", "watch", "once"]
"""How a client takes part: it speaks, only watches, or is a program that says one thing.

A program gets answers; questions are not put to it.
"""


class Choice(msgspec.Struct, frozen=True):
    """Something that can be pressed below a message: to press it is to say *says*."""

    text: str
    says: str


class ShownFile(msgspec.Struct, frozen=True):
    """A file that came with a message: where it lies on this machine, if it does."""

    name: str
    size: int
    path: str = ""


# --- from Elwood to a client ----------------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """Something that was posted.  *id* names it for `Changed`.

    *markdown* is empty where the text is none, as of a notice.  *is_old* is from before we came.
    *code* are parts of *text* with lines of their own that are code: what a call would run.
    *is_said*: the model said it before its calls, and it stands in no answer.
    """

    id: str
    text: str
    markdown: str = ""
    is_reply: bool = False
    is_repeat: bool = False
    is_old: bool = False
    choices: tuple[Choice, ...] = ()
    files: tuple[ShownFile, ...] = ()
    code: tuple[str, ...] = ()
    is_said: bool = False


class Changed(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """The message *id* reads *text* now (None: as before) and has *choices*."""

    id: str
    text: str | None = None
    choices: tuple[Choice, ...] = ()


class HeardElsewhere(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """What *who* said in this conversation, somewhere else or before we came."""

    who: str
    text: str
    is_old: bool = False


class Writing(msgspec.Struct, frozen=True, tag=True):
    """The answer as far as it is written, as Markdown; replaces what was shown of it before."""

    markdown: str


class Thinking(msgspec.Struct, frozen=True, tag=True):
    """What the model has thought so far in this response, or the end of it; nothing keeps it."""

    text: str


class Running(msgspec.Struct, frozen=True, tag=True):
    """What runs now, in a line; *text* is empty when nothing is to be said of it any more."""

    text: str


class Took(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """What came of a `SaidHere` by its *id*: no *why*, it was taken and will have one outcome."""

    id: str
    why: str = ""


class StopWanted(msgspec.Struct, frozen=True, tag=True):
    """The process got the signal *number*: stop what was said.  For `once`, in the same process."""

    number: int


class Detached(msgspec.Struct, frozen=True, tag=True):
    """The last frame: Elwood closes the connection, and *why*."""

    why: str


class State(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """How the conversation stands: sent at the beginning and at each change.

    With neither *busy* nor *waiting* all that was said has its outcome; *failed* is the newest.
    *asks* counts the calls that wait for the owner meanwhile; *model* is what thinks next.
    """

    busy: bool = False
    waiting: int = 0
    failed: bool = False
    asks: int = 0
    model: str = ""


# --- from a client to Elwood ----------------------------------------------------------------------


class SaidHere(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """A message or command from the client.  Repeating it with its *id* changes nothing.

    *files* are absolute paths on this machine.
    """

    id: str
    text: str
    files: tuple[str, ...] = ()


Frame = (
    Message | Changed | HeardElsewhere | Writing | Running | Took | State | Thinking | StopWanted
)
ToClient = Frame | Detached
FromClient = SaidHere


def encode(frame: ToClient | FromClient) -> bytes:
    return msgspec.json.encode(frame) + b"\n"
