"""The local control socket, by which the command line asks the running Elwood.

One JSON object per line: a request, then its answer.  Free of Trio, so that a command starts fast
and works while the service is in trouble.
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

# The socket's name in the runtime folder.
NAME = "control.sock"
# Bytes of one line, newline included, in either direction.
MAX_LINE = 1 << 20
# Words of one request, and characters of each: a line holds one that long, however it is escaped.
MAX_WORDS, MAX_WORD = 1000, 150_000
# Seconds that the service waits for a request or for what answers it; then it gives up and says so.
PATIENCE = 5.0
# Seconds that we wait for an answer.
DEADLINE = 2 * PATIENCE
# Bytes of a socket's address.
MAX_ADDRESS = 108


class ControlRequest(msgspec.Struct, frozen=True):
    """Do *command* with *words*."""

    command: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    words: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=MAX_WORD)], ...],
        msgspec.Meta(max_length=MAX_WORDS),
    ] = ()


class ControlAnswer(msgspec.Struct, frozen=True):
    """What came of it, in words for who asked; not *ok* means that it was not done."""

    ok: bool
    text: str


class BadLine(Exception):
    """A line that is not of this protocol: the sender's fault, or one of another version."""


class ServiceUnreachable(Exception):
    """No answer from a process; the text says why and what to do."""


class NobodyRuns(ServiceUnreachable):
    """There is no process."""


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


def encode(message: ControlRequest | ControlAnswer) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def decode(line: bytes, kind: type[T]) -> T:
    """Read a line.  Raises BadLine."""
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error


# --- who asks -------------------------------------------------------------------------------------


def settle(runtime_dir: Path, command: str, *words: str) -> int:
    """Have something done, and say what came of it; return the exit code."""
    try:
        answer = ask(runtime_dir, command, *words)
    except ServiceUnreachable as error:
        print(error, file=sys.stderr)
        return 1
    print(answer.text, file=sys.stdout if answer.ok else sys.stderr)
    return 0 if answer.ok else 1


def ask(runtime_dir: Path, command: str, *words: str) -> ControlAnswer:
    """Ask the Elwood that runs in *runtime_dir*.  Raises ServiceUnreachable."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        return ask_over(client, runtime_dir, command, *words)


def ask_over(
    client: socket.socket, runtime_dir: Path, command: str, *words: str, buffering: int = -1
) -> ControlAnswer:
    """Ask over *client*, which is not connected yet.  Raises ServiceUnreachable.

    Without *buffering* nothing is read of what comes behind the answer.
    """
    path = runtime_dir / NAME
    client.settimeout(DEADLINE)
    try:
        connect(client, path)
        # It may refuse us, and go, before it has read anything: then its answer counts.
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(encode(ControlRequest(command, words)))
        with client.makefile("rb", buffering) as answers:
            line = answers.readline(MAX_LINE + 1)
        if not line.endswith(b"\n") or len(line) > MAX_LINE:
            raise BadLine("it ended too early, or is too long")
        return decode(line, ControlAnswer)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NobodyRuns(_words(error, path)) from error
    except (OSError, BadLine) as error:
        raise ServiceUnreachable(_words(error, path)) from error


def _words(error: OSError | BadLine, path: Path) -> str:
    match error:
        case FileNotFoundError() | ConnectionRefusedError():
            return f"No Elwood runs here: nobody listens on {path}. Start it with: elwood run"
        case PermissionError():
            return f"{path} belongs to another user. Ask as the user who runs Elwood, or as root."
        case TimeoutError():
            why = f"no answer within {DEADLINE:.0f} s: it hangs. Restart it, and look at its log."
            return f"Elwood took the question but gave {why}"
        case BadLine():
            why = f"does not understand; perhaps it is of another version: {error}"
            return f"The running Elwood gave an answer that this command {why}"
        case _:
            return f"Cannot reach Elwood on {path}: {error}"
