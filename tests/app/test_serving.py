"""How the program ends when the house cannot go on."""

import gc
from pathlib import Path

import pytest
import trio

from elwood.agent.channels.channel import Body, Channel, Doors
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.models.settings import ModelSettings, Providers, ProviderSettings
from elwood.app import serving
from elwood.app.config.settings import Config
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import Halt, Mailbox
from elwood.foundation.settings import Paths


def test_an_escalation_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config.holding(
        Paths(state=tmp_path / "state", workspace=tmp_path / "files", runtime=tmp_path / "run"),
        Providers({"offline": ProviderSettings(api="offline")}),
        ModelSettings(default="offline/rules", summarizer="offline/rules"),
        file=tmp_path / "config.toml",
    )

    def intake(doors: Doors) -> Body:
        async def body(mailbox: Mailbox[None]) -> None:
            await trio.lowlevel.checkpoint()
            raise Halt("the disk failed")

        return body

    async def outbox(mailbox: Mailbox[OutboxMail]) -> None:
        async for _ in mailbox:
            pass

    channel = Channel(name="test", outbox=outbox, intake=intake, serves=lambda name: True)

    async def live() -> int:
        return await serving._live(config, Environment(), [channel])

    threshold = gc.get_threshold()
    try:
        assert serving._run(config, live) == serving.FAILURE
    finally:  # a service tunes the collector for its whole life; other tests follow here
        gc.set_threshold(*threshold)
        gc.unfreeze()
    assert capsys.readouterr().err.strip().splitlines() == ["house: test: Halt: the disk failed"]
