"""The state of a conversation on a terminal, without a terminal: events in, actions out."""

import itertools
import random
from collections.abc import Sequence

import msgspec
import pytest

from elwood.agent.channels.frames import (
    MAX_FILES,
    MAX_FRAME,
    Changed,
    Choice,
    Detail,
    Frame,
    HeardElsewhere,
    Message,
    Running,
    State,
    Thinking,
    Took,
    Writing,
)
from elwood.features.console import view as limits
from elwood.features.console.drawing import Line
from elwood.features.console.view import (
    NOT_AT_ONCE,
    PAUSE,
    Action,
    AddToHistory,
    ConversationView,
    FillLine,
    Leave,
    Print,
    Send,
)
from tests.features.console.test_screen import ASKED, frames

BUSY = State(busy=True)


class Desk:
    """A view with a clock, and its printed and sent output."""

    def __init__(self, *, watches: bool = False) -> None:
        numbers = itertools.count(1)
        self.view = ConversationView("main", lambda: str(next(numbers)), watches=watches)
        self.now = 100.0
        self.can_send = True
        self.line = ""
        self.printed: list[str] = []
        self.sent: list[str] = []
        self.has_left = False

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Print(item):
                    self.printed.append(text(item(60)))
                case Send(said):
                    self.sent.append(said.text)
                case FillLine(line):
                    self.type(line)
                case Leave():
                    self.has_left = True
                case AddToHistory():
                    pass

    def get(self, *given: Frame) -> None:
        for frame in given:
            self._act(self.view.take(frame, self.now))

    def type(self, line: str) -> None:
        self.line = line
        self.view.change_line(line)

    def key(self, name: str, after: float = 1.0) -> None:
        """Press a key *after* some seconds without one, as `screen` maps it."""
        self.now += after
        self.view.note_key(self.now, can_send=self.can_send)
        if name in ("tab", "up", "down"):
            if self.view.has_focus or (name != "down" and self.view.can_answer):
                self.view.move_focus(-1 if name == "up" else 1)
        elif name == "escape":
            self._act(self.view.escape())
        elif name == "c-c":
            self._act(self.view.interrupt())
        elif name == "c-o":
            self._act(self.view.open())
        elif self.view.has_focus:
            self._act(self.view.press(name))
        elif name == "enter":
            self._act(self.view.enter(self.line))
        else:
            self.type(self.line + name)

    def say(self, line: str) -> None:
        self.type(line)
        self.key("enter")

    def shown(self, answer: Sequence[Line] = (), rows: int = 40) -> str:
        drawn = text(self.view.draw(answer, 60, rows, rows - 4, self.now))
        return f"{drawn}\n{self.view.prompt}{self.line}\n{self.view.bottom(200)}"


def text(lines: Sequence[Line]) -> str:
    return "\n".join("".join(part.text for part in line) for line in lines)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_message_is_sent_printed_and_leaves_the_line(desk: Desk) -> None:
    desk.say("hello")
    assert (desk.sent, desk.printed, desk.line) == (["hello"], ["> hello"], "")


def test_a_message_to_a_busy_elwood_is_shown_as_waiting(desk: Desk) -> None:
    desk.get(BUSY)
    desk.say("also this")
    desk.get(State(busy=True, waiting=1))
    assert desk.printed == []
    assert "also this (waiting)" in desk.shown()
    desk.get(BUSY)
    assert desk.printed == ["> also this"]
    assert "(waiting)" not in desk.shown()


@pytest.mark.parametrize(("line", "after"), [("", "hello"), ("new", "new")])
def test_a_refused_message_returns_to_an_empty_line(desk: Desk, line: str, after: str) -> None:
    desk.say("hello")
    desk.type(line)
    desk.get(Took("1", "the disk is full"))
    assert desk.printed[-1] == "I could not accept that: the disk is full"
    assert desk.line == after


def test_a_message_that_cannot_be_sent_stays_in_the_line(desk: Desk) -> None:
    for line, hint in (("x" * MAX_FRAME, limits.TOO_LONG), ("hello", limits.BLOCKED)):
        desk.can_send = line != "hello"
        desk.say(line)
        assert (desk.sent, desk.line) == ([], line)
        assert hint in desk.shown()
    desk.view.enter("see", ["file"] * (MAX_FILES + 1))
    assert f"You can send {MAX_FILES} files at once" in desk.shown()


def test_a_key_decides_a_question_that_has_the_focus(desk: Desk) -> None:
    desk.get(ASKED)
    assert "Tab to answer" in desk.shown()
    desk.key("y")
    assert desk.line == "y", "the line has the keys"
    assert "clear the line, then Tab to answer" in desk.shown()
    desk.type("")
    desk.key("tab")
    assert "press a key" in desk.shown()
    desk.key("y")
    assert desk.sent == ["/allow X once"]
    assert not desk.view.has_focus
    desk.get(Took("1"), Changed(id="a", text="✓ Allowed once."))
    assert desk.printed == [], "Elwood's reply is the only line about the decision"


