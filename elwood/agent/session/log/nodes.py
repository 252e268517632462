"""The messages on a line of the conversation, and about how many tokens each has."""

import msgspec

from elwood.agent.conversation.message import (
    Assistant,
    Message,
    Usage,
    texts,
)
from elwood.foundation.text.tokens import estimate

NO_NATIVE = msgspec.Raw(b"null")
# Characters of native content for a token, at least.
CHARACTERS = 3


class Node(msgspec.Struct, frozen=True):
    """One message on the present path of the conversation, and the entry that brought it.

    *tokens* is an estimate; *begins* says that a person's message begins a turn with it.
    """

    seq: int
    message: Message
    tokens: int
    begins: bool = False


def node_of(seq: int, message: Message, *, begins: bool = False) -> Node:
    """Estimate what *message* takes."""
    return Node(seq, message, sum(map(estimate, texts(message))), begins)


def said_node(seq: int, message: Assistant, usage: Usage, ratio: float) -> Node:
    """Estimate what a response takes when it is sent back, thinking included.

    The model counted all it said; what it does not want back has no room in the native content.
    *ratio* is what it counts for an estimated token.
    """
    words = node_of(seq, message)
    if usage.estimated or not message.codec:
        return words
    room = len(bytes(message.native)) // CHARACTERS
    thought = min(int(usage.output / ratio), room)
    return Node(seq, message, max(words.tokens, thought))


def plain(old: Node) -> Node:
    """Make of a response text and calls that any codec can render, without its thinking.

    Thinking is bound to the prefix it was made behind (protocols/anthropic.md §6).
    """
    message = old.message
    if not isinstance(message, Assistant) or not message.codec:
        return old
    return node_of(old.seq, Assistant(message.blocks, "", message.model, NO_NATIVE))
