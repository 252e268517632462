"""What commands cost that end at once, as a ratio to a start of Python that does nothing."""

import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

import pytest

ROUNDS = 9
# How often the time of bare Python, at most; measured on a quiet machine: 1.8, 1.8 and 4.1.
# A parser cannot be had for 3: argparse alone takes 2 (docs/decisions/0019).
BOUNDS = {"--help": 3.0, "--version": 3.0, "tasks --help": 6.0}


def cpu(*command: str) -> float:
    """Run *command*; return the seconds of a processor that it took."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.bench
def test_help_costs_little_more_than_python() -> None:
    program = str(Path(sys.executable).with_name("elwood"))
    commands: dict[str, tuple[str, ...]] = {"python": (sys.executable, "-c", "pass")}
    commands |= {typed: (program, *typed.split()) for typed in BOUNDS}
    taken: dict[str, list[float]] = {typed: [] for typed in commands}
    for _ in range(ROUNDS):  # in turns, so that all of them meet the same machine
        for typed, command in commands.items():
            taken[typed].append(cpu(*command))
    floor = median(taken["python"])
    print(f"\n{'bare Python':>14} {1000 * floor:6.1f} ms")
    ratios = {typed: median(taken[typed]) / floor for typed in BOUNDS}
    for typed, ratio in ratios.items():
        print(f"{typed:>14} {1000 * ratio * floor:6.1f} ms, {ratio:.1f} times bare Python")
    assert {typed for typed, ratio in ratios.items() if ratio > BOUNDS[typed]} == set()
