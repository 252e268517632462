"""A skill in the workspace is used by its name, whatever that looks like."""

from pathlib import Path

import pytest
from trio.testing import MockClock

from elwood.agent.conversation.message import Human, Notice
from elwood.foundation.settings import Paths
from tests.journeys.home import home
from tests.journeys.test_memory import equip


@pytest.mark.parametrize(
    ("name", "typed"),
    [("knit", "/knit"), ("knit-socks", "/knit_socks"), ("knit-socks", "/Knit-socks")],
)
async def test_a_skill_called_by_its_name_is_used(
    tmp_path: Path, mock_clock: MockClock, name: str, typed: str
) -> None:
    async with home(tmp_path, mock_clock) as h:
        equip(h)
        h.more_tools = ("activate_skill",)
        workspace = h.config().of(Paths).workspace
        folder = workspace / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About wool.\n---\nKnit.")
        async with h.life() as life:
            h.fake.say(f"{typed} for winter")
            await life.settled()
        [request] = h.asked
        notes = [one.text for one in request.messages if isinstance(one, Notice)]
        said = [one.text for one in request.messages if isinstance(one, Human)]
        assert "for winter" in said[-1]
        assert any(f"Use the skill {name}" in text for text in [*said, *notes])
        assert not h.broken()
