"""The whole house while one of its two disks is nearly full."""

from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from elwood.features.health.disk_monitor import EVERY
from elwood.features.tasks.settings import ConfiguredTasks
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.foundation.storage.disk import Space
from tests.journeys.disk import BadDisk
from tests.journeys.home import home

TASK = Task("tea", "Tea", Every(3600.0), message="Time for tea.", origin="config")


@attrs.define
class TwoDisks(BadDisk):
    """The disk of a folder of the name *crowded* is nearly full."""

    crowded: str = ""

    def space(self, folder: Path) -> Space:
        return Space(97, 3) if folder.name == self.crowded else Space(10, 90)


@pytest.mark.parametrize(
    ("crowded", "named"), [("workspace", "the workspace"), ("state", "the state folder")]
)
async def test_either_disk_refuses_new_work_and_is_named(
    tmp_path: Path, mock_clock: MockClock, crowded: str, named: str
) -> None:
    async with home(tmp_path, mock_clock) as h:
        h.disk = disk = TwoDisks()
        h.settings["tasks"] = ConfiguredTasks((TASK,))
        async with h.life():
            await trio.sleep(2 * EVERY)
            disk.crowded = crowded
            await trio.sleep(5 * EVERY)
            told = [text for text in h.fake.texts() if text.startswith("⚠")]
            assert any(f"95 % of the disk with {named} is in use" in text for text in told), told
            h.fake.say("Hello?")
            await trio.sleep(4.0)
            assert f"disk with {named} is in use" in h.texts()[-1]
            h.fake.say("/tasks run tea")
            await trio.sleep(4.0)
            assert "tea: It runs when there is room: more than 95 %" in h.texts()[-1]
            assert not any("Time for tea" in text for text in h.texts())
            disk.crowded = ""
            await trio.sleep(100.0)
            assert any("Time for tea" in text for text in h.texts())
