"""The command line's side of the control socket.

Free of Trio, so that it starts fast and works while the service is in trouble.
"""

import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from elwood.agent.session.inspection import Inspection
from elwood.features.control import protocol as wire

# Seconds that we wait for an answer: Elwood gives up after PATIENCE and says so.
DEADLINE = 2 * wire.PATIENCE


class ServiceUnreachable(Exception):
    """No answer from a process; the text says why and what to do."""


Settling = wire.Pair | wire.ShowApprovals | wire.Rule | wire.Revoke | wire.Do


def is_reachable(runtime_dir: Path) -> bool:
    """Tell whether somebody listens on the control socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(DEADLINE)
        try:
            wire.connect(client, runtime_dir / wire.NAME)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True
    return True


def settle(runtime_dir: Path, request: Settling) -> int:
    """Have something decided, and say what came of it; return the exit code."""
    if isinstance(request, wire.Pair | wire.Rule) and not 1 <= len(request.code) <= 64:
        print("A code has between 1 and 64 characters.", file=sys.stderr)
        return 1
    try:
        answer = ask(runtime_dir, request)
    except ServiceUnreachable as error:
        print(error, file=sys.stderr)
        return 1
    if not isinstance(answer, wire.Settled):
        print(_failure(answer), file=sys.stderr)
        return 1
    print(answer.text, file=sys.stdout if answer.ok else sys.stderr)
    return 0 if answer.ok else 1


def fetch(runtime_dir: Path) -> Inspection:
    """Look at the Elwood that runs.  Raises ServiceUnreachable."""
    answer = ask(runtime_dir, wire.Inspect())
    if isinstance(answer, wire.Inspected):
        return answer.inspection
    raise ServiceUnreachable(_failure(answer))


def ask(runtime_dir: Path, request: wire.Request) -> wire.Answer:
    """Ask the Elwood that runs in *runtime_dir*.  Raises ServiceUnreachable."""
    path = runtime_dir / wire.NAME
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(DEADLINE)
        try:
            wire.connect(client, path)
            # It may refuse us, and go, before it has read anything: then its answer counts.
            with suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(wire.encode(request))
            line = _receive_line(client, time.monotonic() + DEADLINE)
            return wire.decode_answer(line)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise ServiceUnreachable(
                f"No Elwood runs here: nobody listens on {path}. Start it with: elwood run"
            ) from error
        except PermissionError as error:
            raise ServiceUnreachable(
                f"{path} belongs to another user. Ask as the user who runs Elwood, or as root."
            ) from error
        except TimeoutError as error:
            raise ServiceUnreachable(
                f"Elwood took the question but gave no answer within {DEADLINE:.0f} s: it hangs."
                " Restart it, and look at its log."
            ) from error
        except OSError as error:
            raise ServiceUnreachable(f"Cannot reach Elwood on {path}: {error}") from error
        except wire.BadLine as error:
            raise ServiceUnreachable(
                "The running Elwood gave an answer that this command does not understand;"
                f" perhaps it is of another version: {error}"
            ) from error


def _receive_line(client: socket.socket, deadline: float) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        client.settimeout(max(0.01, deadline - time.monotonic()))
        more = client.recv(65_536)
        if not more or len(line) + len(more) > wire.MAX_LINE:
            raise wire.BadLine("it ended too early" if not more else "it is too long")
        line += more
    return bytes(line)


def _failure(answer: wire.Answer) -> str:
    if isinstance(answer, wire.Failed):
        return f"Elwood does not answer: {answer.why}"
    return "Elwood answered something else than was asked."
