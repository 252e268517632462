"""The destination of an answer."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    _Id = str
    _OptionalId = str | None
else:
    # Journals of early versions contain Telegram's integers, and None for no thread.
    _Id = _OptionalId = str | int | None


class Route(msgspec.Struct, frozen=True):
    """The destination of an answer: a chat of a channel, and a thread in it."""

    channel: str
    """Name of the channel."""
    chat: _Id = ""
    """Id of the chat in that channel; empty if the channel has only one."""
    thread: _Id = msgspec.field(default="", name="topic")
    """Id of the thread in the chat, if any."""
    private: bool = True
    """Whether there is only one reader, so drafts can be shown."""
    reply_to: _OptionalId = None
    """Id of the message that the answer refers to, if that helps the reader."""

    def __post_init__(self) -> None:
        """Convert the format of an early version: its chat is an integer, 0 if there was none."""
        chat: object = self.chat
        if not isinstance(chat, str):
            thread, reply_to = self.thread, self.reply_to
            msgspec.structs.force_setattr(self, "chat", str(chat or ""))
            msgspec.structs.force_setattr(self, "thread", "" if thread is None else str(thread))
            if reply_to is not None:
                msgspec.structs.force_setattr(self, "reply_to", str(reply_to))

    @property
    def address(self) -> str:
        """Return the chat as people write it in settings.

        >>> Route("telegram", "-5", "3").address
        'telegram:-5'
        """
        return f"{self.channel}:{self.chat}"

    def is_same_chat(self, other: "Route") -> bool:
        """Return True if *other* is in the same chat, in any thread."""
        return (self.channel, self.chat) == (other.channel, other.chat)


# Destination of an answer that is only stored.
NOWHERE = Route("nowhere")


def addresses(chats: Iterable[int | str]) -> frozenset[str]:
    """Convert *chats* of a setting for comparison with `Route.address`.

    A number alone is a chat of Telegram: settings of early versions named no channel.

    >>> sorted(addresses([-5, "slack:C12"]))
    ['slack:C12', 'telegram:-5']
    """
    return frozenset(f"telegram:{one}" if isinstance(one, int) else one for one in chats)
