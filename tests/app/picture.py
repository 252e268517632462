"""Draw the pictures in docs/start from the real program: python -m tests.app.picture.

demo.svg is the screen of `elwood demo` in tmux; it needs tmux and the extra `tui`.  telegram.svg is
a chat with `elwood run` over the fake Bot API, with scripted answers of the model.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import trio

from tests.fake_models import Say
from tests.fake_telegram import SentMessage
from tests.journeys.service import NO_COMMANDS, Town, town

FOLDER = Path(__file__).parents[2] / "docs" / "start"
DEMO, CHAT = FOLDER / "demo.svg", FOLDER / "telegram.svg"

# --- the terminal ---------------------------------------------------------------------------------

COLUMNS, ROWS = 88, 60
# Size of one character and the space around the picture, in pixels.
WIDTH, HEIGHT, MARGIN = 8.4, 18, 16
PATIENCE = 60.0
COLOURS = ["#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#bac2de"]
# Each line that is typed, and the text that shows that its answer is complete.
TYPED = (("write notes.txt: buy milk", "✓ write_file"), ("run mv notes.txt milk.txt", "d Details"))


def take_screen() -> str:
    """Run the demo in its own tmux; return the screen with its escape sequences."""
    with tempfile.TemporaryDirectory() as folder:

        def tmux(*words: str) -> str:
            argv = ("tmux", "-S", f"{folder}/tmux", "-f", "/dev/null", *words)
            return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

        def wait_for(text: str) -> None:
            ends = time.monotonic() + PATIENCE
            while text not in tmux("capture-pane", "-p"):
                if time.monotonic() > ends:
                    raise TimeoutError(tmux("capture-pane", "-p"))
                time.sleep(0.1)

        demo = f"{sys.executable} -m elwood demo"
        tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), demo)
        try:
            wait_for("\n>")
            for typed, answer in TYPED:
                tmux("send-keys", typed, "Enter")
                wait_for(answer)
            tmux("send-keys", "Tab")
            wait_for("┏")
            return tmux("capture-pane", "-p", "-e")
        finally:
            tmux("kill-server")


def draw_screen(screen: str) -> str:
    """Draw the *screen* as an SVG."""
    lines = screen.rstrip("\n").split("\n")
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        'font-family="monospace" font-size="13" fill="#cdd6f4" xml:space="preserve">',
        '<rect width="100%" height="100%" rx="8" fill="#1e1e2e"/>',
    ]
    style: set[str] = set()
    for row, line in enumerate(lines, 1):
        column = 0
        for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
            if piece.startswith("\x1b"):
                style = _change(style, piece[2:-1].split(";"))
            elif piece:
                x, y = MARGIN + column * WIDTH, MARGIN + row * HEIGHT - 4
                parts.append(
                    f'<text x="{x:.1f}" y="{y}" textLength="{len(piece) * WIDTH:.1f}"'
                    f"{''.join(f' {one}' for one in sorted(style))}>{escape(piece)}</text>"
                )
                column += len(piece)
    return "\n".join([*parts, "</svg>\n"])


def _change(style: set[str], codes: list[str]) -> set[str]:
    """Return the attributes after the SGR *codes*; backgrounds and 256 colours are left out."""
    for code in codes:
        number = int(code or 0)
        if number == 0:
            style = set()
        elif number == 1:
            style = style | {'font-weight="bold"'}
        elif number == 2:
            style = style | {'opacity="0.6"'}
        elif number == 3:
            style = style | {'font-style="italic"'}
        elif number in (*range(30, 38), 39, *range(90, 98)):
            style = {one for one in style if not one.startswith("fill=")}
            if number != 39:
                style.add(f'fill="{COLOURS[number % 10]}"')
    return style


# --- the chat -------------------------------------------------------------------------------------

# The time of the first message, and the owner's time zone.
BEGAN = datetime(2026, 11, 23, 19, 27, 5, tzinfo=UTC)
ZONE = '[owner]\ntimezone = "Europe/Berlin"\n'
# Each message of the owner, the call that the model makes for it, and its answer.  The last call
# waits for the owner, so it has no answer.
SCENE: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    (
        "Remember that my sister's birthday is 4 May",
        "save_memory",
        {"key": "sister", "content": "The sister's birthday is 4 May."},
        "I'll remember it.",
    ),
    (
        "Remind me tomorrow at nine to call mum",
        "schedule",
        {"title": "call mum", "remind": "call mum", "at": "2026-11-24T09:00"},
        "I'll remind you tomorrow at 9:00.",
    ),
    ("Forget what you know about my sister", "forget_memory", {"keys": ["sister"]}, ""),
)
# Characters of a line, and width of a character, in pixels.
LONGEST, CHARACTER, LINE = 46, 8.2, 20
# Space within a bubble and between two; width of the picture; height of a button.
PADDING, GAP, BROAD, KEY = 12, 14, 500, 34
STYLES = {
    "blockquote": 'fill="#56708a"',
    "bold": 'font-weight="bold"',
    "code": 'font-family="monospace" font-size="13"',
}


@attrs.frozen
class Bubble:
    """A message of the chat; *entities* are those of the Bot API."""

    text: str
    is_owners: bool = False
    entities: tuple[dict[str, Any], ...] = ()
    buttons: tuple[tuple[str, ...], ...] = ()  # the labels of each row


async def chat(folder: Path) -> list[Bubble]:
    """Run the scene with a service in *folder*; return its messages."""
    shown: list[Bubble] = []
    ahead, more = BEGAN.timestamp() - time.time(), NO_COMMANDS + ZONE
    async with town(folder, free=(), more=more, ahead=ahead) as service:
        await service.start()
        for said, tool, given, answer in SCENE:
            service.models.script += [Say(calls=((tool, json.dumps(given)),)), Say(answer)]
            shown.append(Bubble(said, is_owners=True))
            for message in await _exchange(service, said):
                rows = (message.params.get("reply_markup") or {}).get("inline_keyboard", [])
                labels = tuple(tuple(key["text"] for key in row) for row in rows)
                entities = tuple(message.params.get("entities") or ())
                shown.append(Bubble(message.text, entities=entities, buttons=labels))
    return shown


async def _exchange(service: Town, said: str) -> list[SentMessage]:
    """Let the owner say something; return what the service sends."""
    sent = service.telegram.sent
    seen = len(sent)
    service.telegram.say(said)
    await service.until(lambda: len(sent) > seen)
    return sent[seen:]


def draw_chat(bubbles: list[Bubble]) -> str:
    """Draw the *bubbles* as an SVG; those of the owner are on the right."""
    parts: list[str] = []
    top = GAP
    for bubble in bubbles:
        lines = _wrap(bubble.text, _styles(bubble))
        longest = max(sum(len(piece) for piece, _ in line) for line in lines)
        labels = max((sum(len(one) + 4 for one in row) for row in bubble.buttons), default=0)
        width = max(longest, labels) * CHARACTER + 2 * PADDING
        height = len(lines) * LINE + 2 * PADDING - 4
        left = BROAD - GAP - width if bubble.is_owners else GAP
        fill = "#e3fbd2" if bubble.is_owners else "#ffffff"
        parts.append(_box(left, top, width, height, fill))
        for row, line in enumerate(lines, 1):
            pieces = "".join(f"<tspan {style}>{escape(piece)}</tspan>" for piece, style in line)
            y = top + PADDING + row * LINE - 6
            parts.append(f'<text x="{left + PADDING:.1f}" y="{y}">{pieces}</text>')
        top += height
        for keys in bubble.buttons:
            each = (width - 4 * (len(keys) - 1)) / len(keys)
            for number, label in enumerate(keys):
                x, y = left + number * (each + 4), top + 4
                parts.append(_box(x, y, each, KEY - 4, "#ffffff"))
                place = f'x="{x + each / 2:.1f}" y="{y + 20}" text-anchor="middle" fill="#2b78b7"'
                parts.append(f"<text {place}>{escape(label)}</text>")
            top += KEY
        top += GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{BROAD}" height="{top}" '
        'font-family="sans-serif" font-size="14" fill="#17212b" xml:space="preserve">'
    )
    return "\n".join([head, _box(0, 0, BROAD, top, "#c9d8e4"), *parts, "</svg>\n"])


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} rx="8" fill="{fill}"/>'


def _styles(bubble: Bubble) -> list[str]:
    """Return the attributes of each character; offsets of entities are in UTF-16 units."""
    units = [
        number for number, char in enumerate(bubble.text) for _ in range(1 + (char > "\uffff"))
    ]
    styles = [set[str]() for _ in bubble.text]
    for entity in bubble.entities:
        start = entity["offset"]
        for number in dict.fromkeys(units[start : start + entity["length"]]):
            styles[number].add(STYLES.get(entity["type"], ""))
    return [" ".join(sorted(one)) for one in styles]


def _wrap(text: str, styles: list[str]) -> list[list[tuple[str, str]]]:
    """Split *text* into lines, and each line into pieces of one style."""
    lines: list[list[tuple[str, str]]] = []
    start = 0
    for paragraph in text.split("\n"):
        end = start + len(paragraph)
        while end - start > LONGEST:
            blank = text.rfind(" ", start, start + LONGEST + 1)
            stop = blank if blank > start else start + LONGEST
            lines.append(_pieces(text[start:stop], styles[start:stop]))
            start = stop + (stop == blank)
        lines.append(_pieces(text[start:end], styles[start:end]))
        start = end + 1
    return lines


def _pieces(line: str, styles: list[str]) -> list[tuple[str, str]]:
    runs = groupby(zip(line, styles, strict=True), key=lambda one: one[1])
    return [("".join(char for char, _ in run), style) for style, run in runs]


def undated(picture: str) -> str:
    """Replace the times and the spinner in a picture, which differ between two runs."""
    return re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋", re.sub(r"\d\d:\d\d|\b\d+ s\b", "…", picture))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        CHAT.write_text(draw_chat(trio.run(chat, Path(scratch))))
    DEMO.write_text(draw_screen(take_screen()))
