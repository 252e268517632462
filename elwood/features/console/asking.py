"""The questions of `elwood once` about calls: each in a box, above a line for the answer."""

from collections.abc import Sequence

from rich.console import Console
from rich.segment import SegmentLines

from elwood.agent.channels.frames import Message
from elwood.features.console import drawing

HOW = "Type a letter, then Enter. Enter alone: decide later. > "
BECAUSE = "No, because > "


class Questions:
    """The open questions, of which the first one is shown."""

    def __init__(self) -> None:
        # Not stderr, which escapes control sequences; `drawing` makes the text printable.
        self._file = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 -- stays open
        self._console = Console(file=self._file)
        self._open: list[Message] = []
        self._has_reason = False
        # Questions left for later, and commands without a reply yet.
        self.later = self.replies = 0

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, question: Message) -> None:
        self._open.append(question)
        if len(self._open) == 1:
            self._show()

    def answer(self, line: str) -> list[str]:
        """Return the messages that a *line* means; an empty one decides later."""
        choices = {key: one.says for key, one in drawing.assign_keys(self._open[0].choices)}
        word = line.strip()
        if self._has_reason:
            self._has_reason = False
            return self._close(choices[drawing.DENY], word)
        if not word:
            self.later += 1
            return self._close()
        if word in choices and word != drawing.DETAILS:
            return self._close(choices[word])
        if word in choices:
            self.replies += 1
            return [choices[word]]
        self._has_reason = word == drawing.REASON
        self._prompt(BECAUSE if self._has_reason else HOW)
        return []

    def _close(self, *said: str) -> list[str]:
        self.replies += bool(said)
        del self._open[0]
        if self._open:
            self._show()
        return [one for one in said if one]

    def show_reply(self, reply: Message) -> None:
        """Print the reply to a command, and the line again."""
        self.replies -= 1
        self._print(drawing.message(reply, self._console.width))
        if self._open:
            self._prompt(HOW)

    def _show(self) -> None:
        self._print(drawing.box(self._open[0], self._console.width - 1, has_focus=True))
        self._prompt(HOW)

    def _print(self, lines: Sequence[drawing.Line]) -> None:
        self._console.print(SegmentLines(lines, new_lines=True), end="")

    def _prompt(self, text: str) -> None:
        print(text, end="", file=self._file, flush=True)
