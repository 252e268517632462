"""Markdown to text with entities, in UTF-16 units as Telegram counts."""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from elwood.foundation.text.characters import clean, utf16_length, utf16_offsets
from elwood.foundation.text.rendering import Renderer
from elwood.foundation.text.rich_text import Page, Span

if TYPE_CHECKING:
    from elwood.foundation.text.commonmark import Parser

# Markdown longer than this, in characters, is shown as it stands.  Hostile text costs the parser
# up to 20 µs a character, and the answer must not hold up the house; it is 15 messages long.
MAX_MARKDOWN = 64_000
REPEAT_MARK = "(again) "

# Anything that could be Markdown: a text without it needs no parser.
_SYNTAX = re.compile(
    r"[\\`*_~\[\]<>#|&]|\n\n\n|[^\S\n]$|^(?:[^\S\n]|[-+=:]|[0-9]+[.)])", re.MULTILINE
)


class Entity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A formatted span: *offset* and *length* in UTF-16 code units (protocols/telegram.md §3)."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


class Rich(msgspec.Struct, frozen=True):
    """Text as a channel shows it, with its formatting beside it."""

    text: str
    entities: tuple[Entity, ...] = ()


def to_entities(markdown: str) -> Rich:
    """Render *markdown* (CommonMark, tables, strikethrough, ``||spoilers||``) for Telegram.

    No character of the text is lost: HTML, unknown syntax, link definitions and unsafe link
    targets stay visible as text; images become links, so that nothing is loaded.  The text is
    trimmed, entities nest properly and begin and end in visible characters.  It may be longer than
    a message, and empty: `core.splitting.split` makes messages of it.

    >>> rich = to_entities("**Hi**, `you`")
    >>> rich.text, [(e.type, e.offset, e.length) for e in rich.entities]
    ('Hi, you', [('bold', 0, 2), ('code', 4, 3)])
    """
    return _render(markdown, hide_targets=True)


def as_terminal(markdown: str) -> str:
    """Render *markdown* as text alone, with the target of each link beside it.

    >>> as_terminal("See [the **docs**](https://example.org)")
    'See the docs (https://example.org)'
    """
    return _render(markdown, hide_targets=False).text


def plain(rich: Rich) -> Rich:
    """Return *rich* without its formatting, for when the server refuses it.

    >>> plain(to_entities("**a**"))
    Rich(text='a', entities=())
    """
    return Rich(rich.text)


def mark_repeat(rich: Rich) -> Rich:
    """Mark *rich* as a message that may have arrived before; it grows by `REPEAT_MARK`.

    >>> mark_repeat(to_entities("**a**")).entities[0].offset
    8
    """
    shift = utf16_length(REPEAT_MARK)
    moved = (msgspec.structs.replace(e, offset=e.offset + shift) for e in rich.entities)
    return Rich(REPEAT_MARK + rich.text, tuple(moved))


def _render(markdown: str, *, hide_targets: bool) -> Rich:
    source = clean(markdown)
    if len(source) > MAX_MARKDOWN or _SYNTAX.search(source) is None:
        return Rich(source.strip())
    tokens = _parser().tokens(source)
    if tokens is None:
        return Rich(source.strip())
    page = Page()
    Renderer(page, source.split("\n"), hide_targets=hide_targets).render(tokens)
    return _rich(page)


def _rich(page: Page) -> Rich:
    text, spans = page.finish()
    offsets = utf16_offsets(text)
    return Rich(text, tuple(_entity(span, offsets) for span in spans))


def _entity(span: Span, offsets: Sequence[int]) -> Entity:
    start = offsets[span.start]
    return Entity(span.kind, start, offsets[span.end] - start, span.url, span.language)


@cache
def _parser() -> "Parser":
    # Imported here because it takes 20 ms, and a first poll needs none of it.
    from elwood.foundation.text.commonmark import Parser

    return Parser()
