"""Sentences of a Markdown text, without its code and its quotes, and their clauses."""

import re
from collections.abc import Iterator

import attrs

from elwood.agent.session.turn.imitation import fold

# What stands for code, file names and addresses in `Sentence.words`.
THING = "thing"
# Characters of a sentence; what is longer is no prose, and is cut to bound the patterns' work.
MAX_SENTENCE = 500

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_CODE = re.compile(r"`+[^`\n]+`+")
_QUOTE = re.compile(r"“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|\"[^\"\n]*\"")
_END = re.compile(r"[.!?…]+[*_~`)\]\"'”»]*(?=\s|$)|[\n|]")
_ITEM = re.compile(r"\s*(?:[-+*•]|[0-9]{1,9}[.)])\s")
_GOES_ON = re.compile(r"[^\s.!?:;…|]\n(?=[a-zäöü])")
# A file, a host, a URL or an e-mail address.
NAME = re.compile(r"[\w~@/.:+-]*\w\.[A-Za-z]\w{0,9}\b(?:/[\w./?=&%-]*)?|(?:[\w.~-]+)?/[\w./~-]+")
_CLAUSE = re.compile(
    r"([,;:()—\u2013]|\s-\s|\b(?:and|but|then|so|because|und|aber|dann|denn|also)\b(?= ))"
)
_EDGES = re.compile(r"^\W+|\W+$")
# Behind these a headline may stand: "All set: mail sent".
_FRESH = frozenset(":;—\u2013()")


@attrs.frozen
class Sentence:
    """A sentence, from *start* to *end* of the text.

    *words* is what it says in lower case, with `THING` for code and names; *raw* is as it stands.
    *item* says that it begins an item of a list; *intro* is the line that led to the list.
    """

    start: int
    end: int
    raw: str
    words: str
    item: bool = False
    intro: str = ""


def sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of *text* that the writer says.

    >>> [s.words for s in sentences("**Hi.** I read `a.md`:\\n> I sent it.\\n- See b.md!")]
    ['hi.', 'i read thing:', 'see thing!']
    """
    said = _GOES_ON.sub(lambda found: f"{found[0][0]} ", _without_code(text))
    intro, start = "", 0
    is_line_start = True
    while start < len(said):
        found = _END.search(said, start)
        end = min(found.end() if found else len(said), start + MAX_SENTENCE)
        piece = said[start:end]
        stop = start + len(piece.rstrip("\n|"))
        item = is_line_start and _ITEM.match(piece) is not None
        words = _words(said[start:stop])
        if words:
            if is_line_start and not item:
                intro = ""
            yield Sentence(start, stop, text[start:stop], words, item, intro)
            if words.endswith(":") or piece.lstrip().startswith("#"):
                intro = words
        is_line_start = piece.endswith("\n")
        start = end


@attrs.frozen
class Clause:
    """Words of a sentence; *fresh* if a new statement may begin there, *then* is what follows."""

    words: str
    fresh: bool
    then: str


def clauses(words: str) -> list[Clause]:
    """Cut a sentence where another thing may be said.

    >>> [clause.words for clause in clauses("i read it, fixed it and saved it")]
    ['i read it', 'fixed it', 'saved it']
    """
    found, fresh = [], True
    pieces = _CLAUSE.split(words)
    for clause, then in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        bare = _EDGES.sub("", clause)
        if bare:
            found.append(Clause(bare, fresh, then.strip()))
            fresh = False
        fresh = fresh or then.strip() in (*_FRESH, "-")
    return found


def _without_code(text: str) -> str:
    """Blank code and quotes; each character keeps its place."""
    lines, fence = [], ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence):
                fence = ""
            lines.append(" " * len(line))
        elif found:
            fence = found[1]
            lines.append(" " * len(line))
        elif line.lstrip().startswith(">"):
            lines.append(" " * len(line))
        else:
            line = _CODE.sub(lambda code: "\x01" * len(code[0]), line)
            lines.append(_QUOTE.sub(lambda quote: " " * len(quote[0]), line))
    return "\n".join(lines)


def _words(piece: str) -> str:
    piece = re.sub("\x01+", f" {THING} ", piece)
    piece = NAME.sub(f" {THING} ", piece)
    folded = fold(piece).replace("\u2019", "'").replace("\u02bc", "'")
    folded = re.sub(r"[_#>{}]+", " ", folded)
    folded = re.sub(r"^\W*(?:[0-9]{1,9}[.)]\W*|x\s+)?", "", folded)
    return re.sub(r"\s+([,.;:!?…])", r"\1", re.sub(r"\s+", " ", folded)).strip()
