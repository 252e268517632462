"""The whole house with a task whose runs take longer than its interval."""

from pathlib import Path

import trio
from trio.testing import MockClock

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from elwood.features.tasks.settings import ConfiguredTasks
from elwood.features.tasks.state import RunsMissed, TimetableEntry
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.foundation.storage.journal import decoder
from tests.agent.session.scripted import answer
from tests.journeys.home import home

# Seconds: ten runs, and as many planned times between them.
WHILE = 15 * 60.0


async def test_what_a_task_misses_that_is_too_slow_stands_in_the_log(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Nobody is told: there may be one each minute."""
    task = Task("look", "Look", Every(60.0), prompt="Look.", silent=True, origin="config")
    async with home(tmp_path, mock_clock) as h:
        h.settings["tasks"] = ConfiguredTasks((task,))

        async def think(request: ModelRequest) -> Completion:
            await trio.sleep(90.0)
            return answer("I see.")

        h.think = think
        async with h.life():
            await trio.sleep(WHILE)
        assert h.texts() == []
        raw = (h.state / "schedule.jsonl").read_bytes().splitlines(keepends=True)
        entries = [entry for line in raw for entry in decoder(TimetableEntry).decode(line).entries]
        missed = [
            entry for entry in entries if isinstance(entry, RunsMissed) and entry.task == "look"
        ]
        assert sum(entry.count for entry in missed) > 3
