"""`elwood session show`: what was said, and byte for byte what a model was sent."""

from collections.abc import Callable
from datetime import UTC
from functools import partial
from pathlib import Path

import attrs
import msgspec
import pytest
from trio.testing import MockClock

from elwood.agent.conversation.message import (
    Assistant,
    Human,
    Prompt,
    Usage,
)
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.provider import Provider
from elwood.agent.models.providers import make_provider
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.session.log.entries import (
    Compacted,
    Prompted,
    Replied,
    Said,
    TurnStarted,
)
from elwood.agent.session.reading.cli import SentRequest, body_of, sent, show
from elwood.agent.session.reading.records import read_history
from elwood.agent.session.reading.tables import transcript
from elwood.agent.session.turn.compaction import is_notice_of_cut
from elwood.app.config.load import load
from elwood.app.config.settings import Config
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret
from tests.agent.session.test_auditing import STORY, write
from tests.app.test_cli import OFFLINE, configured, elwood
from tests.fake_http import serving
from tests.fake_model_rules import Json
from tests.fake_models import FakeModels, Say, Step, obey
from tests.journeys.home import MINE, Home, home

LONG = "some words that fill the room " * 12
FORMS = pytest.mark.parametrize(
    "form",
    [
        ProviderSettings(api="anthropic"),
        ProviderSettings(api="openai"),
        ProviderSettings(
            api="openai", echo_reasoning="reasoning_content", limit_field="max_completion_tokens"
        ),
    ],
    ids=["anthropic", "openai", "openai with echo"],
)


def asked_for(body: Json) -> Step:
    """Sum up if that is wanted; else do as the last message says, and think about it."""
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
        return make_provider("fake", api, client=client, now=now, new_id=lambda: f"n{now()}")

    h.providers["fake"] = make
    h.model = "fake/model-5"
    h.settings["turn"] = TurnSettings(context_tokens=3000)


def talked(fake: FakeModels) -> list[bytes]:
    """What was sent in turns."""
    return [r.body for r in fake.requests if r.method == "POST" and b'"tools":' in r.body]


async def say(h: Home, *texts: str) -> None:
    async with h.life() as life:
        for text in texts:
            h.fake.say(text)
            await life.settled()


def form_of(config: Config) -> Callable[[SentRequest], tuple[bytes, str]]:
    default, most = config.models.default, config.models.max_tokens
    return partial(body_of, providers=config.providers, default=default, max_tokens=most)


def printed(config: Config, turn: int, capfdbinary: pytest.CaptureFixture[bytes]) -> list[bytes]:
    assert show(config.paths.state, MINE, UTC, turn=turn, body=form_of(config)) == 0
    out, err = capfdbinary.readouterr()
    assert err == b""
    return out.splitlines()


