"""A terminal at a real socket, whose other end a test plays.

Run as a program it uses the socket of its first argument, and the history of its second.
"""

import select
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from elwood.agent.channels.frames import FromClient, SaidHere, ToClient, Took, encode
from elwood.features.console.screen import sit
from elwood.foundation.command_line import Printer

COMMANDS = [("stop", "stop the answer"), ("status", "how I am"), ("new", "begin anew")]
NOTE = "Three things to try:\n\n- what is in this folder?\n- `/status`\n- write a poem"
# Seconds after which an expected event counts as missing.
PATIENCE = 60.0


class PlayedApp:
    """Elwood's end: send frames, and wait for messages."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        self._connection = connection
        self._lines = connection.makefile("rb")

    def send(self, *frames: ToClient) -> None:
        self._connection.sendall(b"".join(map(encode, frames)))

    def send_raw(self, data: bytes) -> None:
        self._connection.sendall(data)

    def receive(self, why: str = "") -> SaidHere:
        """Wait for the next message and accept it, or refuse it with *why*."""
        message = msgspec.json.decode(self._lines.readline(), type=FromClient)
        self.send(Took(message.id, why))
        return message

    def has_message(self, seconds: float) -> bool:
        """Return True if a message arrives within *seconds*."""
        return bool(select.select([self._connection], [], [], seconds)[0])

    def is_at_end(self) -> bool:
        """Return True if the terminal has closed and nothing is left to read."""
        return not self._lines.readline()

    def hang_up(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


class _Unshowable(str):
    def partition(self, sep: str, /) -> tuple[Any, str, str]:
        return 5, "", ""


def main() -> int:
    Printer.install()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    codes: list[int] = []

    commands = COMMANDS
    if "--broken" in sys.argv:  # the library fails when it draws this
        commands = [("broken", _Unshowable())]

    def run() -> None:
        history = Path(sys.argv[2])
        codes.append(sit(connection, session="main", history=history, commands=commands, note=NOTE))

    if "--thread" not in sys.argv:
        run()
    else:  # as if Trio had the main thread
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    with suppress(OSError):  # the terminal may be closed
        print(f"left with {codes}")
    Printer.release()
    return codes[0]


if __name__ == "__main__":
    raise SystemExit(main())
