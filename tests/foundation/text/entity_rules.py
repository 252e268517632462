"""The Bot API's rules for text and entities, following tdlib's MessageEntity.cpp."""

import re
import unicodedata

from elwood.foundation.text.markdown import Entity, Rich

SPLITTABLE = {"bold", "italic", "strikethrough"}
KINDS = SPLITTABLE | {"code", "pre", "text_link", "blockquote"}
# strip_empty_characters: a text of only these is an error, "must be non-empty".
EMPTY = re.compile(
    "[ \n\u00a0\u1680\u180e\u2000-\u200f\u202e\u202f\u205f\u2800\u3000\ufeff\ufffc"
    "\U000e0000-\U000e007f]*"
)
URL = re.compile(r"(https?://[^\s/?#@]+\.[^\s/?#@]+|tg://(?!user)[\w-]+)([/?#]\S*)?", re.IGNORECASE)


def units(text: str) -> bytes:
    return text.encode("utf-16-le")


def slice_of(rich: Rich, entity: Entity) -> str:
    """Return the text of an entity; fail inside of a surrogate pair and beyond the end."""
    start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
    assert 0 <= start < end <= len(units(rich.text)), (entity, rich.text)
    return units(rich.text)[start:end].decode("utf-16-le")


def check_text(text: str, limit: int) -> None:
    assert text == text.strip()
    assert not EMPTY.fullmatch(text)
    assert len(units(text)) // 2 <= limit
    assert not [c for c in text if c not in "\n\t" and unicodedata.category(c) in {"Cc", "Cs"}]


def check_entities(rich: Rich) -> None:
    """Check that entities are sorted, start and end at visible text, and nest as allowed."""
    parents: list[Entity] = []
    previous = (-1, 0)
    for entity in rich.entities:
        inside = slice_of(rich, entity)
        assert inside == inside.strip(), (entity, inside)
        assert entity.type in KINDS
        assert (entity.url is not None) == (entity.type == "text_link")
        assert entity.language is None or entity.type == "pre"
        assert entity.url is None or URL.fullmatch(entity.url)
        assert previous <= (entity.offset, -entity.length)
        previous = (entity.offset, -entity.length)
        while parents and entity.offset >= parents[-1].offset + parents[-1].length:
            parents.pop()
        around = {parent.type for parent in parents}
        if parents:
            assert entity.offset + entity.length <= parents[-1].offset + parents[-1].length
            assert entity.type not in around
            assert not around & {"code", "pre"}
            assert entity.type not in {"code", "pre"} or around == {"blockquote"}
            assert entity.type not in {"text_link", "blockquote"} or "text_link" not in around
        parents.append(entity)


def check_message(rich: Rich, limit: int = 4096) -> None:
    check_text(rich.text, limit)
    check_entities(rich)
    assert len(rich.entities) <= 100
