from typing import Any, Literal

import msgspec

from elwood.foundation.runtime import Request


class NotConnected(Exception):
    """The connection is gone, or never came to be; what was under way may have acted."""


class NoAnswer(NotConnected):
    """The server did not say a word in time."""


class ServerRefused(Exception):
    """The server, or the SDK in its name, answered with an error instead of a result."""


State = Literal["off", "idle", "starting", "ready", "waiting", "parked"]


class CallDone(msgspec.Struct, frozen=True):
    """The server has answered; *failed* if with an error of the tool."""

    text: str
    failed: bool = False


class CallFailed(msgspec.Struct, frozen=True):
    """There is no answer; *unknown* if the call may have acted for all that."""

    why: str
    unknown: bool = False


class CallTool(Request[CallDone | CallFailed], frozen=True, kw_only=True):
    """Call *tool*, by the server's own name, if it still is what was accepted.

    *pin* says what that is.  One that *repeats* may be made anew after a crash.
    """

    tool: str
    pin: str
    arguments: dict[str, Any]
    repeats: bool = False


class ReadResource(Request[CallDone | CallFailed], frozen=True, kw_only=True):
    """Read the resource *uri*, or list those there are if it is empty."""

    uri: str


class ReadPrompt(Request[CallDone | CallFailed], frozen=True, kw_only=True):
    """Read the prompt *name*, or list those there are if it is empty."""

    name: str
    arguments: dict[str, str]


class Steered(msgspec.Struct, frozen=True):
    """What came of it, in *words*; *buttons* type what stands on them."""

    words: str
    buttons: tuple[str, ...] = ()


class Steer(Request[Steered], frozen=True, kw_only=True):
    """Turn the server on or off, start it anew, accept what waits, or answer what it asks."""

    what: Literal["summary", "show", "enable", "disable", "restart", "accept", "answer", "decline"]
    words: str = ""


ServerMail = CallTool | ReadResource | ReadPrompt | Steer
