"""Many chats at once, through the real process: all are answered in time, none waits for another.

The limits are those of issue 2, and hold on a machine that answers as fast as the one they were
set on.  The floor of the bench does the same work in the same run: where it is slower than it was
there, the limits are longer by as much.
"""

import time
from pathlib import Path

import pytest

from tests.bench.rig import Bot, elwood, floor, server

LATENCY = 0.5
# Seconds that the floor takes for as many chats where the limits hold, model included.
FLOOR = {50: 0.62, 1000: 1.9}


def crowd(bot: Bot, chats: int) -> float:
    """Let *chats* people write at once; return the seconds until the last answer was sent."""
    before = bot.telegram.sent
    began: float = bot.telegram.ask("crowd", {"chats": chats, "text": "hello"})["at"]
    bot.telegram.wait(chats, timeout=100)
    sent = bot.telegram.ask(f"sent?{before}")
    assert sorted(message["chat"] for message in sent) == list(range(1, chats + 1))
    last: float = max(message["at"] for message in sent)
    return last - began


@pytest.mark.parametrize("chats", [50, 1000])
def test_x(tmp_path: Path, chats: int) -> None:
    with (
        server("tests.fake_models", tmp_path / "models", "--latency", str(LATENCY)) as models,
        floor(tmp_path / "floor", models) as least,
        elwood(tmp_path / "elwood", models, chats=chats, models__in_flight="1000") as ours,
    ):
        for _ in range(3):
            print(
                chats,
                [(bot.name, crowd(bot, chats), bot.cpu(), bot.rss()) for bot in (least, ours)],
            )
            time.sleep(4)
    print((tmp_path / "elwood" / "log").read_text()[-300:])
