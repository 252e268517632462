"""The whole house on a machine whose clock is wrong by a year for a while."""

from pathlib import Path

import trio
from trio.testing import MockClock

from elwood.features.backup.settings import BackupSettings
from elwood.features.tasks.messages import Schedule, Woken
from elwood.features.tasks.settings import HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.tasks.task_toml import ConfiguredTasks
from elwood.features.tasks.when import Every, Once
from tests.journeys.home import EPOCH, Home, Life, home

HOUR, YEAR = 3600.0, 365 * 86_400.0
TEA = Task("tea", "Tea", Every(HOUR, EPOCH), message="Time for tea.", origin="config")


async def until(h: Home, life: Life, at: float) -> None:
    """Let the clock show *at*, and wait until what follows is done."""
    await trio.sleep(4.0)
    h.clock_error -= at - h.now()
    life.house.clock.scheduler.address.offer(Woken())
    await trio.sleep(4.0)


def said(h: Home) -> list[str]:
    return [text.partition("\n")[0].partition(":")[0] for text in h.texts()]


async def test_a_clock_that_was_a_year_ahead_leaves_no_silence(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """It is told once, also over restarts; what comes is said, and what was said is not again."""
    async with home(tmp_path, mock_clock) as h:
        h.settings |= {
            "tasks": ConfiguredTasks((TEA,)),
            "heartbeat": HeartbeatSettings(every=0),
            "backup": BackupSettings(every=0),
        }
        call = Task("", "Call mum", Once(EPOCH + 30 * 24 * HOUR), message="Call mum.")
        async with h.life() as life:
            await until(h, life, EPOCH + HOUR)
            await life.house.clock.timetable.address.ask(Schedule(task=call))
            assert said(h) == ["⏰ Time for tea."]
        h.clock_error -= YEAR
        async with h.life() as life:
            await until(h, life, h.now() + 1.0)
            assert 'Missed: "Tea", 8759 times' in "".join(h.texts())
            assert 'Missed: "Call mum", planned for' in "".join(h.texts())
        h.clock_error += YEAR
        async with h.life() as life:
            await until(h, life, h.now() + 1.0)
            await until(h, life, EPOCH + 2 * HOUR)
            await until(h, life, EPOCH + 3 * HOUR)
        async with h.life() as life:
            await until(h, life, EPOCH + 30 * 24 * HOUR)
        tea = "⏰ Time for tea."
        first = [tea, "Missed", tea, "My clock was put back", tea, tea, "Missed"]
        assert said(h)[:7] == first
        assert set(said(h)[7:]) == {tea, "⏰ Call mum."}
        assert not h.broken()
