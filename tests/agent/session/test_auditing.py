"""`elwood receipts`: what tools did, read from real journals by a process of its own."""

import json
from datetime import UTC
from pathlib import Path

import msgspec
import pytest

from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Entry,
    Received,
    Replied,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import Session
from elwood.agent.session.reading.cli import receipts, since
from elwood.agent.session.reading.records import Log, read_history
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal
from tests.app.test_cli import configured, elwood

ROUTE = Route("console")


def calls(*names: str) -> Assistant:
    blocks = tuple(ToolCall(name, "run_command", "{}") for name in names)
    return Assistant(blocks, "", "m", msgspec.Raw(b"null"))


# What happens, and when.
STORY: list[tuple[float, Entry]] = [
    (100.0, Received("a", "do it", "me", ROUTE, 0.0)),
    (100.0, TurnStarted("t1", ("a",), 1, "do it")),
    (101.0, Said("t1", calls("c1", "c2", "c3"), Usage())),
    (102.0, CallStarted("t1", "c1", "read_file", "pure", "a.md")),
    (104.5, CallEnded("t1", "c1", "read_file", "ok", "secret text", "a.md", Label(private=True))),
    (105.0, CallPending("t1", "c2", "run_command", "hash2", "make")),
    (110.0, CallDecided("t1", "c2", "hash2", "once", "tg:1")),
    (111.0, CallStarted("t1", "c2", "run_command", "once", "make", "hash2", "once")),
    (112.0, CallEnded("t1", "c2", "run_command", "failed", "no", "make", ruling="once")),
    (113.0, CallPending("t1", "c3", "send_message", "hash3", "Anna")),
    (120.0, CallEnded("t1", "c3", "send_message", "waiting", "", "Anna")),
    (121.0, Replied("t1", "t1", ("a",), ROUTE, "It waits.")),
]
LATER: list[tuple[float, Entry]] = [
    (200.0, CallDecided("t1", "c3", "hash3", "conversation", "tg:1")),
    (201.0, TurnStarted("t2", (), 1, "", ("t1/c3",))),
    (202.0, CallStarted("t2", "t1/c3", "send_message", "once", "Anna", "hash3", "conversation")),
    (205.0, CallEnded("t2", "t1/c3", "send_message", "ok", "", "Anna", ruling="conversation")),
]


def numbered(story: list[tuple[float, Entry]]) -> Log:
    return [(seq, at, entry) for seq, (at, entry) in enumerate(story, 1)]


async def write(state: Path, session: str, story: list[tuple[float, Entry]]) -> Path:
    """Let the store write the journal, at the times of the story."""
    times = [0.0]
    path = state / "sessions" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    disk = Disk(blocking=inline, clock=lambda: times[0])
    journal = Journal[Entry, Session](path, Entry, Session, disk)
    await journal.open()
    for at, entry in story:
        times[0] = at
        await journal.append(entry)
    return path


