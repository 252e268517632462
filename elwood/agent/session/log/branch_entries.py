"""What stands in a session's log about going another way: the entries that move the head."""

import msgspec

from elwood.agent.conversation.message import Prompt
from elwood.agent.session.log.nodes import Node


class Branched(msgspec.Struct, frozen=True, tag="branched"):
    """The present line is kept as it is here, under *name* (may be empty), and goes on."""

    name: str = ""


class Resumed(msgspec.Struct, frozen=True, tag="resumed"):
    """The head moved to the entry *to*, as if nothing had happened since.

    *number* is the branch whose end that is, 0 if something was taken back.  What was known there
    stands here, read from the log when the head moved: the first *keep* messages of the line that
    was left, then *nodes*; *prompt*, unless it is the *same_prompt*; the label, by *sources* and
    *private*; and what else belongs to a line (`core.line.Line`).
    """

    to: int
    number: int = 0
    keep: int = 0
    nodes: tuple[Node, ...] = ()
    prompt: Prompt | None = None
    same_prompt: bool = False
    sources: tuple[str, ...] = ()
    private: bool = False
    named: tuple[str, ...] = ()
    private_calls: tuple[str, ...] = ()


class Retried(msgspec.Struct, frozen=True, tag="retried"):
    """The command *input* stands for *text* from here on: what was taken back, or a skill's use.

    *untrusted* says that not all of it was the owner's.  *notice* tells the model what had been
    done; that comes from a line that is gone, with its label: *origins*, *private*.
    """

    input: str
    text: str
    untrusted: bool = False
    notice: str = ""
    origins: tuple[str, ...] = ()
    private: bool = False


class Archived(msgspec.Struct, frozen=True, tag="archived"):
    """The conversation was quiet for long: the next message begins a new one."""
