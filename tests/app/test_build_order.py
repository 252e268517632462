"""The order of FEATURES only affects the order of lists."""

from collections.abc import Callable, Sequence
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest
import trio

from elwood.agent.conversation.labels import CLEAN
from elwood.agent.conversation.route import NOWHERE
from elwood.agent.feature import Feature
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.parts import Gathered, Parts, ReadTooEarly
from elwood.agent.policy.decide import Ask, Decision, Rules, Situation, decide
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import ToolContext
from elwood.app.build import App, build
from elwood.app.main import ALL, FEATURES
from elwood.features.skills.settings import SkillSettings
from elwood.features.telegram.settings import TelegramSettings
from elwood.features.web.tools import WebRequest
from elwood.foundation.environment import Environment
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Config, Paths
from tests.example_feature import FEATURE as parcels
from tests.model_roles import asking

Order = Callable[[Sequence[Feature]], Sequence[Feature]]


def web_first(features: Sequence[Feature]) -> Sequence[Feature]:
    return sorted(features, key=lambda one: one.name != "web")


ORDERS: dict[str, Order] = {
    "as listed": lambda features: features,
    "reversed": lambda features: features[::-1],
    "rotated": lambda features: (*features[7:], *features[:7]),
    "web first": web_first,
}


def make_config(folder: Path) -> Config:
    """Configure all features, with the direct sandbox and a host for requests."""
    for name in ("workspace", "skills"):
        (folder / name).mkdir(parents=True)
    return Config.from_values(
        Paths(state=folder, workspace=folder / "workspace", runtime=folder / "run"),
        Providers({"offline": ProviderSettings(api="offline")}),
        asking("offline/rules", "offline/rules"),
        SandboxSettings(kind="direct"),
        SkillSettings(folders=(folder / "skills",)),
        EgressRules(allowed=("a.example",)),
        TelegramSettings(token=Secret("1:" + "a" * 20), owners=(7,)),
        file=folder / "config.toml",
    )


class Built:
    """The parts that features return; one feature reads *lent* during the build."""

    def __init__(self) -> None:
        self.parts: list[Parts] = []
        self.lent: list[Path] = []

    def recorded(self, feature: Feature) -> Feature:
        async def build_(core: Core, others: Gathered) -> Parts:
            parts: Parts = await feature.build(core, others)
            self.parts.append(parts)
            return parts

        return feature._replace(build=build_)

    async def watch(self, core: Core, others: Gathered) -> Parts:
        await trio.lowlevel.checkpoint()
        self.lent = [one.root.path for one in others.lent]
        return Parts()

    async def described(self, app: App) -> dict[str, list[Any]]:
        """Describe the built app, without the order of the parts."""
        parts = self.parts
        return {
            "lent": sorted(self.lent),
            "tools": sorted((one.name, one.description) for one in app.tools),
            "actors": sorted((one.step, one.mailbox.name) for one in app.actors),
            "outboxes": sorted(app.core.channels.outboxes),
            "commands": sorted((one.name, one.help) for made in parts for one in made.commands),
            "chores": sorted(one.id for made in parts for one in made.chores),
            "control": sorted(one.name for made in parts for one in made.control),
            "searches": sorted(one.name for made in parts for one in made.searches),
            "prompt": sorted([await one.text(4_000) for made in parts for one in made.prompt]),
            # Not their texts: some ask an actor, and none runs here.
            "status": sorted(len(made.status) for made in parts),
        }


async def decision_on_a_request(app: App) -> Decision:
    """Return the gate's decision about a POST to an allowed host."""
    [tool] = [one for one in app.tools if one.name == "web_request"]
    context = ToolContext(session="s", route=NOWHERE, now=0.0)
    assert tool.plan is not None
    plan = await tool.plan(WebRequest("POST", "https://a.example/x"), context)
    return decide(tool.name, plan.action, Situation(label=CLEAN, principal="owner"), Rules())


async def build_and_describe(folder: Path, order: Order) -> tuple[Decision, str]:
    """Build the app in *order*; return the decision, and a description of the parts."""
    made = Built()
    features = order((Feature("watcher", made.watch), *map(made.recorded, (*ALL, parcels))))
    async with build(make_config(folder), Environment(), features, {}) as app:
        found = await made.described(app)
        return await decision_on_a_request(app), pformat(found).replace(str(folder), "")


@pytest.mark.parametrize("order", list(ORDERS)[1:])
async def test_the_order_of_features_has_no_effect(tmp_path: Path, order: str) -> None:
    decision, found = await build_and_describe(tmp_path / "other", ORDERS[order])
    assert isinstance(decision, Ask)
    assert (decision, found) == await build_and_describe(tmp_path / "usual", ORDERS["as listed"])


async def test_tools_are_listed_in_the_order_of_features(tmp_path: Path) -> None:
    declared = [name for one in FEATURES for name in one.tools]
    async with build(make_config(tmp_path), Environment(), ALL, {}) as app:
        listed = [one.name for one in app.tools]
    assert [name for name in listed if name in declared] == [
        name for name in declared if name in listed
    ]


READS: dict[str, Callable[[Gathered], object]] = {
    "chores": lambda others: list(others.chores),
    "tools": lambda others: len(others.tools),
    "searches": lambda others: others.searches[0],
    "control": lambda others: bool(others.control),
    "commands": lambda others: {one.name: one for one in others.commands},
    "sandbox": lambda others: others.sandbox,
    "confined": lambda others: others.confined,
    "place": lambda others: others.map_path(Path("/")),
}


@pytest.mark.parametrize("kind", READS)
async def test_reading_parts_too_early_is_a_bug(tmp_path: Path, kind: str) -> None:
    async def hasty(core: Core, others: Gathered) -> Parts:
        await trio.lowlevel.checkpoint()
        READS[kind](others)
        return Parts()

    features = (*ALL, Feature("hasty", hasty))  # also for the last feature
    with pytest.raises(ReadTooEarly, match="hasty"):
        async with build(make_config(tmp_path), Environment(), features, {}):
            pass


async def test_two_sandboxes_are_an_error_in_any_order(tmp_path: Path) -> None:
    async def second(core: Core, others: Gathered) -> Parts:
        await trio.lowlevel.checkpoint()
        return Parts(sandbox=NoSandbox("there is another"))

    features = (*ALL, Feature("second", second))
    with pytest.raises(ValueError, match="only one may bring: sandbox"):
        async with build(make_config(tmp_path), Environment(), features, {}):
            pass
