"""Which rung is taken, and that it is said why."""

from pathlib import Path

import attrs
import pytest

from elwood.foundation.sandbox.command import Command, CommandOutcome, NoSandbox, Rung
from elwood.foundation.sandbox.picking import pick, self_test
from elwood.foundation.sandbox.settings import SandboxSettings
from tests.foundation.sandbox.scene import Home

NO_BWRAP = "no-such-bubblewrap"


@pytest.mark.usefixtures("has_bubblewrap")
async def test_the_highest_rung_that_holds_is_taken(home: Home) -> None:
    assert (await pick(SandboxSettings(), home.workspace, home.state)).rung == "bubblewrap"


@pytest.mark.usefixtures("has_landlock")
async def test_a_lower_rung_is_never_taken_in_silence(home: Home) -> None:
    settings = SandboxSettings(bubblewrap=NO_BWRAP)
    picked = await pick(settings, home.workspace, home.state)
    assert picked.rung == "landlock"
    assert NO_BWRAP in picked.notes[0]
    assert any(".git/hooks" in note for note in picked.notes)


async def test_what_was_asked_for_by_name_is_not_replaced(home: Home) -> None:
    settings = SandboxSettings(kind="bubblewrap", bubblewrap=NO_BWRAP)
    with pytest.raises(NoSandbox, match=NO_BWRAP):
        await pick(settings, home.workspace, home.state)


async def test_no_sandbox_is_only_had_by_name(home: Home) -> None:
    picked = await pick(SandboxSettings(kind="direct"), home.workspace, home.state)
    assert (picked.rung, len(picked.notes)) == ("direct", 1)
    with pytest.raises(NoSandbox, match="turned off"):
        await pick(SandboxSettings(kind="none"), home.workspace, home.state)


@pytest.mark.parametrize(
    ("socket", "image", "why"),
    [("", "", "docker_socket"), ("/nowhere", "", "docker_image"), ("/nowhere", "a", "nowhere")],
)
async def test_docker_must_be_configured(home: Home, socket: str, image: str, why: str) -> None:
    settings = SandboxSettings(kind="docker", docker_socket=socket, docker_image=image)
    with pytest.raises(NoSandbox, match=why):
        await pick(settings, home.workspace, home.state)


async def test_a_workspace_must_not_hold_the_state(home: Home) -> None:
    with pytest.raises(NoSandbox, match="state folder"):
        await pick(SandboxSettings(kind="direct"), home.workspace, home.workspace / "state")
    with pytest.raises(NoSandbox, match="state folder"):
        await pick(SandboxSettings(kind="direct"), Path("/"), home.state)


async def test_a_bubblewrap_that_fails_is_not_taken(home: Home, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'No permissions to create namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    settings = SandboxSettings(kind="bubblewrap", bubblewrap=str(broken))
    with pytest.raises(NoSandbox, match="No permissions"):
        await pick(settings, home.workspace, home.state)


@attrs.frozen
class Says:
    """An executor whose commands come to *outcome*."""

    outcome: CommandOutcome
    rung: Rung = "direct"

    def place(self, path: Path) -> str | None:
        return str(path)

    async def run(self, command: Command) -> CommandOutcome:
        return self.outcome

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (b"reached the state folder\ndone\n", "reached the state folder"),
        (b"", "did not run"),
        (b"sh: not found\n", "did not run"),
        (b"variable A=b\ndone\n", None),
    ],
)
async def test_the_self_test_believes_its_probe(home: Home, output: bytes, why: str | None) -> None:
    found = await self_test(Says(CommandOutcome(0, output)), home.state)
    assert found is None if why is None else found is not None and why in found
