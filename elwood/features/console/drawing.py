"""Draw messages for a terminal: lines of styled text, at most of a given width.

Colors are named as in the terminal's palette; the screen chooses how each is shown.  All text
from outside is made printable here, before other code parses it.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.markdown import (
    CodeBlock,
    Heading,
    ListItem,
    Markdown,
    MarkdownElement,
    Paragraph,
    TableElement,
)
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.syntax import RICH_SYNTAX_THEMES, ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from elwood.agent.channels.frames import Choice, HeardElsewhere, Message
from elwood.features.console.settings import COLORS
from elwood.foundation.text.characters import printable
from elwood.foundation.text.lines import clip, one_line
from elwood.foundation.text.markdown import MAX_MARKDOWN

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

Line = list[Segment]

# The smallest width in columns; a narrower terminal cuts the lines.
MIN_WIDTH = 20
# Columns of prose: longer lines are hard to read.  Tables and code have the whole width.
MAX_WIDTH = 110
# Characters drawn of an answer that is being written: it takes 10 ms, during which keys wait.
TAIL = 1500
# Lines to wrap together: the time grows faster than their number.
BLOCK = 100
# The key of each answer to a question about a call, the same in every box; REASON denies with a
# reason, ALL allows all open questions once.  Choices of the model or a command have numbers, which
# never decide about a call.
LETTERS = {"once": "y", "conversation": "c", "always": "a", "source": "t"}
DENY, REASON, DETAILS, ALL = "n", "r", "d", "A"
NUMBERS = "123456789"
DIM, BOLD = Style(dim=True), Style(bold=True)
ACCENT, ASKS = Style(color="cyan"), Style(color="yellow")

_THEME = Theme(
    {
        **dict.fromkeys(["markdown.h2", "markdown.h3", "markdown.table.header"], "bold"),
        **dict.fromkeys(["markdown.block_quote", "markdown.table.border"], "dim"),
        **dict.fromkeys(["markdown.item.bullet", "markdown.item.number"], "dim"),
        "markdown.code": "cyan",
        "markdown.link": "none",
        "markdown.link_url": "underline",
    }
)
_CODE = ANSISyntaxTheme(
    {
        **RICH_SYNTAX_THEMES["ansi_light"],
        ("Keyword",): Style(color="magenta"),
        ("Literal", "String"): Style(color="green"),
        ("Literal", "Number"): Style(color="cyan"),
    }
)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)[^\n]*$", re.MULTILINE)
_INDENT = Segment("  ")
# The parts of a frame: corner, rule, side, corner.
_LIGHT, _HEAVY = ("╭", "─", "│", "╰"), ("┏", "━", "┃", "┗")


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}  # align all levels left


class _Item(ListItem):
    def render_number(self, *given: Any) -> RenderResult:
        for at, part in enumerate(super().render_number(*given)):
            assert isinstance(part, Segment)
            yield part if at else Segment(f"{part.text[1:-1]}. ", part.style)


class _Paragraph(Paragraph):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Constrain(self.text, MAX_WIDTH)


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            table.show_edge = False
            yield table


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        syntax = Syntax(
            code, self.lexer_name, theme=_CODE, word_wrap=True, background_color="default"
        )
        yield Padding(syntax, (0, 0, 0, 2))


class _Answer(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "paragraph_open": _Paragraph,
        "list_item_open": _Item,
        "table_open": _Table,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str) -> None:
        # Show the URL after the text of its link, which may name another one.
        super().__init__("", hyperlinks=False)
        self.parsed = _parser().parse(text)
        for token in self.parsed:
            if token.children:
                token.children = list(_simplify_tokens(token.children))


@cache
def _parser() -> MarkdownIt:
    """Build a parser that treats HTML as text: Rich would drop it."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.disable(["html_block", "html_inline", "reference"])


def _simplify_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    """Keep line breaks, replace pictures by text, and show a bare URL once."""
    bare = False
    for at, token in enumerate(tokens):
        if token.type == "image":
            words = f"[picture {token.content}] ({token.attrs.get('src', '')})"
            yield Token("text", "", 0, content=words)
        elif token.type == "softbreak":
            yield Token("hardbreak", "br", 0)
        elif token.type == "link_open" and tokens[at + 1].content == token.attrs.get("href"):
            bare = True
        elif not (bare and token.type == "link_close"):
            yield token
        else:
            bare = False


@cache
def _console() -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, theme=_THEME, markup=False, emoji=False,
        highlight=False, color_system="standard",
    )  # fmt: skip


def _render(what: RenderableType, width: int) -> list[Line]:
    """Draw *what* without trailing blanks, which would wrap in a narrower window."""
    options = _console().options.update(width=max(MIN_WIDTH, width), height=None)
    drawn = _console().render_lines(what, options, pad=False)
    for line in drawn:
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
    return drawn


def safe(text: str) -> str:
    """Return *text* from outside without control characters and tabs."""
    return printable(text).expandtabs(4)


