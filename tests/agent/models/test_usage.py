"""The usage book over restarts, crashes and a full disk."""

from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.run import Budget
from elwood.agent.models.actor import UsageBook
from elwood.agent.models.ledger import Caller, Charged, Ledger
from elwood.agent.models.settings import Limits
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import SEGMENT, Journal, entries_of
from tests.journeys.disk import BadDisk

NOON = 1_795_262_400.0  # 2026-11-21 12:00 UTC
DAY = 86_400.0
LIMITS = Limits(session_tokens=700, day_tokens=300, month_tokens=1200)
BUDGET = Budget(tokens=150)


class World:
    """Opens a usage book on one file; *told* has the warnings to the owner."""

    def __init__(self, path: Path, segment: int = SEGMENT) -> None:
        self.now = NOON
        self.told: list[str] = []
        self.calls = BadDisk()
        self.path = path
        self._segment = segment

    async def book(self) -> UsageBook:
        disk = Disk(blocking=inline, clock=lambda: self.now, calls=self.calls)
        journal = Journal[Charged, Ledger](self.path, Charged, Ledger, disk, segment=self._segment)
        book = UsageBook(journal, LIMITS, "UTC", lambda: self.now)
        await book.open()
        book.warn = self.told.append
        return book

    async def entries(self) -> list[Charged]:
        await trio.lowlevel.checkpoint()
        return [entry for _, _, entry in entries_of(self.path, Charged)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "call", "owe", "restart", "midnight"]),
        st.sampled_from(["s", "t"]),
        st.sampled_from(["", "news", "mail"]),
        st.integers(1, 90),
    ),
    max_size=40,
)


@given(steps=STEPS, segment=st.sampled_from([400, SEGMENT]))
@settings(max_examples=60)
def test_limits_hold_over_random_restarts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str, int]], segment: int
) -> None:
    """Calls run one at a time; a restart loses only unwritten costs."""
    world = World(tmp_path_factory.mktemp("usage") / "usage.jsonl", segment)

    async def live() -> None:
        book = await world.book()
        for what, session, job, tokens in steps:
            caller = Caller(session, job, BUDGET if job else None)
            match what:
                case "midnight":
                    world.now += DAY
                case "restart":
                    book = await world.book()
                case "owe":
                    if book.limit_reached(caller) is None:
                        book.record(caller, "a/m", Usage(tokens))
                case _:
                    assert await book.write()
                    if book.limit_reached(caller) is None:
                        book.record(caller, "a/m", Usage(tokens))
                        await book.write()

    trio.run(live)
    entries = trio.run(world.entries) if world.path.exists() else []
    sums: dict[tuple[str, str, str], int] = {}
    for entry in entries:
        if isinstance(entry, Charged):
            sums_of = [("day", entry.day, ""), ("month", entry.day[:7], "")]
            whose = ("job", entry.day, entry.job) if entry.job else ("session", entry.session, "")
            sums_of.append(whose)
            for one in sums_of:
                sums[one] = sums.get(one, 0) + entry.input
    most = {"session": 700, "day": 300, "month": 1200, "job": 150}
    near = {one for one, used in sums.items() if used >= 0.8 * most[one[0]]}
    assert len(world.told) == len(near)


async def test_an_unwritten_call_is_charged_later(tmp_path: Path) -> None:
    world = World(tmp_path / "usage.jsonl")
    book = await world.book()
    world.calls.full = True
    book.record(Caller("s"), "a/m", Usage(250))
    assert not await book.write()
    assert world.told == []
    world.calls.full = False
    assert await book.write()
    [told] = world.told
    assert told.startswith("83 % of the daily limit of 300 tokens is used")
