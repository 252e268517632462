"""The answer of `elwood once` on a terminal: the unfinished text in place, then the whole one."""

from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.segment import Segment, SegmentLines

from elwood.agent.channels import frames
from elwood.features.console import drawing
from elwood.features.console.client import Draw
from elwood.features.console.drawing import DIM, Line
from elwood.foundation.text.lines import clip

# Minimum seconds between two drawings of an unfinished answer.
FRAME = 1 / 15


class LiveAnswer:
    """Draws frames on stdout, which is a terminal."""

    def __init__(self) -> None:
        # Not stdout, which escapes control sequences; `drawing` has made the text printable.
        self._file = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 -- stays open
        self._console = Console(file=self._file)
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._drawn_at = -FRAME
        self._writing: list[Line] = []

    def __enter__(self) -> Draw:
        self._live.start()
        return self.take

    def __exit__(self, *error: object) -> None:
        self._draw(())
        self._live.stop()

    def take(self, frame: frames.Frame) -> bool:
        """Draw *frame*; return False if it has nothing to draw."""
        width = self._console.width
        match frame:
            case frames.Message():
                self._writing = []
                self._draw(())
                lines = [*drawing.message(frame, width), []]
                self._console.print(SegmentLines(lines, new_lines=True), end="")
            case frames.Writing(markdown=text):
                if not text or self._console.get_time() - self._drawn_at >= FRAME:
                    self._writing = drawing.tail(text, width, self._console.height - 2)
                    self._draw(self._writing)
                    self._drawn_at = self._console.get_time()
            case frames.Running(text=text):
                line = Segment(clip(drawing.safe(text), width), DIM)
                self._draw([*self._writing, [line]] if text else self._writing)
            case _:
                return False
        return True

    def _draw(self, lines: Sequence[Line]) -> None:
        self._live.update(SegmentLines(lines, new_lines=True), refresh=True)
