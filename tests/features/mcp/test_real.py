"""Real servers, each in a whole turn, in the sandbox: ``--mcp-real FOLDER`` installs them there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from elwood.features.mcp.settings import ServerSettings
from tests.fake_http import Reply, Request, serving, whole
from tests.features.mcp.house import FREE, House, living
from tests.foundation.sandbox.scene import without_bubblewrap

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")

PYTHON = ("mcp-server-time", "mcp-server-fetch", "mcp-server-git")
SCOPE = "@modelcontextprotocol"
NODE = ("node@22", *(f"{SCOPE}/server-{n}" for n in ("everything", "filesystem", "memory")))


@pytest.fixture(scope="module")
def installed(pytestconfig: pytest.Config) -> Path:
    """Install the servers, unless they are installed; skip without a registry."""
    given = pytestconfig.getoption("--mcp-real")
    if given is None:
        pytest.skip("REAL MCP SERVERS NOT TESTED: say --mcp-real FOLDER")
    if why := without_bubblewrap():
        pytest.skip(f"REAL MCP SERVERS NOT TESTED: {why}")
    folder = Path(given).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "py" / "bin" / PYTHON[0]).exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "py"], check=True)
        pip = [str(folder / "py" / "bin" / "pip"), "install", "-q", *PYTHON]
        if subprocess.run(pip, check=False).returncode:
            pytest.skip("REAL MCP SERVERS NOT TESTED: no registry of Python packages is reached")
    if not (folder / "node_modules" / SCOPE).exists():
        npm = shutil.which("npm")
        if (
            npm is None
            or subprocess.run(
                [npm, "install", "--silent", "--no-audit", *NODE], cwd=folder, check=False
            ).returncode
        ):
            pytest.skip("REAL MCP SERVERS NOT TESTED: no npm, or its registry is not reached")
    return folder


def python(folder: Path, name: str, *args: str, **more: Any) -> ServerSettings:
    program = str(folder / "py" / "bin" / name)
    return server(folder, program, *args, **more)


def node(folder: Path, name: str, *args: str, **more: Any) -> ServerSettings:
    program = str(folder / "node_modules" / "node" / "bin" / "node")
    script = folder / "node_modules" / SCOPE / f"server-{name}" / "dist" / "index.js"
    return server(folder, program, str(script), *args, **more)


def server(folder: Path, program: str, *args: str, **more: Any) -> ServerSettings:
    # The links of a virtual environment lead to the folder of its Python.
    shown = {*more.pop("mounts", (str(folder),)), str(folder), sys.base_prefix} - {"/usr"}
    shown -= {one.removesuffix(":rw") for one in shown if one.endswith(":rw")}
    given: dict[str, Any] = {"start_timeout": 60.0, "accept": "first", "private": False, **more}
    return ServerSettings(
        command=program, args=args, mounts=tuple(sorted(shown)), sandbox="workspace", **given
    )


async def one_turn(
    tmp_path: Path, made: ServerSettings, tool: str, **arguments: object
) -> tuple[str, str]:
    """Start a server and call *tool*; return its state and the result."""
    made = attrs.evolve(made, tools={tool: FREE})
    async with living(tmp_path, sandbox="bubblewrap", real=made) as house:
        state = await ready(house)
        return state, await house.call(f"real__{tool}", **arguments)


async def ready(house: House) -> str:
    while True:
        said = await house.ask("/mcp show real")
        if ": ready;" in said:
            return said
        assert "not retrying" not in said, said


async def test_time(tmp_path: Path, installed: Path) -> None:
    made = python(installed, "mcp-server-time", "--local-timezone=UTC")
    state, said = await one_turn(tmp_path, made, "get_current_time", timezone="Europe/Berlin")
    assert "Europe/Berlin" in said
    assert "modern" in state


async def test_fetch(tmp_path: Path, installed: Path) -> None:
    async def page(request: Request) -> Reply:
        if request.path == "/robots.txt":
            return whole(404, b"", "text/plain")
        return whole(
            200, b"<html><body><h1>Harbour</h1><p>blue boats</p></body></html>", "text/html"
        )

    async with serving(page) as url:
        # Its first call installs its dependencies, next to itself.
        write = (f"{installed}:rw",)
        made = python(
            installed, "mcp-server-fetch", "--allow-private-ips", network=True, mounts=write
        )
        state, said = await one_turn(tmp_path, made, "fetch", url=f"{url}/page")
    assert "blue boats" in said
    assert "tools" in state


async def test_git(tmp_path: Path, installed: Path) -> None:
    folder = tmp_path / "state" / "workspace" / "code"
    folder.mkdir(parents=True)
    mail = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), (*mail, "commit", "-q", "--allow-empty", "-m", "blue boats")):
        environment = {"PATH": os.environ["PATH"]}
        await trio.run_process(["git", *words], cwd=folder, env=environment)
    made = python(installed, "mcp-server-git")
    _, said = await one_turn(tmp_path, made, "git_log", repo_path="/workspace/code")
    assert "blue boats" in said


async def test_everything(tmp_path: Path, installed: Path) -> None:
    made = node(installed, "everything", "stdio")
    state, said = await one_turn(tmp_path, made, "echo", message="blue boats")
    assert "Echo: blue boats" in said
    assert "legacy" in state


async def test_filesystem(tmp_path: Path, installed: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("blue boats")
    shown = str(tmp_path / "notes")
    made = node(installed, "filesystem", shown, mounts=(shown,))
    _, said = await one_turn(tmp_path, made, "read_text_file", path=f"{shown}/a.txt")
    assert "blue boats" in said


async def test_memory(tmp_path: Path, installed: Path) -> None:
    made = node(installed, "memory", env={"MEMORY_FILE_PATH": "/workspace/graph.json"})
    boat = {"name": "boat", "entityType": "thing", "observations": ["it is blue"]}
    _, said = await one_turn(tmp_path, made, "create_entities", entities=[boat])
    assert "it is blue" in said
    assert "it is blue" in (tmp_path / "state" / "workspace" / "graph.json").read_text()
