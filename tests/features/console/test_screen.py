"""Keys at the terminal: offline, through a pipe, and at a real terminal, which is restored."""

import fcntl
import io
import math
import os
import pty
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput, Output
from prompt_toolkit.output.vt100 import Vt100_Output

from elwood.agent.channels.frames import (
    MAX_FRAME,
    Changed,
    Choice,
    Detached,
    Frame,
    HeardElsewhere,
    Message,
    Running,
    State,
    Thinking,
    ToClient,
    Took,
    Writing,
    encode,
)
from elwood.features.console import view
from elwood.features.console.client import GONE
from elwood.features.console.screen import OpenNew, sit
from elwood.features.console.settings import ConsoleSettings
from tests.features.console.sitting import COMMANDS, PATIENCE, PlayedApp

CTRL_B, CTRL_C, CTRL_D, ESC, ENTER, TAB = "\x02", "\x03", "\x04", "\x1b", "\r", "\t"
UP, DOWN = "\x1b[A", "\x1b[B"
ASKED = Message(
    id="a",
    text="May I run a command?",
    choices=(Choice("Allow once", "/allow X once"), Choice("Deny", "/deny X")),
)


class Table:
    """An offline user: type keys, receive the messages."""

    def __init__(self, keys: PipeInput, app: PlayedApp) -> None:
        self.app = app
        self._keys = keys
        self.type = keys.send_text
        self.codes: list[int] = []
        self.thread: threading.Thread

    def let_read(self) -> None:
        """Wait until all keys were read, or the reader has ended."""
        while self.thread.is_alive() and select.select([self._keys.fileno()], [], [], 0)[0]:
            self.thread.join(0.002)

    def receive(self) -> str:
        return self.app.receive().text


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


@contextmanager
def sitting(
    history: Path,
    *,
    watches: bool = False,
    output: Output | None = None,
    settings: ConsoleSettings | None = None,
    open_new: OpenNew | None = None,
) -> Iterator[Table]:
    here, there = socket.socketpair()
    with create_pipe_input() as keys:
        table = Table(keys, PlayedApp(there))

        def run() -> None:
            with create_app_session(input=keys, output=output or DummyOutput()):
                code = sit(
                    here,
                    session="main",
                    history=history,
                    commands=COMMANDS,
                    watches=watches,
                    settings=settings,
                    open_new=open_new,
                )
                table.codes.append(code)

        table.thread = threading.Thread(target=run)
        table.thread.start()
        try:
            yield table
        finally:
            table.app.close()
            table.thread.join(PATIENCE)
    assert not table.thread.is_alive()
    assert len(table.codes) == 1, "it ended by an exception"


