"""The local control socket, through which the command line talks to the running Elwood.

One JSON object per line: a request, then its response.  It does not use Trio, so that a command
starts fast and works while the service has problems.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

T = TypeVar("T")

# Name of the socket in the runtime folder.
NAME = "control.sock"
# Bytes of one line, newline included, in either direction.
MAX_LINE = 1 << 20
# Words of one request, and characters of each: a line has room for one, however it is escaped.
MAX_WORDS, MAX_WORD = 1000, 150_000
# Seconds that the service waits for a request, or for its handler; then it responds with an error.
PATIENCE = 5.0
# Seconds that a client waits for a response.
DEADLINE = 2 * PATIENCE
# Bytes of a socket address.
MAX_ADDRESS = 108


class ControlRequest(msgspec.Struct, frozen=True):
    """A request to run *command* with the arguments *words*."""

    command: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    words: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=MAX_WORD)], ...],
        msgspec.Meta(max_length=MAX_WORDS),
    ] = ()


class ControlAnswer(msgspec.Struct, frozen=True):
    """A response; *text* is for the user.  If not *ok*, the command was not carried out."""

    ok: bool
    text: str


class BadLine(Exception):
    """A line violates the protocol: a fault of the sender, or another version."""


class ServiceUnreachable(Exception):
    """The service did not respond; the text says why and what to do."""


class NotRunning(ServiceUnreachable):
    """No Elwood is running."""


def bind(listener: socket.socket, path: Path) -> None:
    """Bind the socket to *path*.  Raises OSError."""
    with _address(path) as address:
        listener.bind(address)


def connect(client: socket.socket, path: Path) -> None:
    """Connect to the socket at *path*.  Raises OSError."""
    with _address(path) as address:
        client.connect(address)


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Return an address for *path*; the kernel accepts 108 bytes, including a zero (unix(7)).

    A longer path is addressed through its open folder, on Linux.
    """
    if len(os.fsencode(path)) < MAX_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def encode(message: ControlRequest | ControlAnswer) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def decode(line: bytes, kind: type[T]) -> T:
    """Parse a line.  Raises BadLine."""
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error


# --- client ---------------------------------------------------------------------------------------


def print_response(runtime_dir: Path, command: str, *words: str) -> int:
    """Send a request and print the response; return the exit code."""
    try:
        answer = ask(runtime_dir, command, *words)
    except ServiceUnreachable as error:
        print(error, file=sys.stderr)
        return 1
    print(answer.text, file=sys.stdout if answer.ok else sys.stderr)
    return 0 if answer.ok else 1


def ask(runtime_dir: Path, command: str, *words: str) -> ControlAnswer:
    """Send a request to the Elwood that runs in *runtime_dir*.  Raises ServiceUnreachable."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        return ask_over(client, runtime_dir, command, *words)


def ask_over(
    client: socket.socket, runtime_dir: Path, command: str, *words: str, buffering: int = -1
) -> ControlAnswer:
    """Send a request over *client*, which is not connected yet.  Raises ServiceUnreachable.

    With *buffering* 0 nothing after the response is read.
    """
    path = runtime_dir / NAME
    client.settimeout(DEADLINE)
    try:
        connect(client, path)
        # The service may refuse and close before it reads anything: then its response counts.
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(encode(ControlRequest(command, words)))
        with client.makefile("rb", buffering) as answers:
            line = answers.readline(MAX_LINE + 1)
        if not line.endswith(b"\n") or len(line) > MAX_LINE:
            raise BadLine("the answer ended too early, or is too long")
        return decode(line, ControlAnswer)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NotRunning(_explain(error, path)) from error
    except (OSError, BadLine) as error:
        raise ServiceUnreachable(_explain(error, path)) from error


def _explain(error: OSError | BadLine, path: Path) -> str:
    match error:
        case FileNotFoundError() | ConnectionRefusedError():
            return f"Elwood is not running: no program listens on {path}. Start it with: elwood run"
        case PermissionError():
            return (
                f"{path} belongs to another user. "
                "Run this command as the user that runs Elwood, or as root."
            )
        case TimeoutError():
            why = f"did not answer within {DEADLINE:.0f} s. Restart it, and read its log."
            return f"Elwood accepted the request but {why}"
        case BadLine():
            why = f"cannot read; perhaps it has another version: {error}"
            return f"The running Elwood sent an answer that this command {why}"
        case _:
            return f"Cannot reach Elwood on {path}: {error}"
