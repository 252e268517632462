"""The cost of a turn is linear in its history: nothing else grows with the length."""

import time
from pathlib import Path

import msgspec
import pytest
import trio

from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.state import Session
from elwood.foundation.runtime import in_thread
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal
from tests.bench.rig import make_turn, run_elwood, run_server

SHORT, LONG = 20, 400
# Number of chats of each length, and of rounds over them.
CHATS, ROUNDS = 10, 4
SAID = "We could have the rest of the soup, or I could look for something with leeks."


async def write_history(path: Path, chat: int, messages: int) -> None:
    """Write the log of a chat with *messages* messages, in Elwood's format."""
    disk = Disk(blocking=in_thread, clock=time.time)
    journal: Journal[Entry, Session] = Journal(path, Entry, Session, disk)
    await journal.open()
    turns = (make_turn(chat, number, SAID, time.time()) for number in range(1, messages // 2 + 1))
    await journal.append(*(entry for turn in turns for entry in turn))


@pytest.mark.bench
@pytest.mark.parametrize("in_memory", [2 * CHATS, 1], ids=["in memory", "opened again"])
def test_a_long_history_costs_its_bytes(tmp_path: Path, in_memory: int) -> None:
    short, long = range(1, CHATS + 1), range(CHATS + 1, 2 * CHATS + 1)
    folder = tmp_path / "elwood"
    for chats, messages in ((short, SHORT), (long, LONG)):
        for chat in chats:
            path = folder / "state" / "sessions" / f"tg-{chat}.jsonl"
            trio.run(write_history, path, chat, messages)
    log = tmp_path / "bodies"
    with (
        run_server("tests.fake_models", tmp_path / "models", "--log", str(log)) as models,
        run_elwood(folder, models, chats=2 * CHATS, sessions__in_memory=str(in_memory)) as bot,
    ):
        for chat in (*short, *long):
            bot.telegram.turn(chat, "hello")
        costs = {SHORT: 0.0, LONG: 0.0}
        for _ in range(ROUNDS):
            for chats, messages in ((short, SHORT), (long, LONG)):
                before = bot.cpu()
                for chat in chats:
                    bot.telegram.turn(chat, "hello")
                costs[messages] += (bot.cpu() - before) / CHATS / ROUNDS * 1000
    sizes: dict[int, int] = {}
    for line in log.read_bytes().splitlines():
        sent = len(msgspec.json.decode(line)["messages"])
        sizes[SHORT if sent < LONG else LONG] = len(line)
    more = (sizes[LONG] - sizes[SHORT]) / 1000
    growth = (costs[LONG] - costs[SHORT]) / more
    print(f"\n{'messages in the history':26}{'kB sent':>9}{'CPU ms':>9}")
    for messages in (SHORT, LONG):
        print(f"{messages:26}{sizes[messages] / 1000:9.1f}{costs[messages]:9.1f}")
    print(f"{growth:.3f} ms for each kB more")
    # Milliseconds to build, send and repair 1 kB of history; and to read the log, which has grown
    # by at most 128 kB, or its state, since that was written.
    assert costs[LONG] < (1.6 if in_memory > 1 else 1.9) * costs[SHORT]
