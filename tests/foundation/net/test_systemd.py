"""sd_notify with a datagram socket like systemd's."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from elwood.foundation.environment import MAX_STATUS, Notify


class Systemd:
    """The service manager's end of NOTIFY_SOCKET."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "notify.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.socket.setblocking(False)
        self._messages: list[str] = []

    async def listen(self) -> None:
        """Read the socket continuously, because its queue has space for about ten messages."""
        while True:
            await trio.lowlevel.wait_readable(self.socket)
            self._drain()

    def received(self) -> list[str]:
        """Return the received messages."""
        self._drain()
        messages, self._messages = self._messages, []
        return messages

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._messages.append(self.socket.recv(4096).decode())

    def pings(self) -> int:
        return self.received().count("WATCHDOG=1")


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    systemd = Systemd(tmp_path)
    yield systemd
    systemd.socket.close()


def test_each_message_is_one_datagram(systemd: Systemd) -> None:
    notify = Notify.from_environment({"NOTIFY_SOCKET": systemd.address}, 1)
    assert notify.ready()
    assert notify.status("two\nREADY=1  " + "y" * 1000)
    assert notify.ping()
    assert notify.announce_stop()
    status = ("STATUS=two READY=1 " + "y" * 1000)[: len("STATUS=") + MAX_STATUS]
    assert systemd.received() == ["READY=1", status, "WATCHDOG=1", "STOPPING=1"]


@pytest.mark.parametrize(
    ("microseconds", "meant_for", "expected"),
    [
        ("30000000", "42", 30.0),
        ("30000000", "", 30.0),
        ("30000000", "43", None),
        ("0", None, None),
        ("soon", None, None),
        (None, "42", None),
    ],
)
def test_the_watchdog_time_is_for_our_process(
    microseconds: str | None, meant_for: str | None, expected: float | None
) -> None:
    environ = {"NOTIFY_SOCKET": "/run/x"}
    if microseconds is not None:
        environ["WATCHDOG_USEC"] = microseconds
    if meant_for is not None:
        environ["WATCHDOG_PID"] = meant_for
    assert Notify.from_environment(environ, 42).watchdog == expected


@pytest.mark.parametrize("address", [None, "", "vsock:2:1234", "relative"])
def test_without_a_manager_nothing_is_sent(address: str | None) -> None:
    environ = {"WATCHDOG_USEC": "30000000"}
    if address is not None:
        environ["NOTIFY_SOCKET"] = address
    notify = Notify.from_environment(environ, 1)
    assert notify.ready()
    assert notify.watchdog is None
    assert not environ


def test_a_busy_manager_blocks_no_one(systemd: Systemd) -> None:
    notify = Notify(systemd.address)
    taken = [notify.ping() for _ in range(5000)]
    assert taken[0]
    assert not taken[-1], "the queue is full and we still run"
