"""Render Markdown as HTML without scripts and without external resources."""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from elwood.foundation.text.characters import clean
from elwood.foundation.text.markdown import MAX_MARKDOWN, MAX_NESTING, is_too_deep

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# A linked page receives no referrer, and cannot control this page.
REL = "noopener noreferrer"
_LINK = re.compile(r"(?:https?://|mailto:)[^\s/]", re.IGNORECASE)


def to_html(markdown: str) -> str:
    """Render *markdown* (CommonMark, tables, strikethrough).

    HTML and links to anything except the web and mail stay visible as text; an image becomes a
    link.  Line breaks stay.  Text that is too long or too deep for the parser is shown unparsed.

    >>> print(to_html("*a* <b> ![x](https://e.org)").strip())
    <p dir="auto"><em>a</em> &lt;b&gt; <a href="https://e.org" rel="noopener noreferrer">x</a></p>
    """
    source = clean(markdown).strip("\n")
    if len(source) <= MAX_MARKDOWN:
        parser = _parser()
        tokens = parser.parse(source)
        if not is_too_deep(tokens):
            for token in tokens:
                if token.nesting == 1 and not token.level:
                    token.attrSet("dir", "auto")
                if token.type == "fence" and token.info.strip():
                    token.attrSet("data-language", token.info.split()[0])
                for child in token.children or ():
                    if child.type == "link_open":
                        child.attrSet("rel", REL)
            return str(parser.renderer.render(tokens, parser.options, {}))
    return as_it_stands(source)


def as_it_stands(text: str) -> str:
    """Show *text* with its line breaks and without markup."""
    return f'<p class="plain">{escape(clean(text))}</p>\n'


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # takes 20 ms

    class Parser(MarkdownIt):
        def validateLink(self, url: str) -> bool:
            return _LINK.match(url) is not None

    options = {"html": False, "breaks": True, "maxNesting": MAX_NESTING}
    parser = Parser("commonmark", options)
    parser.add_render_rule("image", _picture)
    return parser.enable(["table", "strikethrough"]).disable("reference")


def _picture(renderer: object, tokens: "Sequence[Token]", index: int, *_: object) -> str:
    token, target = tokens[index], escape(str(tokens[index].attrs["src"]))
    return f'<a href="{target}" rel="{REL}">{escape(token.content) or target}</a>'
