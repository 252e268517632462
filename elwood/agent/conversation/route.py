"""Where an answer goes."""

import msgspec


class Route(msgspec.Struct, frozen=True):
    """Where an answer goes.

    *channel* is the channel's name, *chat* and *topic* its ids; *private* chats may show drafts;
    *reply_to* is the message id that the answer refers to, if that helps the reader.
    """

    channel: str
    chat: int = 0
    topic: int | None = None
    private: bool = True
    reply_to: int | None = None

    def is_same_chat(self, other: "Route") -> bool:
        """Tell whether *other* is in the same chat, in whatever topic."""
        return (self.channel, self.chat) == (other.channel, other.chat)


# Where an answer goes that goes nowhere: it is kept.
NOWHERE = Route("nowhere")
