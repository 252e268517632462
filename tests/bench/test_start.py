"""The cost of short commands, as a ratio to an empty Python process."""

import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

import pytest

ROUNDS = 9
# Maximum ratios to bare Python; measured on an idle machine: 1.8, 1.8 and 4.1.
# 3 is impossible with a parser: argparse alone takes 2 (docs/decisions/0019).
BOUNDS = {"--help": 3.0, "--version": 3.0, "tasks --help": 6.0}


def cpu(*command: str) -> float:
    """Run *command*; return its CPU seconds."""
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
    for _ in range(ROUNDS):  # in turn, so that all have the same load
        for typed, command in commands.items():
            taken[typed].append(cpu(*command))
    floor = median(taken["python"])
    print(f"\n{'bare Python':>14} {1000 * floor:6.1f} ms")
    ratios = {typed: median(taken[typed]) / floor for typed in BOUNDS}
    for typed, ratio in ratios.items():
        print(f"{typed:>14} {1000 * ratio * floor:6.1f} ms, {ratio:.1f} times bare Python")
    assert {typed for typed, ratio in ratios.items() if ratio > BOUNDS[typed]} == set()
