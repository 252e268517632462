"""Output of the plain terminal."""

import pytest

from elwood.agent.channels.frames import Choice, Detached, Message, encode
from elwood.features.console.client import decode_frame, format_message
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
