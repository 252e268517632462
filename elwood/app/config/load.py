"""Load config.toml and the environment variables over it, and report all faults together."""

import os
import re
import types
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import msgspec

from elwood.agent.feature import Feature
from elwood.agent.session.settings import AGENT_FILE
from elwood.app.config.moved import MOVED
from elwood.app.config.names import COMPONENTS, DoubtfulSetting, KnownNames, check_names
from elwood.app.config.toml_file import (
    DEEPEST,
    RIGHT_FILE,
    SHOWN,
    TOO_DEEP,
    ConfigErrors,
    Problem,
    Tree,
    parse_toml,
    read_toml,
)
from elwood.app.main import ALL, sections, tools
from elwood.foundation.secrets.redaction import Secret, redact
from elwood.foundation.secrets.store import SecretUnusable, look_up, read_private
from elwood.foundation.settings import (
    BadSetting,
    Config,
    Key,
    Loaded,
    Report,
    Section,
    Settings,
    Tables,
    Where,
    from_home,
    suggest_name,
    yield_fields,
)

T = TypeVar("T")
PREFIX = "ELWOOD__"
# A line of .env, as shells and container engines write it; values are not expanded.
_LINE = re.compile(
    r"""(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(?:"([^"]*)"|'([^']*)'|((?!["'])\S.*?|))"""
    r"""(?:[ \t]+#.*)?[ \t]*"""
)
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
# Integers of TOML have 64 bits.
_INTEGERS = range(-1 << 63, 1 << 63)


def format_key(where: Where) -> str:
    """Format *where* as a dotted key.

    >>> format_key(("telegram", "owners", 0))
    'telegram.owners[0]'
    """
    text = ""
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def load(
    path: Path,
    environ: MutableMapping[str, str],
    features: Sequence[Feature] = ALL,
    *,
    secrets: bool = True,
) -> Config:
    """Load the configuration of *features* from *path*, with the variables of *environ*.

    With *secrets*, looks up all secrets and removes their variables from *environ*; without, sets
    none, for commands that need no secret and may not be allowed to read them.  Variables in the
    file ``.env`` next to it count like those in *environ*, but are not added to it.  Raises
    ConfigErrors with all faults.
    """
    variables = {**_read_dotenv(path.with_name(".env"), secrets=secrets), **environ}
    try:
        loading = _Loading(path, variables, sections(features), secrets, features=features)
        return loading.config(read_toml(path))
    finally:
        for name in environ.keys() - variables.keys():
            del environ[name]


def load_own(text: str, config: Config, sections: Sequence[type[Settings]]) -> Config:
    """Apply the *sections* of agent.toml's *text* to *config*.

    No variables and no secrets are used.  Raises ConfigErrors with all faults.
    """
    path = Path(AGENT_FILE)
    return _Loading(path, {}, sections, False, config).config(parse_toml(path, text.encode()))


def _read_dotenv(path: Path, *, secrets: bool) -> dict[str, str]:
    """Parse the file of variables *path*, if it exists.  Raises ConfigErrors."""
    try:
        text = read_private(path) if os.path.lexists(path) else ""
        lines = text.removeprefix("\ufeff").splitlines()
    except SecretUnusable as error:
        if not secrets:
            return {}
        raise ConfigErrors([Problem(error.problem, error.remedy)]) from None
    variables: dict[str, str] = {}
    problems = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        if match := _LINE.fullmatch(line):
            variables[match[1]] = match[2] or match[3] or match[4] or ""
        else:
            # The line is not shown: it may hold a secret.
            problems.append(
                Problem(f"{path}: line {number} does not set a variable", "write NAME=value")
            )
    if problems:
        raise ConfigErrors(problems)
    return variables


# --- the tree of values ---------------------------------------------------------------------------


class _FromVariable(str):
    """The text of a variable: unlike text in a file it may be parsed as a number or a list."""

    __slots__ = ()


