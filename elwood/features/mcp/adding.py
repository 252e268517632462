"""Propose the settings of a server from its command line, or from the JSON block of its README."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath

import msgspec

from elwood.features.mcp.settings import FETCHERS, AddedServer, is_unpinned

# Seconds to start for a program that downloads a package first.
DOWNLOADS = 120.0
# Servers of one JSON block.
MAX_BLOCK = 10
_SECRET = re.compile(r"(?i)token|secret|passw|key|credential|auth|cookie")
_PLACEHOLDER = re.compile(r"<.*>|\$\{.*\}|(?i:your[-_ ].*|xxx+|\.\.\.)")
# Options of package runners that have a value, and those whose value is the package.
_VALUED, _PACKAGE = {"--python", "--with", "--registry"}, {"--from", "--package", "-p", "--spec"}
# Signs in the error output of a server without network.
_OFFLINE = re.compile(
    r"(?i)ENOTFOUND|EAI_AGAIN|ENETUNREACH|getaddrinfo|name resolution|network is unreachable"
    r"|failed to resolve|dns error"
)
_PATH = re.compile(r"(?<![\w:/.])/(?:[\w.@+-]+/)*[\w.@+-]+")


class NotAddable(ValueError):
    """A server cannot be added so; the text gives the reason and the remedy."""


class Program(msgspec.Struct, frozen=True):
    """A program of this machine: its *path*, and *folders* that it needs in the sandbox."""

    path: str
    folders: tuple[str, ...] = ()
    # Folder with its interpreter, if the program looks for it in PATH.
    interpreter: str = ""


def find_package(command: str, args: Sequence[str]) -> int | None:
    """Return the index in *args* of the package that *command* downloads; None if there is none.

    >>> find_package("npx", ("-y", "@a/b", "/srv")), find_package("python", ("x.py",))
    (1, None)
    """
    if PurePath(command).name not in FETCHERS:
        return None
    skip = False
    for index, word in enumerate(args):
        if skip:
            skip = False
        elif word in _PACKAGE:
            return index + 1 if index + 1 < len(args) else None
        elif word.startswith("-"):
            skip = word in _VALUED
        elif word not in ("run", "dlx", "x"):
            return index
    return None


def pin_package(command: str, package: str, version: str) -> str:
    """Write *package* with its exact *version*.

    >>> pin_package("npx", "@a/b@latest", "1.2.3"), pin_package("uvx", "time", "1.0")
    ('@a/b@1.2.3', 'time==1.0')
    """
    if PurePath(command).name in ("uvx", "pipx"):
        return f"{strip_version(package)}=={version}"
    return f"{strip_version(package)}@{version}"


def strip_version(package: str) -> str:
    """Return the name of *package* alone.

    >>> strip_version("@a/b@latest"), strip_version("time>=1")
    ('@a/b', 'time')
    """
    return re.split(r"(?<=.)@|[=<>~!]", package, maxsplit=1)[0]


def propose(
    words: Sequence[str],
    env: Mapping[str, str],
    *,
    program: Program,
    folders: Sequence[str],
    workspace: str,
    newest: Callable[[str, str], str],
) -> AddedServer:
    """Propose the settings for the command *words*.  Raises NotAddable.

    *folders* are the folders that its arguments name.  *newest* returns the newest version of a
    package, given the runner and its name.
    """
    name, args = PurePath(words[0]).name, list(words[1:])
    if name in ("docker", "podman"):
        raise NotAddable(
            f"{name} cannot start a container in the sandbox; use the server's own program, or set "
            'sandbox = "none" in config.toml'
        )
    downloads = name in FETCHERS
    if is_unpinned(name, tuple(args)):
        place = find_package(name, args)
        if place is None:
            raise NotAddable(f"no package for {name} was found; write it as NAME@1.2.3")
        args[place] = pin_package(name, args[place], newest(name, strip_version(args[place])))
    is_mine = [one for one in folders if PurePath(one).is_relative_to(workspace)]
    path = {"PATH": f"{program.interpreter}:/usr/bin:/bin"} if program.interpreter else {}
    if downloads:  # the home folder is the workspace, where a server cannot write
        path["HOME"] = "/tmp"
    plain, secrets = split_secrets(env)
    return AddedServer(
        command=program.path,
        args=tuple(args),
        env={**path, **plain},
        secrets=secrets,
        network=downloads,
        mounts=(*program.folders, *(one if one in is_mine else f"{one}:rw" for one in folders)),
        start_timeout=DOWNLOADS if downloads else 10.0,
    )


def split_secrets(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split variables into plain ones and secrets, by their names.  Raises NotAddable.

    >>> split_secrets({"TZ": "UTC", "API_KEY": "a"})
    ({'TZ': 'UTC'}, {'API_KEY': 'a'})
    """
    for name, value in given.items():
        if _PLACEHOLDER.fullmatch(value):
            raise NotAddable(f"{name} has the placeholder {value}; put the real value there")
    secrets = {name: value for name, value in given.items() if _SECRET.search(name)}
    return {name: given[name] for name in given if name not in secrets}, secrets


