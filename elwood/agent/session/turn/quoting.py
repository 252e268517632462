"""Text that a call would send out and that only its conversation knows.

Checked are addresses, search queries, and plans and remote reads that contain an address.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from elwood.agent.conversation.calls import (
    CallRemote,
    FetchUrl,
    Plan,
    Quotation,
    Schedule,
    SearchWeb,
)
from elwood.agent.conversation.labels import addresses
from elwood.agent.policy.decide import MAX_EXTRA
from elwood.agent.policy.quotations import runs_of_words, without_origins
from elwood.agent.session.log.branch import Branch, PrivateText
from elwood.agent.session.turn.prompt import documents_in


class KnownText(msgspec.Struct, frozen=True):
    """A text that the model sees: private, the owner's own, or *sent* to the same tool before."""

    kind: Literal["private", "own", "sent"]
    part: PrivateText


def leaving_text(plan: Plan, given: object, is_known: Callable[[str], bool]) -> str | Quotation:
    """Return the text that a call would send by the model's choice, or "".

    An address that *is_known* outside sends nothing. A very long address is a quotation.
    """
    match plan.action:
        case SearchWeb():
            return plan.outgoing
        case FetchUrl(url):
            return "" if is_known(url) else without_origins(url)
        case CallRemote("read", True) | Schedule():
            text = "\n".join(_texts(msgspec.to_builtins(given)))
            urls = [one for one in addresses(text) if "://" in one and not is_known(one)]
            extra = max((len(without_origins(url).lstrip()) for url in urls), default=0)
            if extra > MAX_EXTRA:
                return Quotation(f"an address of {extra} characters")
            return without_origins(text) if urls else ""
        case _:
            return ""


def is_public(branch: Branch, url: str, tools: Collection[str]) -> bool:
    """Return True if a page that *tools* read, or the owner's documents, contain *url*.

    The author of the page knows the address, so it tells them nothing.
    """
    system = branch.prompt.system if branch.prompt is not None else ""
    return url in system or any(url in text for text in branch.public_texts(tools))


def yield_known_texts(branch: Branch, sent: Sequence[str]) -> Iterator[KnownText]:
    """Yield texts that must not leave unnoticed, and texts that the tool was *sent* before."""
    for part in branch.private_texts():
        yield KnownText("private", part)
    for name, text in documents_in(branch.prompt.system) if branch.prompt is not None else ():
        yield KnownText("private", PrivateText(text, source=name))
    for text in branch.own_words():
        yield KnownText("own", PrivateText(text, source="your own words in this conversation"))
    for text in sent:
        yield KnownText("sent", PrivateText(text))


def find_quotation(
    compared: Sequence[tuple[KnownText, set[str]]], name: Callable[[PrivateText], str]
) -> Quotation | None:
    """Return the quotation in the runs that an outgoing text shares with known texts."""
    own, sent = set[str](), set[str]()
    for known, shared in compared:
        if known.kind == "own":
            own |= shared
        elif known.kind == "sent":
            sent |= shared
    private = [(known.part, shared) for known, shared in compared if known.kind == "private"]
    for part, shared in private:
        if shared - own - runs_of_words(part.text):
            return Quotation(f"text from {name(part)}")
    if private:
        return Quotation(f"text from {name(private[0][0])}", private=False)
    for known, shared in compared:
        if known.kind == "own" and shared - sent - runs_of_words(known.part.text):
            return Quotation(f"text from {known.part.source}", private=False)
    return None


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in arguments of a call, without the names of the fields."""
    match value:
        case str():
            yield value
        case Mapping():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)