@attrs.define
class _Source:
    """The *tree* of values; initially as *written* in the file."""

    written: Tree
    tree: Tree = attrs.field(init=False)
    # Variables of ours that override the file.
    variables: dict[Where, str] = attrs.field(factory=dict)
    # Variables inserted into the text at a place by ${…}.
    expanded: dict[Where, set[str]] = attrs.field(factory=dict)
    # The old key in the file, by the new key of its value.
    old: dict[Where, Where] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.tree = self.written

    def variable(self, where: Where) -> str | None:
        """Return the variable that *where*, or a part of it, comes from; None: the file."""
        for end in range(len(where), 0, -1):
            if where[:end] in self.variables:
                return self.variables[where[:end]]
        if _find_value(self.written, where) is not None:
            return None
        inside = (name for at, name in self.variables.items() if at[: len(where)] == where)
        return next(inside, None)

    def name(self, where: Where) -> Where:
        """Return *where* as the operator wrote it."""
        for end in range(len(where), 0, -1):
            if where[:end] in self.old:
                return (*self.old[where[:end]], *where[end:])
        return where

    def move(self, report: Report) -> None:
        """Move the values of renamed keys to the new keys."""
        for old, new in MOVED.items():
            table = _find_value(self.written, old[:-1])
            if not isinstance(table, dict) or old[-1] not in table:
                continue
            value = table.pop(old[-1])
            if _find_value(self.written, new) is not None:
                what = f"is the old name of {format_key(new)}, which is set too"
                report(old, what, "remove one of them")
            elif (where := _set_value(self.written, new, value)) is not None:
                self.old[where] = old

    def expand(self, environ: Mapping[str, str], report: Report) -> None:
        """Replace ``${NAME}`` in all texts of the file; ``$${`` means ``${``."""
        self.tree = {
            key: self._expand_value(value, (key,), environ, report)
            for key, value in self.tree.items()
        }

    def _expand_value(
        self, value: object, where: Where, environ: Mapping[str, str], report: Report
    ) -> object:
        if len(where) > DEEPEST:
            report(where[:1], TOO_DEEP, RIGHT_FILE)
            return None
        if isinstance(value, int) and value not in _INTEGERS:
            report(where, "the number is too large", "write one of at most 18 digits")
            return 0
        if isinstance(value, dict):
            return {
                k: self._expand_value(v, (*where, k), environ, report) for k, v in value.items()
            }
        if isinstance(value, list):
            items = enumerate(value)
            return [self._expand_value(item, (*where, n), environ, report) for n, item in items]
        if not isinstance(value, str):
            return value

        def put(match: re.Match[str]) -> str:
            name = match[1]
            if name is None and match[0] == "${":
                report(where, "${ without a name and }", "write $${ for a plain ${")
            if name is None:
                return "${"
            if name not in environ:
                report(where, f"the variable {name} is not set", f"set it, or write $${{{name}}}")
            self.expanded.setdefault(where, set()).add(name)
            return environ.get(name, "")

        return _VARIABLE.sub(put, value)

    def overlay(self, environ: Mapping[str, str]) -> None:
        """Apply the variables ``ELWOOD__SECTION__KEY`` to the tree; lists in them are JSON."""
        ours = sorted(name for name in environ if name.startswith(PREFIX))
        steps = {tuple(name.removeprefix(PREFIX).lower().split("__")): name for name in ours}
        # Old names first, so that new ones override them.
        for old, name in sorted(steps.items(), key=lambda one: one[0] not in MOVED):
            where = _set_value(self.tree, MOVED.get(old, old), _FromVariable(environ[name]))
            if where is not None:
                self.variables[where] = name
                self.old.pop(where, None)
                if old in MOVED:
                    self.old[where] = old


