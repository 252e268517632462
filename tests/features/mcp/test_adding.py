"""Add, accept, leave out and remove servers by commands, in a chat and at the terminal."""

import json
import os
import stat
import sys
from argparse import Namespace
from pathlib import Path

import msgspec
import pytest

from elwood.app.cli import main, make_parser
from elwood.features.mcp import cli
from elwood.features.mcp.adding import NotAddable, Program, find_remedies, parse_block, propose
from elwood.features.mcp.settings import McpServers, read_added
from elwood.features.mcp.store import ServerBook, book_path, find_program
from elwood.foundation.command_line import CliFailure
from elwood.foundation.settings import Config
from tests.app.test_config import load_text
from tests.features.mcp.fake_server import ECHO
from tests.features.mcp.house import SERVER, House, living
from tests.features.mcp.rig import tool
from tests.foundation.sandbox.scene import without_bubblewrap

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")

README = """{"mcpServers": {"File System": {
  "command": "npx", "args": ["-y", "@a/server@latest", "/srv/docs"], "env": {"API_KEY": "k-1"}}}}"""


def given(*words: str) -> Namespace:
    return make_parser(words=("mcp",)).parse_args(["mcp", *words])


async def run(house: House, *words: str) -> str:
    """Send a request of ``elwood mcp`` to the running app."""
    assert house.line.others is not None
    [command] = [one for one in house.line.others.control if one.name == "mcp"]
    return (await command.run(words)).text


async def test_a_server_is_added_accepted_and_removed_while_elwood_runs(tmp_path: Path) -> None:
    async with living(tmp_path) as house:
        said, done = await house.press(f"/mcp add fake {sys.executable} {SERVER}")
        assert "May I add this MCP server and start it?" in said
        assert f"reads and writes {SERVER.parent}" in said
        assert "has no network" in said
        assert done.startswith("Added.")
        await house.until("/mcp", "2 not accepted yet")
        left, done = await house.press("/mcp omit fake do")
        assert "Left out: do." in left
        assert "New: echo\nSays the same." in left
        assert "inputSchema" not in left
        assert "Accepted from your next message on: echo." in done
        assert '"properties"' in await house.ask("/mcp show fake echo")
        assert "May I use the tool echo of fake?" in await house.call("fake__echo", text="a")
        assert "\na\n" in await house.allow("once")
        assert {"fake__echo", "read_prompt", "read_resource"} <= set(house.model.tools)
        assert "fake__do" not in house.model.tools
        assert "New: do" in await house.ask("/mcp accept fake do")
        assert "is removed" in await house.ask("/mcp remove fake")
        assert "no such tool: fake__echo" in await house.call("fake__echo", text="a")
        # The name is free again.
        await house.press(f"/mcp add fake {sys.executable} {SERVER}")
        await house.until("/mcp", "2 not accepted yet")
    # After the next start it is a server like any other.
    assert [*read_added(tmp_path / "state")] == ["fake"]


async def test_the_terminal_asks_the_running_elwood(tmp_path: Path) -> None:
    server = {
        "command": sys.executable,
        "args": [str(SERVER)],
        "secrets": {"KEY": "s3cret-s3cret"},
        "mounts": [*find_program(sys.executable).folders, str(SERVER.parent)],
    }
    async with living(tmp_path) as house:  # commands are not confined
        refused = await run(house, "add", "fake", json.dumps(server))
        assert "Decide in a chat: type /mcp add fake." in refused
    if why := without_bubblewrap():
        pytest.skip(why)
    async with living(tmp_path, sandbox="bubblewrap") as house:
        assert "secrets: KEY" in await run(house, "add", "fake", json.dumps(server))
        assert "already a server fake" in await run(house, "add", "fake", json.dumps(server))
        await house.until("/mcp", "2 not accepted yet")
        shown = await run(house, "accept", "fake")
        assert "In a chat: /mcp accept fake " in shown
        code = shown.split()[-1]
        assert "Accepted from your next message on: do, echo." in await run(
            house, "accept", "fake", code
        )
        assert "fake is off" in await run(house, "disable", "fake")
    file = tmp_path / "state" / "mcp-servers.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_added_servers_are_part_of_the_configuration(tmp_path: Path) -> None:
    def load() -> Config:
        return load_text(tmp_path, f'[paths]\nstate = "{tmp_path}"\nruntime = "{tmp_path}/run"')

    added = given("add", "--mount", "/srv", "--env", "TZ=UTC", "py", "--", sys.executable, "-c", "")
    assert cli.add(load(), added) == 0
    server = load().get(McpServers).by_name["py"]
    assert (server.command, server.args) == (sys.executable, ("-c", ""))
    assert server.mounts[-1] == "/srv"
    assert server.env["TZ"] == "UTC"
    with pytest.raises(CliFailure, match="already a server py"):
        cli.add(load(), added)
    assert cli.remove(load(), given("remove", "py")) == 0
    assert "py" not in load().get(McpServers).by_name
    with pytest.raises(CliFailure, match="no such server"):
        cli.remove(load(), given("remove", "py"))
    (tmp_path / "mcp-servers.json").write_text("{")
    with pytest.raises(CliFailure, match=r"mcp-servers\.json is damaged; restore or delete it"):
        load()


