"""The tools that the model sees of the whole app."""

import tempfile
from functools import cache
from pathlib import Path

import trio

from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.tools.tool import Tool
from elwood.app.build import build
from elwood.app.main import ALL
from elwood.foundation.environment import Environment
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config, Paths
from tests.model_roles import asking


@cache
def every_tool() -> tuple[Tool, ...]:
    """Build the app, and list them in the order in which the model sees them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "workspace").mkdir()
        config = Config.holding(
            Paths(state=folder, workspace=folder / "workspace", runtime=folder / "run"),
            Providers({"offline": ProviderSettings(api="offline")}),
            asking("offline/rules", "offline/rules"),
            SandboxSettings(kind="none"),
        )

        async def tools() -> tuple[Tool, ...]:
            async with build(config, Environment(), ALL, {}) as app:
                return tuple(app.tools)

        return trio.run(tools)
