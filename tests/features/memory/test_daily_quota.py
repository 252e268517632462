"""What may be done so many times a day."""

from pathlib import Path

import pytest

from elwood.features.memory.extension import DailyQuota
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk, DiskFull


def quota(folder: Path, limit: int = 2) -> DailyQuota:
    disk = Disk(blocking=inline, clock=lambda: 0.0)
    return DailyQuota(folder / "state" / "calls", disk, limit)


async def test_a_day_has_its_limit_over_all_restarts(tmp_path: Path) -> None:
    taken = [await quota(tmp_path).take("2026-11-22") for _ in range(4)]

    assert taken == [True, True, False, False]
    assert await quota(tmp_path).take("2026-11-23")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"2026-11-22 x", b"\xff" * 200])
async def test_a_file_that_cannot_be_read_begins_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "calls").write_bytes(content)

    assert [await quota(tmp_path).take("2026-11-22") for _ in range(3)] == [True, True, False]


async def test_what_cannot_be_counted_is_not_done(tmp_path: Path) -> None:
    class Full(Disk):
        def replace(self, path: Path, data: bytes) -> None:
            raise DiskFull(path)

    disk = Full(blocking=inline, clock=lambda: 0.0)
    assert not await DailyQuota(tmp_path / "calls", disk, 2).take("2026-11-22")
