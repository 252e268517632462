"""The words of the local control socket: one JSON object per line, a request, then its answer.

Clients are the command line and later the TUI; this module must stay free of Trio, so that
``elwood inspect`` starts fast.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from elwood.agent.conversation import calls
from elwood.agent.session.inspection import Inspection, shorten

T = TypeVar("T")

# The socket's name in the runtime folder.
NAME = "control.sock"
# Bytes of one line, newline included, in either direction.
MAX_LINE = 1 << 20
# Seconds that one side waits for the other.
PATIENCE = 5.0
# Words of one command of a feature.
MAX_WORDS = 1000
# Bytes of a socket's address.
MAX_ADDRESS = 108


class Inspect(msgspec.Struct, frozen=True, tag="inspect"):
    """What is everyone doing?"""


class Pair(msgspec.Struct, frozen=True, tag="pair"):
    """The owner approves the stranger who was shown *code*."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class ShowApprovals(msgspec.Struct, frozen=True, tag="approvals"):
    """What waits for a decision, and what is permitted for good?"""


class Rule(msgspec.Struct, frozen=True, tag="rule"):
    """The owner decides about the call with *code*."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    answer: calls.OwnerAnswer


class Revoke(msgspec.Struct, frozen=True, tag="revoke"):
    """The owner takes the permission *number* back."""

    number: int


class Do(msgspec.Struct, frozen=True, tag="do"):
    """Have a feature carry its command *name* out, with *words*."""

    name: Annotated[str, msgspec.Meta(max_length=64)]
    words: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=100)], ...], msgspec.Meta(max_length=MAX_WORDS)
    ] = ()


Request = Inspect | Pair | ShowApprovals | Rule | Revoke | Do


class Inspected(msgspec.Struct, frozen=True, tag="inspected"):
    """The answer to `Inspect`."""

    inspection: Inspection


class Settled(msgspec.Struct, frozen=True, tag="settled"):
    """The answer to all but `Inspect`, in words for the owner."""

    ok: bool
    text: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """There is no answer; *why* is for the person who asked."""

    why: str


Answer = Inspected | Settled | Failed


class BadLine(Exception):
    """A line that is not of this protocol: the sender's fault, or one of another version."""


def bind(listener: socket.socket, path: Path) -> None:
    """Give the socket its place.  Raises OSError."""
    with _address(path) as address:
        listener.bind(address)


def connect(client: socket.socket, path: Path) -> None:
    """Reach the socket at *path*.  Raises OSError."""
    with _address(path) as address:
        client.connect(address)


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Name *path* so that the kernel takes it: an address has 108 bytes, with a zero (unix(7)).

    What is longer is reached by its open folder, on Linux.
    """
    if len(os.fsencode(path)) < MAX_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def encode(message: Request | Answer) -> bytes:
    """Write *message* as one line; an inspection that is too long loses its last actors."""
    line = msgspec.json.encode(message) + b"\n"
    if not isinstance(message, Inspected):
        return line
    inspection = message.inspection
    keep = max(len(inspection.actors), len(inspection.house.sessions))
    while len(line) > MAX_LINE and keep:
        keep //= 2
        line = msgspec.json.encode(Inspected(shorten(inspection, keep))) + b"\n"
    return line


def decode_request(line: bytes) -> Request:
    """Read a request.  Raises BadLine."""
    return _decode(_REQUESTS, line)


def decode_answer(line: bytes) -> Answer:
    """Read an answer.  Raises BadLine."""
    return _decode(_ANSWERS, line)


_REQUESTS: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def _decode(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error
