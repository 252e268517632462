from typing import Any, Literal

import msgspec

from elwood.agent.conversation.message import ReceivedFile
from elwood.agent.conversation.route import Route
from elwood.features.mcp.settings import AddedServer
from elwood.foundation.runtime import Request, describe

LOGIN = "needs a login: run `elwood auth mcp {}`"


class NotConnected(Exception):
    """The connection was lost or never made; a call in progress may have taken effect."""


class NoAnswer(NotConnected):
    """The server did not answer in time."""


class NeedsLogin(NotConnected):
    """The server accepts no request without a login; only the owner can log in."""


class ServerRefused(Exception):
    """The server, or the SDK on its behalf, answered with an error."""


def error_text(error: BaseException) -> str:
    """Return the message of an error, or of the first one of a group.

    >>> error_text(NotConnected("the connection is closed")), error_text(ValueError("x"))
    ('the connection is closed', 'ValueError: x')
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error).partition("\n")[0]
    return text if " " in text else describe(error)  # one word alone says too little


State = Literal["off", "idle", "starting", "ready", "waiting", "parked", "login"]


class CallDone(msgspec.Struct, frozen=True):
    """The server has answered."""

    text: str
    failed: bool = False  # True if the tool reported an error
    pictures: tuple[ReceivedFile, ...] = ()


class CallFailed(msgspec.Struct, frozen=True):
    """There is no answer."""

    why: str
    unknown: bool = False  # True if the call may have taken effect


Asker = tuple[str, Route]
"""The principal that caused a call, and where its answer goes."""


class CallTool(Request[CallDone | CallFailed], frozen=True, kw_only=True):
    """Call *tool* if its definition is still the accepted one."""

    tool: str  # the server's own name of it
    pin: str  # hash of the accepted definition
    arguments: dict[str, Any]
    repeats: bool = False  # may be repeated after a crash
    asker: Asker | None = None


class ReadResource(Request[CallDone | CallFailed], frozen=True, kw_only=True):
    """Read the resource *uri*, or list the resources if it is empty."""

    uri: str
    asker: Asker | None = None


class ReadPrompt(Request[CallDone | CallFailed], frozen=True, kw_only=True):
    """Read the prompt *name*, or list the prompts if it is empty."""

    name: str
    arguments: dict[str, str]
    asker: Asker | None = None


class Steered(msgspec.Struct, frozen=True):
    """Reply to the owner."""

    words: str
    buttons: tuple[str, ...] = ()  # commands, each typed by pressing its button
    ok: bool = True


class Steer(Request[Steered], frozen=True, kw_only=True):
    """Start, stop or restart the server, accept or leave out tools, or answer its question."""

    what: Literal[
        "summary", "show", "enable", "disable", "restart", "accept", "omit", "answer", "decline"
    ]
    words: str = ""


class AddServer(Request[Steered], frozen=True, kw_only=True):
    """Store *server* as *name*, and start it."""

    name: str
    server: AddedServer


class RemoveServer(Request[Steered], frozen=True, kw_only=True):
    """Stop the server *name*, and forget it with its accepted tools and its login."""

    name: str


ServersMail = AddServer | RemoveServer
ServerMail = CallTool | ReadResource | ReadPrompt | Steer
