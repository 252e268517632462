"""The command `elwood` at another time: ``CLOCK_AHEAD=-3600 python -m tests.journeys.dated …``.

What is kept as a fixture knows when it ends, so it is opened at its own time.
"""

import os
import runpy
import time
from collections.abc import Callable


def ahead(seconds: float) -> Callable[[], float]:
    """Make a wall clock that is *seconds* ahead of the present one."""
    now = time.time
    return lambda: now() + seconds


if __name__ == "__main__":
    # Before anything of Elwood is imported: defaults take the clock at that moment.
    time.time = ahead(float(os.environ.pop("CLOCK_AHEAD")))
    runpy.run_module("elwood", run_name="__main__", alter_sys=True)
