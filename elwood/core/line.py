"""The present line of a conversation: what the model sees of it, and what it has been told.

`Line` is the part of a session that moves with the head.  Everything else a session knows (what
waits, what is on its way, receipts) stays when the conversation goes another way.
"""

import msgspec

from elwood.core.branches import Node, Resumed
from elwood.core.conversation import (
    Assistant,
    Message,
    Notice,
    Prompt,
    Results,
    mend,
    texts,
)
from elwood.core.labels import Label, Taint
from elwood.core.mentions import addresses
from elwood.core.session import Received
from elwood.core.tokens import estimate

# Addresses of the owner's that are remembered; the oldest go first.
MAX_NAMED = 200


class Line(msgspec.Struct):
    """One line of the conversation.  Changed in place by the session's fold.

    *taint* is what was read on it; *named* are URLs and hosts that the owner wrote before anything
    untrusted was; *private_calls* the ids of calls that gave private data.
    """

    path: list[Node] = []
    prompt: Prompt | None = None
    taint: Taint = msgspec.field(default_factory=Taint)
    named: dict[str, None] = {}
    private_calls: dict[str, None] = {}

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as it is sent: sound, whatever happened to the log."""
        return tuple(mend(node.message for node in self.path))

    @property
    def tokens(self) -> int:
        """About how many tokens the conversation has, without the prompt."""
        return sum(node.tokens for node in self.path)

    def private_texts(self) -> list[str]:
        """List what calls that read private data gave, as far as the model still sees it."""
        return [
            result.text
            for node in self.path
            if isinstance(node.message, Results)
            for result in node.message.results
            if result.call in self.private_calls
        ]

    def push(self, seq: int, message: Message, *, begins: bool = False) -> None:
        """Take a message of the entry *seq* in."""
        tokens = sum(estimate(text) for text in texts(message))
        self.path.append(Node(seq, message, tokens, begins))

    def hear(self, received: Received) -> None:
        """Take in what a person's message brings besides its words."""
        origin = f"a message sent by {received.principal}"
        self.taint.add(Label(untrusted=received.untrusted), origin)
        if not self.taint.sources:
            self.named.update(dict.fromkeys(addresses(received.text)))
            while len(self.named) > MAX_NAMED:
                del self.named[next(iter(self.named))]

    def summarise(self, summary: str, upto: int) -> None:
        """Let *summary* stand for what the entries before *upto* brought."""
        kept = [node for node in self.path if node.seq >= upto]
        # Its place is before what is kept, or a rewinding would lose it.
        self.path = []
        self.push(upto - 1, Notice(summary))
        self.path += kept
        self.new_epoch()

    def new_epoch(self) -> None:
        """Drop all thinking.

        It is bound to the prefix it was made behind (protocols/anthropic.md §6): what is older than
        a new prefix goes on as plain text and calls, which any codec can render.
        """
        for number, node in enumerate(self.path):
            message = node.message
            if isinstance(message, Assistant) and message.codec:
                plain = Assistant(message.blocks, "", message.model, msgspec.Raw(b"null"))
                self.path[number] = msgspec.structs.replace(node, message=plain)

    def move(self, resumed: Resumed) -> None:
        """Become the line that *resumed* tells."""
        self.path = [*self.path[: resumed.keep], *resumed.nodes]
        if not resumed.same_prompt:
            self.prompt = resumed.prompt
        self.taint = Taint(dict.fromkeys(resumed.sources), resumed.private)
        self.named = dict.fromkeys(resumed.named)
        self.private_calls = dict.fromkeys(resumed.private_calls)


def resumed(present: Line, found: Line, to: int, number: int = 0) -> Resumed:
    """Make the entry that moves from *present* to *found*, what the log added up to at *to*."""
    keep = 0
    for here, there in zip(present.path, found.path, strict=False):
        if here != there:
            break
        keep += 1
    same = present.prompt == found.prompt
    return Resumed(
        to,
        number,
        keep,
        tuple(found.path[keep:]),
        None if same else found.prompt,
        same,
        tuple(found.taint.sources),
        found.taint.private,
        tuple(found.named),
        tuple(found.private_calls),
    )
