"""Knows what stands where: the values given by a file and by the environment."""

import re
from collections.abc import Collection, Mapping

import attrs
import msgspec

from elwood.foundation.settings import Report, Where

PREFIX = "ELWOOD__"
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
Tree = dict[str, object]


class FromVariable(str):
    """The text of a variable: unlike the text in a file it may stand for a number or a list."""

    __slots__ = ()


@attrs.define
class Source:
    """The *tree* of values: at first what is *written* in the file."""

    written: Tree
    tree: Tree = attrs.field(init=False)
    # Where a variable of ours has been put over the file.
    variables: dict[Where, str] = attrs.field(factory=dict)
    # The variables that were put into the text at a place by ${…}.
    expanded: dict[Where, set[str]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.tree = self.written

    def variable(self, where: Where) -> str | None:
        """Find the variable that *where*, or something in it, comes from; None: the file."""
        for end in range(len(where), 0, -1):
            if where[:end] in self.variables:
                return self.variables[where[:end]]
        if found(self.written, where) is not None:
            return None
        inside = (name for at, name in self.variables.items() if at[: len(where)] == where)
        return next(inside, None)

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

    def overlay(self, environ: Mapping[str, str], keyed: Collection[str]) -> None:
        """Put the variables ``ELWOOD__SECTION__KEY`` over the tree.

        Whole tables are JSON, as are those in sections of *keyed* tables; keys within them may
        follow in variables of their own.
        """
        ours = [name for name in environ if name.startswith(PREFIX)]
        for name in sorted(ours, key=lambda name: (name.count("__"), name)):
            self._put(name, environ[name], keyed)

    def _put(self, name: str, text: str, keyed: Collection[str]) -> None:
        table = self.tree
        where: Where = ()
        *sections, key = name.removeprefix(PREFIX).split("__")
        for section in sections:
            where = (*where, _known(table, section))
            below = table.setdefault(_known(table, section), {})
            if not isinstance(below, dict):
                return  # not a table; the complaint about that says enough
            table = below
        is_table = not where or (len(where) == 1 and where[0] in keyed)
        where = (*where, _known(table, key))
        table[_known(table, key)] = _from_json(text) if is_table else FromVariable(text)
        self.variables[where] = name


def found(tree: object, where: Where) -> object:
    """Return what stands at *where* in *tree*; None if there is nothing."""
    for step in where:
        if isinstance(tree, dict):
            tree = tree.get(step)
        else:
            items = listed(tree) or []
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