def words(text: str, width: int, style: Style | None = None) -> list[Line]:
    """Draw plain *text*, wrapped at words."""
    lines = safe(text).split("\n")
    blocks = ("\n".join(lines[at : at + BLOCK]) for at in range(0, len(lines), BLOCK))
    return [line for block in blocks for line in _render(Text(block, style or ""), width)]


def markdown(text: str, width: int) -> list[Line]:
    text = safe(text).strip("\n")
    return words(text, width) if len(text) > MAX_MARKDOWN else _render(_Answer(text), width)


def tail(text: str, width: int, rows: int) -> list[Line]:
    """Draw the last *rows* of unfinished Markdown; only its end is parsed."""
    size = min(TAIL, width * rows)
    if len(text) > size:
        start = max(text.find("\n", len(text) - size) + 1, len(text) - size)
        fences = _FENCE.findall(text, 0, start)
        text = text[start:]
        if len(fences) % 2:  # inside a code block
            text = f"{fences[-1]}\n{text}"
    return markdown(text, width)[-rows:] if rows > 0 else []


def message(shown: Message, width: int) -> list[Line]:
    """Draw a message with its receipts and files."""
    if shown.markdown or shown.records:
        drawn = markdown(shown.markdown, width)
        gap: list[Line] = [[]] if drawn and shown.records else []
        drawn += [*gap, *(words(shown.records, width, DIM) if shown.records else ())]
    else:
        drawn = _with_code(shown.text, shown.code, width)
    for file in shown.files:
        where = f" · {file.path}" if file.path else ""
        drawn += words(f"▪ {file.name} · {file.size:,} bytes{where}", width, ACCENT)
    if shown.is_repeat:
        drawn = [*words("(again)", width, DIM), *drawn]
    return dim(drawn) if shown.is_old else drawn


def _with_code(text: str, code: Sequence[str], width: int) -> list[Line]:
    """Draw *text*, in which the parts in *code* are diffs or shell commands."""
    drawn: list[Line] = []
    for part in code:
        before, _, text = text.partition(part)
        language = "diff" if re.search(r"^@@ ", part, re.MULTILINE) else "sh"
        fence = "`" * (3 + part.count("`"))
        drawn += [*words(before.strip("\n"), width), []] if before.strip("\n") else []
        drawn += [*markdown(f"{fence}{language}\n{part}\n{fence}", width), []]
    return [*drawn, *words(text.strip("\n"), width)]


def draw_steps(
    steps: Mapping[str, str], details: Mapping[str, str], thought: str, width: int
) -> list[Line]:
    """Draw the thoughts and the steps of a turn, each with its duration and its details."""
    drawn = dim(markdown(thought, width)) if thought else []
    for step, took in steps.items():
        took = took and f" · {took}"
        drawn.append([Segment(clip(f"  {safe(step)}", width - len(took)) + took, DIM)])
        text = details.get(step, "").rstrip()
        is_diff = text.startswith("@@ ")
        more = _with_code(text, [text], width - 4) if is_diff else words(text, width - 4, DIM)
        drawn += _prefix_lines(more if text else (), Segment("    "))
    return drawn


def draw_answer(text: str, files: Sequence[str], width: int) -> list[Line]:
    drawn = [*words(text, width - 2), *(words(f"@ {file}", width - 2, DIM)[0] for file in files)]
    return _prefix_lines(drawn, Segment("> ", ACCENT + BOLD), Segment("  "))


def draw_message(what: HeardElsewhere, width: int) -> list[Line]:
    drawn = [*words(what.who, width - 2, BOLD), *words(what.text, width - 2)]
    drawn = _prefix_lines(drawn, Segment("▎ ", DIM))
    return dim(drawn) if what.is_old else drawn


def box(
    question: Message,
    width: int,
    rows: int = 0,
    *,
    title: str = "",
    has_focus: bool = False,
    count: int = 1,
) -> list[Line]:
    """Draw a question; omit its middle if it has more than *rows* lines.

    A question that *has_focus*, and so gets the keys, has a heavy frame.  *count* is the number of
    questions that one key can allow.
    """
    # A reply is printed above already.
    inner = [] if question.is_reply else [*message(question, width - 2), []]
    below = choices(question.choices, width - 2, ACCENT + BOLD if has_focus else DIM, count)
    room = max(3, rows - len(below) - 3)
    if rows and len(inner) > room:
        half = room // 2
        note = f"… {len(inner) - 2 * half} more lines; Ctrl-O to see all"
        inner = [*inner[:half], *words(note, width - 2, DIM + BOLD), *inner[-half:]]
    style, frame = (ASKS + BOLD, _HEAVY) if has_focus else (ASKS, _LIGHT)
    return _frame_lines([*inner, *below], width, style, title, frame)


def summarize_question(question: Message, width: int, note: str = "") -> list[Line]:
    """Draw a question in one line: the question, the start of the call, and *note*."""
    ask, _, _ = safe(question.text).lstrip().partition("\n")
    call, _, _ = safe(question.code[0] if question.code else "").partition("\n")
    note = note and f" · {note}"
    text = clip(f"? {ask} {call}".rstrip(), max(MIN_WIDTH, width - len(note)))
    return [[Segment(text, ASKS), Segment(note, DIM)]]


