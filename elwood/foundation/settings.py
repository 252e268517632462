"""Declare settings: a settings class is a table of config.toml.

A field is the only definition of a key: its type, default, help and check.  The parser, the
reference page, the first config.toml and the environment variables are generated from it.
`docs/extending.md` has an example.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import attrs
import msgspec

from elwood.foundation.secrets.redaction import Secret

T = TypeVar("T")
# Path of a value in the configuration: names of tables and keys, and indexes of lists.
Where = tuple[str | int, ...]
# Answers to the questions of `elwood init` by path; a Secret is written to a file.
Answers = dict[Where, object]
# Path, fault and remedy.
Complaint = tuple[Where, str, str]
Report = Callable[[Where, str, str], None]
Check = Callable[[Any], None]
# What the value of a setting refers to: a tool, a tool or a pattern of ids, a channel (before a
# colon), or a logger.  The loader of the configuration knows the existing names.
Kind = Literal["tool", "tool pattern", "channel", "component"]


class BadSetting(ValueError):
    """A value is invalid; *what* is the fault."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


# --- a field --------------------------------------------------------------------------------------


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a field."""

    help: str
    # Raises BadSetting; for a list it is called with each element.
    check: Check | None = None
    # Description of a computed default.
    default: str | None = None
    # TOML for a key without a useful default.
    example: str | None = None
    # Name of a secret's systemd credential.  NAME means the table's name (in *variables* too);
    # KEY means the key in a table of secrets, in lower case.
    credential: str = ""
    # Environment variables of a secret; the first that is set is used.
    variables: tuple[str, ...] = ()
    # The kind of name that the value must be.
    names: Kind | None = None
    # True if the keys of a table are those names.
    named_by_key: bool = False


def setting(
    value: T,
    *,
    help: str,
    check: Check | None = None,
    default: str | None = None,
    example: str | None = None,
    converter: Callable[[Any], T] | None = None,
    names: Kind | None = None,
    named_by_key: bool = False,
) -> T:
    """Create a field of a settings class with the default *value*."""
    key = Key(
        help=help,
        check=check,
        default=default,
        example=example,
        names=names,
        named_by_key=named_by_key,
    )
    made: T = attrs.field(default=value, converter=converter, metadata={Key: key})
    return made


def required(
    *, help: str, check: Check | None = None, default: str | None = None, example: str | None = None
) -> Any:
    """Create a field without a fixed default; *default* describes how its section computes one."""
    key = Key(help=help, check=check, default=default, example=example)
    return attrs.field(metadata={Key: key})


def secret(
    credential: str, *variables: str, help: str = "", example: str | None = None
) -> Secret | None:
    """Create a field for a secret, which `secrets.store.look_up` finds."""
    where = "the secret, or `file:` and an absolute path; the safest place is the credential"
    key = Key(
        help=f"{where} `{credential}`{help}",
        default=f"credential `{credential}`; else {' or '.join(f'`${one}`' for one in variables)}",
        example=example,
        credential=credential,
        variables=variables,
    )
    made: Secret | None = attrs.field(default=None, metadata={Key: key})
    return made


def secret_table(credential: str, *, help: str) -> Mapping[str, Secret]:
    """Create a field for a table of secrets, which `secrets.store.look_up` finds."""
    key = Key(help=f"{help}; also the credential `{credential}`", credential=credential)
    made: Mapping[str, Secret] = attrs.field(default={}, metadata={Key: key})
    return made


def yield_fields(kind: type) -> Iterator[tuple["attrs.Attribute[Any]", Key]]:
    """Yield the fields of a settings class, each with its metadata."""
    for field in attrs.fields(kind):
        yield field, field.metadata[Key]


# --- a section ------------------------------------------------------------------------------------


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """Marks a section that has many tables of one class."""

    # Settings class of each table.
    item: type
    # True for ``[name.KEY]``, False for ``[[name]]``.
    keyed: bool
    # TOML for the first config.toml.
    example: str
    # Builds the section's value from the valid items, by key or index, and the sections before it;
    # reports faults that concern several items.
    collect: Callable[[Mapping[Any, Any], "Config", Report], object]
    # Tables that always exist; the file adds to them.
    built_in: Mapping[str, Mapping[str, object]] = {}


@attrs.frozen
class Section:
    """A table of config.toml."""

    name: str
    # Description for the operator.
    about: str
    # Advice after a first installation.
    advice: str = attrs.field(default="", kw_only=True)
    tables: Tables | None = attrs.field(default=None, kw_only=True)
    # Returns the values that depend on the file, the environment and the home folder.
    computed: Callable[[Mapping[str, object], Mapping[str, str], Path], Mapping[str, object]] = (
        attrs.field(default=lambda written, environ, home: {}, kw_only=True)
    )
    # Yields conflicts with other sections.
    verify: Callable[["Loaded"], Iterator[Complaint]] = attrs.field(
        default=lambda loaded: iter(()), kw_only=True
    )


class Settings(Protocol):
    """A frozen attrs class with fields from `setting`, `required` and `secret`."""

    SECTION: ClassVar[Section]


# --- the whole ------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Config:
    """The operator's configuration."""

    # One value per settings class.
    values: Mapping[type, object]
    file: Path
    # Names of the secrets that the file contains in plain text.
    inline: tuple[str, ...] = ()
    # Pairs of doubt and remedy; they never prevent a start.
    warnings: tuple[tuple[str, str], ...] = ()
    # Reserved ids of Elwood's built-in tasks, enabled or not; no configured task may use them.
    chores: frozenset[str] = frozenset()

    @classmethod
    def from_values(cls, *values: object, file: Path = Path("config.toml")) -> Self:
        """Create a configuration of *values*, with defaults for all other sections."""
        return cls(values={type(value): value for value in values}, file=file)

    def get(self, kind: type[T]) -> T:
        value = self.values.get(kind)
        if value is None:
            return kind()
        assert isinstance(value, kind)
        return value

    def replace(self, *values: object) -> Self:
        """Return a copy in which *values* replace the values of their classes."""
        return attrs.evolve(self, values={**self.values, **{type(v): v for v in values}})

    @cached_property
    def secrets(self) -> tuple[Secret, ...]:
        return tuple(secret for value in self.values.values() for secret in _secrets(value))


