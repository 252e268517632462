"""How a folder says what the operator can set: a class of settings is a table of config.toml.

Key, type, default, help and check of a value stand on its field, and nowhere else: reading, the
reference page, the first config.toml and the variables of the environment are made from them.
`docs/extending.md` has an example.
"""

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
# Where a value stands in the configuration: names of tables and keys, and indexes of lists.
Where = tuple[str | int, ...]
# What `elwood init` was answered, by where it is to stand; a Secret is written to a file.
Answers = dict[Where, object]
# What is wrong where, and the remedy.
Complaint = tuple[Where, str, str]
Report = Callable[[Where, str, str], None]
Check = Callable[[Any], None]
# What the value of a setting can name: a tool, a tool or a pattern of ids, a channel (before a
# colon), or who logs.  Whoever reads the configuration knows which there are.
Kind = Literal["tool", "tool pattern", "channel", "component"]


class BadSetting(ValueError):
    """A value is not what its key wants: *what* is wrong, and the *remedy*."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


# --- a field --------------------------------------------------------------------------------------


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What a field means to the operator.

    *check* raises BadSetting; in a list it is given each element.  *default* describes one that is
    computed; *example* is TOML for keys without a default worth showing.  A secret is the
    *credential* of that name, or comes from the first of *variables* that is set; in all of them
    NAME is that of its table.  In a table of secrets KEY is that of each, in small letters.
    *names* is the kind of thing that the value must be the name of; *named_by_key* if the keys of
    a table are the names.
    """

    help: str
    check: Check | None = None
    default: str | None = None
    example: str | None = None
    credential: str = ""
    variables: tuple[str, ...] = ()
    names: Kind | None = None
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
    """Make a field of a class of settings; *value* is what holds unless something is written."""
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
    """Make a field that has no value of its own; *default* tells how its section computes it."""
    key = Key(help=help, check=check, default=default, example=example)
    return attrs.field(metadata={Key: key})


def secret(
    credential: str, *variables: str, help: str = "", example: str | None = None
) -> Secret | None:
    """Make a field for a secret, which is looked for where secrets are kept."""
    where = "the secret itself, or `file:` and an absolute path; better is the credential"
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
    """Make a field for a table of secrets; each is looked for where secrets are kept."""
    key = Key(help=f"{help}; also the credential `{credential}`", credential=credential)
    made: Mapping[str, Secret] = attrs.field(default={}, metadata={Key: key})
    return made


def keys(kind: type) -> Iterator[tuple["attrs.Attribute[Any]", Key]]:
    """List the fields of a class of settings, each with what it means."""
    for field in attrs.fields(kind):
        yield field, field.metadata[Key]


# --- a section ------------------------------------------------------------------------------------


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """That a section is many tables, each an *item*: ``[name.KEY]`` if *keyed*, else ``[[name]]``.

    *collect* makes the section's value: of the items that are sound, by key or by index, and of
    the sections before it; it reports what is wrong with them together.  *example* is TOML for
    the first file; *built_in* are tables that exist unwritten, and to which what is written adds.
    """

    item: type
    keyed: bool
    example: str
    collect: Callable[[Mapping[Any, Any], "Config", Report], object]
    built_in: Mapping[str, Mapping[str, object]] = {}


@attrs.frozen
class Section:
    """A table of config.toml: its *name*, and what it is *about* for the operator.

    *advice* is what somebody who has just installed it should know.
    *computed* gives the values that depend on what is written, the environment and the home
    folder; *verify* says what does not go together with other sections.
    """

    name: str
    about: str
    advice: str = attrs.field(default="", kw_only=True)
    tables: Tables | None = attrs.field(default=None, kw_only=True)
    computed: Callable[[Mapping[str, object], Mapping[str, str], Path], Mapping[str, object]] = (
        attrs.field(default=lambda written, environ, home: {}, kw_only=True)
    )
    verify: Callable[["Loaded"], Iterator[Complaint]] = attrs.field(
        default=lambda loaded: iter(()), kw_only=True
    )


class Settings(Protocol):
    """A frozen attrs class; its fields are made by `setting`, `required` and `secret`."""

    SECTION: ClassVar[Section]


