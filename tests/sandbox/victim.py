"""A house that runs a command and is killed.  ``python -m tests.sandbox.victim RUNG BASE TEXT``."""

import sys
from pathlib import Path

import trio

from elwood.sandbox import Command
from tests.sandbox import scene


async def main(rung: str, base: str, text: str) -> None:
    home = scene.Home(Path(base) / "workspace", Path(base) / "state")
    hands = await scene.take(rung, home)
    await hands.run(Command(argv=("sh", "-c", text), timeout=300))


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
