"""Inputs from outside the program: clock, randomness, threads, system calls, service manager."""

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
    """Connection to the service manager; without one each message succeeds and does nothing.

    Methods never wait or raise: they return False if the manager did not accept the datagram (its
    queue is full), so that the caller can repeat an important message.
    *watchdog* is the interval in seconds within which the manager expects a ping, or None.
    """

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self._address = address
        self.is_there = address is not None
        self.watchdog = watchdog

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str], pid: int) -> "Notify":
        """Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and remove them from *environ*.

        Tools must not be able to send to the manager as Elwood.  *pid* is our process id: the
        watchdog may apply to another process.  Any address except a path or an abstract name
        (``vsock:`` in virtual machines) counts as no manager.
        """
        address = environ.pop("NOTIFY_SOCKET", "")
        microseconds = environ.pop("WATCHDOG_USEC", "")
        watched_pid = environ.pop("WATCHDOG_PID", "") or str(pid)
        if not address.startswith(("/", "@")):
            return cls()
        if not microseconds.isdecimal() or watched_pid != str(pid):
            return cls(address)
        return cls(address, int(microseconds) / 1_000_000 or None)

    def ready(self) -> bool:
        return self._send("READY=1")

    def status(self, text: str) -> bool:
        """Show *text* in ``systemctl status``."""
        return self._send(f"STATUS={' '.join(text.split())[:MAX_STATUS]}")

    def ping(self) -> bool:
        return self._send("WATCHDOG=1")

    def announce_stop(self) -> bool:
        """Announce the shutdown; it cannot be undone (final since v259)."""
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
                sender.setblocking(False)  # a full queue must not block Elwood
                sender.sendto(message.encode("utf-8", "replace"), address)
        except OSError:
            return False
        return True


def memory_of(pid: int) -> int:
    """Return the bytes of memory of a process; 0 if it has exited, or without /proc."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def create_code(length: int) -> str:
    """Create an unguessable code that is easy to type."""
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(length))


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """All inputs that are not deterministic; tests replace them."""

    # Unix time.
    now: Callable[[], float] = time.time
    # A number from 0 to 1.
    random: Callable[[], float] = random.random
    # 128 random bits as text.
    new_id: Callable[[], str] = lambda: secrets.token_urlsafe(16)
    # A code of the given length that is easy to type.
    new_code: Callable[[int], str] = create_code
    blocking: Blocking = in_thread
    calls: Callable[[], Calls] = Calls
    notify: Notify = msgspec.field(default_factory=lambda: Notify.from_environment({}, os.getpid()))
