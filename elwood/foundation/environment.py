"""What the program is given from outside: clock, chance, threads, system calls, its manager."""

import os
import random
import secrets
import socket
import time
from collections.abc import Callable, MutableMapping

import msgspec

from elwood.foundation.runtime import Blocking, in_thread
from elwood.foundation.storage.disk import Calls
from elwood.foundation.text.characters import CODE_ALPHABET

# Characters of a status line; systemctl shows one line.
MAX_STATUS = 200


class Notify:
    """The way to the service manager, or to nobody when there is none.

    Nothing here waits or raises for the manager's sake: a method returns False if the manager did
    not take the datagram (its queue is full), so that what matters can be said again.
    *watchdog* is the time in seconds within which a ping is expected, if one is.
    """

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self._address = address
        self.is_there = address is not None
        self.watchdog = watchdog

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str], pid: int) -> "Notify":
        """Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and remove them from *environ*.

        Tools must not be able to talk to the manager in our name.  *pid* is our process id: the
        watchdog may be meant for another process.  Anything that is not a path or an abstract
        name (``vsock:`` in virtual machines) counts as no manager.
        """
        address = environ.pop("NOTIFY_SOCKET", "")
        microseconds = environ.pop("WATCHDOG_USEC", "")
        meant_for = environ.pop("WATCHDOG_PID", "") or str(pid)
        if not address.startswith(("/", "@")):
            return cls()
        if not microseconds.isdecimal() or meant_for != str(pid):
            return cls(address)
        return cls(address, int(microseconds) / 1_000_000 or None)

    def ready(self) -> bool:
        return self._send("READY=1")

    def status(self, text: str) -> bool:
        """Show *text* in ``systemctl status``."""
        return self._send(f"STATUS={' '.join(text.split())[:MAX_STATUS]}")

    def ping(self) -> bool:
        return self._send("WATCHDOG=1")

    def stopping(self) -> bool:
        """Shutdown begins; there is no way back (final since v259)."""
        return self._send("STOPPING=1")

    def _send(self, message: str) -> bool:
        if self._address is None:
            return True
        address = self._address
        if address.startswith("@"):
            address = f"\0{address[1:]}"
        flags = socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)
        try:
            with socket.socket(socket.AF_UNIX, flags) as sender:
                sender.setblocking(False)  # a full queue must not hold up Elwood
                sender.sendto(message.encode("utf-8", "replace"), address)
        except OSError:
            return False
        return True


def typed_code(length: int) -> str:
    """Make a code that nobody can guess, and that can be typed."""
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(length))


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """All that is not decided by the program: the seam for tests.

    *now* is Unix time, *random* gives numbers from 0 to 1, *new_id* 128 random bits as text,
    *new_code* a code of the given length that can be typed.
    """

    now: Callable[[], float] = time.time
    random: Callable[[], float] = random.random
    new_id: Callable[[], str] = lambda: secrets.token_urlsafe(16)
    new_code: Callable[[int], str] = typed_code
    blocking: Blocking = in_thread
    calls: Callable[[], Calls] = Calls
    notify: Notify = msgspec.field(default_factory=lambda: Notify.from_environment({}, os.getpid()))