def _secrets(value: object) -> Iterator[Secret]:
    match value:
        case Secret():
            yield value
        case Mapping():
            for inner in value.values():
                yield from _secrets(inner)
        case tuple():
            for inner in value:
                yield from _secrets(inner)
        case _:
            for field in getattr(type(value), "__attrs_attrs__", ()):
                yield from _secrets(getattr(value, field.name))


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Input of `Section.verify`."""

    # Invalid values are replaced by defaults.
    config: Config
    # All valid values, also those of invalid tables.
    values: tuple[tuple[Where, Key, object], ...]
    # Keys of the tables of each section.
    names: Mapping[str, tuple[str, ...]]


def _find_files(loaded: Loaded) -> Iterator[Complaint]:
    """Find files where folders should be.  Blocks."""
    paths = loaded.config.values.get(Paths)
    for name, path in attrs.asdict(paths).items() if isinstance(paths, Paths) else ():
        if os.path.exists(path) and not os.path.isdir(path):
            yield ("paths", name), f"{path} is a file", "write the path of a folder"


@attrs.frozen(kw_only=True)
class Paths:
    SECTION: ClassVar = Section(
        "paths",
        "Folders: absolute paths, or paths that begin with `~`.",
        verify=_find_files,
        computed=lambda written, environ, home: default_paths(written, environ, home),
    )

    state: Path = required(
        help="folder of Elwood's state: conversations, memory, tasks and records",
        default="`$STATE_DIRECTORY`, else `~/.local/state/elwood`",
        example='"~/.local/state/elwood"',
    )
    workspace: Path = required(
        help="folder of the files that Elwood works with",
        default="`workspace` in paths.state",
        example='"~/elwood"',
    )
    runtime: Path = required(
        help="folder of the control socket",
        default="`$RUNTIME_DIRECTORY`, else `$XDG_RUNTIME_DIR/elwood`, else `run` in paths.state",
        example='"/run/elwood"',
    )


def default_paths(
    written: Mapping[str, object], environ: Mapping[str, str], home: Path
) -> dict[str, object]:
    """Return the default folders; *written* is the table of the configuration."""
    # systemd separates several folders with colons (systemd.exec(5)); ours is the first.
    of_systemd = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    state = of_systemd or f"{home}/.local/state/elwood"
    given = written.get("state")
    if isinstance(given, str) and given.startswith(("/", "~/")):
        state = from_home(given, home).rstrip("/")
    session = environ.get("XDG_RUNTIME_DIR")
    runtime = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or (
        f"{session}/elwood" if session else f"{state}/run"
    )
    return {"state": state, "workspace": f"{state}/workspace", "runtime": runtime}


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a remedy with the name in *known* closest to *name*, or ""."""
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else ""


def from_home(text: str, home: Path) -> str:
    """Replace a leading ``~`` with *home*."""
    return str(home / text[2:]) if text == "~" or text.startswith("~/") else str(text)


# --- checks ---------------------------------------------------------------------------------------


def at_least(least: float) -> Check:
    """Return a check for numbers that are at least *least*."""

    def check(value: float) -> None:
        if not value >= least:  # nan is not
            raise BadSetting(f"{value:g} is too small", f"the minimum is {least:g}")

    return check


def between(least: float, most: float) -> Check:
    def check(value: float) -> None:
        if not least <= value <= most:
            raise BadSetting(f"{value:g} is out of range", f"it must be from {least:g} to {most:g}")

    return check


def none_or(least: float, most: float) -> Check:
    """Return a check for numbers from *least* to *most*, or 0 for none."""
    inner = between(least, most)
    return lambda value: None if value == 0 else inner(value)


def is_chat(chat: int | str) -> None:
    """Check for a chat such as ``telegram:123``; a number alone means Telegram."""
    if isinstance(chat, str) and not all(chat.partition(":")):
        raise BadSetting(f"{chat!r} is not a chat", "write telegram:123456789")


def is_timezone(name: str) -> None:
    """Check for a name of the IANA time zone database."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        remedy = "write a name like Europe/Berlin"
        raise BadSetting(f"there is no time zone {name!r}", remedy) from None


def is_url(text: str) -> None:
    """Check for a base URL to which paths are added."""
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna")  # raises if a label is too long
        sound = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        remedy = "write an address like https://api.example.org/v1"
        raise BadSetting("not an http or https address", remedy)
    if parts.username is not None or parts.password is not None:
        raise BadSetting(
            "the address contains a user name or password", "write the key in the setting key"
        )
    if parts.query or parts.fragment:
        raise BadSetting("the address has a ? or # part", "remove it")


def is_port(port: int) -> None:
    if not 1 <= port <= 65_535:
        raise BadSetting(f"{port} is not a port number", "it must be from 1 to 65535")