@pytest.mark.parametrize(
    ("environ", "settings", "color"),
    [
        ({}, ConsoleSettings(), "36;1m"),
        ({"COLORFGBG": "15;0"}, ConsoleSettings(), "36;1m"),
        ({"COLORFGBG": "0;default;15"}, ConsoleSettings(), "34;1m"),
        ({"COLORFGBG": "0;15"}, ConsoleSettings(theme="dark"), "36;1m"),
        ({}, ConsoleSettings(theme="light"), "34;1m"),
        ({}, ConsoleSettings(theme="light", colors={"cyan": "#ff0000"}), "38;5;196;1m"),
        ({"NO_COLOR": "1"}, ConsoleSettings(colors={"cyan": "#ff0000"}), "1m"),
    ],
)
def test_the_theme_fits_the_background(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    settings: ConsoleSettings,
    color: str,
) -> None:
    for name in ("NO_COLOR", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    written = io.StringIO()
    output = Vt100_Output(written, lambda: Size(24, 80), term="xterm", enable_cpr=False)
    with sitting(tmp_path / "history", output=output, settings=settings) as table:
        table.type(f"one{ENTER}")
        table.receive()
        table.type(CTRL_D)
    prompt = [one for one in re.findall(r"\x1b\[([0-9;]*m)> ", written.getvalue()) if one != "0m"]
    assert {one.removeprefix("0;") for one in prompt} == {color}


def test_typed_lines_are_sent_and_stored_in_the_history(tmp_path: Path) -> None:
    history = tmp_path / "history"
    with sitting(history) as table:
        table.type(f"one{ESC}{ENTER}two{ENTER}")
        assert table.receive() == "one\ntwo"
        table.type(pasted("line\r" * 37) + f" sum up{ENTER}")
        assert table.receive() == "line\n" * 37 + " sum up"
    assert history.stat().st_mode & 0o777 == 0o600
    with sitting(history) as table:
        table.type(f"\x12two{ENTER}{ENTER}")  # Ctrl-R
        assert table.receive() == "one\ntwo"
        table.type(CTRL_D)
    assert table.codes == [0]


@pytest.mark.usefixtures("hasty")
def test_ctrl_b_lets_an_answer_continue_in_the_background(tmp_path: Path) -> None:
    """The prompt is free; a question and the answer of the first conversation still arrive."""
    others: list[PlayedApp] = []

    def open_new() -> tuple[socket.socket, str]:
        here, there = socket.socketpair()
        others.append(PlayedApp(there))
        return here, f"chat-{len(others)}"

    with sitting(tmp_path / "history", open_new=open_new) as table:
        table.type(f"one{ENTER}")
        assert table.receive() == "one"
        table.app.send(State(busy=True), Writing("so far"))
        while not others:
            table.type(CTRL_B)
            table.thread.join(0.02)
        [other] = others
        other.send(State())
        table.type("draft")
        while not other.has_message(0.05):
            table.type(ENTER)
        assert other.receive().text == "draft"
        table.app.send(ASKED)
        while not other.has_message(0.05):
            table.type(f"\x15{TAB}y")
        assert other.receive().text == "/allow X once"
        table.app.send(Message(id="r", text="done", is_reply=True), State())
        assert table.app.is_at_end(), "its connection is closed when it is done"
        table.type(CTRL_D)
        assert other.is_at_end()
    assert table.codes == [0]


@pytest.mark.usefixtures("hasty")
def test_a_pasted_block_is_one_message(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        table.type(f"a {pasted('abcd' * 500)}\x7fb{ENTER}")
        assert table.receive() == "a b"


def test_named_files_are_attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "two words.txt").write_text("x")
    with sitting(tmp_path / "history") as table:
        table.type(f"see @notes.txt, @nothing and a@two{ENTER}")
        assert table.app.receive().files == (str(tmp_path / "notes.txt"),)
        table.type(f'@"two words.txt"?{ENTER}')
        assert table.app.receive().files == (str(tmp_path / "two words.txt"),)


def test_a_too_long_message_is_not_sent(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        table.type(f"{pasted(chr(1) * (MAX_FRAME // 6))}{ENTER}\x7fshort{ENTER}")
        assert table.receive() == "short"


def test_esc_and_ctrl_c_stop_the_answer_and_two_leave(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        table.type(f"work{ENTER}")
        assert table.receive() == "work"
        table.app.send(State(busy=True))
        table.type(f"more{ENTER}")  # sent immediately, although Elwood is busy
        assert table.receive() == "more"
        table.type(ESC)
        assert table.receive() == "/stop"
        table.type("typed")  # an earlier Ctrl-C no longer counts
        table.type(CTRL_C)
        assert table.receive() == "/stop"
        table.app.send(State(busy=False))  # the stop does not reset it
        table.type(CTRL_C)
    assert table.codes == [0]


def test_two_ctrl_c_leave_but_not_with_typing_in_between(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        table.type(f"draft{CTRL_C}a{CTRL_C}b{ENTER}")
        assert table.receive() == "b"
        table.type(CTRL_C * 2)
        table.thread.join(PATIENCE)
    assert table.codes == [0]


def test_a_refused_message_can_be_sent_again(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        table.app.send(State(busy=True))
        table.type(f"hello{ENTER}")
        assert table.app.receive("the disk is full").text == "hello"
        while not table.app.has_message(0.05):
            table.type(ENTER)  # the line has the message again
        assert table.receive() == "hello"


def let_see(table: Table, *frames: ToClient) -> None:
    """Send *frames*, and wait until they are shown: a refused message is then in the line."""
    table.type(f"\x15{pasted('hello')}{ENTER}")  # a paste goes to the line, also with a focus
    table.app.send(State(busy=True), *frames)
    assert table.app.receive("the disk is full").text == "hello"
    while not table.app.has_message(0.05):
        table.type(ENTER)
    assert table.receive() == "hello"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a key to decide at any time, so that only the focus protects a question."""
    monkeypatch.setattr(view, "NOT_AT_ONCE", 0.0)
    monkeypatch.setattr(view, "PAUSE", 0.0)


def test_a_key_answers_a_focused_question_after_a_moment(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        let_see(table, ASKED)
        table.type(TAB)
        while not table.app.has_message(2 * view.PAUSE):
            table.type("y")
        assert table.receive() == "/allow X once"


@pytest.mark.usefixtures("hasty")
def test_a_question_is_refused_with_a_reason(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        let_see(table, ASKED)
        table.type(f"{UP}rnot y, wait{ENTER}")
        assert [table.receive() for _ in "12"] == ["/deny X", "not y, wait"]


@pytest.mark.parametrize("limit", ["NOT_AT_ONCE", "PAUSE"])
def test_an_early_key_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hasty: None, limit: str
) -> None:
    """Tab and y arrive together if they are typed ahead or pasted without brackets."""
    monkeypatch.setattr(view, limit, math.inf)
    with sitting(tmp_path / "history") as table:
        let_see(table, ASKED)
        table.type(f"{TAB}yes, do{UP}ynr{pasted('as well')}{ENTER}")
        assert table.receive() == "as well"


WORDS = [
    *"abcdefnrty0123456789 .,!?", "3 eggs for the cake, please", "new idea", "yes", "no", "always",
    "1", "details", "\x7f", "\x1b[D", "\x1b[C", "\x01", "\x05", "漢", "\x1b\r",
    pasted("y"), pasted("n\rn\ra\ra\ry"), pasted("\ty"), pasted("1" * 2000),
]  # fmt: skip


@pytest.mark.usefixtures("hasty")
def test_text_in_the_line_decides_nothing(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Exactly the typed messages are sent while questions open, change and close."""
    with sitting(tmp_path / "history") as table:
        let_see(table, ASKED)
        for seed in range(request.config.getoption("--key-sequences") // 4):
            chance = random.Random(seed)
            if chance.random() < 0.1:
                table.app.send(msgspec.structs.replace(ASKED, id=chance.choice("abc")))
            table.type("".join(chance.choices(WORDS, k=chance.randrange(1, 9))) + f".{ENTER}")
            text = table.receive()
            assert not text.startswith("/"), f"seed {seed}"
            assert "." in text


@pytest.mark.usefixtures("hasty")
def test_only_the_letters_of_its_box_decide_a_question(tmp_path: Path) -> None:
    choices = (
        Choice("Allow once", "/allow X once"),
        Choice("This conversation: mv", "/allow X conversation"),
        Choice("Always: mv", "/allow X always"),
        Choice("Trust example.org", "/allow X source"),
        Choice("Deny", "/deny X"),
        Choice("Details", "/approvals show X"),
    )
    short = (choices[0], choices[-2])
    letters = dict(zip("ycatnd", choices, strict=True))
    others = "".join(sorted({chr(one) for one in range(32, 127)} - {*letters, "r"}))
    with sitting(tmp_path / "history") as table:
        let_see(table, msgspec.structs.replace(ASKED, choices=short))
        table.type(f"{TAB}catd{others}{ENTER}{ENTER}{pasted('y')}{ENTER}")
        assert table.receive() == "y"
        table.app.send(Changed(id="a"))
        for letter, choice in letters.items():
            let_see(table, msgspec.structs.replace(ASKED, choices=choices))
            table.type(f"{TAB}{others}{ENTER}{letter}")
            assert table.receive() == choice.says
        table.type(f"y{TAB}")  # the details keep the question open and focused
        assert table.receive() == "/allow X once"


@pytest.mark.usefixtures("hasty")
def test_the_focus_moves_between_questions_and_the_line(tmp_path: Path) -> None:
    asked = [
        msgspec.structs.replace(
            ASKED, id=one, choices=(Choice("Allow", f"/allow {one} once"), Choice("Deny", "/deny"))
        )
        for one in "abc"
    ]
    with sitting(tmp_path / "history") as table:
        let_see(table, *asked)
        table.type(f"{TAB}{TAB}{TAB}{TAB}y{ENTER}")
        assert table.receive() == "y", "four times is once around"
        table.type(f"{UP}{DOWN}{DOWN}{DOWN}y{ENTER}")
        assert table.receive() == "y"
        table.type(f"{TAB}{TAB}y")
        assert table.receive() == "/allow b once"
        table.type(f"y{ENTER}")
        assert table.receive() == "y", "the next question has no focus"
        table.type(f"{UP}{UP}y")
        assert table.receive() == "/allow a once"


@pytest.mark.usefixtures("hasty")
def test_with_text_in_the_line_tab_completes_and_arrows_use_the_history(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        table.type(f"one{ENTER}")
        assert table.receive() == "one"
        let_see(table, ASKED)
        table.type(f"wait{TAB}y{ENTER}")
        assert table.receive() == "waity"
        table.type(f" {UP}y{ENTER}")
        assert table.receive().endswith("y")


@pytest.mark.usefixtures("hasty")
def test_a_question_that_changes_loses_the_focus(tmp_path: Path) -> None:
    with sitting(tmp_path / "history") as table:
        let_see(table, ASKED)
        table.type(TAB)
        table.app.send(Changed(id="a", choices=ASKED.choices[:1]), State(busy=False))
        while not table.app.has_message(0.05):
            table.type(f"x{ENTER}")  # not a key of the box: text once the line has the focus
        assert table.receive() == "x"


@pytest.mark.usefixtures("hasty")
def test_the_shown_question_stays_when_an_earlier_one_is_answered(tmp_path: Path) -> None:
    others = [
        msgspec.structs.replace(ASKED, id=one, choices=(Choice("Allow", f"/allow {one} once"),))
        for one in "bc"
    ]
    with sitting(tmp_path / "history") as table:
        let_see(table, ASKED, *others)
        table.type(TAB + TAB)
        let_see(table, Changed(id="a"))
        table.type(f"{TAB}y")
        assert table.receive() == "/allow b once"


@pytest.mark.usefixtures("hasty")
def test_an_answer_of_the_model_is_chosen_by_its_number(tmp_path: Path) -> None:
    drinks = tuple(Choice(one, one) for one in ("Tea", "/deny X", "Water"))
    with sitting(tmp_path / "history") as table:
        let_see(table, msgspec.structs.replace(ASKED, choices=drinks))
        table.type(f"{TAB}nry4{TAB}3 cups{ENTER}")
        assert table.receive() == "3 cups"
        table.type(f"{TAB}3")
        assert table.receive() == "Water"


def test_a_watcher_types_and_decides_nothing(tmp_path: Path) -> None:
    with sitting(tmp_path / "history", watches=True) as table:
        table.app.send(State(busy=True, asks=1), ASKED, Writing("so far"), State(asks=1))
        table.type(f"y{TAB}y{UP}n1hello{ENTER}{ESC}\x07{pasted('a')}@/etc/\t{ENTER}")
        table.let_read()
        table.type(CTRL_D)
        table.thread.join(PATIENCE)
        assert table.app.is_at_end()
    assert table.codes == [0]
    assert not (tmp_path / "history").exists()


def test_a_lost_or_invalid_connection_ends_it(tmp_path: Path) -> None:
    detached = encode(Detached("It is over."))
    for data in (b"", b'{"type":"Later"}\n', b"x" * (MAX_FRAME + 2), detached):
        with sitting(tmp_path / "history") as table:
            table.app.send_raw(data)
        assert table.codes == [1]


POOL = [
    *"abndryct 123/@~\"'`[]",
    *map(chr, range(7)), *map(chr, range(8, 32)),  # without Ctrl-G: it starts an editor
    "\x7f", "\t", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F", "\x1b[3~", "\x1b[Z",
    "\x1bOP", "\x1b[15~", "\x1b[1;5C", "\x1bb", "\x1b\r", "\x1b9", "\x1b-", "\x1b[<0;1;1M",
    "\x1b[5;5R", "\x1b[999X", pasted("a\r" * 9), pasted("\x1b[31m"), "漢", "e\u0301", "ש", "\u202e",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "/status", "@/etc/",
]  # fmt: skip


def frames(chance: random.Random) -> Iterator[Frame]:
    text = "".join(
        chance.choices(["# a\n", "`", "```\n", "| a |\n|-|\n", "> ", "*", "\x1b[2J"], k=9)
    )
    yield State(busy=chance.random() < 0.5, waiting=chance.randrange(3))
    yield HeardElsewhere(who=text, text=text, is_old=chance.random() < 0.5)
    yield Writing(text)
    yield Thinking(text)
    yield Running(text)
    yield ASKED
    yield Message(id="b", text=text, markdown=text, is_reply=True, choices=ASKED.choices)
    yield Changed(id=chance.choice("abc"), text=text, choices=ASKED.choices[: chance.randrange(2)])
    yield Took("unknown", text)


@pytest.mark.parametrize("watches", [False, True])
def test_no_keys_crash_it_and_ctrl_c_leaves(
    request: pytest.FixtureRequest, tmp_path: Path, watches: bool
) -> None:
    seeds = iter(range(request.config.getoption("--key-sequences")))
    seed = -1
    is_left = True
    while is_left:
        with sitting(tmp_path / "history", watches=watches) as table, suppress(BrokenPipeError):
            while is_left := (seed := next(seeds, -1)) >= 0:
                chance = random.Random(seed)
                table.app.send(*chance.sample(list(frames(chance)), k=2))
                table.type("".join(chance.choices(POOL, k=chance.randrange(1, 30))))
                table.let_read()
            table.type(CTRL_C * 5)
            table.thread.join(PATIENCE)
        assert table.codes == [0], f"until seed {seed}"


class Terminal:
    """A program at a real terminal."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        path = folder / "app.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(PATIENCE)
            module = [sys.executable, "-m", "tests.features.console.sitting"]
            self.process = subprocess.Popen(
                [*module, str(path), str(folder / "history"), *arguments],
                stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
                env={**os.environ, "TERM": "xterm-256color", "EDITOR": "sed -i s/draft/final/"},
            )  # fmt: skip
            self.app = PlayedApp(listener.accept()[0])
        self.shown = ""

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def wait(self, text: str) -> None:
        """Read the output until *text* appears."""
        while text not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown):
            assert select.select([self.master], [], [], PATIENCE)[0], self.shown
            self.shown += os.read(self.master, 65536).decode("utf-8", "replace")

    def end(self) -> int:
        """Wait for the end of the program, which must have restored the terminal."""
        code = self.process.wait(PATIENCE)
        assert termios.tcgetattr(self.slave) == self.before
        return code


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[Terminal]:
    sits = Terminal(folder, *arguments)
    try:
        sits.wait("Three things")
        yield sits
    finally:
        sits.process.kill()
        sits.process.wait(PATIENCE)
        sits.app.close()
        for fd in (sits.master, sits.slave):
            with suppress(OSError):
                os.close(fd)


def test_the_terminal_is_restored_at_a_signal(tmp_path: Path) -> None:
    with terminal(tmp_path) as it:
        it.app.send(State(busy=True), Writing("one *two*"), ASKED)
        it.wait("May I run")
        assert termios.tcgetattr(it.slave) != it.before
        it.process.send_signal(signal.SIGTERM)
        assert it.end() == 128 + signal.SIGTERM
        it.wait("left with")
    assert "\x1b[?25h" in it.shown.rpartition("\x1b[?25l")[2], "the cursor is hidden"
    assert "\x1b[?2004l" in it.shown.rpartition("\x1b[?2004h")[2], "pastes are bracketed"


def test_in_a_thread_it_opens_an_editor_and_ends_with_the_app(tmp_path: Path) -> None:
    with terminal(tmp_path, "--thread") as it:
        it.type("a draft\x07")  # Ctrl-G
        it.wait("final")
        it.type(ENTER)
        assert it.app.receive().text == "a final"
        it.app.send(Message(id="m", text="\x1b]0;title\x07\u202e"))
        it.wait("⟨U+001B⟩]0;title⟨U+0007⟩⟨U+202E⟩")
        it.app.hang_up()
        it.wait(GONE.format("main")[:40])
        assert it.end() == 1


def test_an_internal_error_restores_the_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, "--broken") as it:
        it.type("/b")
        it.wait("Traceback")
        assert it.end() == 1


def test_a_closed_terminal_ends_it(tmp_path: Path) -> None:
    with terminal(tmp_path) as it:
        os.close(it.slave)
        os.close(it.master)
        assert it.process.wait(PATIENCE) in (1, 128 + signal.SIGHUP)
