"""The choice of the backend, and its reason."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio

from elwood.foundation.sandbox.command import Command, CommandOutcome, NoSandbox, Rung
from elwood.foundation.sandbox.picking import pick, self_test
from elwood.foundation.sandbox.settings import SandboxSettings
from tests.foundation.sandbox.scene import Home

NO_BWRAP = "no-such-bubblewrap"


def broken_bubblewrap(folder: Path) -> Path:
    program = folder / "broken"
    program.write_text("#!/bin/sh\necho 'No permissions to create namespace' >&2; exit 1\n")
    program.chmod(0o755)
    return program


@pytest.mark.usefixtures("has_bubblewrap")
async def test_the_strongest_backend_is_chosen(home: Home) -> None:
    assert (await pick(SandboxSettings(), home.workspace, home.state)).rung == "bubblewrap"


@pytest.mark.usefixtures("has_landlock")
async def test_a_fallback_is_never_silent(home: Home) -> None:
    settings = SandboxSettings(bubblewrap=NO_BWRAP)
    picked = await pick(settings, home.workspace, home.state)
    assert (picked.rung, picked.failed) == ("landlock", "")
    assert NO_BWRAP in picked.notes[0]
    assert any(".git/hooks" in note for note in picked.notes)


@pytest.mark.usefixtures("has_landlock")
async def test_a_broken_stronger_backend_is_reported(home: Home, tmp_path: Path) -> None:
    settings = SandboxSettings(bubblewrap=str(broken_bubblewrap(tmp_path)))
    picked = await pick(settings, home.workspace, home.state)
    assert picked.rung == "landlock"
    assert "No permissions" in picked.failed


async def test_a_named_backend_is_not_replaced(home: Home) -> None:
    settings = SandboxSettings(kind="bubblewrap", bubblewrap=NO_BWRAP)
    with pytest.raises(NoSandbox, match=NO_BWRAP):
        await pick(settings, home.workspace, home.state)


async def test_no_sandbox_must_be_configured(home: Home) -> None:
    picked = await pick(SandboxSettings(kind="direct"), home.workspace, home.state)
    assert (picked.rung, len(picked.notes)) == ("direct", 1)
    with pytest.raises(NoSandbox, match="turned off"):
        await pick(SandboxSettings(kind="none"), home.workspace, home.state)


@pytest.mark.parametrize(
    ("socket", "image", "why"),
    [
        ("", "", "docker_(socket|image)"),
        ("/nowhere", "", "docker_image"),
        ("/nowhere", "a", "nowhere"),
    ],
)
async def test_docker_must_be_configured(home: Home, socket: str, image: str, why: str) -> None:
    settings = SandboxSettings(kind="docker", docker_socket=socket, docker_image=image)
    with pytest.raises(NoSandbox, match=why):
        await pick(settings, home.workspace, home.state)


async def test_the_order_of_backends_is_a_setting(home: Home) -> None:
    settings = SandboxSettings(order=("docker", "landlock"), docker_socket="/nowhere/s")
    picked = await pick(settings, home.workspace, home.state)
    assert (picked.rung, picked.failed) == ("landlock", picked.notes[0])
    assert picked.failed.startswith("docker: set sandbox.docker_image")
    with pytest.raises(NoSandbox, match="nowhere"):
        await pick(
            SandboxSettings(order=("docker",), docker_socket="/nowhere/s", docker_image="a"),
            home.workspace,
            home.state,
        )


async def test_a_workspace_cannot_contain_the_state(home: Home) -> None:
    with pytest.raises(NoSandbox, match="state folder"):
        await pick(SandboxSettings(kind="direct"), home.workspace, home.workspace / "state")


@attrs.define
class Says:
    """An executor with scripted *outcomes*; the last one repeats.

    Another client connects to the port of the self-test and sends *send* of its nonce.
    """

    outcomes: list[CommandOutcome]
    send: Callable[[str], str] | None = None
    rung: Rung = "direct"

    def map_path(self, path: Path) -> str | None:
        return str(path)

    async def run(self, command: Command) -> CommandOutcome:
        *_, port, nonce = command.argv
        if self.send is not None:
            stream = await trio.open_tcp_stream("127.0.0.1", int(port))
            await stream.send_all(self.send(nonce).encode())
            await stream.aclose()
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (b"reached the state folder\ndone\n", "reached the state folder"),
        (b"", "did not run"),
        (b"sh: not found\n", "did not run"),
        (b"variable A=b\ndone\n", None),
    ],
)
async def test_the_self_test_trusts_its_probe(home: Home, output: bytes, why: str | None) -> None:
    found = await self_test(Says([CommandOutcome(0, output)]), home.state)
    assert found is None if why is None else found is not None and why in found


WELL = CommandOutcome(0, b"done\n")
LATE = CommandOutcome(None, b"")


@pytest.mark.parametrize("send", [lambda nonce: "", lambda nonce: "GET / HTTP/1.0", str.upper])
async def test_other_connections_are_no_escape(home: Home, send: Callable[[str], str]) -> None:
    assert await self_test(Says([WELL], send), home.state) is None


async def test_a_leaked_nonce_is_an_escape(home: Home) -> None:
    found = await self_test(Says([WELL], str), home.state)
    assert found == "the self-test reached the loopback of this machine"


async def test_an_unsandboxed_command_reaches_the_loopback(home: Home) -> None:
    """The control: the probe does send its nonce."""
    picked = await pick(SandboxSettings(kind="direct"), home.workspace, home.state)
    found = await self_test(picked.executor, home.workspace / "none")
    assert found == "the self-test reached the loopback of this machine"


async def test_an_unfinished_self_test_runs_again(home: Home) -> None:
    assert await self_test(Says([LATE, WELL]), home.state) is None
    assert await self_test(Says([CommandOutcome(1, b"no"), WELL]), home.state) is None
    assert "longer than" in (await self_test(Says([LATE, LATE, WELL]), home.state) or "")


async def test_an_escape_is_not_retried(home: Home) -> None:
    reached = CommandOutcome(0, b"reached the home folder\ndone\n")
    late = CommandOutcome(None, b"reached the home folder\n")
    for outcome in (reached, late):
        found = await self_test(Says([outcome, WELL]), home.state)
        assert found == "the self-test reached the home folder"
