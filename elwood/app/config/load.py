"""Reads config.toml, with the environment over it, and finds all that is wrong at once."""

import re
import tomllib
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from elwood.app.config.reading import Reading, described, unknown
from elwood.app.config.source import FromVariable, Source, found, listed
from elwood.app.main import sections as all_sections
from elwood.foundation.secrets.store import SecretUnusable, look_up
from elwood.foundation.settings import Config, Loaded, Section, Settings, Tables, Where, keys

# Bytes of a configuration file.
LARGEST = 1_048_576


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to correct.  It stands in *variable* or else in the file, at *line* if known.

    >>> print(Problem(file=Path("c.toml"), key="turn.dedline", what="no such key",
    ...       remedy="did you mean turn.deadline?"))
    c.toml: turn.dedline: no such key; did you mean turn.deadline?
    """

    file: Path
    key: str = ""
    what: str
    remedy: str
    line: int | None = None
    variable: str | None = None

    def __str__(self) -> str:
        return f"{self.complaint}; {self.remedy}"

    @property
    def complaint(self) -> str:
        """Where and what, without the remedy."""
        source = self.variable or f"{self.file}{f':{self.line}' if self.line else ''}"
        key = f"{self.key}: " if self.key else ""
        return f"{source}: {key}{self.what}"


class ConfigErrors(Exception):
    """The configuration cannot be used; *problems* are all that is wrong with it, in file order.

    The operator's fault.  Holds no secret.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
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
    sections: Sequence[type[Settings]] | None = None,
    *,
    secrets: bool = True,
) -> Config:
    """Read the configuration in *path*, with what *environ* sets over it, into *sections*.

    Looks up all *secrets*, and removes the variables they came from from *environ*; or has none,
    for commands that need no secret and may not be allowed to read them.
    Raises ConfigErrors with everything that is wrong, in the order of the file.
    """
    return _Loading(path, environ, sections or all_sections(), secrets).config()


