"""A feature with a tool that starts a child run: the test user of `ChildRuns`."""

from collections.abc import Awaitable, Callable

import trio

from elwood.agent.conversation.run import Budget
from elwood.agent.feature import Feature
from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.client import ChildRun, ChildRuns
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import Output, Tool, ToolContext
from tests.agent.session.scripted import Named

# Tools of a child run (one test adds the tool that starts child runs), and seconds.
TOOLS, SECONDS = ("look", "act", "hang", "read", "order"), 120.0


def feature(*tools: Tool, seconds: float = SECONDS, children: tuple[str, ...] = TOOLS) -> Feature:
    """Build the feature: the tool ``order``, and *tools*."""

    async def build(core: Core, others: Gathered) -> Parts:
        await trio.lowlevel.checkpoint()
        runs = ChildRuns(core.children)
        return Parts(tools=[_tool(runs.run, runs.stop, seconds, children), *tools])

    return Feature(name="orders", build=build)


def _tool(
    run: Callable[[ChildRun, ToolContext], Awaitable[Output]],
    stop: Callable[[ToolContext], Awaitable[Output | None]],
    seconds: float,
    children: tuple[str, ...],
) -> Tool:
    async def order(given: Named, context: ToolContext) -> Output:
        names = [name for name in children if name in context.tools]
        wanted = ChildRun(
            prompt=given.name, tools=names, budget=Budget(tokens=100_000), seconds=seconds
        )
        return await run(wanted, context)

    return Tool(
        "order",
        "Start a child run in a separate conversation.",
        Named,
        order,
        risk="read",  # the gate checks each call of the child
        effect="keyed",
        timeout=600.0,
        target=lambda given: given.name,
        stop=stop,
    )