def shown(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def test_every_step_of_every_call_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(tmp_path, "home", STORY)

    assert receipts(tmp_path, UTC, as_json=True) == 0

    clean = {"untrusted": False, "private": False}
    steps = [{k: v for k, v in row.items() if v not in ("", None)} for row in shown(capsys)]
    assert steps == [
        {
            "session": "home", "turn": "t1", "call": "c1", "tool": "read_file", "outcome": "ok",
            "target": "a.md", "effect": "pure", "started_at": 102.0, "ended_at": 104.5,
            "label": {"untrusted": False, "private": True},
        },
        {
            "session": "home", "turn": "t1", "call": "c2", "tool": "run_command",
            "outcome": "failed", "target": "make", "effect": "once", "plan": "hash2",
            "ruling": "once", "by": "tg:1", "pending_at": 105.0, "decided_at": 110.0,
            "started_at": 111.0, "ended_at": 112.0, "label": clean,
        },
        {
            "session": "home", "turn": "t1", "call": "c3", "tool": "send_message",
            "outcome": "waiting", "target": "Anna", "plan": "hash3", "pending_at": 113.0,
            "ended_at": 120.0, "label": clean,
        },
    ]  # fmt: skip


async def test_a_call_that_waited_is_one_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(tmp_path, "home", [*STORY, *LATER])

    receipts(tmp_path, UTC, as_json=True)

    last = shown(capsys)[-1]
    assert (last["turn"], last["call"], last["outcome"]) == ("t1", "c3", "ok")
    assert (last["pending_at"], last["started_at"], last["ended_at"]) == (113.0, 202.0, 205.0)


@pytest.mark.parametrize("ruling", ["denied", "expired", "withdrawn"])
def test_a_call_that_waited_for_a_no_is_denied(ruling: str) -> None:
    no = CallDecided("t1", "c3", "hash3", ruling, "tg:1")  # type: ignore[arg-type]

    found = read_history("s", numbered([*STORY, (300.0, no)])).calls

    assert [(call.call, call.outcome) for call in found][-1] == ("c3", "denied")
    assert (found[-1].ruling, found[-1].at) == (ruling, 300.0)


def test_a_call_that_never_ended_is_under_way() -> None:
    assert [one.outcome for one in read_history("s", numbered(STORY[:4])).calls] == ["under way"]


async def test_the_table_is_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await write(tmp_path, "home", STORY)

    receipts(tmp_path, UTC)

    head, first, second, third = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["time", "session", "tool", "target", "outcome"]
    assert first.split() == [
        "1970-01-01", "00:01:44", "home", "read_file", "a.md", "ok", "2.5", "s", "private",
    ]  # fmt: skip
    assert "allowed once by you" in second
    assert "waiting" in third


async def test_calls_of_all_conversations_stand_in_order_of_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(tmp_path, "a", [*STORY, *LATER])
    await write(tmp_path, "b", STORY)

    receipts(tmp_path, UTC, as_json=True, limit=4)
    assert [(row["session"], row["call"]) for row in shown(capsys)] == [
        ("a", "c2"), ("b", "c2"), ("b", "c3"), ("a", "c3"),
    ]  # fmt: skip

    receipts(tmp_path, UTC, as_json=True, session="b", since=110.0)
    assert [row["call"] for row in shown(capsys)] == ["c2", "c3"]


async def test_what_the_model_wrote_does_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = CallStarted("t1", "c1", "read_file", "pure", "a\x1b[2J\nb\u202e")
    await write(tmp_path, "home", [*STORY[:3], (102.0, started)])

    receipts(tmp_path, UTC)

    line = capsys.readouterr().out.splitlines()[1]
    assert "a[2J b" in line
    assert line.isprintable()


async def test_damage_is_told_and_what_stands_before_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await write(tmp_path, "home", STORY)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:6], lines[6].replace(b"hash2", b"hash9"), *lines[7:]]))

    assert receipts(tmp_path, UTC, as_json=True) == 1

    told = capsys.readouterr()
    assert [json.loads(line)["call"] for line in told.out.splitlines()] == ["c1", "c2"]
    assert "DAMAGED: line 7" in told.err


async def test_a_torn_end_is_no_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So it looks while a house is writing."""
    path = await write(tmp_path, "home", STORY)
    path.write_bytes(path.read_bytes()[:-30])

    assert receipts(tmp_path, UTC, as_json=True) == 0
    assert len(shown(capsys)) == 3


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("90m", 1_000_000.0 - 5400),
        ("2h", 1_000_000.0 - 7200),
        ("3d", 1_000_000.0 - 259_200),
        ("1970-01-02", 86_400.0),
        ("1970-01-02T10:00", 122_400.0),
        ("1970-01-02T10:00+02:00", 115_200.0),
        ("yesterday", None),
        ("", None),
        ("0001-01-01", -62135596800.0),
    ],
)
def test_since_takes_an_age_or_a_time(text: str, at: float | None) -> None:
    assert since(text, 1_000_000.0, UTC) == at


async def test_the_command_line(tmp_path: Path) -> None:
    configured(tmp_path, f'paths.state = "{tmp_path}/state"')
    done = elwood(tmp_path, "receipts")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no conversation" in done.stderr

    await write(tmp_path / "state", "home", STORY)
    done = elwood(tmp_path, "receipts", "--json", "--since", "1970-01-01", "--limit", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["call"] for line in done.stdout.splitlines()] == ["c2", "c3"]
    done = elwood(tmp_path, "receipts", "--since", "soon")
    assert done.returncode == 2
    assert "--since soon: " in done.stderr
    assert elwood(tmp_path, "receipts", "--limit", "0").returncode == 2
    done = elwood(tmp_path, "receipts", "verify")
    assert done.returncode == 0
    assert f"{len(STORY)} entries" in done.stdout
