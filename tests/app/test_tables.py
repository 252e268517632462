"""Lists in a shell: stored screens, JSON, and a real terminal with its pager."""

import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elwood.agent.approvals.state import (
    ApprovalBook,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequested,
    Question,
)
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.route import Route
from elwood.agent.models.ledger import Charged, Ledger
from elwood.agent.people.state import AccessDecided, AccessRequested
from elwood.agent.session.log.entries import (
    CallEnded,
    CallStarted,
    Entry,
    Received,
    Replied,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import Session
from elwood.app.cli import main
from elwood.features.backup.rules import file_name
from elwood.features.tasks.state import (
    PlannedRun,
    RunFinished,
    RunStarted,
    TaskPaused,
    TaskScheduled,
    Timetable,
    TimetableEntry,
)
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Cron, Once
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal
from elwood.foundation.text.lines import width as columns
from tests.agent.session.test_reading_cli import make_calls
from tests.app.screens import FOLDER, assert_screen
from tests.app.test_cli import elwood
from tests.app.test_terminal import run_at_terminal

DAY = 86_400.0
# Half a day more: "3 d ago", even after a slow test.
NOW = float(int(time.time() - DAY / 2))
HERE = Route("console")
WIDTHS = (60, 80, 200)
LISTS = (
    "session list",
    "session show home",
    "receipts",
    "memory list",
    "skills",
    "tasks",
    "budget",
    "backup list",
    "approve",
    "people",
)
JSON = (*(one for one in LISTS if one != "session show home"), "doctor")
CONFIG = """
[paths]
state = "{home}/state"
workspace = "{home}/workspace"
runtime = "{home}/run"
[models.roles]
default.model = "offline/rules"
cheap.model = "offline/rules"
[providers.offline]
api = "offline"
[limits]
day_usd = 2.0
[telegram]
allowed_chats = [8]
"""
SESSION: Sequence[tuple[float, Entry]] = (
    (4, Received("a", "What is in the log of the 漢字 server, and who wrote it?", "me", HERE, 0.0)),
    (4, TurnStarted("t1", ("a",), 1, "hello")),
    (4, Said("t1", make_calls("c1", "c2"), Usage())),
    (4, CallStarted("t1", "c1", "read_file", "pure", "logs/a-name-that-is-long/漢字漢字漢字.log")),
    (4, CallEnded("t1", "c1", "read_file", "ok", "x", "logs/a-name-that-is-long/漢字漢字漢字.log",
                  Label(private=True), number=1)),
    (3, CallStarted("t1", "c2", "run_command", "once", "make test", "h", "once")),
    (3, CallEnded("t1", "c2", "run_command", "failed", "no", "make test", ruling="once", number=2)),
    (3, Replied("t1", "t1", ("a",), HERE, "It is full.")),
)  # fmt: skip


async def write(path: Path, entries: Any, fold: Any, story: Sequence[tuple[float, Any]]) -> None:
    """Write a journal, each entry so many days ago."""
    times = [0.0]
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal[Any, Any](path, entries, fold, Disk(blocking=inline, clock=lambda: times[0]))
    await journal.open()
    for days, entry in story:
        times[0] = NOW - days * DAY
        await journal.append(entry)


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A state folder with a few entries of each kind."""
    state, skills = tmp_path / "state", tmp_path / "workspace" / "skills"
    (tmp_path / "config.toml").write_text(CONFIG.format(home=tmp_path))
    (tmp_path / "config.toml").chmod(0o600)
    await write(state / "sessions" / "home.jsonl", Entry, Session, SESSION)
    await write(state / "sessions" / "quiet.jsonl", Entry, Session, [(9, SESSION[0][1])])
    today = f"{datetime.fromtimestamp(time.time(), UTC).date()}"
    spent = [
        (0, Charged("home", "a/big", today, 30_138, usd=1.7)),
        (0, Charged("quiet", "a/small", today, 9_000, usd=0.02, estimated=True)),
        (0, Charged("", "a/small", today, 2_000, usd=0.01, job="harbour-news")),
    ]
    await write(state / "usage.jsonl", Charged, Ledger, spent)
    news = Task("harbour-news", "News", Cron("30 7 * * 1-5"), prompt="Say what is new in the port.")
    run = PlannedRun("harbour-news", NOW - 2 * DAY, series=1)
    timetable: list[tuple[float, TimetableEntry]] = [
        (6, TaskScheduled(news, NOW - 6 * DAY)),
        (6, TaskScheduled(Task("plants", "Plants", Cron("0 9 * * 6"), message="Water them."), 1.0)),
        (6, TaskScheduled(Task("century", "", Once(NOW + 41 * DAY), message="Get ready."), 1.0)),
        (2, RunStarted(run)),
        (2, RunFinished(run, "failed", "no network")),
        (1, TaskPaused("plants", "paused by the owner")),
        (1, TaskPaused("harbour-news", "paused: it failed")),
    ]
    await write(state / "schedule.jsonl", TimetableEntry, Timetable, timetable)
    harbour = Question(
        session="home", call="c2", tool="web_request", plan="h", exact="g", subject="example.org",
        why="it sends", route=HERE, principal="me", offered=("always",),
    )  # fmt: skip
    question = Question(
        session="home", call="c3", tool="send_message", plan="h", exact="h",
        subject="send_message To Ann (tg:2002): a private chat: Come aboard on Friday.",
        why="it sends", route=HERE, principal="me",
    )  # fmt: skip
    asked: list[tuple[float, ApprovalEntry]] = [
        (3, ApprovalRequested("q0", "HARBOR", harbour, 30 * DAY)),
        (3, ApprovalDecided("q0", "always", "tg:1", "h", number=1, lasts=90 * DAY)),
        (2, ApprovalRequested("q1", "GQHHWP", question, 30 * DAY)),
        (2, AccessRequested("EVE", "tg:7", "Eve 漢字", HERE)),
        (2, AccessDecided("EVE", approved=True, by="tg:1", guest=True)),
        (2, AccessRequested("FUN", "tg:-5", "Friends", HERE, "Eve 漢字 (tg:7)")),
        (2, AccessDecided("FUN", approved=True, by="tg:1")),
    ]
    await write(state / "approvals.jsonl", ApprovalEntry, ApprovalBook, asked)
    (state / "memory").mkdir()
    for key, more, text in (
        (
            "boat",
            "",
            "Ann's boat is called Halibut; it is blue, and lies in the harbour of Bergen.",
        ),
        ("tea", "kind: preference\nstatus: pending\n", "Green tea, 緑茶, no sugar."),
    ):
        at = datetime.fromtimestamp(NOW - 3 * DAY, UTC).isoformat()
        head = f"---\nlabel: trusted\nupdated: {at}\n{more}---\n"
        (state / "memory" / f"{key}.md").write_text(f"{head}{text}\n")
    for name, lacks in (("pdf", "metadata:\n  requires: 'bins: no-such'\n"), ("tides", "")):
        (skills / name).mkdir(parents=True)
        about = f"description: Read and write {name} of all kinds, and say what they mean for us."
        text = f"---\nname: {name}\n{about}\n{lacks}---\nDo.\n"
        (skills / name / "SKILL.md").write_text(text)
    (state / "backups").mkdir()
    for n in (1, 3):
        (state / "backups" / file_name(NOW - n * DAY)).write_bytes(b"x" * 2000 * n)
    return tmp_path


def run_shown(home: Path, typed: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command; return its output with dates, times and sizes as zeros."""
    assert main(["--config", str(home / "config.toml"), *typed.split()]) == 0
    out = re.sub(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b", "Day", capsys.readouterr().out)
    when = r"\d{4}-\d\d-\d\d|\d\d:[\d…]*(:\d\d)?|\d{8}T\d{6}Z|\d+ B|\d\.\d kB"
    return re.sub(when, lambda found: re.sub(r"\d", "0", found[0]), out)


@pytest.mark.parametrize("width", WIDTHS)
async def test_lists_match_their_screens(
    width: int, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    typed = [one for one in LISTS if width < 200 or one != "skills"]  # which shows their folders
    screens = [f"$ elwood {one}\n{run_shown(home, one, capsys)}" for one in typed]
    assert_screen(f"lists-{width}", "\n".join(screens))
    assert max(columns(line) for line in "".join(screens).splitlines()) <= width


async def test_json_has_the_documented_fields(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One list, exact times, and only documented fields."""
    page = (FOLDER.parents[2] / "docs/reference/json.md").read_text()
    for typed in JSON:
        words = ["--config", str(home / "config.toml"), *typed.split(), "--json"]
        if typed == "doctor":  # it starts Trio itself
            out = elwood(home, *words).stdout
        else:
            assert main(words) == 0
            out = capsys.readouterr().out
        found = json.loads(out)
        [about] = re.findall(rf"^## elwood {typed}\n(.+?)(?=^##|\Z)", page, re.M | re.S)
        named = {
            name
            for line in re.findall(r"^- (.+)", about, re.M)
            for name in re.findall(r"`(\w+)`", line)
        }
        assert found, typed
        assert all(row.keys() <= named for row in found), typed


async def test_only_a_terminal_gets_colour_and_a_pager(home: Path) -> None:
    pager = home / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\ncat\n")
    pager.chmod(0o700)
    xterm = partial(run_at_terminal, home, "receipts", TERM="xterm")
    shown = xterm(lines=50, PAGER=str(pager))
    assert "\x1b[31mfailed" in shown
    assert "PAGED" not in shown
    assert max(columns(line) for line in re.sub(r"\x1b\[\d*m", "", shown).splitlines()) <= 80
    assert xterm(lines=3, PAGER=str(pager)) == f"PAGED\n{shown}"
    plain = xterm(lines=3, PAGER="/no/pager", NO_COLOR="1")
    assert plain.split() == re.sub(r"\x1b\[\d*m", "", shown).split()
