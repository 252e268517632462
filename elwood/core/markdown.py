"""Markdown to text with entities, and splitting, both in UTF-16 units as Telegram counts."""

import msgspec


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
