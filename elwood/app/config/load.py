"""Reads config.toml, with the environment over it, and finds all that is wrong at once."""

import os
import re
import tomllib
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
from elwood.app.main import ALL, sections, tools
from elwood.foundation.command_line import MISCONFIGURED, CliFailure
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
    keys,
    suggest_name,
)

T = TypeVar("T")
PREFIX = "ELWOOD__"
# A line of .env, as shells and container engines write them; nothing in a value is expanded.
_LINE = re.compile(
    r"""(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(?:"([^"]*)"|'([^']*)'|((?!["'])\S.*?|))"""
    r"""(?:[ \t]+#.*)?[ \t]*"""
)
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
Tree = dict[str, object]
# Bytes of a configuration file.
LARGEST = 1_048_576
# Characters of a wrong value that are repeated to the operator.
SHOWN = 60


class Problem(msgspec.Struct, frozen=True):
    """One thing to correct: the *complaint* says where and what, the *remedy* how."""

    complaint: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.complaint}; {self.remedy}"


class ConfigErrors(CliFailure):
    """The configuration cannot be used; *problems* are all that is wrong with it.

    The operator's fault.  Holds no secret.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)), MISCONFIGURED)
        self.problems = problems


def dotted(where: Where) -> str:
    """Write *where* as people do.

    >>> dotted(("telegram", "owners", 0))
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
    """Read the configuration of *features* in *path*, with what *environ* sets over it.

    Looks up all *secrets*, and removes the variables they came from from *environ*; or has none,
    for commands that need no secret and may not be allowed to read them.  What the file ``.env``
    beside it sets counts as if it were in *environ*, and never gets there.
    Raises ConfigErrors with everything that is wrong.
    """
    seen = {**_dotenv(path.with_name(".env"), secrets=secrets), **environ}
    try:
        loading = _Loading(path, seen, sections(features), secrets, features=features)
        return loading.config(_read(path))
    finally:
        for name in environ.keys() - seen.keys():
            del environ[name]


def load_own(text: str, config: Config, sections: Sequence[type[Settings]]) -> Config:
    """Put the *sections* of the *text* of agent.toml into *config*.

    No variable counts, and there are no secrets.  Raises ConfigErrors with everything that is
    wrong.
    """
    path = Path(AGENT_FILE)
    return _Loading(path, {}, sections, False, config).config(_parsed(path, text.encode()))


def _dotenv(path: Path, *, secrets: bool) -> dict[str, str]:
    """Read the file of variables *path*, if there is one.  Raises ConfigErrors."""
    try:
        lines = read_private(path).splitlines() if os.path.lexists(path) else []
    except SecretUnusable as error:
        if not secrets:
            return {}
        raise ConfigErrors([Problem(error.problem, error.remedy)]) from None
    found: dict[str, str] = {}
    problems = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        if match := _LINE.fullmatch(line):
            found[match[1]] = match[2] or match[3] or match[4] or ""
        else:
            # The line is not repeated: it may hold a secret.
            problems.append(Problem(f"{path}: line {number} sets no variable", "write NAME=value"))
    if problems:
        raise ConfigErrors(problems)
    return found


# --- what stands where ----------------------------------------------------------------------------


class _FromVariable(str):
    """The text of a variable: unlike the text in a file it may stand for a number or a list."""

    __slots__ = ()


