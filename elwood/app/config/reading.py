"""Turns one table into a class of settings, strictly, and finds all that is wrong in it."""

import difflib
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import msgspec

from elwood.app.config.source import FromVariable
from elwood.foundation.secrets.redaction import Secret, redact
from elwood.foundation.settings import BadSetting, Complaint, Key, Where, from_home, keys

T = TypeVar("T")
# Characters of a wrong value that are repeated to the operator.
SHOWN = 60


@attrs.define
class Reading:
    """Reads tables; *complaints* and the sound *values*, with their keys, add up.

    Secrets must have been looked up before.
    """

    home: Path
    complaints: list[Complaint] = attrs.field(factory=list)
    values: list[tuple[Where, Key, object]] = attrs.field(factory=list)

    def table(self, raw: object, kind: type[T], where: Where) -> T | None:
        """Make a *kind* of *raw*, which stands at *where*; None if anything is wrong with it."""
        before = len(self.complaints)
        if not isinstance(raw, dict):
            what = f"expected a table, found {described(raw)}"
            self._complain(where, BadSetting(what, "write a JSON object"))
            return None
        made: dict[str, object] = {}
        for field, key in keys(kind):
            here = (*where, field.name)
            if field.name not in raw:
                if field.default is attrs.NOTHING:
                    self._complain(here, BadSetting("is missing", "write it"))
                continue
            try:
                made[field.name] = self._value(raw[field.name], field.type, here, key)
            except BadSetting as error:
                self._complain(here, error)
        known = [field.name for field, _ in keys(kind)]
        for name in sorted(raw.keys() - set(known)):
            self._complain((*where, name), unknown(name, known))
        if len(self.complaints) > before:
            return None
        try:
            return kind(**made)
        except ValueError as error:  # a check of the class itself
            self._complain(where, BadSetting(str(error), "correct it"))
            return None

    def _complain(self, where: Where, error: BadSetting) -> None:
        self.complaints.append((where, error.what, error.remedy))

    def _value(self, raw: object, kind: Any, where: Where, key: Key) -> object:
        """Read a value, and check it.  Raises BadSetting; elements of lists complain themselves."""
        if get_origin(kind) in (Union, types.UnionType):
            # TOML has no way to write that a value is not there.
            (kind,) = (arg for arg in get_args(kind) if arg is not types.NoneType)
        if get_origin(kind) is tuple:
            return self._elements(raw, get_args(kind)[0], where, key)
        value = scalar(raw, kind, self.home)
        if key.check is not None:
            key.check(value)
        self.values.append((where, key, value))
        return value

    def _elements(self, raw: object, kind: type, where: Where, key: Key) -> tuple[object, ...]:
        example = "[1, 2]" if kind is int else '["a", "b"]'
        if isinstance(raw, FromVariable):
            try:
                raw = msgspec.json.decode(str(raw))
            except msgspec.DecodeError:
                raise BadSetting("expected a list in JSON", f"write {example}") from None
        if not isinstance(raw, list):
            if kind is str and isinstance(raw, str):
                example = f'["{redact(raw, ())}"]'
            raise _mistyped("a list", raw, f"write {example}")
        made = []
        for index, element in enumerate(raw):
            try:
                made.append(self._value(element, kind, (*where, index), key))
            except BadSetting as error:
                self._complain((*where, index), error)
        return tuple(made)


def scalar(raw: object, kind: Any, home: Path) -> object:
    """Read one value that is no list.  Raises BadSetting."""
    if get_origin(kind) is Literal:
        choices = [str(choice) for choice in get_args(kind)]
        if raw in choices:
            return str(raw)
        near = difflib.get_close_matches(str(raw), choices, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"write {' or '.join(choices)}"
        what = f"expected one of {', '.join(choices)}, found {described(raw)}"
        raise BadSetting(what, remedy)
    if kind is Path:
        path = Path(from_home(str(scalar(raw, str, home)), home))
        if not path.is_absolute():
            raise BadSetting(
                f"{described(raw)} is not an absolute path", "write it from / or ~/ on"
            )
        return path
    if kind is str and isinstance(raw, str):
        return str(raw)
    if kind is bool and (isinstance(raw, bool) or _is_variable(raw, "true", "false")):
        return raw in (True, "true")
    if kind is int and isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if kind is float and isinstance(raw, int | float) and not isinstance(raw, bool):
        return float(raw)
    if kind in (int, float) and isinstance(raw, FromVariable):
        try:
            return kind(raw)
        except ValueError:
            pass
    if kind is Secret:
        return raw
    wanted, remedy = _WANTED[kind]
    if isinstance(raw, FromVariable):
        remedy = remedy.removesuffix(", without quotes")
    raise _mistyped(wanted, raw, remedy)


_WANTED = {
    bool: ("true or false", "write true or false"),
    int: ("a whole number", "write digits only, without quotes"),
    float: ("a number", "write a number, without quotes"),
    str: ("a text", "put it into quotes"),
}


def _is_variable(raw: object, *texts: str) -> bool:
    return isinstance(raw, FromVariable) and raw in texts


def _mistyped(wanted: str, value: object, remedy: str) -> BadSetting:
    return BadSetting(f"expected {wanted}, found {described(value)}", remedy)


def unknown(name: str, known: Iterable[str]) -> BadSetting:
    """Say that there is no key *name*, and which of *known* may have been meant."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return BadSetting("no such key", remedy)


def described(value: object) -> str:
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
