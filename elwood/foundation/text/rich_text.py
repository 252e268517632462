"""Build a page of indented lines with formatted spans."""

import msgspec
from msgspec.structs import replace

from elwood.foundation.text.characters import clean


class Span(msgspec.Struct):
    """Formatting of text[start:end], in code points."""

    kind: str
    start: int
    end: int = -1
    url: str | None = None
    language: str | None = None


class TextPage:
    """Collect text and spans.  Spans open and close like brackets."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._spans: list[Span] = []
        self._open: list[Span | None] = []
        self.indents: list[str] = []
        self._gap = 0
        # The line has only a bullet or quote mark: the next block shares it.
        self._fresh = True

    def block(self, gap: int) -> None:
        """Start a block *gap* line ends after the previous one, unless it follows its bullet."""
        if not self._fresh:
            self._gap = max(self._gap, gap)

    def write(self, text: str) -> None:
        """Add text to the line; line ends in it keep the indentation."""
        if not text:
            return
        self._break()
        text = clean(text)  # again: ``&#13;`` was harmless in the source
        self._put(text.replace("\n", "\n" + "".join(self.indents)) if "\n" in text else text)
        self._fresh = False

    def verbatim(self, text: str, kind: str, language: str | None = None) -> None:
        """Add whole lines without indentation that share no line with other text."""
        if self._fresh and self._size:
            self._gap = max(self._gap, 1)
        self._break(indented=False)
        self._spans.append(Span(kind, self._size, self._size + len(text), language=language))
        self._put(text)
        self._fresh = False

    def indent(self, mark: str, rest: str) -> None:
        """Start a block whose first line begins with *mark* and the others with *rest*."""
        self._break()
        self._put(mark)
        self.indents.append(rest)
        self._fresh = True

    def dedent(self) -> None:
        self.indents.pop()
        self._fresh = False

    def is_inside(self, kind: str) -> bool:
        return any(span is not None and span.kind == kind for span in self._open)

    def open(self, kind: str, url: str | None = None) -> None:
        """Start a span; ignore it within another of the same kind, because they cannot nest."""
        self._break()
        span = None if self.is_inside(kind) else Span(kind, self._size, url=url)
        if span is not None:
            self._spans.append(span)
        self._open.append(span)
        if kind == "blockquote":
            self._fresh = True

    def close(self) -> None:
        span = self._open.pop()
        if span is not None:
            span.end = self._size
            if span.kind == "blockquote":
                self._fresh = False

    def code(self, text: str) -> None:
        """Add inline code; it interrupts other formatting, and is plain text within a link."""
        if self.is_inside("text_link"):
            self.write(text)
            return
        self._break()
        start = self._size
        self._interrupt()
        self._spans.append(code := Span("code", start))
        self.write(text)
        code.end = self._size
        self._resume()

    def finish(self) -> tuple[str, list[Span]]:
        """Return the text and its spans, outer before inner; all trimmed, none empty."""
        whole = "".join(self._parts)
        text = whole.strip()
        cut = len(whole) - len(whole.lstrip())
        spans = [t for span in self._spans if (t := trim_span(span, whole, cut)) is not None]
        spans.sort(key=lambda span: (span.start, -span.end))
        return text, spans

    def _interrupt(self) -> None:
        for span in self._open:
            if span is not None and span.kind != "blockquote":
                span.end = self._size

    def _resume(self) -> None:
        for index, span in enumerate(self._open):
            if span is not None and span.kind != "blockquote":
                again = replace(span, start=self._size, end=-1)
                self._open[index] = again
                self._spans.append(again)

    def _break(self, *, indented: bool = True) -> None:
        if self._gap:
            margin = "".join(self.indents) if indented else ""
            self._put("\n" + (margin.rstrip() + "\n") * (self._gap - 1) + margin)
            self._gap = 0

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)


def trim_span(span: Span, text: str, cut: int = 0) -> Span | None:
    """Narrow *span* to visible characters of *text* and move it by *cut*; None without any."""
    inside = text[span.start : span.end]
    start = span.start + len(inside) - len(inside.lstrip())
    end = start + len(inside.strip())
    if start == end:
        return None
    return replace(span, start=start - cut, end=end - cut)
