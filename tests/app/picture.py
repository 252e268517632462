"""Draw docs/start/demo.svg, a conversation with `elwood demo` in tmux: python -m tests.app.picture.

It needs tmux and the extra `tui`.
"""

import re
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

TARGET = Path(__file__).parents[2] / "docs" / "start" / "demo.svg"
COLUMNS, ROWS = 88, 60
# Size of one character and the space around the picture, in pixels.
WIDTH, HEIGHT, MARGIN = 8.4, 18, 16
PATIENCE = 60.0
COLOURS = ["#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#bac2de"]
# Each line that is typed, and the text that shows that its answer is complete.
TYPED = (("write notes.txt: buy milk", "✓ write_file"), ("run mv notes.txt milk.txt", "d Details"))


def take() -> str:
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


def draw(screen: str) -> str:
    """Draw the *screen* as an SVG."""
    lines = screen.rstrip("\n").split("\n")
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        'font-family="monospace" font-size="14" fill="#cdd6f4" xml:space="preserve">',
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


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(draw(take()))
