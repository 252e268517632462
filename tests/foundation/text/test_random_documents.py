"""Thousands of random documents: no invalid entity, no lost character, no overlong piece."""

import html
import os
import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt

from elwood.foundation.text.characters import clean
from elwood.foundation.text.markdown import Rich, mark_repeat, to_entities
from elwood.foundation.text.splitting import NOTHING, split
from tests.foundation.text.entity_rules import check_entities, check_message, slice_of

DOCUMENTS = int(os.environ.get("ELWOOD_TEST_DOCUMENTS", "4000"))
BATCHES = 10

INVISIBLE = re.compile(
    "[\u030a\u0333\u033f\u180e\u200b-\u200f\u202a-\u202e\u2800\ufeff\ufffc\U000e0000-\U000e007f]"
)
# Rendering may add bullets, numbers, boxes, rules, quote marks, tables and targets of links.
DECORATION = set("•◦▪☐☑—·-+:>[](),…0123456789")

# Every construct, hostile text and odd characters.
FRAGMENTS = (
    "**", "*", "_", "__", "~~", "`", "``", "```", "||", "\\", "\\*", "&amp;", "&#13;", "&#x202e;",
    "&nbsp;", "<b>", "<!-- c -->", "<https://a.example/b>", "<a@b.example>", "<", ">", "![", "[",
    "]", "](", ")", "[x](http://a.example/b)", "[y](javascript:alert(1))",
    "[**b** `c`](https://c.example)", "![pic](https://d.example/?q=1)", "[ref]", "[r][ref]",
    "![][ref]", "[f[i](x)", "http://e.example/_a_", "# ", "###### ", "- ", "* ", "+ ", "1. ",
    "7) ", "- [ ] ", "- [x] ", "> ", ">> ", "---", "***", "===", "```py\n", "~~~\n", "    ", "\t",
    "  ", " ", " ", "\n", "\n", "\n", "\n\n", "\n\n", "|", " | ", "|-|-|\n",
    "\n| a | b |\n|---|:-:|\n| 1 | **2** |\n", "a | b\n-|-:\n", "[ref]: http://f.example 'T'\n",
    "[d]: x\n", "$x$", "word", "two words", "wide " * 12, "a_b_c", "2*3*4", "||hidden||", "!",
    "(", ":", "漢字", "\N{GRINNING FACE}", "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
    "\N{THUMBS UP SIGN}\U0001f3fd", "\U0001f1e9\U0001f1ea", "e\u0301", "\u200b", "\u00a0",
    "\u3000", "\u202e", "\u2028", "\0", "\x1b[31m", "\ud83d", "\ude00", "\r\n", "\x0b",
    "\u05d0\u05d1", "\ufeff", "☐", "•",
)  # fmt: skip


def make_document(rng: random.Random) -> str:
    pieces = rng.choices(FRAGMENTS, k=rng.randint(1, 24))
    if rng.random() < 0.3:
        tops = rng.choices((0x7F, 0x7FF, 0xFFFF, 0x10FFFF), k=rng.randint(1, 8))
        odd = "".join(chr(rng.randint(0, top)) for top in tops)
        pieces.insert(rng.randrange(len(pieces)), odd)
    return "".join(pieces)


class Reference(MarkdownIt):
    """The parser's own HTML, with unchanged targets of links."""

    def validateLink(self, url: str) -> bool:
        return True

    def normalizeLinkText(self, link: str) -> str:
        return link


REFERENCE = Reference("commonmark", {"html": False})
REFERENCE.enable(["table", "strikethrough"]).disable("reference")


def reduce_text(text: str) -> str:
    """Return the part of *text* that must survive; bars may be of tables, a task's box is drawn."""
    text = "".join(text.split()).replace("☐", "[]").replace("☑", "[x]").replace("[X]", "[x]")
    return clean(text).replace("|", "").replace("\ufffd", "")


def as_html(source: str) -> str:
    return str(REFERENCE.render(source))


def text_of(page: str) -> str:
    page = re.sub(r'<img [^>]*?alt="([^"]*)"[^>]*>', r"\1", page)
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(char in rest for char in part)


def check_text_survives(source: str, rich: Rich) -> None:
    page = as_html(clean(source))
    expected, shown = reduce_text(text_of(page)), reduce_text(rich.text)
    assert not Counter(expected) - Counter(shown), "a character was lost"
    # A wide table is listed by row, with its header in between.
    assert "<table" in page or is_subsequence(expected, shown), "the text was shuffled"
    assert set(shown) <= set(expected) | set(reduce_text(clean(source))) | DECORATION, (
        "text was invented"
    )


def check_pieces(rich: Rich, pieces: tuple[Rich, ...], limit: int) -> None:
    for piece in pieces:
        check_message(piece, limit)
    whole = "".join(INVISIBLE.sub("", rich.text).split())
    joined = "".join(INVISIBLE.sub("", piece.text) for piece in pieces)
    assert "".join(joined.split()) == (whole or NOTHING)
    assert pieces == split(rich, limit)


def formats_of(rich: Rich) -> Iterator[tuple[str, str | None, str]]:
    """Return each formatted visible character with its format; splitting must not change them."""
    for entity in rich.entities:
        for char in INVISIBLE.sub("", "".join(slice_of(rich, entity).split())):
            yield entity.type, entity.url or entity.language, char


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_documents(batch: int) -> None:
    rng = random.Random(batch)
    for _ in range(DOCUMENTS // BATCHES):
        source = make_document(rng)
        rich = to_entities(source)
        assert rich.text == rich.text.strip(), ascii(source)
        try:
            check_entities(rich)
            check_text_survives(source, rich)
            for limit in (4080, rng.randint(2, 40)):
                pieces = split(rich, limit)
                check_pieces(rich, pieces, limit)
                if len(rich.entities) <= 100:
                    kept = (f for piece in pieces for f in formats_of(piece))
                    assert Counter(kept) == Counter(formats_of(rich))
            check_message(mark_repeat(split(rich)[0]))
        except AssertionError as error:
            raise AssertionError(f"in the document {source!a}") from error
