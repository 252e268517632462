"""What the keeper of agent.toml is asked."""

import msgspec

from elwood.agent.approvals.messages import CommandResult
from elwood.foundation.runtime import Request


class OwnFile(msgspec.Struct, frozen=True):
    """The *text* of agent.toml; what is wrong with it, if it does not count.

    *versions* can be taken back.
    """

    text: str
    problem: str = ""
    versions: int = 0


class ReadOwn(Request[OwnFile], frozen=True, kw_only=True):
    """What stands in the file now?"""


class WriteOwn(Request[CommandResult], frozen=True, kw_only=True):
    """Let the file say *text* instead of *old*.  Repeating it changes nothing."""

    text: str
    old: str


class TakeBack(Request[CommandResult], frozen=True, kw_only=True):
    """Let the file say what it said before the last change."""


OwnMail = ReadOwn | WriteOwn | TakeBack
