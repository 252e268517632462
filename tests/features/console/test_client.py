"""Output of the plain terminal."""

import re

import pytest

from elwood.agent.channels.frames import Choice, Detached, Message, Running, State, Writing, encode
from elwood.features.console.client import decode_frame, format_message
from elwood.features.console.live import LiveAnswer
from elwood.foundation.command_line import CliFailure


def test_decisions_are_commands_and_only_answers_to_the_model_are_numbered() -> None:
    about_a_call = (Choice("Always: mv a b", "/allow X always"), Choice("Deny", "/deny X"))
    asked = format_message(Message(id="a", text="May I?", choices=about_a_call))
    assert asked == "May I?\n  Always: mv a b: /allow X always\n  Deny: /deny X"
    drinks = format_message(Message(id="b", text="Which?", choices=(Choice("Tea", "Tea"),)))
    assert drinks == "Which?\n1. Tea"
    pages = format_message(Message(id="c", text="Tasks", choices=(Choice("/tasks", "/tasks"),)))
    assert pages == "Tasks\n  /tasks"


def test_a_detached_terminal_gets_the_reason() -> None:
    with pytest.raises(CliFailure, match=r"Elwood has closed the connection\. Too slow\."):
        decode_frame(encode(Detached("Too slow.")))


def test_a_terminal_shows_an_answer_while_it_is_written(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with LiveAnswer() as draw:
        assert draw(Writing("Now **half** <b>"))
        half = capfd.readouterr().out
        assert "half" in half
        assert "**" not in half
        assert draw(Running("run_command make"))
        assert "run_command make" in capfd.readouterr().out
        assert draw(
            Message(id="m", text="", markdown="The *whole* ![p](x)", records="✓ a", is_reply=True)
        )
        assert not draw(State())
    whole = capfd.readouterr().out
    assert "\x1b[2K" in whole
    assert "Now" not in whole
    assert re.sub(r"\x1b\[[\d;?]*\w", "", whole).split() == [
        "The",
        "whole",
        "[picture",
        "p]",
        "(x)",
        "✓",
        "a",
    ]
