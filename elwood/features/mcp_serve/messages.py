"""What `elwood mcp-serve` asks of the running Elwood over the control socket, and is told."""

from typing import Annotated

import msgspec

ASK = "mcp.ask"
# Characters of a message of another program, and of the answer that it is given.
MAX_TEXT, MAX_ANSWER = 20_000, 100_000


class ProgramMessage(msgspec.Struct, frozen=True):
    """A program says *text* in *session*, since *sent_at* (Unix time).

    Repeating it with the same *id* asks what came of it, and changes nothing.
    """

    session: Annotated[str, msgspec.Meta(pattern="^mcp-[A-Za-z0-9_-]{1,60}$")]
    id: str
    text: str
    sent_at: float


class ProgramAnswer(msgspec.Struct, frozen=True):
    """The answer, if *is_answered*; *failed* says that it states a failure.

    Until then *doing* says in a few words what is being done.
    """

    text: str = ""
    failed: bool = False
    is_answered: bool = False
    doing: str = ""
