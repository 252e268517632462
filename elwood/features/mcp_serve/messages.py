"""Messages between `elwood mcp-serve` and the running Elwood, over the control socket."""

from typing import Annotated

import msgspec

ASK = "mcp.ask"
# Characters of a message of another program, and of its answer.
MAX_TEXT, MAX_ANSWER = 20_000, 100_000


class ProgramMessage(msgspec.Struct, frozen=True):
    """A message from another program.

    Sending it again with the same *id* only asks for its answer.
    """

    session: Annotated[str, msgspec.Meta(pattern="^mcp-[A-Za-z0-9_-]{1,60}$")]  # conversation
    id: str
    text: str
    sent_at: float  # Unix time


class ProgramAnswer(msgspec.Struct, frozen=True):
    """Answer to a program's message."""

    text: str = ""
    failed: bool = False  # True if the answer describes a failure
    is_answered: bool = False
    doing: str = ""  # progress in a few words, until the message is answered
