"""Knows what stands where: the values given by a file and by the environment, and their places."""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

import attrs
import msgspec

from elwood.app.config.problems import Where

PREFIX = "ELWOOD__"
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
Complain = Callable[[Where, str, str], None]
Tree = dict[str, object]


class FromVariable(str):
    """The text of a variable: unlike the text in a file it may stand for a number or a list."""

    __slots__ = ()


@attrs.define
class Source:
    """The tree of values, and for each the line or the variable that it comes from."""

    tree: Tree
    lines: dict[Where, int]
    variables: dict[Where, str] = attrs.field(factory=dict)
    # The variables that were put into the text at a place by ${…}.
    expanded: dict[Where, set[str]] = attrs.field(factory=dict)

    def place(self, where: Where) -> tuple[int | None, str | None]:
        """Find the line or the variable of *where*, of something in it, or of what surrounds it."""
        inside = [place for place in (*self.lines, *self.variables) if _begins(place, where)]
        if inside and where not in self.lines and where not in self.variables:
            where = inside[0]
        for end in range(len(where), 0, -1):
            if where[:end] in self.variables:
                return None, self.variables[where[:end]]
            if where[:end] in self.lines:
                return self.lines[where[:end]], None
        return None, None

    def expand(self, environ: Mapping[str, str], complain: Complain) -> None:
        """Replace ``${NAME}`` in all texts of the file; ``$${`` stands for ``${``."""
        self.tree = {
            key: self._expanded(value, (key,), environ, complain)
            for key, value in self.tree.items()
        }

    def _expanded(
        self, value: object, where: Where, environ: Mapping[str, str], complain: Complain
    ) -> object:
        if isinstance(value, dict):
            return {k: self._expanded(v, (*where, k), environ, complain) for k, v in value.items()}
        if isinstance(value, list):
            items = enumerate(value)
            return [self._expanded(item, (*where, n), environ, complain) for n, item in items]
        if not isinstance(value, str):
            return value

        def put(match: re.Match[str]) -> str:
            name = match[1]
            if name is None and match[0] == "${":
                complain(where, "${ without a name and }", "write $${ for a plain ${")
            if name is None:
                return "${"
            if name not in environ:
                complain(where, f"the variable {name} is not set", f"set it, or write $${{{name}}}")
            self.expanded.setdefault(where, set()).add(name)
            return environ.get(name, "")

        return _VARIABLE.sub(put, value)

    def overlay(self, environ: Mapping[str, str]) -> None:
        """Put the variables ``ELWOOD__SECTION__KEY`` over the tree.

        Whole tables are JSON; keys within them may follow in variables of their own.
        """
        ours = [name for name in environ if name.startswith(PREFIX)]
        for name in sorted(ours, key=lambda name: (name.count("__"), name)):
            self._put(name, environ[name])

    def _put(self, name: str, text: str) -> None:
        table = self.tree
        where: Where = ()
        *sections, key = name.removeprefix(PREFIX).split("__")
        for section in sections:
            where = (*where, _known(table, section))
            below = table.setdefault(_known(table, section), {})
            if not isinstance(below, dict):
                return  # not a table; the complaint about that says enough
            table = below
        is_table = where in ((), ("providers",))
        where = (*where, _known(table, key))
        table[_known(table, key)] = _from_json(text) if is_table else FromVariable(text)
        self.variables[where] = name
        replaced = [place for place in self.lines if _begins(place, where)]
        for place in replaced:
            del self.lines[place]


def found(tree: object, where: Where) -> object:
    """Return what stands at *where* in *tree*; None if there is nothing."""
    for step in where:
        items = listed(tree) or []
        if isinstance(tree, dict):
            tree = tree.get(step)
        else:
            tree = items[step] if isinstance(step, int) and step < len(items) else None
    return tree


def listed(value: object) -> list[object] | None:
    """Return the list that *value* is, from a file or from a variable; None if it is none."""
    if isinstance(value, FromVariable):
        try:
            return msgspec.json.decode(str(value), type=list[object])
        except msgspec.DecodeError:
            return None
    return value if isinstance(value, list) else None


def _begins(place: Where, where: Where) -> bool:
    return place[: len(where)] == where


def _from_json(text: str) -> object:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        return FromVariable(text)


def _known(table: Tree, name: str) -> str:
    """Spell the key *name* of a variable as the table does, if it has it."""
    plain = name.lower()
    same = (key for key in table if key.lower().replace("-", "_") == plain)
    return next(same, plain)


def parse(text: str) -> Source:
    """Read TOML.  Raises tomllib.TOMLDecodeError, and RecursionError for absurd nesting."""
    tree = tomllib.loads(text)
    return Source(tree, dict(_Scan(text).positions()))


class _Scan:
    """Finds the lines of keys and of list elements in a text known to be valid TOML."""

    _SKIP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
    _BLANK = re.compile(r"[ \t]*")
    _KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
    _SCALAR = re.compile(
        r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\]|\\.)*"|'[^']*'|[^,\]}\n#]+''',
        re.DOTALL,
    )

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._breaks = [match.start() for match in re.finditer("\n", text)]

    def positions(self) -> Iterator[tuple[Where, int]]:
        header: Where = ()
        counts: dict[Where, int] = {}  # tables so far of each [[array of tables]]
        while self._skip() < len(self._text):
            line = self._line()
            if self._text[self._at] != "[":
                yield from self._pair(header)
                continue
            many = self._text.startswith("[[", self._at)
            self._at += 1 + many
            header = ()
            for step in self._keys():
                header = (*header, step)
                if header in counts:
                    header = (*header, counts[header] - 1)
            if many:
                name = header[:-1] if isinstance(header[-1], int) else header
                counts[name] = counts.get(name, 0) + 1
                header = (*name, counts[name] - 1)
            self._at += 1 + many
            yield header, line

    def _pair(self, table: Where) -> Iterator[tuple[Where, int]]:
        line = self._line()
        where = (*table, *self._keys())
        self._at += 1  # =
        yield where, line
        yield from self._value(where)

    def _value(self, where: Where) -> Iterator[tuple[Where, int]]:
        self._take(self._BLANK)
        opening = self._text[self._at]
        if opening not in "[{":
            self._take(self._SCALAR)
            return
        closing = "]" if opening == "[" else "}"
        self._at += 1
        index = 0
        while self._text[self._skip()] != closing:
            if opening == "[":
                yield (*where, index), self._line()
                yield from self._value((*where, index))
                index += 1
            else:
                yield from self._pair(where)
            if self._text[self._skip()] == ",":
                self._at += 1
        self._at += 1

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._take(self._BLANK)
            key = self._take(self._KEY)
            keys.append(str(tomllib.loads(f"k = {key}")["k"]) if key[0] in "\"'" else key)
            self._take(self._BLANK)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        assert match is not None  # the text is valid TOML
        self._at = match.end()
        return match[0]

    def _skip(self) -> int:
        self._take(self._SKIP)
        return self._at

    def _line(self) -> int:
        return bisect_right(self._breaks, self._at - 1) + 1
