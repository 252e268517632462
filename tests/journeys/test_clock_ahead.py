"""The whole house on a machine whose clock is wrong by a year for a while."""

from pathlib import Path

import trio
from trio.testing import MockClock

from elwood.features.backup.settings import BackupSettings
from elwood.features.tasks.messages import Change, Woken
from elwood.features.tasks.settings import ConfiguredTasks, HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from tests.journeys.home import EPOCH, Home, Life, home

HOUR, YEAR = 3600.0, 365 * 86_400.0
TEA = Task("tea", "Tea", Every(HOUR, EPOCH), message="Time for tea.", origin="config")


async def until(h: Home, life: Life, at: float) -> None:
    """Let the clock show *at*, and wait until what follows is done."""
    await trio.sleep(4.0)
    h.clock_error -= at - h.now()
    life.address("scheduler").offer(Woken())
    await trio.sleep(4.0)


def said(h: Home) -> list[str]:
    return [text.partition("\n")[0].partition(":")[0] for text in h.texts()]


async def test_a_clock_that_was_a_year_ahead_is_told_and_a_task_goes_on_when_resumed(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """It is told once, also over restarts; nothing is said twice."""
    async with home(tmp_path, mock_clock) as h:
        h.settings |= {
            "tasks": ConfiguredTasks((TEA,)),
            "heartbeat": HeartbeatSettings(every=0),
            "backup": BackupSettings(every=0),
        }
        async with h.life() as life:
            await until(h, life, EPOCH + HOUR)
        h.clock_error -= YEAR
        async with h.life() as life:
            await until(h, life, h.now() + 1.0)
            assert 'Missed: "Tea", 8759 times' in "".join(h.texts())
        h.clock_error += YEAR
        for hour in (2, 3):
            async with h.life() as life:
                await until(h, life, EPOCH + hour * HOUR)
        tea = "⏰ Time for tea."
        assert said(h) == [tea, "Missed", tea, "My clock was put back"]
        async with h.life() as life:
            resume = Change(id="tea", verb="resume", by="the owner")
            await life.address("timetable").ask(resume)
            await until(h, life, EPOCH + 4 * HOUR)
        assert said(h)[4:] == [tea]
        assert not h.broken()
