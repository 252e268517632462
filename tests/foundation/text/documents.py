"""Random Markdown, from a seed: fragments of every construct, hostile text and odd characters."""

import random
from collections.abc import Iterator

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


def document(rng: random.Random) -> str:
    pieces = rng.choices(FRAGMENTS, k=rng.randint(1, 24))
    if rng.random() < 0.3:
        at = rng.randrange(len(pieces))
        pieces.insert(at, "".join(chr(_code_point(rng)) for _ in range(rng.randint(1, 8))))
    return "".join(pieces)


def documents(seed: int, count: int) -> Iterator[str]:
    rng = random.Random(seed)
    for _ in range(count):
        yield document(rng)


def _code_point(rng: random.Random) -> int:
    top = rng.choice((0x7F, 0x7FF, 0xFFFF, 0x10FFFF))
    return rng.randint(0, top)
