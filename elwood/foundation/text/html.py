"""HTML as a stream of tags and texts, read in one pass whatever it contains.

No tree is built: the parsers that build one as the standard says take quadratic time on tags that
are nested deeply or have many attributes (selectolax 1.0.2: 2.7 s for 200 kB of ``<div>``).
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from html import unescape

import attrs

# Elements whose content is no markup; it ends with their own end tag only.
_RAW = {"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"}
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW}
_OPENING = re.compile("</?[a-zA-Z]")
# A tag from its name on: a quote counts after an equals sign only.  Nothing is tried twice.
_TAG = re.compile(
    r"""(/?) ([a-zA-Z][^\s/>]*+) ( (?: [^>=]++ | =\s*+ (?: "[^"]*+" | '[^']*+' )? )*+ ) >""",
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    r"""[\s/]*+ ([^\s/>][^\s/>=]*+)
        (?: \s*+ = \s*+ (?: "([^"]*+)" | '([^']*+)' | ([^\s>]*+) ) )?+""",
    re.VERBOSE,
)
_COMMENT_END = re.compile("--!?>")
# More digits than any character has; converting them takes quadratic time.
_HUGE = re.compile("&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")


@attrs.frozen(slots=False)
class Start:
    """A start tag; *name* in lower case."""

    name: str
    raw: str

    @cached_property
    def attributes(self) -> Mapping[str, str]:
        """The attributes, with names in lower case; of two with the same name the first counts."""
        found: dict[str, str] = {}
        at = 0
        while match := _ATTRIBUTE.match(self.raw, at):
            at = match.end()
            value = match[2] or match[3] or match[4] or ""
            found.setdefault(match[1].lower(), text_of(value))
        return found


@attrs.frozen
class End:
    """An end tag; *name* in lower case."""

    name: str


def tokens(html: str) -> Iterator[Start | End | str]:
    """Cut *html* into tags and texts; comments and declarations are left out.

    The content of elements that hold no markup is one text.  A tag or comment that does not end
    is dropped with all after it.

    >>> list(tokens("<P class=a>1 &lt; 2<!-- no --></p>"))
    [Start(name='p', raw=' class=a'), '1 < 2', End(name='p')]
    >>> list(tokens("a < b<script>'<p>'</script>"))
    ['a ', '<', ' b', Start(name='script', raw=''), "'<p>'", End(name='script')]
    """
    at = 0
    while (tag := html.find("<", at)) >= 0:
        if tag > at:
            yield text_of(html[at:tag])
        if _OPENING.match(html, tag):
            match = _TAG.match(html, tag + 1)
            if match is None:
                return
            at = match.end()
            name = match[2].lower()
            if match[1]:
                yield End(name)
                continue
            yield Start(name, match[3])
            if name in _RAW:
                end = _RAW_END[name].search(html, at)
                until = end.start() if end else len(html)
                if until > at:
                    raw = html[at:until]
                    yield text_of(raw) if name in ("title", "textarea") else raw
                at = until
        elif html.startswith(("<!", "<?", "</"), tag):
            at = _after_comment(html, tag)
        else:
            yield "<"
            at = tag + 1
    if at < len(html):
        yield text_of(html[at:])


def text_of(raw: str) -> str:
    """Put characters for references, as in ``&amp;``.

    >>> text_of("a &amp; b&#x21; &#99999999999;") == "a & b! \\ufffd"
    True
    """
    return unescape(_HUGE.sub("\ufffd", raw)) if "&" in raw else raw


def _after_comment(html: str, start: int) -> int:
    """Return the index behind the comment, declaration or instruction at *start*."""
    if not html.startswith("<!--", start):
        end = html.find(">", start)
        return end + 1 if end >= 0 else len(html)
    if html.startswith((">", "->"), start + 4):
        return html.index(">", start) + 1
    match = _COMMENT_END.search(html, start + 4)
    return match.end() if match else len(html)
