"""The log and health.json of the whole app, as an operator or a monitor reads them."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from elwood.agent.conversation.message import Completion, Human
from elwood.agent.models.client import ModelFailure, ModelRequest
from elwood.agent.models.routing import Fault
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.reading.records import History
from elwood.foundation import log
from elwood.foundation.secrets.redaction import Redactor, Secret
from tests.journeys.home import MINE, Home, follow_message
from tests.journeys.judging import read
from tests.journeys.test_approval_journeys import LATE, press, require_approval, wait_for_question
from tests.journeys.test_clock import ALWAYS, HALF_HOUR, pass_time, write

SECRET = "sk-very-long-and-secret-4711"
Line = dict[str, Any]


class Written:
    """The log written since the start of a test."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def begin(self, **settings: Any) -> None:
        redact = Redactor((Secret(SECRET),))
        log.set_up(log.LogSettings(**settings), redact, stream=self.stream, environ={})

    def lines(self, *events: str) -> list[Line]:
        found = map(json.loads, self.stream.getvalue().splitlines())
        return [line for line in found if line["event"] in events or not events]


@pytest.fixture
def written() -> Iterator[Written]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield Written()
    log.set_up(log.LogSettings(), str, stream=io.StringIO(), environ={})
    logging.captureWarnings(False)
    root.handlers[:], level = before
    root.setLevel(level)


def kinds(lines: list[Line]) -> list[tuple[str, bool]]:
    return [(line["event"], line["success"]) for line in lines if "success" in line]


async def test_one_id_is_logged_for_everything_a_message_causes(h: Home, written: Written) -> None:
    """Also in work that begins later, after a yes, and in the records."""
    written.begin()
    async with require_approval(h).life() as life:
        await life.say("hello")
        hello = len(written.lines())
        h.fake.say("call act boldly")
        question = await wait_for_question(h, life)
        await life.wait_until_idle()
        await life.until(lambda: "waits" in h.texts()[-1])
        await press(h, life, question, "o")
        await life.until(lambda: len(h.effects.done) == 1)
        await life.wait_until_idle()
    caused = [line for line in written.lines()[hello:] if line.get("message")]
    assert len({line["message"] for line in caused}) == 1
    assert kinds(caused) == [
        ("llm_call", True),
        ("channel", True),  # the question
        ("tool_call", False),  # it waits
        ("llm_call", True),
        ("turn", True),
        ("channel", True),
        ("approval", True),
        ("tool_call", True),
        ("llm_call", True),
        ("turn", True),
        ("channel", True),
    ]
    assert {line["turn"] for line in caused if line["event"] == "turn"} == {"t2", "t3"}
    approval, waiting, acted = written.lines("approval")[0], *written.lines("tool_call")
    assert approval["duration_ms"] > 1000 * LATE - 10_000
    assert (waiting["outcome"], acted["outcome"]) == ("waiting", "ok")
    assert acted["duration_ms"] == 1000, "the owner's time is not the tool's"
    records = History(MINE, read(h.journal(), Entry))
    assert {one.message for one in records.calls} == {caused[0]["message"]}


async def test_denials_retries_and_failures_are_warnings_or_errors(
    h: Home, written: Written
) -> None:
    h.settings["policy"] = PolicySettings(deny=("act",), allow=("fail",))
    faults = [Fault("overloaded", "busy")]

    def think(request: ModelRequest) -> Completion:
        if isinstance(request.messages[-1], Human) and faults:
            raise ModelFailure("scripted", faults.pop())
        return follow_message(request)

    h.think = think
    written.begin()
    async with h.life() as life:
        await life.say("call act boldly, fail")
        faults += [Fault("rejected", "no")] * 9
        await life.say("hello")
    [denied, failed] = written.lines("tool_call")
    assert (denied["level"], denied["outcome"]) == ("warning", "denied")
    assert (failed["level"], failed["outcome"]) == ("info", "failed")
    tries = written.lines("attempt failed")
    assert {line["level"] for line in tries} == {"warning"}
    assert tries[0]["again_in"] > 0
    first, *_, last = written.lines("llm_call")
    assert (first["retries"], first["input"], first["success"]) == (1, 10, True)
    assert {"model", "output", "cached", "cost", "duration_ms"} <= first.keys()
    assert (last["level"], last["success"]) == ("error", False)
    assert written.lines("turn")[-1]["level"] == "warning"


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_debug_logs_contain_traffic_without_secrets(
    h: Home, written: Written, level: log.Level
) -> None:
    written.begin(level=level)
    async with h.life() as life:
        await life.say(f"call look wonders, act {SECRET}")
    text = written.stream.getvalue()
    assert SECRET not in text
    assert ("saw wonders" in text) == (level == "debug")
    assert ("call look wonders" in text) == (level == "debug")


async def test_health_contains_the_monitored_fields(h: Home, written: Written) -> None:
    h.settings |= ALWAYS

    write(h, "HEARTBEAT.md", "- Is there mail?\n\nWatch: inbox/*.md\n")
    write(h, "inbox/one.md", "hello")
    written.begin(level="warning")
    async with h.life() as life:
        await life.say("call crash")
        await pass_time(h, life, 2 * HALF_HOUR)
        await trio.sleep(61)
    health = json.loads((h.state / "health.json").read_text())
    assert health["version"]
    assert health["uptime"] > 2 * HALF_HOUR
    assert health["restarts"] == 0
    assert health["heartbeat"]["outcome"] in ("done", "unchanged")
    done = {one["what"]: one for one in health["channels"]["telegram"]}
    assert {"polling Telegram", "sending to Telegram"} <= done.keys()
    assert done["polling Telegram"]["age"] < 60
    vitals = health["vitals"]
    assert vitals["last_error"].startswith("tools: tool crashed ZeroDivisionError: oops")
    assert 0 < vitals["sizes"]["journals"] < vitals["sizes"]["state"]
    assert vitals["budget"]["tokens"] > 0
    assert vitals["sandbox"] == "none"
