"""What a server sent → text for the model, or the reason why it is none."""

import re

import attrs

from elwood.foundation.text.characters import clean
from elwood.foundation.text.charset import decode
from elwood.foundation.text.html_to_markdown import article

# Characters that show nothing and can carry words past the reader: soft hyphen, marks of width,
# direction and variation, tags.  Joiners stay: some scripts and emoji need them.
_INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2060-\u206f"
    "\ufe00-\ufe0e\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/[\w.+-]+|application/(?:json|xml|javascript|x-ndjson|yaml|x-yaml|[\w.-]+\+(?:json|xml))"
)
# What a body starts with tells what it is.
_KINDS = (
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
)
# Bytes that are looked at to tell data from text.
_START = 1024


@attrs.frozen
class Readable:
    """Text of a page, its *title* if it has one; *is_cut* says that there was more of it."""

    title: str
    text: str
    is_cut: bool = False


@attrs.frozen
class Unreadable:
    """No text can be made of it; *why* says what it is, in our words."""

    why: str


def readable(body: bytes, content_type: str, url: str) -> Readable | Unreadable:
    """Make text of *body*, had from *url*; other text than HTML stays as it is.

    >>> readable(b"<p>a", "text/html", "http://x.example/")
    Readable(title='', text='a', is_cut=False)
    >>> readable(b'{"a": 1}', "application/json", "http://x.example/").text
    '{"a": 1}'
    >>> readable(b"%PDF-1.7", "application/pdf", "http://x.example/")
    Unreadable(why='a PDF document')
    """
    kind = next((kind for magic, kind in _KINDS if body.startswith(magic)), None)
    if kind is not None:
        return Unreadable(kind)
    media = content_type.partition(";")[0].strip().lower()
    text = decode(body, content_type)
    if "\0" in text[:_START]:
        return Unreadable("binary data")
    if media in _HTML or (not media and text.lstrip()[:1] == "<"):
        found = article(text, url)
        return Readable(_visible(found.title), _visible(found.text), found.is_cut)
    if media and _TEXT.fullmatch(media) is None:
        return Unreadable("neither a page nor text")
    return Readable("", _visible(text))


def _visible(text: str) -> str:
    return clean(_INVISIBLE.sub("", text))
