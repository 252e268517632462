"""What the owner sees of what is spent: /budget, the warning, and the stop."""

from pathlib import Path

from trio.testing import MockClock

from elwood.agent.models.settings import Limits
from tests.journeys.home import home


async def test_budget_shows_what_was_spent_and_the_limits(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with home(tmp_path, mock_clock) as h:
        h.settings["limits"] = Limits(day_tokens=1_000_000, month_usd=20.0)
        async with h.life() as life:
            h.fake.say("hello")
            await life.settled()
            h.fake.say("/budget")
            await life.settled()
        [_, shown] = h.fake.sent
        lines = shown.text.split("\n")
        [entity] = shown.params["entities"]
        assert entity["type"] == "pre"
        assert lines[0].split()[1:] == ["tokens", "money"]
        assert lines[1].startswith("Today ")
        assert lines[2] == "  ░░░░░░░░░░   0 % of 1M tokens"
        assert "  ░░░░░░░░░░   0 % of $20.00" in lines
        assert "Models, this month" in lines
        assert max(map(len, shown.text[: entity["length"]].split("\n"))) <= 40


async def test_the_owner_is_warned_once_and_then_told_why_nothing_is_answered(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with home(tmp_path, mock_clock) as h:
        h.settings["limits"] = Limits(day_tokens=18)
        for text in ("one", "two"):
            async with h.life() as life:
                h.fake.say(text)
                await life.settled()
        async with h.life() as life:
            h.fake.say("three")
            await life.settled()
        warnings = [text for text in h.texts() if "of the limit of" in text or "reached" in text]
        assert len(warnings) == 2, h.texts()
        assert "18 tokens a day" in warnings[0]
        assert "/budget shows where it went" in warnings[0]
        assert warnings[1].startswith("The limit of 18 tokens a day is reached. It resets at")
        assert h.broken() == []