@attrs.define
class _Source:
    """The *tree* of values: at first what is *written* in the file."""

    written: Tree
    tree: Tree = attrs.field(init=False)
    # Where a variable of ours has been put over the file.
    variables: dict[Where, str] = attrs.field(factory=dict)
    # The variables that were put into the text at a place by ${…}.
    expanded: dict[Where, set[str]] = attrs.field(factory=dict)
    # The old keys that were written, by the new ones, where their values are now.
    old: dict[Where, Where] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.tree = self.written

    def variable(self, where: Where) -> str | None:
        """Find the variable that *where*, or something in it, comes from; None: the file."""
        for end in range(len(where), 0, -1):
            if where[:end] in self.variables:
                return self.variables[where[:end]]
        if _found(self.written, where) is not None:
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
        """Move the values of old keys of the file to the new ones."""
        for old, new in MOVED.items():
            table = _found(self.written, old[:-1])
            if not isinstance(table, dict) or old[-1] not in table:
                continue
            value = table.pop(old[-1])
            if _found(self.written, new) is not None:
                what = f"is the old name of {dotted(new)}, which is written too"
                report(old, what, "take one of them away")
            elif (where := _put(self.written, new, value)) is not None:
                self.old[where] = old

    def expand(self, environ: Mapping[str, str], report: Report) -> None:
        """Replace ``${NAME}`` in all texts of the file; ``$${`` stands for ``${``."""
        self.tree = {
            key: self._expanded(value, (key,), environ, report) for key, value in self.tree.items()
        }

    def _expanded(
        self, value: object, where: Where, environ: Mapping[str, str], report: Report
    ) -> object:
        if isinstance(value, dict):
            return {k: self._expanded(v, (*where, k), environ, report) for k, v in value.items()}
        if isinstance(value, list):
            items = enumerate(value)
            return [self._expanded(item, (*where, n), environ, report) for n, item in items]
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
        """Put the variables ``ELWOOD__SECTION__KEY`` over the tree; lists in them are JSON."""
        ours = sorted(name for name in environ if name.startswith(PREFIX))
        steps = {tuple(name.removeprefix(PREFIX).lower().split("__")): name for name in ours}
        # Old names first: the new ones come before them.
        for old, name in sorted(steps.items(), key=lambda one: one[0] not in MOVED):
            where = _put(self.tree, MOVED.get(old, old), _FromVariable(environ[name]))
            if where is not None:
                self.variables[where] = name
                self.old.pop(where, None)
                if old in MOVED:
                    self.old[where] = old


def _put(tree: Tree, steps: Sequence[str], value: object) -> Where | None:
    """Put *value* at *steps*, spelled as in *tree*; return where that is.

    None if something on the way is not a table: the complaint about that says enough.
    """
    *tables, key = steps
    where: Where = ()
    for step in tables:
        name = _known(tree, step)
        below = tree.setdefault(name, {})
        if not isinstance(below, dict):
            return None
        tree, where = below, (*where, name)
    tree[_known(tree, key)] = value
    return (*where, _known(tree, key))


def _found(tree: object, where: Where) -> object:
    """Return what stands at *where* in *tree*; None if there is nothing."""
    for step in where:
        if isinstance(tree, dict):
            tree = tree.get(step)
        else:
            items = _listed(tree) or []
            tree = items[step] if isinstance(step, int) and step < len(items) else None
    return tree


def _listed(value: object) -> list[object] | None:
    """Return the list that *value* is, from a file or from a variable; None if it is none."""
    if isinstance(value, _FromVariable):
        try:
            return msgspec.json.decode(str(value), type=list[object])
        except msgspec.DecodeError:
            return None
    return value if isinstance(value, list) else None


def _known(table: Tree, name: str) -> str:
    """Spell the key *name* of a variable as the table does, if it has it."""
    plain = name.lower()
    same = (key for key in table if key.lower().replace("-", "_") == plain)
    return next(same, plain)


# --- reading it -----------------------------------------------------------------------------------


