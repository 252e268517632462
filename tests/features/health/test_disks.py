"""The watch over the disk, and health.json."""

from pathlib import Path

import msgspec
import trio
import trio.testing

from elwood.agent.session.core import Admission
from elwood.agent.session.inspection import Inspection, ProcessSeen
from elwood.features.health.actor import LITTLE, MEASURE_EVERY, NONE, DiskMonitor, HealthFile
from elwood.foundation.runtime import ActorTable, Child, Mailbox, supervise
from elwood.foundation.storage.disk import DiskFull, Space

SEEN = Inspection(ProcessSeen("1", 0.0), ())


class Rig:
    """A disk that can be filled, as an actor of a house sees it."""

    def __init__(self) -> None:
        self.space = Space(10, 90)
        self.broken = self.full = False
        self.written: list[HealthFile] = []
        self.actor_table = ActorTable(trio.current_time)
        self.other = Space(10, 90)
        self.admission = Admission()
        folders = {"the state": self._measure, "the workspace": self._measure_other}
        self.disks = DiskMonitor(folders, self._write, lambda: SEEN, lambda: 5.0, self.admission)

    async def _measure(self) -> Space:
        await trio.lowlevel.checkpoint()
        if self.broken:
            raise OSError("no such folder")
        return self.space

    async def _measure_other(self) -> Space:
        await trio.lowlevel.checkpoint()
        return self.other

    async def _write(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.full:
            raise DiskFull(Path("health.json"))
        self.written.append(msgspec.json.decode(data, type=HealthFile))

    def stuck(self) -> set[str]:
        return {found.subject for found in self.actor_table.stuck()}

    async def run(self) -> None:
        async def body(mailbox: Mailbox[None]) -> None:
            await self.disks.run(lambda: "running")

        await supervise(
            [Child(Mailbox[None]("health", 1), body)],
            stop=trio.Event(),
            listener=lambda event: None,
            actor_table=self.actor_table,
        )


async def test_little_room_is_told_and_none_refuses_work(autojump_clock: object) -> None:
    rig = Rig()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.run)
        await trio.sleep(4 * MEASURE_EVERY)
        assert (rig.admission.refusal, rig.stuck()) == ("", set())

        rig.space = Space(91, 9)
        await trio.sleep(MEASURE_EVERY)
        assert (rig.admission.refusal, rig.stuck()) == ("", {LITTLE})

        rig.space = Space(96, 4)
        await trio.sleep(4 * MEASURE_EVERY)
        assert "95 %" in rig.admission.refusal
        assert rig.stuck() == {LITTLE, NONE}

        rig.broken = True
        await trio.sleep(MEASURE_EVERY)
        assert "95 %" in rig.admission.refusal, "what nobody can say does not lift it"

        rig.broken, rig.space = False, Space(10, 90)
        await trio.sleep(2 * MEASURE_EVERY)
        assert (rig.admission.refusal, rig.stuck()) == ("", set())
        nursery.cancel_scope.cancel()


async def test_a_full_disk_of_the_workspace_refuses_work_too(autojump_clock: object) -> None:
    """Also while nobody can say how the other one does."""
    rig = Rig()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.run)
        await trio.sleep(1)
        rig.broken, rig.other = True, Space(96, 4)
        await trio.sleep(4 * MEASURE_EVERY)
        assert "95 % of the disk with the workspace is in use" in rig.admission.refusal
        assert rig.stuck() == {LITTLE, NONE}
        nursery.cancel_scope.cancel()


async def test_health_is_written_each_minute(autojump_clock: object) -> None:
    rig = Rig()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.run)
        await trio.sleep(1)
        assert rig.written == [
            HealthFile(5.0, "running", {"the state": rig.space, "the workspace": rig.other}, SEEN)
        ]
        await trio.sleep(60)
        assert len(rig.written) == 2
        rig.full = True
        await trio.sleep(180)
        rig.full = False
        await trio.sleep(60)
        assert len(rig.written) == 3
        nursery.cancel_scope.cancel()
