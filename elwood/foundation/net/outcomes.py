"""What an HTTP exchange can come to: a whole answer, or one of two failures."""

import os
import ssl
from collections.abc import Mapping

import attrs


class Unreachable(Exception):
    """No connection could be made: the request was surely not sent.

    *why* is in words for the operator and holds neither address nor key.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Interrupted(Exception):
    """The request went out, at least in part, and no whole answer came: it may have acted.

    *stalled* says that nothing came for too long; otherwise the connection broke.
    """

    def __init__(self, why: str, *, stalled: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.stalled = stalled


@attrs.frozen
class Answer:
    """A whole answer; the names in *headers* are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = attrs.field(repr=False)


def reason(error: BaseException) -> str:
    """Say why a connection failed, from the error at the root: in the system's own words."""
    root = error
    while (deeper := root.__cause__ or root.__context__) is not None:
        root = deeper
    if isinstance(root, BaseExceptionGroup):
        root = root.exceptions[0]
    if isinstance(root, ssl.SSLError):
        return f"TLS failed: {getattr(root, 'verify_message', '') or root.reason}"
    if isinstance(root, OSError) and root.errno is not None:
        # Trio puts the address into strerror; a resolver's codes are negative.
        words = os.strerror(root.errno) if root.errno > 0 else root.strerror
        return f"cannot connect: {words}"
    return "cannot connect"
