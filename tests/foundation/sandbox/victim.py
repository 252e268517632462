"""A process that runs a command and gets killed.

``python -m tests.foundation.sandbox.victim RUNG BASE TEXT [adopts]``; if it adopts orphans, it
fails if any is
left at its end.
"""

import ctypes
import os
import sys
from pathlib import Path

import trio

from elwood.foundation.sandbox.command import Command
from tests.foundation.sandbox import scene

PR_SET_CHILD_SUBREAPER = 36


async def main(rung: str, base: str, text: str) -> None:
    home = scene.Home(Path(base) / "workspace", Path(base) / "state")
    hands = await scene.choose_backend(rung, home)
    await hands.run(Command(argv=("sh", "-c", text), timeout=300))


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    adopts = sys.argv[4:] == ["adopts"]
    if adopts:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
    sys.exit(1 if adopts and has_children() else 0)
