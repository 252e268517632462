"""The command `elwood` at another time: ``CLOCK_AHEAD=-3600 python -m tests.journeys.dated …``.

A fixture contains expiry times, so it is opened at the time when it was made.
"""

import os
import runpy
import time
from collections.abc import Callable


def clock_ahead(seconds: float) -> Callable[[], float]:
    """Return a wall clock that is *seconds* ahead of the real one."""
    now = time.time
    return lambda: now() + seconds


if __name__ == "__main__":
    # Before any import of Elwood: defaults use the clock at import time.
    time.time = clock_ahead(float(os.environ.pop("CLOCK_AHEAD")))
    runpy.run_module("elwood", run_name="__main__", alter_sys=True)
