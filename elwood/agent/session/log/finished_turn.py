"""What is kept of a turn that has its answer, until it stands in the daily note."""

import re
from collections.abc import Iterable

import msgspec

from elwood.agent.conversation.labels import Label
from elwood.agent.session.log.entries import CallEnded, Received, Replied
from elwood.agent.session.reading.receipts import MARKS, WORDS, allowed_by
from elwood.foundation.text.lines import one_line

# Messages of a turn that are kept, calls, and characters of each.
MAX_ASKED, MAX_CALLS, MAX_WORDS = 3, 8, 200
_QUOTE = "[replying to: "


class FinishedCall(msgspec.Struct, frozen=True):
    """One call, as its receipt says: *words* are fixed, *target* is the model's."""

    call: str
    tool: str
    mark: str
    words: str
    target: str


class FinishedTurn(msgspec.Struct, frozen=True):
    """A turn that has its answer, as a daily note tells it.

    *asked* are the owner's words, *others* counts messages of somebody else.  *label* is what the
    conversation knew then; *more* calls were made.
    """

    turn: str
    at: float
    asked: tuple[str, ...] = ()
    others: int = 0
    calls: tuple[FinishedCall, ...] = ()
    more: int = 0
    failed: bool = False
    label: Label = Label(untrusted=True)


def finished(
    at: float,
    inputs: Iterable[Received],
    receipts: Iterable[CallEnded],
    replied: Replied,
    label: Label,
) -> FinishedTurn | None:
    """Sum up a turn that is answered by *replied* at Unix time *at*.

    None for the run of a task that did nothing and had nothing to say: there are many.

    >>> from elwood.agent.conversation.route import Route
    >>> replied = Replied("t1", "t1", ("1",), Route("console"), "It is blue.")
    >>> asked = Received("1", "what colour?", "me", Route("console"), 0.0)
    >>> finished(0.0, [asked], [], replied, Label()).asked
    ('what colour?',)
    """
    given, calls = list(inputs), list(receipts)
    if replied.quiet and not calls:
        return None
    own = [one for one in given if not one.untrusted and one.text.strip()]
    return FinishedTurn(
        turn=replied.turn or "",
        at=at,
        asked=tuple(_asked(one) for one in own[:MAX_ASKED]),
        others=sum(one.untrusted for one in given),
        calls=tuple(_call(one, label) for one in calls[:MAX_CALLS]),
        more=len(calls[MAX_CALLS:]),
        failed=replied.failed,
        label=label,
    )


def _asked(received: Received) -> str:
    if received.errand is not None:
        return f"(the task {received.errand.job})"
    return _words(_own(received.text))


def _call(receipt: CallEnded, label: Label) -> FinishedCall:
    words = f" ({WORDS[receipt.outcome]})" if receipt.outcome in WORDS else ""
    if receipt.ruling:
        words += f" · {allowed_by(receipt.ruling)}"
    # The names of tools and the ids of calls are a model's words as well.
    strange = label.untrusted
    return FinishedCall(
        call="call" if strange else re.sub(r"\W", "", receipt.call)[:64],
        tool="a tool" if strange else re.sub(r"\W", "", receipt.tool)[:64],
        mark=MARKS[receipt.outcome],
        words=words,
        target="" if strange else _words(receipt.target),
    )


def _own(text: str) -> str:
    """Leave out what somebody replied to: those words may be anybody's."""
    return text.rpartition("]\n")[2] if text.startswith(_QUOTE) else text


def _words(text: str) -> str:
    """Make *text* fit between backticks in one line.

    >>> _words("`a`\\n\\n# b")
    "'a' # b"
    """
    return one_line(text[: 4 * MAX_WORDS].replace("`", "'"), MAX_WORDS)
