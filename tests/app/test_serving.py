"""How the program ends when Elwood cannot go on."""

import gc
from pathlib import Path

import pytest
import trio

from elwood.agent.feature import Feature
from elwood.agent.models.settings import ModelSettings, Providers, ProviderSettings
from elwood.agent.parts import Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.app import serving
from elwood.foundation.command_line import FAILURE
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import Halt, Mailbox
from elwood.foundation.settings import Config, Paths


def test_an_escalation_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config.holding(
        Paths(state=tmp_path / "state", workspace=tmp_path / "files", runtime=tmp_path / "run"),
        Providers({"offline": ProviderSettings(api="offline")}),
        ModelSettings(default="offline/rules", summarizer="offline/rules"),
        file=tmp_path / "config.toml",
    )

    async def fail(mailbox: Mailbox[None]) -> None:
        await trio.lowlevel.checkpoint()
        raise Halt("the disk failed")

    async def build(core: Core, others: Gathered) -> Parts:
        return Parts(actors=[Actor(step=5, mailbox=Mailbox[None]("test", 1), body=fail)])

    async def live() -> int:
        features = [Feature(name="test", build=build)]
        return await serving._live(config, Environment(), features)

    threshold = gc.get_threshold()
    try:
        assert serving._run(config, live) == FAILURE
    finally:  # a service tunes the collector for its whole life; other tests follow here
        gc.set_threshold(*threshold)
        gc.unfreeze()
    assert capsys.readouterr().err.strip().splitlines() == ["elwood: test: Halt: the disk failed"]
