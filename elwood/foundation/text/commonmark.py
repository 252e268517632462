"""The dialect of Markdown that is understood: CommonMark, tables and strikethrough, no HTML."""

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.token import Token

# Levels of lists and quotes, a list counting two, as in the library's own preset.  It drops what
# lies deeper.
MAX_NESTING = 20


class Parser(MarkdownIt):
    """A parser that takes every link target, as it is written; `core.links` judges them.

    Link definitions work and yet stand in the text, as tokens of the type ``definition``; links by
    reference bear a ``label`` in their meta data.
    """

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "maxNesting": MAX_NESTING})
        self.enable(["table", "strikethrough"])
        self.options["store_labels"] = True
        self.block.ruler.at("reference", _keep_definition)

    def validateLink(self, url: str) -> bool:
        return True

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link

    def tokens(self, source: str) -> list[Token] | None:
        """Parse *source*; None if it is nested so deeply that some of it would be dropped."""
        tokens = self.parse(source)
        containers = ("blockquote_open", "list_item_open")
        too_deep = any(t.level >= MAX_NESTING - 1 and t.type in containers for t in tokens)
        return None if too_deep else tokens


def _keep_definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if not reference(state, start, end, silent):
        return False
    if not silent:
        lines = state.getLines(start, state.line, state.blkIndent, False)
        token = Token("definition", "", 0, content=lines, map=[start, state.line], block=True)
        state.tokens.append(token)
    return True