def _set_value(tree: Tree, steps: Sequence[str], value: object) -> Where | None:
    """Set *value* at *steps*, spelled as in *tree*; return that place.

    Return None if a value on the way is not a table: that is reported elsewhere.
    """
    *tables, key = steps
    where: Where = ()
    for step in tables:
        name = _match_key(tree, step)
        below = tree.setdefault(name, {})
        if not isinstance(below, dict):
            return None
        tree, where = below, (*where, name)
    tree[_match_key(tree, key)] = value
    return (*where, _match_key(tree, key))


def _find_value(tree: object, where: Where) -> object:
    """Return the value at *where* in *tree*, or None."""
    for step in where:
        if isinstance(tree, dict):
            tree = tree.get(step)
        else:
            items = _as_list(tree) or []
            tree = items[step] if isinstance(step, int) and step < len(items) else None
    return tree


def _as_list(value: object) -> list[object] | None:
    """Return *value*, from a file or a variable, if it is a list, else None."""
    if isinstance(value, _FromVariable):
        try:
            return msgspec.json.decode(str(value), type=list[object])
        except (msgspec.DecodeError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def _match_key(table: Tree, name: str) -> str:
    """Return the key *name* of a variable as the table spells it."""
    plain = name.lower()
    same = (key for key in table if key.lower().replace("-", "_") == plain)
    return next(same, plain)


# --- building the configuration -------------------------------------------------------------------


class _Loading:
    """One run of `load`: the values read and the problems found so far."""

    def __init__(
        self,
        path: Path,
        environ: MutableMapping[str, str],
        sections: Sequence[type[Settings]],
        secrets: bool,
        base: Config | None = None,
        features: Sequence[Feature] = (),
    ) -> None:
        self._path = path
        self._base = base
        self._features = features
        self._environ = environ
        self._sections = {kind.SECTION.name: kind for kind in sections}
        self._with_secrets = secrets
        self._home = Path(environ.get("HOME") or Path.home())
        self._values: list[tuple[Where, Key, object]] = []
        self._problems: list[tuple[Where, Problem]] = []
        self._inline: list[str] = []
        self._spent: set[str] = set()  # variables to remove, because secrets came from them
        self._source = _Source({})

    def config(self, written: Tree) -> Config:
        """Build the configuration from *written*, over the existing one."""
        self._source = _Source(written)
        if self._base is None:  # the assistant never had an old key
            self._source.move(self._report)
        if not self._with_secrets:
            self._resolve_secrets()  # before their variables would be reported as missing
        self._source.expand(self._environ, self._report)
        self._source.overlay(self._environ)
        self._add_computed()
        self._resolve_secrets()
        for variable in self._spent:
            self._environ.pop(variable, None)
        for name in self._source.tree:
            if name not in self._sections:
                what, remedy = _describe_unknown(name, self._sections)
                if self._base is not None and name in (one.SECTION.name for one in sections()):
                    what = "is allowed only in config.toml, which only your owner writes"
                self._report((name,), what, remedy)
        chores = frozenset(id for feature in self._features for id in feature.chores)
        inline = tuple(self._inline)
        base = Config(values={}, file=self._path, inline=inline, chores=chores)
        config = self._base or base
        names: dict[str, tuple[str, ...]] = {}
        for name, kind in self._sections.items():
            section = kind.SECTION
            made: object = None
            if section.tables is None:
                made = self._build_table(self._source.tree[name], kind, (name,))
            else:
                items = self._build_tables(name, section.tables)
                names[name] = tuple(str(key) for key in items)
                sound = {key: item for key, item in items.items() if item is not None}
                made = section.tables.collect(sound, config, self._report)
            if made is not None:
                config = attrs.evolve(config, values={**config.values, kind: made})
        loaded = Loaded(config=config, values=tuple(self._values), names=names)
        for section in self._all_sections():
            for where, what, remedy in section.verify(loaded):
                self._report(where, what, remedy)
        warnings = (*self._rename_hints(), *self._check_names(config))
        if self._problems:
            raise ConfigErrors([problem for _, problem in self._problems])
        return attrs.evolve(config, warnings=warnings)

    def _all_sections(self) -> Iterator[Section]:
        return (kind.SECTION for kind in self._sections.values())

    def _rename_hints(self) -> Iterator[tuple[str, str]]:
        for new in self._source.old:
            name = format_key(new)
            if self._source.variable(new) is not None:
                name = PREFIX + "__".join(map(str, new)).upper()
            yield self._describe_place(new, "has a new name"), f"write {name}"

    def _check_names(self, config: Config) -> tuple[tuple[str, str], ...]:
        """Report names that do not exist; return warnings about doubtful ones."""
        named = [one for one in self._values if one[1].names is not None]
        if not named or self._base is not None:
            return ()  # the assistant's part has no names
        live = [feature.live(config) for feature in self._features]
        known = KnownNames(
            tools=dict(ChainMap(tools(self._features), *(dict(one.known) for one in live))),
            prefixes=dict(ChainMap(*(dict(one.prefixes) for one in live))),
            channels={one.name: one.is_chat for one in self._features if one.is_channel},
            components=[*COMPONENTS, *(feature.name for feature in self._features)],
        )
        warnings = []
        for where, error in check_names(named, known):
            if isinstance(error, DoubtfulSetting):
                warnings.append((self._describe_place(where, error.what), error.remedy))
            else:
                self._report_value(where, error)
        return tuple(warnings)

    def _report(self, where: Where, what: str, remedy: str) -> None:
        self._problems.append((where, Problem(self._describe_place(where, what), remedy)))

    def _describe_place(self, where: Where, what: str) -> str:
        source = self._source.variable(where) or self._path
        return f"{source}: {format_key(self._source.name(where))}: {what}"

    def _is_reported(self, where: Where) -> bool:
        return any(there == where for there, _ in self._problems)

    def _add_computed(self) -> None:
        """Add computed values, and tables that exist even if they are not written."""
        tree = self._source.tree
        for section in self._all_sections():
            tables = section.tables
            if tables is not None and not tables.keyed:
                continue
            written = tree.setdefault(section.name, {})
            if not isinstance(written, dict):
                continue
            computed = section.computed(written, self._environ, self._home)
            tree[section.name] = written = {**computed, **written}
            for name, table in (tables.built_in if tables else {}).items():
                own = written.setdefault(name, {})
                if isinstance(own, dict):
                    written[name] = {**table, **own}

    # --- secrets ------------------------------------------------------------------------------

    def _resolve_secrets(self) -> None:
        """Replace references by their secrets, or remove them."""
        for name, kind in self._sections.items():
            tables = kind.SECTION.tables
            table = self._source.tree.get(name)
            if tables is None:
                self._resolve_table(table, kind, (name,))
            elif tables.keyed and isinstance(table, dict):
                for key, item in table.items():
                    self._resolve_table(item, tables.item, (name, key))

    def _resolve_table(self, table: object, kind: type, where: Where) -> None:
        if not isinstance(table, dict):
            return
        name = str(where[-1])
        for field, key in yield_fields(kind):
            if not key.credential:
                continue
            given = table.pop(field.name, None)
            if get_origin(field.type) is Mapping:
                if isinstance(given, dict):
                    table[field.name] = self._resolve_secret_table(given, (*where, field.name), key)
                elif given is not None:
                    table[field.name] = given  # reported as not a table
            elif self._with_secrets:
                credential = key.credential.replace("NAME", name)
                upper = name.upper().replace("-", "_")
                variables = [one.replace("NAME", upper) for one in key.variables]
                secret = self._resolve_secret(given, (*where, field.name), credential, variables)
                if secret is not None:
                    table[field.name] = secret

    def _resolve_secret_table(self, table: Tree, where: Where, key: Key) -> Tree:
        resolved: Tree = {}
        for name, given in table.items() if self._with_secrets else ():
            credential = key.credential.replace("NAME", str(where[-2])).replace("KEY", name.lower())
            secret = self._resolve_secret(given, (*where, name), credential, ())
            if secret is not None:
                resolved[name] = secret
        return resolved

    def _resolve_secret(
        self, given: object, where: Where, credential: str, variables: Sequence[str]
    ) -> object:
        if given is not None and not isinstance(given, str):
            # The value is not shown: it may be the secret.
            self._report(where, "expected a text", "put it in quotes")
            return None
        expanded = self._source.expanded.get(where, set())
        overlaid = self._source.variables.get(where)
        self._spent |= expanded | ({overlaid} if overlaid else set())
        if given and not given.startswith("file:") and not expanded and not overlaid:
            self._inline.append(format_key(where))
        if "/" in credential or credential.startswith("."):
            return None  # reported as a provider's name
        if self._is_reported(where):
            return None  # a variable in it is not set
        try:
            return look_up(credential, given, variables, self._environ)
        except SecretUnusable as error:
            self._report(where, error.problem, error.remedy)
            return None

    # --- tables and values --------------------------------------------------------------------

    def _build_tables(self, name: str, tables: Tables) -> dict[Any, object]:
        """Read the tables of a section; None for those with problems."""
        written = self._source.tree.get(name, {} if tables.keyed else [])
        if not tables.keyed:
            items = _as_list(written)
            if items is None:
                what = f"expected tables, found {_describe_value(written)}"
                self._report((name,), what, f"begin each with [[{name}]]")
            rows: dict[Any, object] = dict(enumerate(items or []))
        elif isinstance(written, dict):
            rows = written
        else:
            what = f"expected a table, found {_describe_value(written)}"
            self._report((name,), what, f"write a table for each, such as [{name}.local]")
            rows = dict(tables.built_in)
        return {key: self._build_table(raw, tables.item, (name, key)) for key, raw in rows.items()}

    def _build_table(self, raw: object, kind: type[T], where: Where) -> T | None:
        """Build a *kind* from *raw* at *where*; None if it has a problem."""
        if not isinstance(raw, dict):
            in_list = isinstance(where[-1], int)
            begin = f"[[{format_key(where[:-1])}]]" if in_list else f"[{format_key(where)}]"
            is_variable = isinstance(raw, _FromVariable)
            remedy = "set its keys separately" if is_variable else f"begin it with {begin}"
            self._report(where, f"expected a table, found {_describe_value(raw)}", remedy)
            return None
        before = len(self._problems)
        values: dict[str, object] = {}
        is_sound = True
        for field, key in yield_fields(kind):
            here = (*where, field.name)
            if field.name not in raw:
                if field.default is attrs.NOTHING:
                    self._report(here, "is missing", "write it")
                continue
            try:
                values[field.name] = self._parse_value(raw[field.name], field.type, here, key)
            except BadSetting as error:
                is_sound = False
                self._report_value(here, error)
        known = [field.name for field, _ in yield_fields(kind)]
        for name in raw:
            if name not in known:
                self._report((*where, name), *_describe_unknown(name, known))
        if not is_sound or len(self._problems) > before:
            return None
        try:
            return kind(**values)
        except ValueError as error:  # a check of the class itself
            self._report(where, str(error), "correct it")
            return None

    def _report_value(self, where: Where, error: BadSetting) -> None:
        """Report a wrong value; text from a variable is not shown, as it may be a secret."""
        if self._is_reported(where):
            return  # its variable is not set, or the number is too large
        if not self._source.expanded.get(where):
            self._report(where, error.what, error.remedy)
        else:
            what = "the text with its variables filled in is not valid here"
            self._report(where, what, error.remedy)

    def _parse_value(self, raw: object, kind: Any, where: Where, key: Key) -> object:
        """Parse and check a value.  Raises BadSetting; list elements are reported."""
        if get_origin(kind) in (Union, types.UnionType):
            # TOML has no null.
            kinds = [arg for arg in get_args(kind) if arg is not types.NoneType]
            kind = next((one for one in kinds if one is type(raw)), kinds[-1])
        if get_origin(kind) is tuple:
            return self._parse_elements(raw, get_args(kind)[0], where, key)
        if get_origin(kind) is Mapping:
            return self._parse_mapping(raw, get_args(kind)[1], where, key)
        value = _parse_scalar(raw, kind, self._home)
        if key.check is not None:
            key.check(value)
        self._values.append((where, key, value))
        return value

    def _parse_mapping(self, raw: object, kind: Any, where: Where, key: Key) -> dict[str, object]:
        if not isinstance(raw, dict):
            raise BadSetting(
                f"expected a table, found {_describe_value(raw)}", "write { NAME = … }"
            )
        parsed: dict[str, object] = {}
        for name, value in raw.items():
            here = (*where, name)
            if attrs.has(kind) and kind is not Secret:
                parsed[name] = self._build_table(value, kind, here)
                continue
            try:
                parsed[name] = self._parse_value(value, kind, here, key)
            except BadSetting as error:
                self._report_value(here, error)
        return parsed

    def _parse_elements(
        self, raw: object, kind: type, where: Where, key: Key
    ) -> tuple[object, ...]:
        example = "write [1, 2]" if kind is int else 'write ["a", "b"]'
        if attrs.has(kind):
            example = f"begin each with [[{format_key(where)}]]"
        items = _as_list(raw)
        if items is None:
            in_json = " in JSON" if isinstance(raw, _FromVariable) else ""
            raise BadSetting(f"expected a list{in_json}, found {_describe_value(raw)}", example)
        elements: list[object] = []
        for index, element in enumerate(items):
            if attrs.has(kind):
                elements.append(self._build_table(element, kind, (*where, index)))
                continue
            try:
                elements.append(self._parse_value(element, kind, (*where, index), key))
            except BadSetting as error:
                self._report_value((*where, index), error)
        return tuple(elements)


def _parse_scalar(raw: object, kind: Any, home: Path) -> object:
    """Parse one value that is not a list.  Raises BadSetting."""
    if get_origin(kind) is Literal:
        if raw in get_args(kind):
            return str(raw)
        choices = ", ".join(get_args(kind))
        raise BadSetting(f"cannot be {_describe_value(raw)}", f"write one of {choices}")
    if kind is Path:
        path = Path(from_home(str(_parse_scalar(raw, str, home)), home))
        if not path.is_absolute():
            what = f"{_describe_value(raw)} is not an absolute path"
            raise BadSetting(what, "begin it with / or ~/")
        return path
    if kind in (Secret, Any):
        return raw
    if kind is str and isinstance(raw, str):
        return str(raw)
    if isinstance(raw, _FromVariable):
        try:
            return {"true": True, "false": False}[raw] if kind is bool else kind(raw)
        except (KeyError, ValueError):
            pass
    elif type(raw) is kind:
        return raw
    elif kind is float and type(raw) is int:
        return float(raw)
    expected, remedy = _WANTED[kind]
    raise BadSetting(f"expected {expected}, found {_describe_value(raw)}", remedy)


_WANTED = {
    bool: ("true or false", "write true or false"),
    int: ("a whole number", "write digits only"),
    float: ("a number", "write digits, with a decimal point if needed"),
    str: ("a text", "put it in quotes"),
}


def _describe_unknown(name: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the problem of the unknown key *name*, and which of *known* is similar."""
    return "no such key", suggest_name(name, known) or f"there are {', '.join(sorted(known))}"


def _describe_value(value: object) -> str:
    """Describe *value* in the words of TOML."""
    match value:
        case bool():
            return str(value).lower()
        case str() if len(value) > SHOWN:
            return f"a text of {len(value)} characters"
        case str():
            return f'the text "{redact(value, ())}"'  # may be a token under a wrong key
        case int() | float():
            return f"the number {value}"
        case list():
            return "a list"
        case dict():
            return "a table"
        case None:
            return "null"
        case _:
            return "a date or time"
