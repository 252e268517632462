"""Settings of MCP servers, one table each.  Imports no network and no SDK."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Literal

import attrs
import msgspec

from elwood.agent.policy.settings import Word
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import (
    BadSetting,
    Complaint,
    Config,
    Loaded,
    Paths,
    Report,
    Section,
    Tables,
    at_least,
    between,
    is_url,
    none_or,
    secret,
    secret_table,
    setting,
)

# Each server is an actor, and may be a process.
MAX_SERVERS = 32
# A server's name is the prefix of its tools' names, of which models accept 64 characters.
_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9]){0,23}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
# Programs that download the package they run, and how to pin its version.
FETCHERS = {
    **dict.fromkeys(("npx", "bunx", "pnpx"), re.compile(r".*[^@]@\d+\.\d+\.\d+\S*")),
    **dict.fromkeys(("uvx", "pipx"), re.compile(r".*[^@=](?:==|@)\d[^,*<>~]*")),
}


@attrs.frozen(kw_only=True)
class ToolRule:
    """The owner's rule for one tool; None uses the default."""

    risk: Literal["read", "write", "destructive"] | None = setting(
        None, help="the most that a call can do"
    )
    effect: Literal["pure", "once"] = setting(
        "once", help="pure: the call may be repeated after a crash"
    )
    policy: Word | None = setting(None, help="the same as in [policy]")


@attrs.frozen(kw_only=True)
class ServerSettings:
    """One MCP server: a *command* that runs here, or a *url*."""

    command: str = setting("", help="program of a local server", example='"uvx"')
    args: tuple[str, ...] = setting(
        (), help="its arguments; packages for npx and uvx need an exact version"
    )
    env: Mapping[str, str] = setting(
        {},
        help="its environment variables, in addition to PATH, HOME, LANG and TERM",
        example='{ TZ = "UTC" }',
    )
    secrets: Mapping[str, Secret] = secret_table(
        "mcp-NAME-KEY", help="its environment variables that are secrets"
    )
    url: str = setting("", help="address of a remote server", check=is_url)
    transport: Literal["http", "sse"] = setting(
        "http", help="transport of a url: streamable HTTP, or the older HTTP with SSE (2024)"
    )
    token: Secret | None = secret("mcp-NAME", "NAME_MCP_TOKEN", help="; sent as a bearer token")
    headers: Mapping[str, Secret] = secret_table(
        "mcp-NAME-KEY", help="headers that each request to a url carries"
    )
    auth: Literal["none", "oauth"] = setting(
        "none", help="oauth: log in with `elwood auth mcp NAME`"
    )
    scope: str = setting("", help="for oauth: scopes to request, unless the server names them")
    client_id: str = setting(
        "", help="for oauth: Elwood's client id, if the server requires registration"
    )
    client_secret: Secret | None = secret("mcp-NAME-client", "NAME_MCP_CLIENT_SECRET")
    local: bool = setting(
        False, help="allow a url of this machine or the local network, also with plain HTTP"
    )
    sandbox: Literal["auto", "workspace", "none"] = setting(
        "auto",
        help="where a command runs: auto uses the sandbox for commands; workspace "
        "requires a real sandbox and refuses to start without one; none gives the "
        "server all rights of Elwood",
    )
    network: bool = setting(False, help="allow a command in the sandbox to use the network")
    mounts: tuple[str, ...] = setting(
        (),
        help="folders that a command in the sandbox can read; with `:rw` at the end it "
        "can also write",
        example='["/srv/notes", "/srv/drafts:rw"]',
    )
    memory: int = setting(512, help="maximum megabytes of data of each process", check=at_least(16))
    processes: int = setting(64, help="maximum number of processes and threads", check=at_least(8))
    enabled: bool = setting(True, help="false: Elwood does not start it")
    start: Literal["eager", "on_demand"] = setting(
        "eager", help="on_demand: the first call starts it"
    )
    idle: float = setting(
        900.0,
        help="seconds without a call after which Elwood stops it until the next call; 0: never",
        check=none_or(1, 86_400),
    )
    timeout: float = setting(60.0, help="seconds for a call", check=between(1, 3600))
    start_timeout: float = setting(
        10.0, help="seconds that it may take to start", check=between(1, 600)
    )
    accept: Literal["ask", "first"] = setting(
        "ask",
        help="first: Elwood accepts the tools of the first connection unseen; it always "
        "asks you about new or changed ones",
    )
    private: bool = setting(True, help="its results are your private data")
    untrusted: bool = setting(
        True,
        help="its results may contain strangers' words; false: only if no stranger writes them",
    )
    tools: Mapping[str, ToolRule] = setting(
        {},
        help="rules by the server's name of the tool: `risk` (read, write, "
        "destructive), `effect` (once; pure may be repeated), `policy` (allow, "
        "ask, deny)",
        example='{ search = { risk = "read", effect = "pure" } }',
    )

    @property
    def shown(self) -> dict[str, bool]:
        """The folders of *mounts*, and whether each is writable."""
        return {one.removesuffix(":rw"): one.endswith(":rw") for one in self.mounts}