# --- the whole ------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Config:
    """What the operator has decided: a value of each class of settings.

    *file* is where it stands; *inline* names the secrets in clear in it.  *warnings* are doubts
    about it, each with its remedy; they keep nothing from starting.  *chores* are the ids of what
    Elwood does by itself, also of what is off; no task in it may have them.
    """

    values: Mapping[type, object]
    file: Path
    inline: tuple[str, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    chores: frozenset[str] = frozenset()

    @classmethod
    def holding(cls, *values: object, file: Path = Path("config.toml")) -> Self:
        """Make a configuration of *values*; for all else the defaults hold."""
        return cls(values={type(value): value for value in values}, file=file)

    def of(self, kind: type[T]) -> T:
        value = self.values.get(kind)
        if value is None:
            return kind()
        assert isinstance(value, kind)
        return value

    def having(self, *values: object) -> Self:
        """Give the same configuration with *values* in the place of those of their classes."""
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
    """What `Section.verify` looks at: *config* has the defaults for what was wrong.

    *values* are all that are sound by themselves, with their keys, also of wrong tables; *names*
    are the keys of the tables of a section.
    """

    config: Config
    values: tuple[tuple[Where, Key, object], ...]
    names: Mapping[str, tuple[str, ...]]


@attrs.frozen(kw_only=True)
class Paths:
    SECTION: ClassVar = Section(
        "paths",
        "Folders, absolute or from `~` on.",
        computed=lambda written, environ, home: default_paths(written, environ, home),
    )

    state: Path = required(
        help="folder of everything Elwood remembers",
        default="`$STATE_DIRECTORY`, else `~/.local/state/elwood`",
        example='"~/.local/state/elwood"',
    )
    workspace: Path = required(
        help="folder of the documents and files that Elwood works with",
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
    """Say where things are kept unless the configuration says so; *written* is what it says."""
    # systemd lists several folders with colons (systemd.exec(5)); ours is the first.
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
    """Return a remedy that names the one of *known* that is most like *name*; "" if none is."""
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else ""


def from_home(text: str, home: Path) -> str:
    """Put *home* in the place of a ``~`` at the beginning."""
    return str(home / text[2:]) if text == "~" or text.startswith("~/") else str(text)


# --- checks ---------------------------------------------------------------------------------------


def at_least(least: float) -> Check:
    """Make a check for numbers that must not be smaller than *least*."""

    def check(value: float) -> None:
        if not value >= least:  # nan is not
            raise BadSetting(f"{value:g} is too small", f"the least is {least:g}")

    return check


def between(least: float, most: float) -> Check:
    def check(value: float) -> None:
        if not least <= value <= most:
            raise BadSetting(f"{value:g} is out of range", f"it must be from {least:g} to {most:g}")

    return check


def none_or(least: float, most: float) -> Check:
    """Make a check for numbers from *least* to *most*, or 0, which means none."""
    inner = between(least, most)
    return lambda value: None if value == 0 else inner(value)


def is_chat(chat: int | str) -> None:
    """Check for a chat, such as ``telegram:123``; a number alone is one of Telegram."""
    if isinstance(chat, str) and not all(chat.partition(":")):
        raise BadSetting(f"{chat!r} is no chat", "write telegram:123456789")


def is_timezone(name: str) -> None:
    """Check for a name of the IANA time zone database."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        remedy = "write a name like Europe/Berlin"
        raise BadSetting(f"there is no time zone {name!r}", remedy) from None


def is_url(text: str) -> None:
    """Check for the beginning of an address to which paths are added."""
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna")  # or a part of the name is too long
        sound = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        remedy = "write an address like https://api.example.org/v1"
        raise BadSetting("not an http or https address", remedy)
    if parts.username is not None or parts.password is not None:
        raise BadSetting("the address holds a user name or password", "give the key as key")
    if parts.query or parts.fragment:
        raise BadSetting("the address has a ? or # part", "take it away")


def is_port(port: int) -> None:
    if not 1 <= port <= 65_535:
        raise BadSetting(f"{port} is not the number of a port", "it must be from 1 to 65535")
