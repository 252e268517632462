"""Parse the lines that a server writes; strictly, because they are untrusted."""

import json
import re
from typing import NoReturn

from elwood.features.mcp.definitions import MAX_DEPTH, is_deep

# Bytes of a line, and consecutive unreadable lines after which a server is stopped.
MAX_LINE, MAX_GARBAGE = 10 << 20, 100
# Bytes of stderr that are kept, and characters of its last line.
MAX_ERRORS, MAX_LAST = 64 << 10, 300
# A request id, in a line that cannot be parsed.
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})')


class UnreadableLine(ValueError):
    """The line is not a message; the text gives the reason."""


def read_message(line: bytes) -> object:
    """Parse one line.  Raises UnreadableLine.

    >>> read_message(b'{"a": 1}')
    {'a': 1}
    """
    try:
        value = json.loads(
            line.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse
        )
    except UnicodeDecodeError:
        raise UnreadableLine("it is not UTF-8") from None
    except RecursionError:
        raise UnreadableLine("it is nested too deeply") from None
    except UnreadableLine:
        raise
    except ValueError:
        raise UnreadableLine("it is not JSON") from None
    if is_deep(value):
        raise UnreadableLine(f"it is nested deeper than {MAX_DEPTH}")
    if not isinstance(value, dict):
        raise UnreadableLine("it is not an object")
    return value


def guess_request_id(line: bytes) -> int | None:
    """Guess which request an unreadable *line* answers.

    >>> guess_request_id(b'{"jsonrpc": "2.0", "id": 7, "result": NaN}'), guess_request_id(b"hello")
    (7, None)
    """
    match = _ID.search(line)
    return int(match[1]) if match else None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise UnreadableLine("it has a duplicate key")
    return unique


def _refuse(word: str) -> NoReturn:
    raise UnreadableLine(f"{word} is not JSON")


class LastWords:
    """The last bytes that a server wrote to stderr."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data
        del self._data[:-MAX_ERRORS]

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")

    def last(self) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1][-MAX_LAST:] if lines else ""
