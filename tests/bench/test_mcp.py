"""The cost of MCP servers: a call compared with the bare SDK, a slow server, and no server."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import pytest
import trio

from elwood.features.mcp.messages import CallDone, CallTool
from elwood.features.mcp.settings import ToolRule
from tests.features.mcp.house import SERVER, fake, living

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")
pytestmark = pytest.mark.bench

# Calls in a block of one client, and number of blocks.
BLOCK, ROUNDS = 50, 8
# Ratio to the bare SDK: the aim, and the asserted limit.
AIM, BOUND = 1.3, 2.5
# Seconds by which a silent server may delay the start and another conversation.
START, OTHER = 0.3, 0.05
# Cost of the feature without a server: milliseconds to import, and MB.
IMPORT, SIZE = 30.0, 1.0


async def time_calls(
    call: Callable[[], Awaitable[object]], clock: Callable[[], float] = perf_counter
) -> list[float]:
    took = []
    for _ in range(BLOCK):
        began = clock()
        await call()
        took.append(clock() - began)
    return took


async def test_a_call_compared_with_the_bare_sdk(tmp_path: Path) -> None:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    bare: list[float] = []
    ours: list[float] = []
    parameters = StdioServerParameters(command=sys.executable, args=[str(SERVER)])
    async with living(tmp_path, fake=fake()) as house, Client(parameters) as client:
        await house.until("/mcp show fake", ": ready;")
        assert house.line.app is not None
        [server] = [
            a.mailbox.address for a in house.line.app.actors if a.mailbox.name == "mcp fake"
        ]
        from elwood.features.mcp.store import ServerStore

        book = ServerStore(tmp_path / "state", "fake", house.line.app.core.disk).read()
        pin = book.accepted["echo"].pin

        async def by_us() -> None:
            said = await server.ask(CallTool(tool="echo", pin=pin, arguments={"text": "x" * 100}))
            assert isinstance(said, CallDone)

        async def by_sdk() -> None:
            await client.call_tool("echo", {"text": "x" * 100})

        for _ in range(ROUNDS):
            # CPU time: the wall clock depends on the load of the machine.
            ours += await time_calls(by_us, process_time)
            bare += await time_calls(by_sdk, process_time)
    ratio = median(ours) / median(bare)
    print(f"\na call: {median(ours) * 1e3:.2f} ms CPU, the bare SDK {median(bare) * 1e3:.2f} ms")
    print(f"ratio {ratio:.2f}, aim {AIM}")
    assert ratio < BOUND


async def first_answer(folder: Path, **servers: object) -> float:
    began = perf_counter()
    async with living(folder, **servers) as house:  # type: ignore[arg-type]  # of servers
        await house.ask("hi")
        return perf_counter() - began


async def test_a_slow_server_delays_no_start(tmp_path: Path) -> None:
    mute = fake({"start": [["sleep", 1000]]})
    await first_answer(tmp_path / "warm")
    without = min([await first_answer(tmp_path / f"a{n}") for n in range(3)])
    slow = min([await first_answer(tmp_path / f"b{n}", fake=mute) for n in range(3)])
    print(f"\nstart to first answer: {without:.3f} s, beside a mute server {slow:.3f} s")
    assert slow < without + START


async def test_a_hung_server_slows_no_one(tmp_path: Path) -> None:
    free = {"echo": ToolRule(risk="read"), "do": ToolRule(risk="read")}
    async with living(tmp_path, fake=fake(tools=free), other=fake(tools=free)) as house:
        await house.until("/mcp show fake", ": ready;")
        await house.until("/mcp show other", ": ready;")
        assert house.line.app is not None
        mailboxes = {a.mailbox.name: a.mailbox.address for a in house.line.app.actors}
        from elwood.features.mcp.store import ServerStore

        book = ServerStore(tmp_path / "state", "fake", house.line.app.core.disk).read()

        async def call(server: str, tool: str, **given: object) -> None:
            pin = book.accepted[tool].pin
            await mailboxes[f"mcp {server}"].ask(CallTool(tool=tool, pin=pin, arguments=given))

        async def other() -> None:
            await call("other", "echo", text="x")

        alone = median(await time_calls(other))
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(lambda: call("fake", "do", steps=[["sleep", 1000]]))
            await trio.sleep(0.1)
            beside = max(await time_calls(other))
            nursery.cancel_scope.cancel()
    print(
        f"\na call of another server: {alone * 1e3:.1f} ms, beside a hung one {beside * 1e3:.1f} ms"
    )
    assert beside < alone + OTHER


COST = """
import sys, time, os
import elwood.agent.session.core, elwood.agent.parts, elwood.agent.policy.settings
import argparse, elwood.features.web.feature, elwood.foundation.command_line
def size():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
before, began = size(), time.perf_counter()
import elwood.features.mcp.feature
print((time.perf_counter() - began) * 1e3, size() - before)
assert not {"mcp", "mcp_types", "pydantic"} & set(sys.modules)
"""


def test_without_servers_the_cost_is_small() -> None:
    costs = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", COST], capture_output=True, text=True, check=True
        )
        costs.append(tuple(map(float, done.stdout.split())))
    took, size = min(took for took, _ in costs), min(size for _, size in costs)
    print(f"\nwithout a server: {took:.1f} ms, {size:.2f} MB")
    assert took < IMPORT
    assert size < SIZE
