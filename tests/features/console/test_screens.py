"""Stored screens: text from a real tmux, at several widths."""

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from elwood.agent.channels.frames import (
    Changed,
    Choice,
    HeardElsewhere,
    Message,
    Running,
    ShownFile,
    State,
    Thinking,
    Writing,
)
from elwood.features.console.view import PAUSE
from tests.app.screens import assert_screen
from tests.features.console.sitting import PATIENCE, PlayedApp

SCREENS = Path(__file__).parent / "screens"
ROWS = 40
ANSWER = """\
# Moving the mail

The old server holds **3,412 messages** in `~/Mail`; see [the notes](https://example.org/notes)
or https://example.org. Two things remain:

1. Copy the folder *Archive*, which is too large for one run and has to be cut into pieces.
2. Tell 山田さん and שרה about it, as soon as the last message has arrived:
   - by mail
   - by telephone

```python
def pieces(folder: Path, size: int = 500) -> Iterator[list[str]]:
    names = sorted(folder.iterdir())  # the oldest first

    yield from batched(names, size)
```

| folder  | messages | what to do with it |
|---------|---------:|--------------------|
| Inbox   | 212      | copy it, and look at the newest ones with the attachments they have |
| 家族    | 3,200    | copy it            |

> Nothing is deleted before you say so.
"""
THOUGHT = """\
I should look at the folder first: there may be **so many** messages that one run is too long.
"""
FOOTER = """\
— What I actually did —
✓ shell ls -la ~/Mail · allowed once by you
✗ fetch_page https://example.org/notes (failed)
✓ looked at 2 files"""
COMMAND = 'rsync -a --delete ~/Mail/ backup:/srv/mail && echo "done" # twice'
MAY_RUN = f"""\
May I run this command?

{COMMAND}

Why I ask: it changes something on another machine.
If you choose “This conversation” or “Always”, I will not ask again before I run this exact \
command, as long as the files it names stay the same."""
DIFF = """\
edit notes.txt
@@ -1,2 +1,2 @@
 Mail
-is on the old server
+is on the new server"""
MAY_WRITE = f"May I change this file?\n\n{DIFF}\n\nWhy I ask: this file can start programs."


def choices(code: str, *more: Choice) -> tuple[Choice, ...]:
    once, no = Choice("Allow once", f"/allow {code} once"), Choice("Deny", f"/deny {code}")
    return once, *more, no, Choice("Details", f"/approvals show {code}")


