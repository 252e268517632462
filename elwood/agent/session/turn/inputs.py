"""How the messages of people are shown to the model."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo

import msgspec

from elwood.agent.conversation.message import repair_text, without_days
from elwood.agent.session.log.entries import Received
from elwood.foundation.text.lines import duration

# Age in seconds from which an answer says how old its question is (TG-25).
STALE = 3600.0


class OwnerClock(msgspec.Struct, frozen=True):
    """The wall clock (Unix seconds), and the zone in which the owner reads it."""

    now: Callable[[], float]
    zone: tzinfo = UTC


def render(inputs: Sequence[Received], clock: OwnerClock) -> str:
    """Write *inputs* as one message to the model, headed by the time it is read.

    The date travels here and not in the system prompt, which must stay the same.

    >>> from elwood.agent.conversation.route import Route
    >>> one = Received("1", "hello", "tg:1", Route("telegram"), 0.0)
    >>> print(render([one], OwnerClock(lambda: 60.0)))
    [Thursday 1970-01-01 00:01 UTC]
    hello
    """
    now = clock.now()
    at = datetime.fromtimestamp(now, clock.zone)
    lines = [f"[{at:%A %Y-%m-%d %H:%M} {at.tzname()}]"]
    for received in inputs:
        text = repair_text(received.text).strip()
        if not text:
            continue
        if received.edits is not None and not _replaces_waiting(received, inputs):
            text = f"[edited] {text}"
        if now - received.sent_at > STALE:
            text = f"[sent {duration(now - received.sent_at)} ago] {text}"
        lines.append(text)
    return "\n".join(lines)


def said_in(text: str) -> str:
    """Return in one line what people said in a turn's text.

    >>> said_in("[Thursday 1970-01-01 00:01 UTC]\\nhello\\nthere")
    'hello there'
    """
    text = without_days(text)
    head, _, rest = text.partition("\n")
    return " ".join((rest if head.startswith("[") and rest else text).split())


def _replaces_waiting(received: Received, inputs: Sequence[Received]) -> bool:
    return any(
        other is not received and not other.text and received.edits in (other.message, other.edits)
        for other in inputs
    )


def stale_note(inputs: Sequence[Received], now: float) -> str:
    """Say at the head of an answer how old its question is, if that is worth saying.

    >>> stale_note([], 0.0)
    ''
    """
    oldest = max((now - received.sent_at for received in inputs), default=0.0)
    return f"(your message from {duration(oldest)} ago)\n\n" if oldest > STALE else ""
