"""What a turn is given, and what it gives back."""

from collections.abc import Awaitable, Callable, Sequence

import attrs

from elwood.agent.conversation.message import Prompt
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.session.log.entries import Entry, Received
from elwood.agent.session.log.state import Session
from elwood.agent.session.turn.gate import Gate

Record = Callable[..., Awaitable[None]]
# What a person is told of a turn that was cut off too often.
GIVEN_UP = (
    "I tried this several times and was cut off each time, so I have given it up. "
    "The rest of our conversation is not affected."
)


@attrs.frozen(kw_only=True)
class Means:
    """What a turn acts with.

    *prompt* is what the session's documents and tools amount to now; *hint* is said to the model
    as the turn begins; *max_tokens* the limit of an answer; *render* writes inputs as the model
    sees them; *show* offers the text so far to the channel and says whether it has one that shows
    it; *arrival* waits for the next message.
    """

    session_id: str
    session: Session
    role: str
    prompt: Prompt
    hint: str = ""
    max_tokens: int
    settings: TurnSettings
    gate: Gate
    record: Record
    complete: Callable[[Complete], Awaitable[Completed]]
    render: Callable[[Sequence[Received]], str]
    show: Callable[[str], bool]
    arrival: Callable[[], Awaitable[None]]


@attrs.frozen
class Answer:
    """How a turn ended.  *entries* must be recorded together with the reply."""

    text: str
    failed: bool = False
    entries: tuple[Entry, ...] = ()
