"""`elwood receipts` and `elwood session` on real journals."""

import json
import re
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import attrs
import msgspec
import pytest
from trio.testing import MockClock

from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.client import Provider
from elwood.agent.models.providers import make_provider
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.session.log.branch import is_notice_of_cut
from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Compacted,
    Delivered,
    Entry,
    Prompted,
    Received,
    Replied,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import Session
from elwood.agent.session.reading.cli import since
from elwood.agent.session.reading.records import History
from elwood.app.cli import make_parser
from elwood.foundation.command_line import CliFailure
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import inline
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import SEGMENT, Journal, segments
from tests.fake_model_rules import Json
from tests.fake_models import FakeModels, Say, Step, obey
from tests.journeys.home import Home, home

ROUTE = Route("console")


def make_calls(*names: str) -> Assistant:
    blocks = tuple(ToolCall(name, "run_command", "{}") for name in names)
    return Assistant(blocks, "", "m", msgspec.Raw(b"null"))


# The entries, with their times.
STORY: list[tuple[float, Entry]] = [
    (100.0, Received("a", "do it", "me", ROUTE, 0.0)),
    (100.0, TurnStarted("t1", ("a",), 1, "do it")),
    (101.0, Said("t1", make_calls("c1", "c2", "c3"), Usage())),
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


async def write_journal(
    state: Path, session: str, story: list[tuple[float, Entry]], segment: int = SEGMENT
) -> Path:
    """Let the store write the journal, with the times of the entries."""
    times = [0.0]
    path = state / "sessions" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    disk = Disk(blocking=inline, clock=lambda: times[0])
    journal = Journal[Entry, Session](path, Entry, Session, disk, segment=segment)
    await journal.open()
    for at, entry in story:
        times[0] = at
        await journal.append(entry)
    return path


def replace_bytes(path: Path, what: bytes, instead: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(what, instead, 1))


def run(where: Path | Config, *words: str) -> int:
    """Run `elwood` with the arguments, and a state folder or a configuration."""
    config = where
    if isinstance(config, Path):
        config = Config.from_values(Paths(state=config, workspace=config, runtime=config))
    given = make_parser().parse_args(words)
    assert given.command.run is not None
    code = given.command.run(config, given)
    assert isinstance(code, int)
    return code


def read_output(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, list)
    return found[::-1]  # the newest is first


# --- elwood receipts ------------------------------------------------------------------------------


async def test_every_step_of_every_call_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call that waited for the owner is one call, also after it ran."""
    await write_journal(tmp_path, "home", STORY)
    assert run(tmp_path, "receipts", "--json") == 0

    clean = {"untrusted": False, "private": False}
    steps = [
        {k: v for k, v in row.items() if v not in ("", None, 0)} for row in read_output(capsys)
    ]
    assert steps == [
        {
            "session": "home", "turn": "t1", "call": "c1", "tool": "read_file", "outcome": "ok",
            "target": "a.md", "effect": "pure", "started_at": 102.0, "ended_at": 104.5,
            "label": {"untrusted": False, "private": True}, "message": "a",
        },
        {
            "session": "home", "turn": "t1", "call": "c2", "tool": "run_command",
            "outcome": "failed", "target": "make", "effect": "once", "plan": "hash2",
            "ruling": "once", "by": "tg:1", "pending_at": 105.0, "decided_at": 110.0,
            "started_at": 111.0, "ended_at": 112.0, "label": clean, "message": "a",
        },
        {
            "session": "home", "turn": "t1", "call": "c3", "tool": "send_message",
            "outcome": "waiting", "target": "Anna", "plan": "hash3", "pending_at": 113.0,
            "ended_at": 120.0, "label": clean, "message": "a",
        },
    ]  # fmt: skip
    await write_journal(tmp_path, "later", [*STORY, *LATER])
    run(tmp_path, "receipts", "--json", "--session", "later")
    last = read_output(capsys)[-1]
    assert (last["turn"], last["call"], last["outcome"]) == ("t1", "c3", "ok")
    assert (last["pending_at"], last["started_at"], last["ended_at"]) == (113.0, 202.0, 205.0)


@pytest.mark.parametrize("ruling", ["denied", "expired", "withdrawn"])
def test_an_unanswered_call_is_denied(ruling: str) -> None:
    no = CallDecided("t1", "c3", "hash3", ruling, "tg:1")  # type: ignore[arg-type]
    log = [(n, at, entry) for n, (at, entry) in enumerate([*STORY, (300.0, no)], 1)]

    last = History("s", log).calls[-1]

    assert (last.call, last.outcome, last.ruling, last.at) == ("c3", "denied", ruling, 300.0)
    assert [one.outcome for one in History("s", log[:4]).calls] == ["under way"]


async def test_calls_can_be_filtered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By tool, outcome and time; a call that waits for approval is not running."""
    asked = CallPending("t1", "c3", "send_message", "hash3", "Anna")
    await write_journal(tmp_path, "home", [*STORY[:9], (113.0, asked)])

    for words, found in (
        (("--tool", "read_file"), ["c1"]),
        (("--outcome", "waiting"), ["c3"]),
        (("--outcome", "under way"), []),
        (("--tool", "read_file", "--outcome", "failed"), []),
        (("--since", "1970-01-01T00:01:50Z"), ["c2", "c3"]),
    ):
        assert run(tmp_path, "receipts", "--json", *words) == 0
        assert [row["call"] for row in read_output(capsys)] == found, words


async def test_the_table_is_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model's text cannot control the terminal."""
    hostile = CallStarted("t1", "c3", "read_file", "pure", "a\x1b[2J\nb\u202e")
    await write_journal(tmp_path, "home", [*STORY[:9], (115.0, hostile)])

    run(tmp_path, "receipts")

    head, third, second, first = capsys.readouterr().out.splitlines()
    assert head.split()[:6] == ["when", "time", "session", "number", "tool", "target"]
    assert first.split()[3:] == [
        "1970-01-01", "00:01:44", "home", "read_file", "a.md", "ok", "2.5", "s", "private",
    ]  # fmt: skip
    assert "allowed once by you" in second
    assert "a [2J b" in third
    assert third.isprintable()


async def test_calls_are_sorted_by_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await write_journal(tmp_path, "a", [*STORY, *LATER])
    await write_journal(tmp_path, "b", STORY)

    run(tmp_path, "receipts", "--json", "--limit", "4")
    assert [(row["session"], row["call"]) for row in read_output(capsys)] == [
        ("a", "c2"), ("b", "c2"), ("b", "c3"), ("a", "c3"),
    ]  # fmt: skip

    run(tmp_path, "receipts", "--json", "--session", "b", "--since", "1970-01-01T00:01:50")
    assert [row["call"] for row in read_output(capsys)] == ["c2", "c3"]
    with pytest.raises(CliFailure, match=r"^--since soon: "):
        run(tmp_path, "receipts", "--since", "soon")


async def test_damage_is_reported_after_the_valid_entries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await write_journal(tmp_path, "home", STORY)
    await write_journal(tmp_path, "sound", STORY)
    replace_bytes(path, b'"decided"', b'"decidet"')

    def told(*words: str) -> tuple[str, str]:
        assert run(tmp_path, *words) == 1
        out, err = capsys.readouterr()
        return out, err

    out, err = told("receipts", "--json", "--session", "home")
    assert [call["call"] for call in json.loads(out)] == ["c2", "c1"]
    assert "DAMAGED: line 7" in err
    out, err = told("session", "list")
    assert "sound" in out
    assert "DAMAGED" in err
    out, err = told("session", "show", "home", "--turn", "1")
    assert "secret text" in out
    assert "DAMAGED: line 7" in err
    out, err = told("session", "export", "home")
    assert out == ""
    assert "DAMAGED" in err
    out, err = told("receipts", "verify")
    assert "sound.jsonl: 12 entries" in out
    assert "home.jsonl: DAMAGED: line 7" in err


@pytest.mark.parametrize(
    "words",
    [
        "receipts --json",
        "session list",
        "session show home",
        "session show home --turn 1",
        "session show home --turn 2",
        "session export home",
    ],
)
async def test_a_segmented_log_reads_like_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    said = []
    for folder, segment in (("whole", SEGMENT), ("closed", 1)):
        path = await write_journal(tmp_path / folder, "home", [*STORY, *LATER], segment)
        assert (len(segments(path)) > 1) == (segment == 1)
        assert run(tmp_path / folder, *words.split()) == 0
        out = capsys.readouterr().out
        said.append(re.sub(r" +\d+\.\d kB  ", " 0.0  ", out))  # the size of the files
    assert said[0] == said[1]
    assert said[0]


async def test_removed_segments_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for story, segment in ((STORY, SEGMENT), ([], 1)):
        await write_journal(tmp_path, "closed", story, segment)
    path = await write_journal(tmp_path, "home", [*STORY, *LATER], 1)
    first, second, *_ = segments(path)
    segments(path)[first].unlink()
    segments(path.with_name("closed.jsonl"))[1].unlink()
    assert run(tmp_path, "receipts", "verify") == 0
    out = capsys.readouterr().out
    assert f"the {second - 1} entries before them were deleted" in out
    assert "closed.jsonl: 0 entries in 1 lines" in out
    assert run(tmp_path, "session", "show", "home", "--turn", "2") == 0
    assert "Anna" in capsys.readouterr().out


async def test_a_torn_tail_is_no_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log looks so while Elwood is writing."""
    path = await write_journal(tmp_path, "home", STORY)
    path.write_bytes(path.read_bytes()[:-30])

    assert run(tmp_path, "receipts", "--json") == 0
    assert len(read_output(capsys)) == 3


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2h", 1_000_000.0 - 7200),
        ("3d", 1_000_000.0 - 259_200),
        ("1970-01-02", 86_400.0),
        ("1970-01-02T10:00+02:00", 115_200.0),
        ("yesterday", None),
        ("0001-01-01", -62135596800.0),
    ],
)
def test_since_takes_an_age_or_a_time(text: str, at: float | None) -> None:
    assert since(text, 1_000_000.0, UTC) == at


# --- elwood session list, export ------------------------------------------------------------------


async def test_the_list_shows_pending_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await write_journal(tmp_path, "home", STORY)
    hello: list[Entry] = [
        Received("a", "hello", "me", ROUTE, 0.0),
        TurnStarted("t1", ("a",), 1, "hello"),
        Replied("t1", "t1", ("a",), ROUTE, "hi"),
        Delivered("t1"),
    ]
    await write_journal(tmp_path, "quiet", [(50.0, entry) for entry in hello])

    assert run(tmp_path, "session", "list") == 0

    head, home, quiet = capsys.readouterr().out.splitlines()
    titles = "conversation title last active time turns calls cost size to do"
    assert head.split() == titles.split()
    assert quiet.startswith("quiet")
    assert quiet.split()[:2] == ["quiet", "hello"]
    assert re.search(r" d ago  1970-01-01 00:00  1 +0 +\$0\.00 ", quiet)
    assert home.endswith("calls waiting for your approval: 1 answers on their way: 1")


async def test_an_export_is_private_and_redacted(tmp_path: Path) -> None:
    await write_journal(tmp_path, "home", STORY)
    output = tmp_path / "home.html"
    key = Providers({"x": ProviderSettings(api="openai", key=Secret("It waits."))})
    paths = Paths(state=tmp_path, workspace=tmp_path, runtime=tmp_path)
    config = Config.from_values(paths, key)

    assert run(config, "session", "export", "home", "--format", "html", "-o", str(output)) == 0

    text = output.read_text()
    assert "do it" in text
    assert "It waits." not in text
    assert output.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["nobody", "../approvals", "open/home", ""])
async def test_only_conversations_are_exported(tmp_path: Path, name: str) -> None:
    await write_journal(tmp_path, "home", STORY)
    (tmp_path / "approvals.jsonl").write_text("")

    with pytest.raises(CliFailure, match="no conversation"):
        run(tmp_path, "session", "export", name)


# --- elwood session show --------------------------------------------------------------------------


LONG = "some words that fill the room " * 12


def choose_step(body: Json) -> Step:
    """Summarize on request; else do as the last message says, with thinking."""
    if "tools" not in body:
        return Say("<summary>\nThey talk.\n</summary>")
    step = obey(body)
    assert isinstance(step, Say)
    tokens = len(msgspec.json.encode(body)) // 4
    return attrs.evolve(
        step, thinking="hm", usage={"input_tokens": tokens, "prompt_tokens": tokens}
    )


def live_with(h: Home, api: ProviderSettings) -> None:
    def make(client: Client, now: Callable[[], float]) -> Provider:
        return make_provider("fake", api, client=client, new_id=lambda: f"n{now()}")

    h.providers["fake"] = make
    h.model = "fake/model-5"
    h.settings["turn"] = TurnSettings(context_tokens=3000)


async def say(h: Home, *texts: str) -> None:
    async with h.life() as life:
        for text in texts:
            h.fake.say(text)
            await life.wait_until_idle()


async def test_undo_returns_the_thinking(tmp_path: Path, mock_clock: MockClock) -> None:
    """Over summaries in both directions; the fake refuses thinking after another prefix."""
    fake = FakeModels(otherwise=choose_step)
    async with home(tmp_path) as h:
        url = h.network.serve(fake.answer)
        live_with(h, ProviderSettings(api="anthropic", base_url=url, key=Secret("k")))
        acting = 'do it\n/call act {"name": "x"}'
        await say(h, "hello", acting, "/branch Early", "/retry")
        await say(h, *[f"{n}: {LONG}" for n in range(14)])
        assert has_summary(h)
        while has_summary(h):
            await say(h, "/undo")
        await say(h, "/undo", "after")
        whole = len(h.fold().path)
        assert not has_summary(h)
        await say(h, "/resume", "/retry", "and on")
        assert has_summary(h)
        await say(h, "/resume early", "early", "/new", "anew", "/undo", "/resume early", "/retry")
        entries = h.entries()

    assert whole > 4
    assert sum(isinstance(e, Prompted) for e in entries) == 1  # no history needed repair
    assert not any(e.why for e in entries if isinstance(e, Compacted))
    assert not any(e.failed for e in entries if isinstance(e, Replied))
    assert fake.bindings.rejected == 0
    assert fake.bindings.seen > 0


def has_summary(h: Home) -> bool:
    return any(is_notice_of_cut(message) for message in h.fold().messages)


async def test_a_transcript_lists_every_action(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = Received("a", "do\x1b[2J it", "me", ROUTE, 0.0)
    await write_journal(tmp_path, "home", [(100.0, hostile), *STORY[1:]])
    run(tmp_path, "session", "show", "home")
    _, row = capsys.readouterr().out.splitlines()
    assert "do [2J it" in row
    assert row.endswith("answered")
    with pytest.raises(CliFailure, match=r"^home has no turn 99$"):
        run(tmp_path, "session", "show", "home", "--turn", "99")
    run(tmp_path, "session", "show", "home", "--turn", "1")
    lines = capsys.readouterr().out
    for words in (
        "me:\n  do[2J it",
        "→ run_command {}",
        "starts read_file a.md",
        "✓ read_file a.md (ok):\n  secret text",
        "asks the owner about run_command make",
        "decided:\n  once tg:1",
        "✗ run_command make (failed):\n  no",
        "⏳ send_message Anna (waiting)",
        "Elwood, answer:\n  It waits.",
    ):
        assert words in lines
