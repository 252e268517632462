"""An Elwood with one MCP server, to be killed: ``python -m tests.features.mcp.victim RUNG FOLDER``.

Prints "ready" when the server has started a child that sleeps for the seconds of the third
argument.
"""

import sys
from pathlib import Path

import trio

from tests.features.mcp.house import HERE, fake, living


async def main(rung: str, folder: str, mark: str) -> None:
    server = fake()
    if rung == "bubblewrap":
        server = fake(command="python3", sandbox="workspace", mounts=(str(HERE),))
    async with living(Path(folder), sandbox=rung, fake=server) as house:
        await house.until("/mcp show fake", ": ready;")
        await house.do(["child", mark], ["text", "started"])
        print("ready", flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
