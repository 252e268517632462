"""What the gate costs per call, beside what a call cannot do without: running, and two records.

The floor writes the same two entries to the same kind of journal around the same tool; what the
gate adds is examining, deciding, redacting.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import trio

from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import NOWHERE, Route
from elwood.agent.policy.decide import Rules
from elwood.agent.session.log.entries import (
    CallEnded,
    CallStarted,
    Entry,
    Received,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.tools.tool import ToolContext, WorkspaceFiles
from elwood.features.files.tools import ReadFile, reading_tools
from elwood.foundation.runtime import inline
from elwood.foundation.secrets.redaction import Redactor, Secret
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.journal import Journal
from tests.agent.session.gates import gate_for

CALLS = 300
TEXT = "A line of an ordinary text file, as people keep them.\n" * 40
SECRETS = [Secret(f"known-{number}-secret-value") for number in range(6)]


def opened(folder: Path, name: str) -> SessionLog:
    disk = Disk(blocking=inline, clock=time.time, reserve=folder / f"{name}.reserve")
    journal: Journal[Entry, Session] = Journal(folder / f"{name}.jsonl", Entry, Session, disk)
    return SessionLog(name, journal, lambda id_, state: None)


async def begun(log: SessionLog) -> None:
    await log.open()
    await log.record(
        Received("a", "read", "me", Route("console"), 0.0),
        TurnStarted("t1", ("a",), 1, "read"),
    )


async def propose(log: SessionLog, number: int) -> None:
    call = ToolCall(f"c{number}", "read_file", '{"path": "a.txt"}')
    await log.record(Said("t1", Assistant((call,), "s", "m", msgspec.Raw(b"[]")), Usage()))


async def timed(*acts: tuple[SessionLog, Callable[[int], Awaitable[None]]]) -> list[float]:
    """Return the medians of the seconds that calls take, one of each kind after the other."""
    spent: list[list[float]] = [[] for _ in acts]
    for number in range(CALLS):
        for (log, act), times in zip(acts, spent, strict=True):
            await propose(log, number)
            start = time.perf_counter()
            await act(number)
            times.append(time.perf_counter() - start)
    return [sorted(times)[CALLS // 2] for times in spent]


@pytest.mark.bench
async def test_what_the_gate_adds_to_a_call(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text(TEXT)
    _, read_file = reading_tools(WorkspaceFiles(Root(tmp_path / "work")), inline)
    context = ToolContext(session="s", route=NOWHERE, now=0.0)
    plain, gated = opened(tmp_path, "plain"), opened(tmp_path, "gated")
    await begun(plain)
    await begun(gated)

    async def by_hand(number: int) -> None:
        given = msgspec.json.decode('{"path": "a.txt"}', type=ReadFile)
        call = f"c{number}"
        await plain.record(CallStarted("t1", call, "read_file", "pure", "a.txt"))
        text = await read_file.run(given, context)
        await plain.record(CallEnded("t1", call, "read_file", "ok", str(text), "a.txt"))

    gate = gate_for(
        gated,
        [read_file],
        rules=Rules(),
        redactor=Redactor(SECRETS),
    )

    async def by_gate(number: int) -> None:
        await gate.perform()

    floor, whole = await timed((plain, by_hand), (gated, by_gate))
    print(f"\ncall of read_file ({len(TEXT)} characters), median of {CALLS}")
    print(f"  tool and two records   {floor * 1000:7.2f} ms")
    print(f"  through the gate       {whole * 1000:7.2f} ms   {whole / floor:5.2f} x")
    await trio.lowlevel.checkpoint()
    # Measured 1.9; with room for a busy machine.
    assert whole < 5 * floor
