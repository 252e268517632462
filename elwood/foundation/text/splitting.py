"""Split rich text into messages, and carry formatting over the cuts."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import msgspec

from elwood.foundation.text.characters import clean, utf16_length, utf16_offsets, well_formed
from elwood.foundation.text.markdown import Entity, Rich, to_entities
from elwood.foundation.text.rich_text import Span, trim_span

# UTF-16 units of one message.
MESSAGE_LIMIT = 4096
# Units reserved in a message for `markdown.mark_repeat`.
REPEAT = 16
LIMIT = MESSAGE_LIMIT - REPEAT
# Minimum units of a message: a question about a call, with its reasons, must fit into one.
LEAST = 2000
# Telegram drops more; the longest matter most: the footer of a reply is one.
MAX_ENTITIES = 100
# Sent instead of an empty message, which Telegram refuses.
NOTHING = "…"

# Removed by tdlib's strip_empty_characters and clean_input_string.
_INVISIBLE = re.compile(
    "[\\s\u030a\u0333\u033f\u180e\u200b-\u200f\u202a-\u202e\u2800\ufeff\ufffc\U000e0000-\U000e007f]*"
)
_VISIBLE = re.compile(r"\S")
# Code points of one visible character; longer ones may be cut.
_LONGEST_CLUSTER = 64


Offsets = Callable[[str], Sequence[int]]
"""Measure a text: index n of the result is the size of its first n characters."""


def character_offsets(text: str) -> Sequence[int]:
    """Measure *text* in code points.

    >>> list(character_offsets("a\N{GRINNING FACE}"))
    [0, 1, 2]
    """
    return range(len(text) + 1)


class MessageSize(msgspec.Struct, frozen=True):
    """Capacity of a message of a channel: *limit* units, measured by *offsets*.

    Raises ValueError if a question about a call would not fit.
    """

    limit: int
    offsets: Offsets

    def __post_init__(self) -> None:
        if self.limit < LEAST:
            raise ValueError(f"a message must hold {LEAST} units, not {self.limit}")

    @property
    def room(self) -> int:
        """Units that we use of a message, which may be marked as a repeat later."""
        return self.limit - REPEAT

    def measure(self, text: str) -> int:
        """Return the size of *text*."""
        return self.offsets(text)[-1]


# Default size: Telegram's, in the units of `Entity`.
STANDARD = MessageSize(MESSAGE_LIMIT, utf16_offsets)


def split(rich: Rich, limit: int = LIMIT, offsets_of: Offsets = utf16_offsets) -> tuple[Rich, ...]:
    """Split *rich* into messages of at most *limit* units; the result is deterministic.

    Cuts are at a blank line outside code, else a line end, else a space, else between two
    characters; the second half of a piece is searched first.  Only white space at the cuts is lost.
    Entities continue in the next piece; each piece has at most `MAX_ENTITIES`.  Pieces are trimmed
    and never empty: invisible text becomes "…".
    """
    if limit < 2:
        raise ValueError("a piece must have room for a character, that is for two units")
    text = well_formed(rich.text)
    offsets = offsets_of(text)
    units = offsets if offsets_of is utf16_offsets else utf16_offsets(text)
    spans = sorted(
        (_span(entity, units) for entity in rich.entities), key=lambda s: (s.start, -s.end)
    )
    blocks = [span for span in spans if span.kind == "pre"]
    pieces: list[Rich] = []
    running: list[Span] = []
    next_span = 0
    position = 0
    while found := _VISIBLE.search(text, position):
        start = found.start()
        end = bisect_right(offsets, offsets[start] + limit) - 1
        if end < len(text):
            end = _cut(text, start, end, blocks)
        while next_span < len(spans) and spans[next_span].start < end:
            running.append(spans[next_span])
            next_span += 1
        piece = text[start:end].rstrip()
        if not _INVISIBLE.fullmatch(piece):
            pieces.append(Rich(piece, _entities(running, piece, start)))
        running = [span for span in running if span.end > end]
        position = end
    return tuple(pieces) or (Rich(NOTHING),)


def _span(entity: Entity, offsets: Sequence[int]) -> Span:
    start = bisect_left(offsets, entity.offset)
    end = bisect_right(offsets, entity.offset + entity.length) - 1
    return Span(entity.type, start, end, entity.url, entity.language)


def _entities(spans: Sequence[Span], piece: str, start: int) -> tuple[Entity, ...]:
    """Clip *spans* to the *piece* of text that starts at *start*."""
    kept: list[Span] = []
    for span in spans:
        here = Span(
            span.kind, max(span.start - start, 0), span.end - start, span.url, span.language
        )
        if here.end > 0 and (narrow := trim_span(here, piece)) is not None:
            kept.append(narrow)
    if len(kept) > MAX_ENTITIES:
        longest = sorted(range(len(kept)), key=lambda i: kept[i].start - kept[i].end)
        kept = [kept[i] for i in sorted(longest[:MAX_ENTITIES])]
    kept.sort(key=lambda span: (span.start, -span.end))
    offsets = utf16_offsets(piece)
    return tuple(
        Entity(s.kind, offsets[s.start], offsets[s.end] - offsets[s.start], s.url, s.language)
        for s in kept
    )


def _cut(text: str, start: int, end: int, blocks: Sequence[Span]) -> int:
    """Return the end of the piece that starts at *start*: after *start*, at most *end*."""
    for low in ((start + end) // 2, start):
        for cut in (
            _paragraph(text, low, end, blocks),
            text.rfind("\n", low + 1, end + 1),
            text.rfind(" ", low + 1, end + 1),
        ):
            if cut > low:
                return cut
    return _between_characters(text, start, end)


def _paragraph(text: str, low: int, end: int, blocks: Sequence[Span]) -> int:
    """Return the index of the last blank line outside code blocks, or -1."""
    while (cut := text.rfind("\n\n", low + 1, end + 2)) != -1:
        index = bisect_right(blocks, cut, key=lambda block: block.start) - 1
        if index < 0 or cut >= blocks[index].end:
            return cut
        end = blocks[index].start - 2
    return -1


def _between_characters(text: str, start: int, end: int) -> int:
    for cut in range(end, max(start, end - _LONGEST_CLUSTER), -1):
        if not _is_one_character(text, cut):
            return cut
    return end


def _is_one_character(text: str, cut: int) -> bool:
    """Return True if *cut* would break a visible character: an approximation of UAX #29."""
    before, after = text[cut - 1], text[cut]
    joined = "\u200d" in (before, after) or "\U0001f3fb" <= after <= "\U0001f3ff"  # of a skin
    return joined or unicodedata.category(after) in {"Mn", "Mc", "Me"}


def parts(
    text: str, footer: str, size: MessageSize = STANDARD, *, hide_targets: bool = True
) -> tuple[Rich, ...]:
    """Split a reply into messages, deterministically."""
    rich = with_footer(text, footer, hide_targets=hide_targets)
    return split(rich, size.room, size.offsets)


def with_footer(text: str, footer: str, *, hide_targets: bool = True) -> Rich:
    """Join a reply and its footer; without *hide_targets* links show their addresses.

    The footer is made from receipts, so it becomes a quote and is never parsed as Markdown.
    """
    rich = to_entities(text, hide_targets=hide_targets)
    footer = clean(footer)
    if footer:
        start = utf16_length(rich.text) + 2 if rich.text else 0
        quote = Entity("blockquote", start, utf16_length(footer))
        joined = f"{rich.text}\n\n{footer}" if rich.text else footer
        rich = Rich(joined, (*rich.entities, quote))
    return rich