class _Loading:
    """One run of `load`: what has been read and what was wrong with it so far."""

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
        self._spent: set[str] = set()  # variables to be removed, since secrets came from them
        self._source = _Source({})

    def config(self, written: Tree) -> Config:
        """Make the configuration of what is *written*, over that which there is already."""
        self._source = _Source(written)
        if self._base is None:  # the assistant never had one of the old keys
            self._source.move(self._report)
        if not self._with_secrets:
            self._secrets()  # before the variables in them are missed
        self._source.expand(self._environ, self._report)
        self._source.overlay(self._environ)
        self._complete()
        self._secrets()
        for variable in self._spent:
            self._environ.pop(variable, None)
        for name in self._source.tree:
            if name not in self._sections:
                what, remedy = _unknown(name, self._sections)
                if self._base is not None and name in (one.SECTION.name for one in sections()):
                    what = "is for config.toml, which only your owner writes"
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
                made = self._table(self._source.tree[name], kind, (name,))
            else:
                items = self._tables(name, section.tables)
                names[name] = tuple(str(key) for key in items)
                sound = {key: item for key, item in items.items() if item is not None}
                made = section.tables.collect(sound, config, self._report)
            if made is not None:
                config = attrs.evolve(config, values={**config.values, kind: made})
        loaded = Loaded(config=config, values=tuple(self._values), names=names)
        for section in self._descriptions():
            for where, what, remedy in section.verify(loaded):
                self._report(where, what, remedy)
        warnings = (*self._hints(), *self._check_names(config))
        if self._problems:
            raise ConfigErrors([problem for _, problem in self._problems])
        return attrs.evolve(config, warnings=warnings)

    def _descriptions(self) -> Iterator[Section]:
        return (kind.SECTION for kind in self._sections.values())

    def _hints(self) -> Iterator[tuple[str, str]]:
        for new in self._source.old:
            name = dotted(new)
            if self._source.variable(new) is not None:
                name = PREFIX + "__".join(map(str, new)).upper()
            yield self._located(new, "has a new name"), f"write {name}"

    def _check_names(self, config: Config) -> tuple[tuple[str, str], ...]:
        """Report names that nothing has; return doubts about others."""
        named = [one for one in self._values if one[1].names is not None]
        if not named or self._base is not None:
            return ()  # the assistant's half names nothing
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
                warnings.append((self._located(where, error.what), error.remedy))
            else:
                self._complain(where, error)
        return tuple(warnings)

    def _report(self, where: Where, what: str, remedy: str) -> None:
        self._problems.append((where, Problem(self._located(where, what), remedy)))

    def _located(self, where: Where, what: str) -> str:
        source = self._source.variable(where) or self._path
        return f"{source}: {dotted(self._source.name(where))}: {what}"

    def _is_reported(self, where: Where) -> bool:
        return any(there == where for there, _ in self._problems)

    def _complete(self) -> None:
        """Add the values that are computed, and the tables that exist unwritten."""
        tree = self._source.tree
        for section in self._descriptions():
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

    def _secrets(self) -> None:
        """Put the secrets themselves in the places of their references, or take those out."""
        for name, kind in self._sections.items():
            tables = kind.SECTION.tables
            table = self._source.tree.get(name)
            if tables is None:
                self._secrets_of(table, kind, (name,))
            elif tables.keyed and isinstance(table, dict):
                for key, item in table.items():
                    self._secrets_of(item, tables.item, (name, key))

    def _secrets_of(self, table: object, kind: type, where: Where) -> None:
        if not isinstance(table, dict):
            return
        name = str(where[-1])
        for field, key in keys(kind):
            if not key.credential:
                continue
            given = table.pop(field.name, None)
            if get_origin(field.type) is Mapping:
                if isinstance(given, dict):
                    table[field.name] = self._table_of_secrets(given, (*where, field.name), key)
                elif given is not None:
                    table[field.name] = given  # complained about as no table
            elif self._with_secrets:
                credential = key.credential.replace("NAME", name)
                upper = name.upper().replace("-", "_")
                variables = [one.replace("NAME", upper) for one in key.variables]
                secret = self._secret(given, (*where, field.name), credential, variables)
                if secret is not None:
                    table[field.name] = secret

    def _table_of_secrets(self, table: Tree, where: Where, key: Key) -> Tree:
        found: Tree = {}
        for name, given in table.items() if self._with_secrets else ():
            credential = key.credential.replace("NAME", str(where[-2])).replace("KEY", name.lower())
            secret = self._secret(given, (*where, name), credential, ())
            if secret is not None:
                found[name] = secret
        return found

    def _secret(
        self, given: object, where: Where, credential: str, variables: Sequence[str]
    ) -> object:
        if given is not None and not isinstance(given, str):
            # Not what was found: it may be the secret.
            self._report(where, "expected a text", "put it into quotes")
            return None
        expanded = self._source.expanded.get(where, set())
        overlaid = self._source.variables.get(where)
        self._spent |= expanded | ({overlaid} if overlaid else set())
        if given and not given.startswith("file:") and not expanded and not overlaid:
            self._inline.append(dotted(where))
        if "/" in credential or credential.startswith("."):
            return None  # complained about as a provider's name
        if self._is_reported(where):
            return None  # a variable in it is not set
        try:
            return look_up(credential, given, variables, self._environ)
        except SecretUnusable as error:
            self._report(where, error.problem, error.remedy)
            return None

    # --- tables and values --------------------------------------------------------------------

    def _tables(self, name: str, tables: Tables) -> dict[Any, object]:
        """Read the tables of a section; None stands for those with complaints."""
        written = self._source.tree.get(name, {} if tables.keyed else [])
        if not tables.keyed:
            items = _listed(written)
            if items is None:
                what = f"expected tables, found {_described(written)}"
                self._report((name,), what, f"begin each with [[{name}]]")
            rows: dict[Any, object] = dict(enumerate(items or []))
        elif isinstance(written, dict):
            rows = written
        else:
            what = f"expected a table, found {_described(written)}"
            self._report((name,), what, f"write a table for each, such as [{name}.local]")
            rows = dict(tables.built_in)
        return {key: self._table(raw, tables.item, (name, key)) for key, raw in rows.items()}

    def _table(self, raw: object, kind: type[T], where: Where) -> T | None:
        """Make a *kind* of *raw*, which stands at *where*; None if anything is wrong with it."""
        if not isinstance(raw, dict):
            in_list = isinstance(where[-1], int)
            begin = f"[[{dotted(where[:-1])}]]" if in_list else f"[{dotted(where)}]"
            is_variable = isinstance(raw, _FromVariable)
            remedy = "set its keys one by one" if is_variable else f"begin it with {begin}"
            self._report(where, f"expected a table, found {_described(raw)}", remedy)
            return None
        before = len(self._problems)
        made: dict[str, object] = {}
        is_sound = True
        for field, key in keys(kind):
            here = (*where, field.name)
            if field.name not in raw:
                if field.default is attrs.NOTHING:
                    self._report(here, "is missing", "write it")
                continue
            try:
                made[field.name] = self._value(raw[field.name], field.type, here, key)
            except BadSetting as error:
                is_sound = False
                self._complain(here, error)
        known = [field.name for field, _ in keys(kind)]
        for name in raw:
            if name not in known:
                self._report((*where, name), *_unknown(name, known))
        if not is_sound or len(self._problems) > before:
            return None
        try:
            return kind(**made)
        except ValueError as error:  # a check of the class itself
            self._report(where, str(error), "correct it")
            return None

    def _complain(self, where: Where, error: BadSetting) -> None:
        """Report what is wrong with a value; what a variable put into it may be a secret."""
        if not self._source.expanded.get(where):
            self._report(where, error.what, error.remedy)
        elif not self._is_reported(where):  # as it is if the variable is not set
            what = "the text with its variables put in is not what is wanted here"
            self._report(where, what, error.remedy)

    def _value(self, raw: object, kind: Any, where: Where, key: Key) -> object:
        """Read a value, and check it.  Raises BadSetting; elements of lists complain themselves."""
        if get_origin(kind) in (Union, types.UnionType):
            # TOML has no way to write that a value is not there.
            kinds = [arg for arg in get_args(kind) if arg is not types.NoneType]
            kind = next((one for one in kinds if one is type(raw)), kinds[-1])
        if get_origin(kind) is tuple:
            return self._elements(raw, get_args(kind)[0], where, key)
        if get_origin(kind) is Mapping:
            return self._mapping(raw, get_args(kind)[1], where, key)
        value = _scalar(raw, kind, self._home)
        if key.check is not None:
            key.check(value)
        self._values.append((where, key, value))
        return value

    def _mapping(self, raw: object, kind: Any, where: Where, key: Key) -> dict[str, object]:
        if not isinstance(raw, dict):
            raise BadSetting(f"expected a table, found {_described(raw)}", "write { NAME = … }")
        made: dict[str, object] = {}
        for name, value in raw.items():
            here = (*where, name)
            if attrs.has(kind) and kind is not Secret:
                made[name] = self._table(value, kind, here)
                continue
            try:
                made[name] = self._value(value, kind, here, key)
            except BadSetting as error:
                self._complain(here, error)
        return made

    def _elements(self, raw: object, kind: type, where: Where, key: Key) -> tuple[object, ...]:
        example = "write [1, 2]" if kind is int else 'write ["a", "b"]'
        if attrs.has(kind):
            example = f"begin each with [[{dotted(where)}]]"
        items = _listed(raw)
        if items is None:
            in_json = " in JSON" if isinstance(raw, _FromVariable) else ""
            raise BadSetting(f"expected a list{in_json}, found {_described(raw)}", example)
        made: list[object] = []
        for index, element in enumerate(items):
            if attrs.has(kind):
                made.append(self._table(element, kind, (*where, index)))
                continue
            try:
                made.append(self._value(element, kind, (*where, index), key))
            except BadSetting as error:
                self._complain((*where, index), error)
        return tuple(made)