@FORMS
async def test_the_prompt_shown_is_what_was_sent_byte_for_byte(
    form: ProviderSettings,
    tmp_path: Path,
    mock_clock: MockClock,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Over calls, answers that were cut, a compaction, a new prompt, restarts, and /new."""
    fake = FakeModels(otherwise=asked_for)
    async with home(tmp_path, mock_clock) as h, serving(fake.answer) as url:
        api = attrs.evolve(form, base_url=url, key=Secret("k"))
        live_with(h, api)
        acting = 'do it\n/call look {"name": "x"}\n/call act {"name": "ü \\" 🎉"}'
        await say(h, "hello", acting)
        cut = "length" if form.api == "openai" else "max_tokens"
        fake.script = [
            Say("this goes on ", stop=cut),
            Say("and ends"),
            Say(calls=(("act", '{"name": "y"}'),), stop=cut),  # thrown away, asked for once more
            Say(calls=(("act", '{"name": "z"}'),)),
            Say("done"),
        ]
        await say(h, "tell me", "act")
        (tmp_path / "workspace" / "SOUL.md").write_text("Be kind.")
        await say(h, *[f"{n}: {LONG}" for n in range(18)])
        await say(h, "/new", "hello again", acting)
        entries = h.entries()
        config = h.config().having(Providers({"fake": api}))

        count = sum(isinstance(e, TurnStarted) for e in entries)
        shown = [line for n in range(1, count + 1) for line in printed(config, n, capfdbinary)]

    sent_ = talked(fake)
    assert sum(isinstance(e, Compacted) for e in entries) >= 1
    assert not any(e.why for e in entries if isinstance(e, Compacted))
    assert sum(isinstance(e, Prompted) for e in entries) == 2
    assert count == 2 + 2 + 18 + 2
    # The one answer that was thrown away is in no log: neither is what asked for it.
    dropped = [body for body in sent_ if body not in shown]
    assert len(dropped) == 1
    assert dropped[0].replace(b":16000", b":32000") in shown
    assert shown == [body for body in sent_ if body != dropped[0]]


@FORMS
async def test_going_back_shows_and_sends_what_was_thought_behind(
    form: ProviderSettings,
    tmp_path: Path,
    mock_clock: MockClock,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Over summaries in both directions; the fake refuses thinking behind another prefix."""
    fake = FakeModels(otherwise=asked_for)
    async with home(tmp_path, mock_clock) as h, serving(fake.answer) as url:
        api = attrs.evolve(form, base_url=url, key=Secret("k"))
        live_with(h, api)
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
        config = h.config().having(Providers({"fake": api}))

        count = sum(isinstance(e, TurnStarted) for e in entries)
        shown = [line for n in range(1, count + 1) for line in printed(config, n, capfdbinary)]

    assert whole > 4
    assert shown == talked(fake)
    assert sum(isinstance(e, Prompted) for e in entries) == 1  # nothing had to be mended
    assert not any(e.why for e in entries if isinstance(e, Compacted))
    assert not any(e.failed for e in entries if isinstance(e, Replied))
    assert fake.bindings.rejected == 0
    assert (fake.bindings.seen > 0) is (form.api == "anthropic")


def has_summary(h: Home) -> bool:
    return any(is_notice_of_cut(message) for message in h.fold().messages)


async def test_a_conversation_is_told_while_the_house_runs(
    tmp_path: Path, mock_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with home(tmp_path, mock_clock) as h, h.life() as life:
        h.fake.say("hello\x1b[2J there")
        h.fake.say("call look there, act boldly")
        await life.settled()
        h.fake.say("call fail")
        await life.settled()
        state = h.config().paths.state

        assert show(state, MINE, UTC) == 0
        table = capsys.readouterr().out
        assert show(state, MINE, UTC, turn=1) == 0
        story = capsys.readouterr().out
        assert show(state, MINE, UTC, turn=99) == 1
        assert capsys.readouterr().err == f"there is no turn 99 of {MINE}\n"
        assert show(state, "nobody", UTC) == 1
        assert MINE in capsys.readouterr().err

    first, *rows = table.splitlines()
    assert first.split()[:2] == ["turn", "time"]
    assert len(rows) == sum(isinstance(e, TurnStarted) for e in h.entries())
    assert all(row.endswith("answered") for row in rows)
    assert "hello[2J there" in rows[0]
    assert "\x1b" not in table + story
    assert "  hello[2J there" in story.splitlines()
    assert any(line.endswith("Elwood, answering:") for line in story.splitlines())


def test_a_transcript_has_everything_that_was_done() -> None:
    log = [(n, at, entry) for n, (at, entry) in enumerate(STORY, 1)]
    turn = read_history("s", log, whole=1).turn(1)
    assert turn is not None
    lines = "".join(transcript(turn, UTC))

    for words in (
        "me:\n  do it",
        "→ run_command {}",
        "starts read_file a.md",
        "✓ read_file a.md (ok):\n  secret text",
        "asks the owner about run_command make",
        "decided:\n  once tg:1",
        "✗ run_command make (failed):\n  no",
        "⏳ send_message Anna (waiting)",
        "Elwood, answering:\n  It waits.",
    ):
        assert words in lines


async def test_a_damaged_log_is_told_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await write(tmp_path / "state", "s", STORY)
    raw = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*raw[:6], raw[6].replace(b"decided", b"decidet"), *raw[7:]]))

    assert show(tmp_path / "state", "s", UTC, turn=1) == 1

    told = capsys.readouterr()
    assert "secret text" in told.out
    assert "DAMAGED: line 7" in told.err


def config_at(folder: Path) -> Config:
    file = folder / "config.toml"
    file.write_text(f'{OFFLINE}\npaths.state = "{folder}/state"\n')
    return load(file, {"HOME": str(folder)})


def test_what_an_old_log_does_not_say_is_said(tmp_path: Path) -> None:
    """Before it was noted how long an answer might be; and who answers for a bare name."""
    said = Said("t1", Assistant((), "", "rules", msgspec.Raw(b"null")), Usage())
    form = form_of(config_at(tmp_path))
    body, note = form(SentRequest(Prompt("Be kind."), (Human("hello"),), said))

    assert b"hello" in body
    assert "max_tokens is not in the log" in note
    assert "offline" in note
    log = [(1, 0.0, STORY[0][1]), (2, 0.0, STORY[1][1]), (3, 0.0, STORY[2][1])]
    assert [one.messages for one in sent(log, "t1")] == [(Human("do it"),)]


def test_the_command_line(tmp_path: Path) -> None:
    configured(tmp_path, OFFLINE)
    elwood(tmp_path, "once", "--session", "tea", "hello")

    listed = elwood(tmp_path, "session", "show", "tea")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "hello" in listed.stdout
    prompt = elwood(tmp_path, "session", "show", "tea", "--prompt")
    system, messages = msgspec.json.decode(prompt.stdout)
    assert "tools" in system
    assert messages[-1]["text"].endswith("hello")
