"""Questions to the owner: their messages and shared functions.

Questions about calls are in agent/approvals, those about people in agent/people.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from functools import partial
from typing import Literal, Protocol, TypeVar

import msgspec

from elwood.agent.channels.channel import Channels
from elwood.agent.channels.client import edit_until_done, post_until_delivered
from elwood.agent.conversation.route import Route
from elwood.foundation.text.characters import escape_invisible, utf16_length
from elwood.foundation.text.lines import one_line, shorten
from elwood.foundation.text.markdown import Entity, Rich

# Seconds by which the clock may step back without making anything expire (CP-35).
STEP_BACK = 60.0

Piece = tuple[str, Literal["", "code"]]
T_contra = TypeVar("T_contra", contravariant=True)


class RequestsShown(msgspec.Struct, frozen=True, tag="shown"):
    """The questions *ids* (of strangers: their codes) were shown, with buttons, as *message*.

    Without a message it cannot be changed later; early versions recorded none.
    """

    ids: tuple[str, ...]
    message: str = ""
    route: Route | None = None


class RequestSettled(msgspec.Struct, frozen=True, tag="settled"):
    """The *message* of the question *id* lost its buttons, or cannot be changed."""

    id: str
    message: str


QuestionEntry = RequestsShown | RequestSettled


class QuestionMessage(msgspec.Struct, frozen=True):
    """A message with buttons, with its id in the channel."""

    route: Route
    message: str


class Record(Protocol[T_contra]):
    async def __call__(self, *entries: T_contra) -> bool:
        """Write *entries* into the journal in one line; return False if the disk is full."""


class OwnerQuestions:
    """Sends questions by *channels* and changes their messages.

    *messages* are those with buttons, by the ids of their questions: part of the state of the
    journal that *record* writes to.
    """

    def __init__(
        self,
        channels: Channels,
        messages: Mapping[str, QuestionMessage],
        record: Record[QuestionEntry],
    ) -> None:
        self.messages = messages
        self.post = partial(post_until_delivered, channels.outboxes)
        self.edit = partial(edit_until_done, channels.outboxes)
        self._record = record

    async def close_message(self, id: str, part: Callable[[Route], Rich] | None = None) -> None:
        """Replace the message of the question *id* by *part*, without buttons, and record it."""
        if (shown := self.messages.get(id)) is None:
            return
        if await self.edit(shown.route, shown.message, part and part(shown.route)):
            await self._record(RequestSettled(id, shown.message))


def is_fresh(lasts: float, age: float) -> bool:
    """Return True if a yes of *age* seconds ago is valid; a clock set back far ends it.

    >>> is_fresh(300, 299), is_fresh(300, 300), is_fresh(300, -86400)
    (True, False, False)
    """
    return -STEP_BACK <= age < lasts


def format_time(at: float, zone: tzinfo) -> str:
    return f"{datetime.fromtimestamp(at, zone):%a %H:%M}"


def describe_decider(by: str, at: Route, channels: Channels) -> str:
    """Describe who decided, for the reader *at* a place."""
    reader = channels.recipient(by)
    if reader is not None and reader.is_same_chat(at):
        return "by you"
    return channels.get_by_principal(by).presence or f"by {flatten(by)}"


def flatten(text: str, limit: int = 64) -> str:
    """Make untrusted text one line, with nothing hidden."""
    # At least three of 22 characters are shown: at most 20 consecutive blanks remain.
    return one_line(escape_invisible(shorten(text, 10 * limit)).replace("⏎", ""), limit)


def build_text(*pieces: Piece) -> Rich:
    text, entities, offset = "", [], 0
    for piece, kind in pieces:
        length = utf16_length(piece)
        if kind:
            entities.append(Entity(kind, offset, length))
        text += piece
        offset += length
    return Rich(text, tuple(entities))
