"""One test per journey, as log entries in order."""

import os
import sys

import attrs
import msgspec
import pytest
import trio

from elwood.agent.conversation.message import Notice
from elwood.agent.conversation.route import Route
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.session.log.entries import (
    CallEnded,
    CallStarted,
    Delivered,
    Joined,
    Noticed,
    Posted,
    Posting,
    Prompted,
    Received,
    Replied,
    Said,
    TurnStarted,
)
from elwood.app.config.load import load
from elwood.foundation.settings import Paths
from elwood.foundation.storage.journal import Verified, verify
from tests.fake_telegram import OWNER
from tests.journeys.home import MINE, MODEL, Home, remove_times
from tests.model_roles import asking

KEPT = ("PATH", "PYTHONPATH", "LANG")


async def test_one_telegram_message(h: Home) -> None:
    async with h.life() as life:
        number = h.fake.say("*hello*")
        await life.wait_until_idle()
        me, route = f"tg:{OWNER}", Route("telegram", chat=str(OWNER))
        match h.entries():
            case [
                Received(id, "*hello*", principal, where),
                # The first message reads the daily notes within its turn.
                TurnStarted("t1", inputs, 1, ""),
                Joined("t1", (), shown),
                Prompted(prompt),
                Said("t1", message),
                Replied("t1", "t1", answered, back, "re: *hello*", "", False),
                Posting("t1", 0, 1),
                Posted("t1", 0, sent),
                Delivered("t1", ""),
            ]:
                assert id == f"tg:4242:{number}"
                assert (principal, where.chat, where.channel) == (me, route.chat, route.channel)
                assert inputs == answered == (id,)
                assert shown.endswith("\n*hello*")
                assert [tool.name for tool in prompt.tools][:2] == ["look", "act"]
                assert message.text == "re: *hello*"
                assert back == where
                assert sent == f"{OWNER}:{h.fake.sent[0].message_id}"
            case other:
                pytest.fail(f"another journey: {other}")
        [answer] = h.fake.sent
        assert answer.text == "re: hello"
        assert [entity["type"] for entity in answer.params["entities"]] == ["italic"]
        assert h.fake.unconfirmed == []
        assert isinstance(verify(h.journal()), Verified)


async def test_one_tool_call(h: Home) -> None:
    async with h.life() as life:
        await life.say("call look there, act boldly")
        match h.entries():
            case [
                Received(),
                TurnStarted(),
                Joined(),
                Prompted(),
                Said("t1", asking),
                CallStarted("t1", "c0", "look", "pure", "there"),
                CallEnded("t1", "c0", "look", "ok", "saw there", "there"),
                CallStarted("t1", "c1", "act", "once", "boldly"),
                CallEnded("t1", "c1", "act", "ok", "acted on boldly", "boldly"),
                Noticed("t1", told),
                Said("t1", saying),
                Replied(text=text, footer=footer),
                Posting(),
                Posted(),
                Delivered(),
            ]:
                assert [call.name for call in asking.calls] == ["look", "act"]
                assert text == saying.text == "re: saw there | acted on boldly"
                assert remove_times(footer) == "— What I actually did —\n✓ look there\n✓ act boldly"
            case other:
                pytest.fail(f"another journey: {other}")
        assert h.effects.done == ["look there", "act boldly"]
        assert h.fake.texts(OWNER) == [f"{text}\n\n{footer}"]
        assert "✓ act boldly" in told
        assert Notice(told) in h.asked[-1].messages


async def test_a_fresh_installation(h: Home) -> None:
    """`elwood init`, the token, and Elwood runs."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    environ = {**kept, "HOME": str(h.folder), "ELWOOD_TELEGRAM_TOKEN": "4242:fake-token"}
    command = [sys.executable, "-m", "elwood", "init"]
    done = await trio.run_process(command, env=environ, capture_stdout=True, capture_stderr=True)
    assert (done.returncode, done.stderr) == (0, b"")
    config = load(h.folder / ".config/elwood/config.toml", environ)
    # The model is scripted, and the socket's path must be short.
    h.made = config.replace(
        asking(MODEL, MODEL),
        Providers({"scripted": ProviderSettings(api="offline")}),
        attrs.evolve(config.get(Paths), runtime=h.runtime),
    )
    h.state_folder = config.get(Paths).state
    async with h.life() as life:
        await life.say("hello")
        assert life.inspect().stuck == ()
        assert (h.runtime / "control.sock").is_socket()
    assert h.texts() == ["re: hello"]
    assert h.names()[:4] == ["received", "turn", "joined", "prompted"]
    soul = (config.get(Paths).workspace / "SOUL.md").read_text().strip()
    assert soul.splitlines()[-1] in h.asked[0].prompt.system
    assert sorted(path.name for path in config.get(Paths).state.iterdir()) == [
        "anchors.jsonl",
        "health.json",
        "reserve",
        "schedule.jsonl",
        "sessions",
        "usage.jsonl",
        "workspace",
    ]
    assert isinstance(verify(h.journal(MINE)), Verified)
    assert msgspec.json.decode((config.get(Paths).state / "usage.jsonl").read_bytes())["seq"] == 1
