"""How the program ends after a fatal fault."""

import gc
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from elwood.agent.feature import Feature
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.parts import Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.app import serving
from elwood.app.main import FEATURES
from elwood.foundation.command_line import FAILURE, OK
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import Halt, Mailbox
from elwood.foundation.settings import Config, Paths
from tests.line import Line
from tests.model_roles import asking


def make_config(folder: Path) -> Config:
    return Config.from_values(
        Paths(state=folder / "state", workspace=folder / "files", runtime=folder / "run"),
        Providers({"offline": ProviderSettings(api="offline")}),
        asking("offline/rules", "offline/rules"),
        file=folder / "config.toml",
    )


@contextmanager
def restore_collector() -> Iterator[None]:
    """Undo the tuning of the collector, which a service keeps for life; more tests follow."""
    threshold = gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def test_an_escalation_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = make_config(tmp_path)

    async def fail(mailbox: Mailbox[None]) -> None:
        await trio.lowlevel.checkpoint()
        raise Halt("the disk failed")

    async def build(core: Core, others: Gathered) -> Parts:
        return Parts(actors=[Actor(step=6, mailbox=Mailbox[None]("test", 1), body=fail, grace=0.0)])

    async def live() -> int:
        features = [Feature(name="test", build=build)]
        return await serving._run_app(config, Environment(), features)

    with restore_collector():
        assert serving._run_body(config, live) == FAILURE
    assert capsys.readouterr().err.strip().splitlines() == ["elwood: test: Halt: the disk failed"]


def test_a_service_starts_with_any_channel(tmp_path: Path) -> None:
    """Telegram, which has no token here, is only off."""
    line = Line()

    async def leave(core: Core, others: Gathered) -> Parts:
        async def stop(mailbox: Mailbox[None]) -> None:
            await core.up.wait()
            assert set(core.channels.outboxes) == {"console", "line"}
            core.stop.set()
            async for _ in mailbox:
                pass

        return Parts(actors=[Actor(step=6, mailbox=Mailbox[None]("test", 1), body=stop)])

    with restore_collector():
        code = serving.run(make_config(tmp_path), more=(line.feature, Feature("test", leave)))
    assert code == OK


@pytest.mark.parametrize("how", ["they go", "they crash", "SIGTERM", "a bug"])
def test_the_app_waits_for_the_console_to_restore_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    done: list[str] = []
    failing = trio.Event()

    def sit(connection: socket.socket, name: str, commands: dict[str, str]) -> None:
        assert "stop" in commands
        if how == "SIGTERM":
            os.kill(os.getpid(), signal.SIGTERM)
        elif how == "a bug":
            trio.from_thread.run_sync(failing.set)
        with connection, connection.makefile("rb") as lines:
            while not how.startswith("they") and lines.readline():
                pass
        done.append(name)
        assert how != "they crash"

    async def fail(mailbox: Mailbox[None]) -> None:
        await failing.wait()
        raise Halt("the disk failed")

    async def build(core: Core, others: Gathered) -> Parts:
        return Parts(actors=[Actor(step=6, mailbox=Mailbox[None]("test", 1), body=fail, grace=0.0)])

    monkeypatch.setattr(serving, "FEATURES", (*FEATURES, Feature("test", build)))
    with restore_collector():
        code = serving.run_own_app(make_config(tmp_path), "tea", sit)
    assert (code, done) == (FAILURE if how == "a bug" else OK, ["tea"])
