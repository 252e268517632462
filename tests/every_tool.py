"""The tools and the slash commands of the whole app."""

import tempfile
from functools import cache
from pathlib import Path

import trio

from elwood.agent.feature import Feature
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.session.extension import SlashCommand
from elwood.agent.tools.tool import Tool
from elwood.app.build import build
from elwood.app.main import ALL
from elwood.foundation.environment import Environment
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config, Paths
from tests.model_roles import asking


def every_tool() -> tuple[Tool, ...]:
    """List the tools in the order in which the model sees them."""
    return _build_app()[0]


def every_slash_command() -> tuple[SlashCommand, ...]:
    """List the slash commands, the built-in ones first."""
    return _build_app()[1]


@cache
def _build_app() -> tuple[tuple[Tool, ...], tuple[SlashCommand, ...]]:
    gathered: list[Gathered] = []

    async def keep(core: Core, others: Gathered) -> Parts:
        await trio.lowlevel.checkpoint()
        gathered.append(others)
        return Parts()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "workspace").mkdir()
        config = Config.from_values(
            Paths(state=folder, workspace=folder / "workspace", runtime=folder / "run"),
            Providers({"offline": ProviderSettings(api="offline")}),
            asking("offline/rules", "offline/rules"),
            SandboxSettings(kind="none"),
        )
        features = (*ALL, Feature(name="reader", build=keep))

        async def read() -> tuple[tuple[Tool, ...], tuple[SlashCommand, ...]]:
            async with build(config, Environment(), features, {}) as app:
                return tuple(app.tools), tuple(gathered[0].commands)

        return trio.run(read)
