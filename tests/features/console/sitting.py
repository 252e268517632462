"""A terminal, and a house for it that a test plays: at the other end of a real socket.

As a program: sits at the socket of its first argument, with the history of its second.
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
# Seconds after which something that should come does not.
PATIENCE = 60.0


class PlayedHouse:
    """The end of Elwood: sends frames, and waits for what was said."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        self._connection = connection
        self._lines = connection.makefile("rb")

    def send(self, *frames: ToClient) -> None:
        self._connection.sendall(b"".join(map(encode, frames)))

    def send_raw(self, data: bytes) -> None:
        self._connection.sendall(data)

    def said(self, why: str = "") -> SaidHere:
        """Wait for the next thing that is said, and take it; or say *why* not."""
        said = msgspec.json.decode(self._lines.readline(), type=FromClient)
        self.send(Took(said.id, why))
        return said

    def is_heard(self, seconds: float) -> bool:
        """Tell whether something is said before the *seconds* are over."""
        return bool(select.select([self._connection], [], [], seconds)[0])

    def has_heard_nothing(self) -> bool:
        """Tell, when the terminal has gone, whether nothing came from it."""
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
    if "--broken" in sys.argv:  # the library fails at it when it draws
        commands = [("broken", _Unshowable())]

    def run() -> None:
        history = Path(sys.argv[2])
        codes.append(sit(connection, session="main", history=history, commands=commands, note=NOTE))

    if "--thread" not in sys.argv:
        run()
    else:  # as where Trio has the main thread
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    with suppress(OSError):  # the terminal may have gone
        print(f"left with {codes}")
    Printer.release()
    return codes[0]


if __name__ == "__main__":
    raise SystemExit(main())
