"""The keys of [mcp_servers.NAME], and the problems that are reported."""

from pathlib import Path

import pytest

from elwood.app.config.load import load
from elwood.app.config.toml_file import ConfigErrors
from elwood.features.mcp.settings import McpServers, ServerSettings, ToolRule, is_unpinned
from elwood.foundation.secrets.redaction import Secret


def loaded(tmp_path: Path, text: str, **environ: str) -> McpServers:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load(file, {"HOME": str(tmp_path), **environ}).get(McpServers)


def complaints(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        loaded(tmp_path, text)
    return [
        str(problem).replace(f"{tmp_path}/config.toml: ", "") for problem in caught.value.problems
    ]


def test_all_keys_of_a_server_are_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("abc-123")
    (tmp_path / "key").chmod(0o600)
    text = f"""
[mcp_servers.notes]
command = "python3"
args = ["-m", "notes"]
env = {{ TZ = "UTC" }}
secrets = {{ API_KEY = "file:{tmp_path}/key" }}
mounts = ["/srv/a", "/srv/b:rw"]
tools.search = {{ risk = "read", effect = "pure" }}
tools.erase = {{ policy = "deny" }}
[mcp_servers.far]
url = "https://mcp.example.org/mcp"
headers = {{ X-Key = "plain" }}
"""
    servers = loaded(tmp_path, text, FAR_MCP_TOKEN="t-1").by_name
    assert servers["notes"] == ServerSettings(
        command="python3",
        args=("-m", "notes"),
        env={"TZ": "UTC"},
        secrets={"API_KEY": Secret("abc-123")},
        mounts=("/srv/a", "/srv/b:rw"),
        tools={"search": ToolRule(risk="read", effect="pure"), "erase": ToolRule(policy="deny")},
    )
    assert servers["notes"].shown == {"/srv/a": False, "/srv/b": True}
    assert servers["far"].token == Secret("t-1")
    assert servers["far"].headers == {"X-Key": Secret("plain")}


def test_secrets_of_a_table_are_credentials_too_and_redacted(tmp_path: Path) -> None:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "mcp-a-token").write_text("from systemd")
    file = tmp_path / "config.toml"
    file.write_text('[mcp_servers.a]\ncommand = "a"\nsecrets.TOKEN = "in the file"\n')
    environ = {"HOME": str(tmp_path), "CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")}
    config = load(file, environ)
    assert config.get(McpServers).by_name["a"].secrets == {"TOKEN": Secret("from systemd")}
    assert Secret("from systemd") in config.secrets
    # Commands that may not read secrets have none.
    config = load(file, environ, secrets=False)
    assert config.get(McpServers).by_name["a"].secrets == {}


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    text = """
[mcp_servers.My_Server]
command = "npx -y"
[mcp_servers.both]
command = "a"
url = "https://example.org"
[mcp_servers.none]
[mcp_servers.fetched]
command = "npx"
args = ["-y", "@scope/server"]
mounts = ["relative"]
env = { "A B" = "x" }
[mcp_servers.far]
url = "http://example.org/mcp"
args = ["x"]
headers = { "a b" = "secret" }
[mcp_servers.odd]
command = "a"
token = "secret"
env = 3
tools.x = { risk = "harmless" }
tools.y = { rik = "read" }
"""
    assert sorted(complaints(tmp_path, text)) == [
        "mcp_servers.My_Server.command: has a space in it; move the rest into args",
        "mcp_servers.My_Server: not a valid name; use at most 24 small letters, digits and -",
        "mcp_servers.both.command: command and url are both set; write either a command or a url",
        "mcp_servers.far.args: is for servers with a command; remove it",
        "mcp_servers.far.headers: 'a b' is not a header name; use letters, digits and -",
        "mcp_servers.far.url: is not encrypted; write https://, or set local if it is in your "
        "network",
        "mcp_servers.fetched.args: no package has an exact version; pin the package: "
        "name@1.2.3 for npx, name==1.2.3 for uvx",
        "mcp_servers.fetched.env: 'A B' is not a variable name; use letters, digits and _",
        "mcp_servers.fetched.mounts: 'relative' is not an absolute path; begin the path with /",
        "mcp_servers.none.command: is missing; write either a command or a url",
        "mcp_servers.odd.env: expected a table, found the number 3; write { NAME = … }",
        'mcp_servers.odd.tools.x.risk: cannot be the text "harmless"; write one of read, write, '
        "destructive",
        "mcp_servers.odd.tools.y.rik: no such key; did you mean risk?",
    ]


def test_a_folder_with_the_state_in_it_cannot_be_mounted(tmp_path: Path) -> None:
    text = f'paths.state = "{tmp_path}/state"\n[mcp_servers.a]\ncommand = "a"\nmounts = ["%s"]\n'
    for folder in (tmp_path, tmp_path / "state", tmp_path / "state" / "sessions"):
        [said] = complaints(tmp_path, text % folder)
        assert "Elwood's state folder is in" in said
    loaded(tmp_path, text % (tmp_path / "other"))


@pytest.mark.parametrize(
    ("command", "args", "refused"),
    [
        ("npx", "-y server", True),
        ("npx", "-y server@latest", True),
        ("npx", "-y server@^1.2.3", True),
        ("npx", "-y @a/server@2026.8.31 /srv", False),
        ("npx", "--package=@a/b c", True),
        ("uvx", "mcp-server-git==2026.10.1 --repository x", False),
        ("uvx", "mcp-server-git@2026.10.1", False),
        ("uvx", "mcp-server-git>=1", True),
        ("uvx", "--python 3.12 mcp-server-git", True),
        ("uvx", "--from git+https://example.org/x y", True),
        ("pipx", "run mcp-server-time", True),
        ("node", "server.js", False),
        ("/usr/bin/npx", "./local", True),
    ],
)
def test_mcp_32_a_downloaded_package_needs_an_exact_version(
    command: str, args: str, refused: bool
) -> None:
    assert is_unpinned(command, tuple(args.split())) is refused