def draw_decision(question: Message, width: int, text: str) -> list[Line]:
    """Draw a decision made elsewhere in one line: the end of the question's new *text*."""
    end = safe(text).strip().rpartition("\n\n")[2].partition("\n")[0]
    call = safe(question.code[0] if question.code else question.text).partition("\n")[0]
    return [[Segment(clip(f"{end} {call}", max(MIN_WIDTH, width)), DIM)]]


def draw_question(question: Message, width: int) -> list[Line]:
    """Draw a question that is answered elsewhere."""
    return _frame_lines(message(question, width - 2), width, DIM)


def _frame_lines(
    drawn: Iterable[Line],
    width: int,
    style: Style,
    title: str = "",
    frame: tuple[str, str, str, str] = _LIGHT,
) -> list[Line]:
    """Frame lines, open to the right: a terminal may measure characters differently."""
    top, rule, side, bottom = frame
    columns = min(width, 40) - 2
    head = f"{rule} {title} " if title and len(title) + 3 < columns else ""
    return [
        [Segment(f"{top}{head:{rule}<{columns}}", style)],
        *_prefix_lines(drawn, Segment(f"{side} ", style)),
        [Segment(f"{bottom}{rule * columns}", style)],
    ]


def choices(given: Sequence[Choice], width: int, style: Style, count: int = 1) -> list[Line]:
    """Draw the choices of a box, each after its key in *style*.

    Short answers about a call share lines; *count* is as in `box`.
    """
    keyed = [
        (key, choice.text if key else f"{choice.text} ({choice.says})")
        for key, choice in assign_keys(given)
    ]
    if DENY not in dict(keyed):
        return [
            line
            for key, text in keyed
            for line in _prefix_lines(
                words(text, width - 2), Segment(f"{key or '·'} ", style), _INDENT
            )
        ]
    at = [key for key, _ in keyed].index(DENY) + 1
    keyed[at:at] = [(REASON, "No, and say why")]
    if count > 1:
        keyed.append((ALL, f"Allow all {count} once"))
    drawn, used = list[Line](), width + 1
    for key, text in keyed:
        shown = clip(safe(one_line(text, width)), width - 2)
        size = 2 + cell_len(shown)
        if used + 3 + size > width:
            drawn.append([])
            used = -3
        gap = [Segment("   ")] if drawn[-1] else []
        drawn[-1] += [*gap, Segment(f"{key or '·'} ", style), Segment(shown)]
        used += 3 + size
    return drawn


def draw_typed_choices(given: Sequence[Choice], width: int) -> list[Line]:
    """Draw the choices to type where there is no box."""
    drawn: list[Line] = []
    for choice in given:
        about = "" if choice.text == choice.says else f"{choice.text}: "
        drawn += _prefix_lines(
            words(about + choice.says, width - 2, DIM), Segment("· ", DIM), _INDENT
        )
    return drawn


def assign_keys(given: Sequence[Choice]) -> list[tuple[str, Choice]]:
    """Return each choice with its key: a letter for an answer about a call, else a number.

    Choices after the ninth number have the key "".

    >>> asked = [Choice("Always", "/allow X always"), Choice("Deny", "/deny X")]
    >>> [key for key, _ in assign_keys(asked)]
    ['a', 'n']
    >>> [key for key, _ in assign_keys([Choice("Tea", "Tea"), Choice("/deny X", "/deny X")])]
    ['1', '2']
    """
    numbers = iter(NUMBERS)
    return [(_letter_key(choice) or next(numbers, ""), choice) for choice in given]


def _letter_key(choice: Choice) -> str:
    """Return the letter of an answer about a call; "" for a choice of the model or a command."""
    if choice.text == choice.says:  # the model wrote it, even if it looks like a command
        return ""
    match choice.says.split():
        case ["/allow", _, answer]:
            return LETTERS.get(answer, "")
        case ["/deny", _]:
            return DENY
        case ["/approvals", "show", _]:
            return DETAILS
    return ""


def dim(drawn: Iterable[Line]) -> list[Line]:
    return [[Segment(part.text, DIM) for part in line] for line in drawn]


def _prefix_lines(drawn: Iterable[Line], first: Segment, rest: Segment | None = None) -> list[Line]:
    return [[rest if number and rest else first, *line] for number, line in enumerate(drawn)]


def to_fragments(drawn: Iterable[Line]) -> "StyleAndTextTuples":
    """Convert lines for prompt_toolkit."""
    fragments: StyleAndTextTuples = []
    for line in drawn:
        for style, parts in groupby(line, key=lambda part: part.style):
            fragments.append((_style_names(style), "".join(part.text for part in parts)))
        fragments.append(("", "\n"))
    return fragments


@cache
def _style_names(style: Style | None) -> str:
    if style is None:
        return ""
    on = ("bold", "dim", "italic", "underline", "strike", "reverse")
    names = [name for name in on if getattr(style, name)]
    if style.color and style.color.number is not None:
        names.append(f"class:{COLORS[style.color.number % 8]}")
    return " ".join(names)
