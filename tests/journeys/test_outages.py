"""After an outage everything works again within ten seconds, and no stale alarm follows."""

from collections.abc import Callable

import pytest
import trio

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelFailure, ModelRequest
from elwood.agent.models.routing import Fault
from tests.journeys.home import OTHER, Home, follow_message

pytestmark = pytest.mark.usefixtures("virtual_time")
SOON = 10.0


def refuse(h: Home, is_away: bool) -> None:
    h.network.cut(is_away)


def fail(h: Home, is_away: bool) -> None:
    """Let a proxy answer instead of Telegram."""
    h.fake.faults.clear()
    if is_away:
        h.fake.fault("*", "html", code=502, times=-1)


@pytest.mark.parametrize("away", [refuse, fail])
@pytest.mark.parametrize("seconds", [20.0, 60.0, 200.0])
async def test_work_continues_after_a_telegram_outage(
    h: Home, away: Callable[[Home, bool], None], seconds: float
) -> None:
    """One answer was being sent, and another was requested during the outage."""
    go = trio.Event()

    async def think(request: ModelRequest) -> Completion:
        await go.wait()
        return follow_message(request)

    h.think = think
    async with h.life():
        h.fake.say("before")
        await h.fake.until(lambda: h.fake.counts["getUpdates ok"] > 1)
        await trio.sleep(3)
        calls = len(h.fake.calls)
        away(h, True)
        go.set()
        await trio.sleep(5)
        h.fake.say("meanwhile", chat=OTHER, user=OTHER)
        await trio.sleep(seconds - 5)
        asked = len(h.fake.calls) - calls
        away(h, False)
        with trio.fail_after(SOON):
            await h.fake.until(lambda: len(h.fake.sent) >= 2)
        await trio.sleep(120)
        # A possible repeat is marked.
        assert {text.removeprefix("(again) ") for text in h.fake.texts()} == {
            "re: before", "re: meanwhile",
        }  # fmt: skip
        assert asked <= seconds  # no request storm


async def test_work_continues_after_a_model_overload(h: Home) -> None:
    def away(request: ModelRequest) -> Completion:
        raise ModelFailure("scripted", Fault("overloaded", "Overloaded"))

    h.think = away
    async with h.life():
        h.fake.say("hello")
        await trio.sleep(20)
        h.think = follow_message
        asked = len(h.asked)
        with trio.fail_after(SOON):
            await h.fake.until(lambda: h.fake.sent)
    assert h.fake.texts()[-1] == "re: hello"  # preceded by the notice about retries
    assert asked < 10


async def test_work_continues_after_credit_is_added(
    h: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """A message triggers a retry, even if another request was refused in between."""

    def away(request: ModelRequest) -> Completion:
        raise ModelFailure("scripted", Fault("spend_limit", "Your credit balance is too low."))

    h.think = away
    async with h.life() as life:
        assert await life.say("hello") == (
            "I cannot answer now: the account at scripted has no credit left, or has reached its "
            "spending limit. Add credit there; then send /retry"
        )
        logged = [getattr(record, "why", "") for record in caplog.records]
        assert any("Your credit balance is too low" in why for why in logged)
        await trio.sleep(60)
        h.think = follow_message
        assert await life.say("/retry") == "re: hello"
        assert await life.say("and now?") == "re: and now?"
