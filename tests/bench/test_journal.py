"""Opening a journal of 100,000 entries, compared with reading and decoding the same lines."""

import json
from pathlib import Path

import pytest
import trio

from elwood.foundation.storage.journal import digest, segments, write_line
from tests.bench.rig import fastest
from tests.foundation.storage.diary import Wrote, open_diary

ENTRIES = 100_000


def write_long(path: Path) -> None:
    head = ""
    with path.open("wb") as file:
        for seq in range(1, ENTRIES + 1):
            line = write_line(seq, head, 1.0, (Wrote(f"{seq:06} " + "word " * 50),))
            head = digest(line)
            file.write(line)


def read_plainly(path: Path) -> list[object]:
    with path.open() as file:
        return [json.loads(line) for line in file]


@pytest.mark.bench
def test_opening_a_hundred_thousand_entries(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_long(path)
    floor = fastest(lambda: read_plainly(path))

    def in_full() -> None:
        trio.run(open_diary, path, None, 1 << 30)

    def by_state() -> None:
        trio.run(open_diary, path)

    full = fastest(in_full)
    by_state()
    assert segments(path)
    short = fastest(by_state)
    print(f"\n{ENTRIES} entries   seconds   ratio to json.loads of each line")
    for what, spent in (("json.loads", floor), ("in full", full), ("by its state", short)):
        print(f"{what:>14}   {spent:7.3f}   {spent / floor:5.2f}")
    # Both leave a margin for a busy machine: measured 0.5 and 0.15.
    assert full < 2 * floor
    assert short < floor
