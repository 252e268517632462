"""Turns one table into a settings class, strictly, and says all that is wrong in it."""

import difflib
import types
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
import msgspec

from elwood.app.config.checks import Check
from elwood.app.config.keys import BY_PATH
from elwood.app.config.problems import Where, Wrong
from elwood.app.config.source import FromVariable
from elwood.foundation.secrets.redaction import Secret, redact

T = TypeVar("T")
# What is wrong at a place within the table, and the remedy.
Complaint = tuple[Where, str, str]

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
# Characters of a wrong value that are repeated to the operator.
SHOWN = 60


def structure(raw: object, cls: type[T], section: str) -> T | list[Complaint]:
    """Make *cls*, whose keys are described under *section*, of *raw*, or say what is wrong."""
    if not isinstance(raw, dict):
        return [((), f"expected a table, found {described(raw)}", "write a JSON object")]
    complaints = list(_unfit(raw, cls, section))
    try:
        made = _converter().structure(raw, cls)
    except cattrs.BaseValidationError as error:
        return [*_complaints(error, (), _keys(cls)), *complaints]
    return complaints or made


def unknown(name: str, known: Iterable[str]) -> tuple[str, str]:
    """Say that there is no key *name*, and which of *known* may have been meant."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return "no such key", remedy


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


def _unfit(raw: dict[str, object], cls: type, section: str) -> Iterator[Complaint]:
    """Check the values that have the right type, also when others have not."""
    for field in attrs.fields(cls):
        check = BY_PATH[f"{section}.{field.name}"].check
        if check is None or field.name not in raw:
            continue
        value, kind = raw[field.name], _without_none(field.type)
        if _made_of(kind) is tuple and isinstance(value, list):
            item = get_args(kind)[0]
            for index, one in enumerate(value):
                yield from _checked(one, item, check, (field.name, index))
        else:
            yield from _checked(value, kind, check, (field.name,))


def _without_none(kind: type) -> type:
    """Return what *kind* is if it is there: TOML has no way to write that it is not."""
    inner = [arg for arg in get_args(kind) if arg is not types.NoneType]
    return inner[0] if _made_of(kind) in (Union, types.UnionType) else kind


def _checked(value: object, kind: type, check: Check, where: Where) -> Iterator[Complaint]:
    try:
        made: object = _converter().structure(value, kind)
    except (Wrong, cattrs.BaseValidationError):
        return  # of the wrong type: another complaint
    try:
        for one in made if isinstance(made, tuple) else [made]:
            check(one)
    except Wrong as error:
        yield where, error.what, error.remedy


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(bool, _bool)
    converter.register_structure_hook(int, _int)
    converter.register_structure_hook(float, _float)
    converter.register_structure_hook(str, _str)
    converter.register_structure_hook(Path, _path)
    converter.register_structure_hook(Secret, lambda value, _: value)  # looked up before
    converter.register_structure_hook_func(lambda kind: _made_of(kind) is Literal, _choice)
    converter.register_structure_hook_func(lambda kind: _made_of(kind) is tuple, _items)
    return converter


def _made_of(kind: object) -> object:
    return get_origin(kind)


def _bool(value: object, _: object) -> bool:
    if isinstance(value, FromVariable) and value in ("true", "false"):
        return value == "true"
    if isinstance(value, bool):
        return value
    raise _mistyped("true or false", value, "write true or false")


def _int(value: object, _: object) -> int:
    if isinstance(value, FromVariable):
        try:
            return int(value)
        except ValueError:
            raise _mistyped("a whole number", value, "write digits only") from None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _mistyped("a whole number", value, "write digits only, without quotes")


def _float(value: object, _: object) -> float:
    if isinstance(value, FromVariable):
        try:
            return float(value)
        except ValueError:
            raise _mistyped("a number", value, "write a number") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise _mistyped("a number", value, "write a number, without quotes")


def _str(value: object, _: object) -> str:
    if isinstance(value, str):
        return str(value)
    raise _mistyped("a text", value, "put it into quotes")


def _path(value: object, _: object) -> Path:
    path = Path(_str(value, str))
    if not path.is_absolute():
        raise Wrong(f"{described(value)} is not an absolute path", "write it from / or ~/ on")
    return path


def _choice(value: object, kind: object) -> object:
    choices = [str(choice) for choice in get_args(kind)]
    if value in choices:
        return str(value)
    near = difflib.get_close_matches(str(value), choices, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"write {' or '.join(choices)}"
    raise Wrong(f"expected one of {', '.join(choices)}, found {described(value)}", remedy)


def _items(value: object, kind: object) -> tuple[object, ...]:
    item = get_args(kind)[0]
    if isinstance(value, FromVariable):
        try:
            value = msgspec.json.decode(str(value))
        except msgspec.DecodeError:
            raise Wrong("expected a list in JSON", f"write {_example(item)}") from None
    if not isinstance(value, list):
        one = redact(str(value), ())
        example = f'["{one}"]' if item is str and isinstance(value, str) else _example(item)
        raise _mistyped("a list", value, f"write {example}")
    hook = _converter().get_structure_hook(item)
    made: list[object] = []
    errors: list[Exception] = []
    for index, raw in enumerate(value):
        try:
            made.append(hook(raw, item))
        except Wrong as error:
            error.add_note(cattrs.IterableValidationNote("", index, item))
            errors.append(error)
    if errors:
        raise cattrs.IterableValidationError("", errors, tuple)
    return tuple(made)


def _example(item: object) -> str:
    return "[1, 2]" if item is int else '["a", "b"]'


def _mistyped(wanted: str, value: object, remedy: str) -> Wrong:
    return Wrong(f"expected {wanted}, found {described(value)}", remedy)


def _keys(cls: type) -> list[str]:
    return [field.name for field in attrs.fields(cls)]


def _complaints(error: Exception, where: Where, known: list[str]) -> Iterator[Complaint]:
    match error:
        case cattrs.ClassValidationError() | cattrs.IterableValidationError():
            placed, others = error.group_exceptions()
            for inner, note in placed:
                step = note.name if isinstance(note, cattrs.AttributeValidationNote) else note.index
                yield from _complaints(inner, (*where, step), known)
            for inner in others:
                yield from _complaints(inner, where, known)
        case cattrs.ForbiddenExtraKeysError():
            for name in sorted(error.extra_fields):
                yield (*where, name), *unknown(name, known)
        case KeyError():
            yield where, "is missing", "write it"
        case Wrong():
            yield where, error.what, error.remedy
        case ValueError():  # a check of the class itself
            yield where, str(error), "correct it"
        case _:
            raise error
