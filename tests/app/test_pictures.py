"""The pictures in docs/start are what the program shows."""

from pathlib import Path
from shutil import which

import pytest

from tests.app.picture import CHAT, DEMO, chat, draw_chat, draw_screen, take_screen, undated

AGAIN = "look at it, and draw it again: python -m tests.app.picture"


async def test_the_picture_of_the_chat_is_current(tmp_path: Path) -> None:
    assert undated(draw_chat(await chat(tmp_path))) == undated(CHAT.read_text()), AGAIN


@pytest.mark.skipif(not (which("tmux") and which("bwrap")), reason="it needs tmux and bubblewrap")
def test_the_picture_of_the_demo_is_current() -> None:
    assert undated(draw_screen(take_screen())) == undated(DEMO.read_text()), AGAIN
