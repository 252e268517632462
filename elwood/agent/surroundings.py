"""What all sessions share."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import tzinfo

import attrs

from elwood.agent.gate import Gate
from elwood.agent.session_log import SessionLog
from elwood.core.conversation import Message, Prompt
from elwood.core.limits import TurnSettings
from elwood.core.replay import Session
from elwood.messages import ApprovalsMail, ModelsMail, OutboxMail
from elwood.runtime import Address, Blocking


async def nothing(id_: str, conversation: Sequence[Message]) -> None:
    """Do nothing about a conversation that is put away."""


@attrs.frozen(kw_only=True)
class Surroundings:
    """What all sessions share.

    *strip* takes secrets out of a text, *so_far* out of one that still grows.  *prompt* gives
    what the documents and tools amount to now; *gate* makes the gate of a session from its id and
    its log.  *publish* shows a session's state to `elwood inspect`; *status* gives the house's
    lines of /status.  *now* is the wall clock, Unix seconds.  A delivery that takes
    *delivery_limit* seconds is stuck, and so is a turn after *turn_limit*; after *idle* seconds
    without work a session leaves the memory, after *archive* seconds its conversation is put away.
    *on_archive* is given that before, by the session's id; it must hand it on at once.  *export*
    writes a file, given by name and content, where the person finds it, and says where that is;
    its last argument says that words of strangers are in it.
    """

    strip: Callable[[str], str]
    so_far: Callable[[str], str]
    models: Address[ModelsMail]
    outboxes: Mapping[str, Address[OutboxMail]]
    prompt: Callable[[], Awaitable[Prompt]]
    approvals: Address[ApprovalsMail]
    gate: Callable[[str, SessionLog], Gate]
    mark: Callable[[str, bool], Awaitable[None]]
    publish: Callable[[str, Session | None], None]
    status: Callable[[str], Awaitable[str]]
    blocking: Blocking
    now: Callable[[], float]
    zone: tzinfo
    export: Callable[[str, str, bool], Awaitable[str]]
    turns: TurnSettings
    max_tokens: int
    delivery_limit: float = 60.0
    turn_limit: float = 1200.0
    idle: float = 600.0
    archive: float = 86_400.0
    on_archive: Callable[[str, Sequence[Message]], Awaitable[None]] = nothing