class AddedServer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A server that was added by a command, as it is stored; other keys need config.toml."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    url: str = ""
    transport: Literal["http", "sse"] = "http"
    headers: dict[str, str] = {}
    auth: Literal["none", "oauth"] = "none"
    local: bool = False
    network: bool = False
    mounts: tuple[str, ...] = ()
    start_timeout: float = 10.0

    @property
    def settings(self) -> ServerSettings:
        given = msgspec.structs.asdict(self)
        for key in ("secrets", "headers"):
            given[key] = {name: Secret(value) for name, value in given[key].items()}
        return ServerSettings(**given)


def added_path(state: Path) -> Path:
    return state / "mcp-servers.json"


def read_added(state: Path) -> dict[str, AddedServer]:
    """Load the servers that were added by a command.

    Blocks.  Raises msgspec.DecodeError if the file is damaged, OSError if it cannot be read.
    """
    try:
        content = added_path(state).read_bytes()
    except FileNotFoundError:
        return {}
    return msgspec.json.decode(content, type=dict[str, AddedServer])


def is_unpinned(command: str, args: tuple[str, ...]) -> bool:
    """Return True if *command* would download an unpinned version of a package.

    >>> is_unpinned("npx", ("-y", "@a/server")), is_unpinned("npx", ("-y", "@a/server@1.2.3"))
    (True, False)
    """
    pinned = FETCHERS.get(command.rsplit("/", 1)[-1])
    return pinned is not None and not any(map(pinned.fullmatch, args))


def _collect(tables: Mapping[str, ServerSettings], config: Config, report: Report) -> "McpServers":
    added: dict[str, AddedServer] = {}
    if Paths in config.values:
        state = config.get(Paths).state
        try:
            added = read_added(state)
        except OSError:
            pass  # whoever needs the state folder reports it
        except msgspec.DecodeError:
            report(("mcp_servers",), f"{added_path(state)} is damaged", "restore or delete it")
    own = {name: one.settings for name, one in added.items() if name not in tables}
    tables = {**tables, **own}
    for number, (name, server) in enumerate(tables.items()):
        where = ("mcp_servers", name)
        if number == MAX_SERVERS:
            report(("mcp_servers",), f"more than {MAX_SERVERS} servers", "remove some")
        if not _NAME.fullmatch(name):
            report(where, "not a valid name", "use at most 24 small letters, digits and -")
        for key, what, remedy in check_server(server):
            report((*where, key), what, remedy)
    return McpServers(tables, frozenset(own))


def check_server(server: ServerSettings) -> Iterator[tuple[str, str, str]]:
    """Check combinations of settings; yield the key, the fault and the remedy."""
    if bool(server.command) == bool(server.url):
        what = "command and url are both set" if server.url else "is missing"
        yield "command", what, "write either a command or a url"
    elif server.command:
        yield from _check_command(server)
    else:
        yield from _check_url(server)