def _scalar(raw: object, kind: Any, home: Path) -> object:
    """Read one value that is no list.  Raises BadSetting."""
    if get_origin(kind) is Literal:
        if raw in get_args(kind):
            return str(raw)
        choices = ", ".join(get_args(kind))
        raise BadSetting(f"cannot be {_described(raw)}", f"write one of {choices}")
    if kind is Path:
        path = Path(from_home(str(_scalar(raw, str, home)), home))
        if not path.is_absolute():
            what = f"{_described(raw)} is not an absolute path"
            raise BadSetting(what, "write it from / or ~/ on")
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
    wanted, remedy = _WANTED[kind]
    raise BadSetting(f"expected {wanted}, found {_described(raw)}", remedy)


_WANTED = {
    bool: ("true or false", "write true or false"),
    int: ("a whole number", "write digits only"),
    float: ("a number", "write digits, and maybe a point"),
    str: ("a text", "put it into quotes"),
}


def _unknown(name: str, known: Iterable[str]) -> tuple[str, str]:
    """Say that there is no key *name*, and which of *known* may have been meant."""
    return "no such key", suggest_name(name, known) or f"there are {', '.join(sorted(known))}"


def _described(value: object) -> str:
    """Say what *value* is, in the words of somebody who knows TOML."""
    match value:
        case bool():
            return str(value).lower()
        case str() if len(value) > SHOWN:
            return f"a text of {len(value)} characters"
        case str():
            return f'the text "{redact(value, ())}"'  # a token put under a wrong key
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


def _read(path: Path) -> Tree:
    """Read the file.  Raises ConfigErrors."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise _unreadable(path, "there is no such file", "run: elwood init") from None
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
        remedy = "name a file that the user of Elwood can read"
        raise _unreadable(path, why, remedy) from error
    return _parsed(path, content)


def _unreadable(path: Path, what: str, remedy: str) -> ConfigErrors:
    return ConfigErrors([Problem(f"{path}: {what}", remedy)])


def _parsed(path: Path, content: bytes) -> Tree:
    """Read the *content* of the file *path*.  Raises ConfigErrors."""
    if len(content) > LARGEST:
        raise _unreadable(path, f"is larger than {LARGEST} bytes", "is it the right file?")
    try:
        return tomllib.loads(content.decode().replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        # `from None`: the error holds the bytes, among them perhaps a secret.
        raise _unreadable(path, f"line {line} is not UTF-8 text", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(path, f"not TOML: {error}", "see https://toml.io") from None
    except RecursionError:
        raise _unreadable(path, "is nested too deeply", "is it the right file?") from None