def test_a_question_returns_if_elwood_does_not_accept_the_answer(desk: Desk) -> None:
    desk.get(ASKED)
    desk.key("tab")
    desk.key("y")
    assert "May I" not in desk.shown()
    desk.get(Took("1", "the disk is full"))
    assert "y Allow once" in desk.shown()


def test_a_box_takes_at_most_half_of_the_screen(desk: Desk) -> None:
    lines = "\n".join(f"line {number}" for number in range(50))
    for number in range(4):
        desk.get(msgspec.structs.replace(ASKED, id=str(number), text=f"May I?\n{lines}"))
    for rows in (24, 40):
        assert len(desk.view.draw((), 60, rows, rows - 4, desk.now)) <= rows // 2 + 1


def test_a_question_that_is_put_aside_is_one_line(desk: Desk) -> None:
    desk.get(msgspec.structs.replace(ASKED, text="May I?\n\nls -l\n\nWhy", code=("ls -l",)))
    desk.key("tab")
    desk.key("escape")
    assert desk.shown().startswith("\n? May I? ls -l\n> \nmain · Tab to answer")
    desk.get(msgspec.structs.replace(ASKED, id="b"))
    assert desk.shown().count("Allow once") == 1, "a new question has its box"
    desk.key("tab")
    desk.key("escape")
    desk.key("tab")
    desk.key("n")
    assert desk.sent == ["/deny X"]


def test_one_key_allows_all_shown_questions_once(desk: Desk) -> None:
    for code in "XYZ":
        choices = (Choice("Allow once", f"/allow {code} once"), Choice("Deny", f"/deny {code}"))
        desk.get(msgspec.structs.replace(ASKED, id=code, choices=choices))
    desk.get(Message(id="q", text="Tea?", is_reply=True, choices=(Choice("Yes", "Yes"),)))
    assert "A Allow all 3 once" in desk.shown()
    desk.key("tab")
    desk.key("A")
    assert desk.sent == ["/allow X once", "/allow Y once", "/allow Z once"]
    desk.key("tab")
    desk.key("A")
    assert len(desk.sent) == 3, "a choice of the model is not about a call"


def test_the_key_for_all_needs_all_on_the_screen(desk: Desk) -> None:
    for number in range(6):
        desk.get(msgspec.structs.replace(ASKED, id=str(number)))
    assert "and 4 more questions" in desk.shown(rows=20)
    assert "Allow all" not in desk.shown(rows=20)
    desk.key("tab")
    desk.key("A")
    assert desk.sent == []


@pytest.mark.parametrize(
    ("asked", "pause", "sent"),
    [
        (NOT_AT_ONCE - 0.01, PAUSE, []),
        (NOT_AT_ONCE, PAUSE - 0.01, []),
        (NOT_AT_ONCE, PAUSE, ["/allow X once"]),
    ],
)
def test_a_too_fast_key_decides_nothing(
    desk: Desk, asked: float, pause: float, sent: list[str]
) -> None:
    desk.get(ASKED)
    desk.key("tab", asked - pause)
    desk.key("y", pause + 1e-9)
    assert desk.sent == sent
    assert (limits.TOO_FAST in desk.shown()) == (not sent)


def test_a_reason_follows_a_refusal(desk: Desk) -> None:
    desk.get(ASKED)
    desk.key("tab")
    desk.key("r")
    assert "no, because > " in desk.shown()
    desk.say("too early")
    assert desk.sent == ["/deny X", "too early"]
    assert desk.printed == ["> too early"]


def test_a_reason_for_a_settled_question_is_not_sent(desk: Desk) -> None:
    desk.get(ASKED)
    desk.key("tab")
    desk.key("r")
    desk.get(Changed(id="a", text="Allowed on Telegram."))
    desk.say("too early")
    assert desk.sent == []
    assert "Allowed on Telegram." in desk.printed[-1]


def test_a_question_that_changes_loses_the_focus(desk: Desk) -> None:
    desk.get(ASKED)
    desk.key("tab")
    desk.get(Changed(id="a", choices=ASKED.choices[:1]))
    assert not desk.view.has_focus
    desk.key("y")
    assert desk.sent == []


def test_the_number_of_open_questions_is_limited_and_others_are_printed(desk: Desk) -> None:
    for number in range(limits.MAX_BOXES + 1):
        desk.get(msgspec.structs.replace(ASKED, id=str(number)))
    assert desk.shown(rows=80).count("? May I") == limits.MAX_BOXES - 1
    assert "/allow X once" in desk.printed[-1], "what can be typed"


def test_ctrl_c_stops_and_the_second_one_leaves(desk: Desk) -> None:
    desk.get(BUSY, Writing("half"))
    desk.key("c-c")
    assert desk.sent == ["/stop"]
    assert desk.printed == ["half"], "no answer may come that has it"
    assert limits.LEAVES in desk.shown()
    desk.get(State())
    desk.key("c-c")
    assert desk.has_left