def _check_command(server: ServerSettings) -> Iterator[tuple[str, str, str]]:
    for key in ("token", "headers", "client_id", "client_secret"):
        if getattr(server, key):
            yield key, "is for servers with a url", "remove it; a command has secrets"
    if server.auth != "none":
        yield "auth", "is for servers with a url", "remove it; a command has secrets"
    if any(char.isspace() for char in server.command):
        yield "command", "has a space in it", "move the rest into args"
    if is_unpinned(server.command, server.args):
        what = "no package has an exact version"
        yield "args", what, "pin the package: name@1.2.3 for npx, name==1.2.3 for uvx"
    for key, names in (("env", server.env), ("secrets", server.secrets)):
        for name in names:
            if not _VARIABLE.fullmatch(name):
                yield key, f"{name!r} is not a variable name", "use letters, digits and _"
    for folder in server.shown:
        if not folder.startswith("/") or os.path.normpath(folder) != folder:
            yield "mounts", f"{folder!r} is not an absolute path", "begin the path with /"


def _check_url(server: ServerSettings) -> Iterator[tuple[str, str, str]]:
    for key in ("args", "env", "secrets", "mounts"):
        if getattr(server, key):
            yield key, "is for servers with a command", "remove it"
    for name in server.headers:
        if not _HEADER.fullmatch(name):
            yield "headers", f"{name!r} is not a header name", "use letters, digits and -"
    if not server.local and server.url.startswith("http://"):
        yield "url", "is not encrypted", "write https://, or set local if it is in your network"
    ways = [
        server.token,
        server.auth == "oauth",
        *(n for n in server.headers if n.lower() == "authorization"),
    ]
    if len(list(filter(None, ways))) > 1:
        yield "token", "there are two ways to log in", "remove one"


def _check_mounts(loaded: Loaded) -> Iterator[Complaint]:
    """Report folders that a server must not read or write."""
    if Paths not in loaded.config.values:
        return
    for name, server in loaded.config.get(McpServers).by_name.items():
        for what, remedy in check_mounts(server, loaded.config.get(Paths)):
            yield ("mcp_servers", name, "mounts"), what, remedy


def check_mounts(server: ServerSettings, paths: Paths) -> Iterator[tuple[str, str]]:
    """Yield the fault and the remedy of each folder that *server* must not read or write."""
    state, workspace = (Path(os.path.realpath(one)) for one in (paths.state, paths.workspace))
    for folder, is_written in server.shown.items():
        real = Path(os.path.realpath(folder))
        if real.is_relative_to(workspace):
            if is_written:
                what = f"{folder} is in the workspace, so its files would count as yours"
                yield what, "mount a folder outside of the workspace"
        elif state.is_relative_to(real) or real.is_relative_to(state):
            yield f"Elwood's state folder is in {folder}", "mount a folder without it"


def refuse_added(
    name: str, server: AddedServer, known: Mapping[str, ServerSettings], paths: Paths
) -> str | None:
    """Return why *server* cannot be added to the *known* ones, with the remedy; None if it can."""
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a valid name; use at most 24 small letters, digits and -"
    if name in known:
        return f"there is already a server {name}; remove it first, or choose another name"
    if len(known) >= MAX_SERVERS:
        return f"there are already {MAX_SERVERS} servers; remove one"
    if server.url:
        try:
            is_url(server.url)
        except BadSetting as error:
            return str(error)
    faults = [f"{key} {what}; {remedy}" for key, what, remedy in check_server(server.settings)]
    faults += [f"{what}; {remedy}" for what, remedy in check_mounts(server.settings, paths)]
    return faults[0] if faults else None


@attrs.frozen
class McpServers:
    """The MCP servers, by name."""

    SECTION: ClassVar = Section(
        "mcp_servers",
        "MCP servers, one table each: a local `command` or a `url`. Their tools "
        "are called `NAME__tool`, and each is off until you accept it (`/mcp`). "
        "See docs/guides/mcp.md.",
        verify=_check_mounts,
        tables=Tables(
            item=ServerSettings,
            keyed=True,
            collect=_collect,
            example="""\
#[mcp_servers.time]
#command = "uvx"
#args = ["mcp-server-time==2026.10.1"]
#network = true
#tools.get_current_time = { risk = "read", effect = "pure" }
""",
        ),
    )

    by_name: Mapping[str, ServerSettings] = attrs.field(factory=dict)
    # Names of those that `elwood mcp add` or `/mcp add` added.
    added: frozenset[str] = frozenset()