class Pane:
    """A tmux of *columns*, and the other end of the program in it."""

    def __init__(self, folder: Path, columns: int, app: PlayedApp) -> None:
        self._server = folder / "tmux"
        self.columns = columns
        self.app = app
        self.kept: list[str] = []

    def tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-S", str(self._server), "-f", "/dev/null", *words],
            check=True, capture_output=True, text=True, timeout=PATIENCE,
        ).stdout  # fmt: skip

    def type(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def see(self, *texts: str) -> str:
        """Wait until all *texts* are on the screen; return it without times."""
        end, screen = time.monotonic() + PATIENCE, ""
        while not screen or not all(text in screen for text in texts):
            assert time.monotonic() < end, f"{texts} not in:\n{screen}"
            time.sleep(0.02)
            screen = self.tmux("capture-pane", "-p")
        screen = re.sub(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋", screen)
        return re.sub(r"\d+ s( · Ctrl-O)?$", r"3 s\1", screen, flags=re.MULTILINE).rstrip()

    def keep(self, name: str, *texts: str) -> None:
        self.see(*texts)
        frame = f"{name}: "
        self.kept.append(f"{frame:=<{self.columns}}\n{self.see(*texts)}\n")


@contextmanager
def pane(folder: Path, columns: int) -> Iterator[Pane]:
    path = folder / "app"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(PATIENCE)
        module = f"{sys.executable} -m tests.features.console.sitting"
        seen = Pane(folder, columns, None)  # type: ignore[arg-type]
        size = ("-x", str(columns), "-y", str(ROWS))
        seen.tmux("new-session", "-d", *size, f"{module} {path} {folder / 'history'}; cat")
        try:
            seen.app = PlayedApp(listener.accept()[0])
            with closing(seen.app):
                yield seen
        finally:
            seen.tmux("kill-server")


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_screens(columns: int, tmp_path: Path) -> None:
    with pane(tmp_path, columns) as it:
        it.app.send(
            State(model="anthropic/claude-sonnet-5-5"),
            HeardElsewhere(who="you (Telegram)", text="How far is the mail?", is_old=True),
            Message(
                id="o", text="", markdown="**Half** of it is there.", is_reply=True, is_old=True
            ),
        )
        it.keep("begins", "Half", "Ctrl-D")
        it.type("/st")
        it.keep("completes a command", "how I am")
        it.type("C-u", "go on @/etc/hostn")
        it.see(" hostname")
        it.type("Tab")
        it.see("@/etc/hostname")
        it.type("Enter", "Enter")
        it.app.receive()
        it.app.send(State(busy=True), Thinking(THOUGHT), Running("⏳ shell ls -la ~/Mail · 7 s"))
        it.see("~/Mail · 7 s")
        it.app.send(Writing(ANSWER[:420]))
        it.see("too large")
        it.tmux("set-buffer", "and\nbe\nquick\nplease")
        it.tmux("paste-buffer", "-p")
        it.see("> [4 lines pasted]")
        it.type("Enter")
        assert it.app.receive().text == "and\nbe\nquick\nplease"
        it.keep("writes, and a message waits", "too large", "pasted] (waiting)")
        it.app.send(
            Running("read_file notes.txt"),
            HeardElsewhere(who="Ada (Telegram)", text="Please keep\nthe drafts."),
            Message(id="m", text="", markdown=ANSWER, records=FOOTER, is_reply=True, is_repeat=True,
                files=(ShownFile("pieces.py", 1234, "/home/me/pieces.py"),)),
            State(model="anthropic/claude-sonnet-5-5"),
        )  # fmt: skip
        it.keep("answered", "looked at 2 files", "2 steps", "pieces.py")
        it.type("C-o")
        it.keep("shows what ran, and the thoughts", "so many", "shell ls", "read_file")
        it.type("C-l")
        more = Choice("Always: rsync to backup:/srv/mail", "/allow A always")
        it.app.send(
            State(busy=True),
            Message(id="a", text=MAY_RUN, code=(COMMAND,), choices=choices("A", more)),
            Message(id="b", text=MAY_WRITE, code=(DIFF,), choices=choices("B")),
        )
        it.keep("asks", "A Allow all 2 once", "No, and say why", "rsync", "─ Tab to answer")
        it.type("hm")
        it.keep("asks while something is typed", "clear the line, then Tab to answer", "> hm")
        it.type("C-u", "Up")
        it.keep("has the keys", "━ press a key")
        it.type("Escape")
        it.keep("puts it aside", "? May I run this command?", "new server")
        it.type("Tab", "Up")
        it.see("━ press a key", "rsync -a")
        it.type("3")
        it.keep("does not know the key", "That key has no answer here")
        it.type("Tab")
        it.keep("asks the next one", "? May I run this command?", "new server", "━ press a key")
        it.app.send(
            Changed(
                id="b",
                text=f"May I change this file?\n\n{DIFF}\n\n✓ Allowed once by you, Mon 8:00.",
            )
        )
        it.see("8:00", "─ Tab to answer")
        it.type("Tab")
        while "no, because >" not in it.see():
            it.type("r")
            time.sleep(2 * PAUSE)
        it.keep("asks for the reason", "no, because >")
        it.type("C-u", "it is too early", "Enter")
        assert [it.app.receive().text for _ in "12"] == ["/deny A", "it is too early"]
        it.app.send(Message(id="d", text="Denied: rsync to backup:/srv/mail", is_reply=True))
        it.keep("decided", "too early", "8:00", "Denied: rsync")
        it.app.send(
            Message(id="s", text="I look it up.", markdown="I look it **up**.", is_said=True),
            Writing("I look it up.\n\nThe drafts are"),
        )
        it.see("drafts are")
        it.type("Escape")
        assert it.app.receive().text == "/stop"
        it.app.send(
            Writing("I look it up.\n\nThe drafts are here"),
            Message(id="t", text="Stopped.", is_reply=True),
            State(model="anthropic/claude-sonnet-5-5"),
        )
        it.keep("stopped", "Stopped.", "Ctrl-D")
        it.tmux("resize-window", "-x", "45")
        it.keep("is made narrower", "Ctrl-D to quit", "Denied: rsync")
        it.type("C-d")
        it.see("left with [0]")
    assert_screen(str(columns), "\n".join(it.kept), SCREENS)
