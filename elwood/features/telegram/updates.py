"""Reads what the long poll brings: each update for itself, whatever form the others have."""

import json
import re
from typing import Any

import msgspec

from elwood.features.telegram.bot_api import Unreadable, Update

# Fields of one update that may be left out before the whole is given up.
_MENDINGS = 8


class _Id(msgspec.Struct):
    update_id: int


def read_updates(result: bytes | msgspec.Raw) -> list[Update | Unreadable] | None:
    """Read a list of updates, each for itself; None if it is no list at all.

    Lone surrogates, which JSON can carry and UTF-8 cannot, become replacement characters (TG-34).
    *result* is the list, or the whole answer if that could not be read strictly.
    """
    try:
        parts: list[Any] = msgspec.json.decode(result, type=list[msgspec.Raw])
        read = [_read(part) for part in parts]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            loose = json.loads(bytes(result).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
        if isinstance(loose, dict):
            loose = loose.get("result")
        if not isinstance(loose, list):
            return None
        read = [_read(json.dumps(_mended(item)).encode()) for item in loose]
    return [update for update in read if update is not None]


def _read(part: bytes | msgspec.Raw) -> Update | Unreadable | None:
    """Read one update, without a part of it if need be; None if it does not even have an id."""
    try:
        return msgspec.json.decode(part, type=Update)
    except (msgspec.ValidationError, RecursionError) as error:
        try:
            number = msgspec.json.decode(part, type=_Id).update_id
        except msgspec.ValidationError:
            return None
        return _salvaged(part, error) or Unreadable(number, _place(error))


def _salvaged(part: bytes | msgspec.Raw, error: Exception) -> Update | None:
    """Leave out the field of a message that is not as expected: a new form of a picture must not
    cost the text beside it.
    """
    loose = json.loads(bytes(part))
    for _ in range(_MENDINGS):
        match _place(error).split("."):
            case ["$", kind, field, *_]:
                loose[kind].pop(field.partition("[")[0], None)
            case _:
                return None
        try:
            return msgspec.convert(loose, Update)
        except msgspec.ValidationError as another:
            error = another
    return None


def _place(error: Exception) -> str:
    """Say where an update is not as expected, without quoting it."""
    found = re.search(r"at `(\$[\w.\[\]]*)`", str(error))
    return found[1] if found else type(error).__name__


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value