def parse_variables(given: Sequence[str], sign: str) -> dict[str, str]:
    """Parse words like NAME=value.  Raises NotAddable.

    >>> parse_variables(["A=b=c"], "=")
    {'A': 'b=c'}
    """
    parsed = {}
    for word in given:
        name, found, value = word.partition(sign)
        if not found or not name.strip():
            raise NotAddable(f"write it as NAME{sign}value: {name}")
        parsed[name.strip()] = value.strip()
    return parsed


class Described(msgspec.Struct, frozen=True):
    """A server as a JSON block describes it."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    type: str = ""
    headers: dict[str, str] = {}


def parse_block(text: str | bytes) -> dict[str, Described]:
    """Parse the block that READMEs show; with or without the outer ``mcpServers``.

    Raises NotAddable.

    >>> parse_block('{"mcpServers": {"Time": {"command": "uvx", "args": ["a"]}}}')["time"].args
    ('a',)
    """
    try:
        value = json.loads(text)
        for outer in ("mcpServers", "servers", "mcp"):
            if isinstance(value, dict) and isinstance(value.get(outer), dict):
                value = value[outer]
        found = msgspec.convert(value, dict[str, Described], strict=False)
    except (ValueError, RecursionError) as error:
        raise NotAddable(
            f'this is not a block like {{"mcpServers": {{"NAME": {{…}}}}}}: {error}'
        ) from error
    if not found or len(found) > MAX_BLOCK:
        raise NotAddable(f"the block has {len(found)} servers; it may have 1 to {MAX_BLOCK}")
    return {normalize_name(name): one for name, one in found.items()}


def normalize_name(name: str) -> str:
    """Return *name* in the form of a server's name.

    >>> normalize_name("My_Server 2")
    'my-server-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24].strip("-")


def describe_server(name: str, server: AddedServer) -> str:
    """Describe a server, its folders and its network, for the owner."""
    lines = [f"{name}: {server.url or ' '.join((server.command, *server.args))}"]
    for folder in server.mounts:
        does = "reads and writes" if folder.endswith(":rw") else "reads"
        lines.append(f"  {does} {folder.removesuffix(':rw')}")
    if not server.url:
        lines.append(f"  {'has' if server.network else 'has no'} network")
    plain = [one for one in server.env if one not in ("PATH", "HOME")]
    lines += [f"  variables: {', '.join(plain)}"] if plain else []
    secret = [*server.secrets, *server.headers]
    lines += [f"  secrets: {', '.join(secret)}"] if secret else []
    return "\n".join(lines)


def find_remedies(
    errors: str, mounts: Sequence[str], *, network: bool, exists: Callable[[str], bool]
) -> Iterator[str]:
    """Yield remedies for refusals of the sandbox, by the error output of a server.

    *exists* returns True if a path is on this machine and not visible in the sandbox.
    """
    if not network and _OFFLINE.search(errors):
        yield "it needs the network: add it again with --network"
    missing = dict.fromkeys(path for path in _PATH.findall(errors) if exists(path))
    for path in [*missing][:3]:
        if not any(PurePath(path).is_relative_to(one.removesuffix(":rw")) for one in mounts):
            yield f"the sandbox hides {path}: add it again with --mount {path}"