def test_ctrl_c_clears_the_line_and_typing_disarms_it(desk: Desk) -> None:
    desk.type("draft")
    desk.key("c-c")
    assert desk.line == ""
    desk.key("a")
    desk.key("c-c")
    assert not desk.has_left


def test_printed_text_is_not_shown_again(desk: Desk) -> None:
    desk.get(BUSY, Message(id="s", text="I look.", is_said=True), Writing("I look.\n\nIt is"))
    assert desk.view.writing == "It is"
    desk.get(Writing("I look."))
    assert desk.view.writing == ""


def test_steps_have_durations_and_are_counted_at_the_end(desk: Desk) -> None:
    desk.get(BUSY, Running("⏳ shell ls"))
    desk.now += 3
    desk.get(Running("read_file x · 7 s"), Thinking("so it is"))
    assert "read_file x · 7 s" in desk.shown()
    desk.now += 2
    desk.get(State())
    assert "▸ 2 steps, 5 s · Ctrl-O" in desk.shown()
    desk.key("c-o")
    for one in ("so it is", "shell ls · 3 s", "read_file x · 7 s"):
        assert one in desk.printed[-1]
    assert "2 steps" not in desk.shown(), "they are printed now"


def test_details_are_the_last_line_of_a_running_command_and_more_if_opened(desk: Desk) -> None:
    desk.get(BUSY, Detail("edit_file a", "@@ -1 +1 @@\n-old\n+new\n"), Running("run_command make"))
    desk.get(Detail("run_command make", "one\ntwo\n"))
    desk.get(Detail("run_command make", "one\ntwo\nthree\x1b[2J\n"))
    assert desk.shown().count("three⟨U+001B⟩[2J") == 1
    assert "two" not in desk.shown()
    desk.key("c-o")
    for one in ("-old", "+new", "one", "two", "three"):
        assert one in desk.shown()
    assert "old" not in desk.shown(rows=12), "an opened turn leaves room for the rest"
    desk.get(Running(""), State())
    assert "two" not in desk.shown()
    desk.key("c-o")
    assert "+new" in desk.printed[-1]
    assert "three" in desk.printed[-1]
    desk.get(BUSY)
    assert "make" not in desk.shown(), "the next turn has none of them"


def test_a_long_question_is_cut_and_printed_whole(desk: Desk) -> None:
    lines = "\n".join(f"line {number}" for number in range(50))
    desk.get(msgspec.structs.replace(ASKED, text=lines))
    assert "Ctrl-O to see all" in desk.shown(rows=20)
    assert "line 25" not in desk.shown(rows=20)
    desk.key("c-o")
    assert "line 25" in desk.printed[-1]


def test_leaving_prints_the_unfinished_answer_and_open_questions(desk: Desk) -> None:
    desk.get(BUSY, Writing("half"), ASKED)
    desk._act(desk.view.leave())
    assert desk.printed[0] == "half"
    assert "May I run a command?" in desk.printed[1]


def test_a_watcher_gets_questions_printed() -> None:
    desk = Desk(watches=True)
    desk.get(BUSY, ASKED, HeardElsewhere(who="Ada", text="hi"))
    assert "May I run a command?" in desk.printed[0]
    assert "Ada" in desk.printed[1]
    assert not desk.view.can_answer
    assert limits.WATCH_HINT in desk.shown()


def test_the_bottom_line_omits_what_does_not_fit(desk: Desk) -> None:
    desk.get(State(model="anthropic/claude"))
    for columns in (200, 80, 40, 20):
        line = desk.view.bottom(columns)
        assert line.startswith("main")
        assert "Ctrl-D to quit" in line
        assert len(line) < max(columns, 25)


KEYS = ["tab", "up", "down", "escape", "c-c", "c-o", "enter", *"ynrcatdA19x "]


def test_random_events_decide_a_call_only_by_its_question() -> None:
    """All sent messages are typed, a stop, or an answer to the focused question."""
    for seed in range(40):
        chance = random.Random(seed)
        desk = Desk(watches=chance.random() < 0.2)
        for _ in range(40):
            if chance.random() < 0.3:
                desk.get(*chance.sample(list(frames(chance)), k=2))
            else:
                name = chance.choice(KEYS)
                had_focus, line, before = desk.view.has_focus, desk.line, len(desk.sent)
                has_reason = desk.view.prompt != "> "
                desk.key(name, chance.choice([0.01, 1.0]))
                for said in desk.sent[before:]:
                    is_decision = said.startswith(("/allow", "/deny"))
                    assert had_focus or has_reason or not is_decision, f"seed {seed}"
                    assert is_decision or said in ("/stop", line.strip(), line), f"seed {seed}"
            if chance.random() < 0.1:
                desk.shown(rows=chance.choice([5, 24, 60]))
            if desk.has_left:
                break