def test_policy_explain_knows_the_accepted_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f'[paths]\nstate = "{tmp_path}"\nruntime = "{tmp_path}/run"\n'
        '[mcp_servers.fake]\ncommand = "fake"\n[policy]\ndeny = ["mcp.fake.*"]\n'
    )
    book = ServerBook(accepted={"echo": tool("echo")})
    book_path(tmp_path, "fake").parent.mkdir()
    book_path(tmp_path, "fake").write_bytes(msgspec.json.encode(book))
    assert main(["--config", str(config), "policy", "explain", "fake__echo"]) == 0
    assert "fake__echo (mcp.fake.echo)\n  Elwood never runs it." in capsys.readouterr().out


def test_a_block_of_a_readme_is_pinned_and_its_secrets_are_kept() -> None:
    [(name, found)] = parse_block(README).items()
    server = propose(
        (found.command, *found.args),
        found.env,
        program=Program("/home/a/n/bin/npx", ("/home/a/n",), "/home/a/n/bin"),
        folders=["/srv/docs"],
        workspace="/w",
        newest=lambda runner, package: {("npx", "@a/server"): "1.2.3"}[runner, package],
    )
    assert name == "file-system"
    assert server.args == ("-y", "@a/server@1.2.3", "/srv/docs")
    assert server.mounts == ("/home/a/n", "/srv/docs:rw")
    assert server.secrets == {"API_KEY": "k-1"}
    assert server.env == {"PATH": "/home/a/n/bin:/usr/bin:/bin", "HOME": "/tmp"}
    assert server.network
    with pytest.raises(NotAddable, match="API_KEY has the placeholder"):
        propose(
            ("python3", "x.py"),
            {"API_KEY": "<your key>"},
            program=Program("/usr/bin/python3"),
            folders=[],
            workspace="/w",
            newest=lambda runner, package: "",
        )


def test_a_program_brings_its_environment_and_its_interpreter(tmp_path: Path) -> None:
    tree, base = tmp_path / "venv", tmp_path / "python"
    for folder in (tree / "bin", tree / "lib", base / "bin", base / "lib"):
        folder.mkdir(parents=True)
    (base / "bin" / "python3").touch(mode=0o755)
    os.symlink(base / "bin" / "python3", tree / "bin" / "python")
    (tree / "pyvenv.cfg").touch()
    script = tree / "bin" / "server"
    script.write_text(f"#!{tree}/bin/python\n")
    script.chmod(0o755)
    assert find_program(str(script)) == Program(str(script), (str(tree), str(base)))
    assert find_program("sh").folders == find_program("/bin/sh").folders == ()
    with pytest.raises(NotAddable, match="there is no program gone-1 on this machine"):
        find_program("gone-1")


def test_a_probe_names_what_the_server_lacks() -> None:
    errors = "Error: ENOENT: no such file, open '/home/a/x.json'\ngetaddrinfo ENOTFOUND a.example\n"
    remedies = find_remedies(
        errors, (), network=False, exists=lambda path: path.startswith("/home")
    )
    assert [*remedies] == [
        "it needs the network: add it again with --network",
        "the sandbox hides /home/a/x.json: add it again with --mount /home/a/x.json",
    ]


def test_a_probe_shows_the_tools_or_the_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = json.dumps({"tools": [{**ECHO, "annotations": {"readOnlyHint": True}}]})
    fail = json.dumps({"start": [["stderr", "no license\n", 1], ["exit", 3]]})
    servers = "".join(
        f'[mcp_servers.{name}]\ncommand = "{sys.executable}"\nsandbox = "none"\n'
        f"args = ['{SERVER}', '{text}']\n"
        for name, text in (("good", plan), ("bad", fail))
    )
    config = load_text(tmp_path, f'[paths]\nstate = "{tmp_path}"\n{servers}')
    assert cli.probe(config, given("probe", "good")) == 0
    assert "- echo: Says the same.\n  It says that it only reads." in capsys.readouterr().out
    with pytest.raises(CliFailure, match=r"(?s)bad did not start.*no license"):
        cli.probe(config, given("probe", "bad"))