class _Loading:
    """One run of `load`: what has been read and what was wrong with it so far."""

    def __init__(
        self,
        path: Path,
        environ: MutableMapping[str, str],
        sections: Sequence[type[Settings]],
        secrets: bool,
    ) -> None:
        self._path = path
        self._environ = environ
        self._sections = {kind.SECTION.name: kind for kind in sections}
        self._with_secrets = secrets
        self._home = Path(environ.get("HOME") or Path.home())
        self._reading = Reading(self._home)
        self._problems: list[tuple[Where, Problem]] = []
        self._inline: list[str] = []
        self._spent: set[str] = set()  # variables to be removed, since secrets came from them
        self._source = Source({})

    def config(self) -> Config:
        self._source = Source(_read(self._path))
        if not self._with_secrets:
            self._secrets()  # before the variables in them are missed
        self._source.expand(self._environ, self._report)
        tabled = {s.name: s.tables for s in self._described() if s.tables}
        keyed = [name for name, tables in tabled.items() if tables.keyed]
        self._source.overlay(self._environ, keyed)
        self._complete()
        self._secrets()
        for variable in self._spent:
            self._environ.pop(variable, None)
        for name in self._source.tree.keys() - self._sections.keys():
            error = unknown(name, self._sections)
            self._report((name,), error.what, error.remedy)
        config = Config(values={}, file=self._path, inline=tuple(self._inline))
        names: dict[str, tuple[str, ...]] = {}
        for name, kind in self._sections.items():
            section = kind.SECTION
            made: object = None
            if section.tables is None:
                made = self._table((name,), kind)
            else:
                items = self._tables(name, section.tables)
                names[name] = tuple(str(key) for key in items)
                sound = {key: item for key, item in items.items() if item is not None}
                made = section.tables.collect(sound, config, self._report)
            if made is not None:
                config = attrs.evolve(config, values={**config.values, kind: made})
        loaded = Loaded(config=config, values=tuple(self._reading.values), names=names)
        for section in self._described():
            for where, what, remedy in section.verify(loaded):
                self._report(where, what, remedy)
        if self._problems:
            raise ConfigErrors([problem for _, problem in sorted(self._problems, key=self._order)])
        return config

    def _described(self) -> Iterator[Section]:
        return (kind.SECTION for kind in self._sections.values())

    def _report(self, where: Where, what: str, remedy: str) -> None:
        variable = self._source.variable(where)
        problem = Problem(
            file=self._path, key=dotted(where), what=what, remedy=remedy, variable=variable
        )
        self._problems.append((where, problem))

    def _order(self, reported: tuple[Where, Problem]) -> tuple[Any, ...]:
        where, problem = reported
        return problem.variable or "", self._source.position(where), problem.key

    def _is_reported(self, where: Where) -> bool:
        return any(there == where for there, _ in self._problems)

    def _complete(self) -> None:
        """Add the values that are computed, and the tables that exist unwritten."""
        tree = self._source.tree
        for section in self._described():
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
            if self._with_secrets:
                credential = key.credential.replace("NAME", name)
                variable = key.variable.replace("NAME", name.upper().replace("-", "_"))
                here = (*where, field.name)
                table[field.name] = self._secret(given, here, credential, variable)
                if table[field.name] is None:
                    del table[field.name]

    def _secret(self, given: object, where: Where, credential: str, variable: str) -> object:
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
            return look_up(credential, given, variable, self._environ)
        except SecretUnusable as error:
            self._report(where, error.problem, error.remedy)
            return None

    # --- tables -------------------------------------------------------------------------------

    def _tables(self, name: str, tables: Tables) -> dict[Any, object]:
        """Read the tables of a section; None stands for those with complaints."""
        written = self._source.tree.get(name, {} if tables.keyed else [])
        if not tables.keyed:
            items = listed(written)
            if items is None:
                what = f"expected tables, found {described(written)}"
                self._report((name,), what, f"begin each with [[{name}]]")
            rows: dict[Any, object] = dict(enumerate(items or []))
        elif isinstance(written, dict):
            rows = written
        else:
            what = f"expected a table, found {described(written)}"
            self._report((name,), what, f"write a table for each, such as [{name}.local]")
            rows = dict(tables.built_in)
        return {key: self._table((name, key), tables.item, raw) for key, raw in rows.items()}

    def _table(self, where: Where, kind: type, raw: object = None) -> object:
        raw = found(self._source.tree, where) if raw is None else raw
        before = len(self._reading.complaints)
        made = self._reading.table(raw, kind, where)
        in_list = isinstance(where[-1], int)
        for at, what, remedy in self._reading.complaints[before:]:
            if at == where and not isinstance(raw, dict | FromVariable):
                begin = f"[[{where[0]}]]" if in_list else f"[{dotted(where)}]"
                remedy = f"begin it with {begin}"
            if what == "no such key" and not in_list and self._elsewhere(str(at[-1])):
                remedy = f"did you mean {self._elsewhere(str(at[-1]))}?"
            if self._source.expanded.get(at):
                if self._is_reported(at):
                    continue  # a variable is not set
                what = "the text with its variables put in is not what is wanted here"
            self._report(at, what, remedy)
        return made

    def _elsewhere(self, key: str) -> str | None:
        sections = [s for s in self._sections if key in self._sections[s].__annotations__]
        return f"{sections[0]}.{key}" if len(sections) == 1 else None


def _read(path: Path) -> dict[str, object]:
    """Read the file.  Raises ConfigErrors."""

    def unreadable(what: str, remedy: str, line: int | None = None) -> ConfigErrors:
        return ConfigErrors([Problem(file=path, what=what, remedy=remedy, line=line)])

    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise unreadable("there is no such file", "run: elwood init") from None
    except IsADirectoryError:
        raise unreadable("is a folder", "name the file in it") from None
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
        raise unreadable(why, "make it readable for the user of Elwood") from error
    if len(content) > LARGEST:
        raise unreadable(f"is larger than {LARGEST} bytes", "is it the right file?")
    try:
        return tomllib.loads(content.decode().replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        # `from None`: the error holds the bytes, among them perhaps a secret.
        raise unreadable("is not UTF-8 text", "save it as UTF-8", line) from None
    except tomllib.TOMLDecodeError as error:
        what, end = str(error), r"(.*) \(at (?:line (\d+), column \d+|end of document)\)"
        if said := re.fullmatch(end, what):
            line = int(said[2] or content.rstrip().count(b"\n") + 1)
            raise unreadable(f"not TOML: {said[1]}", "see https://toml.io", line) from None
        raise unreadable(f"not TOML: {what}", "see https://toml.io") from None
    except RecursionError:
        raise unreadable("is nested too deeply", "is it the right file?") from None
