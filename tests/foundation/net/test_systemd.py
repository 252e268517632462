"""sd_notify, against a datagram socket such as systemd's."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from elwood.foundation.environment import MAX_STATUS, Notify


class Systemd:
    """The service manager's end of NOTIFY_SOCKET; *address* is bound as the kernel sees it."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(5)

    def receive(self) -> str:
        return self.socket.recv(4096).decode()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "notify.sock")


@pytest.fixture
def systemd(path: str) -> Iterator[Systemd]:
    systemd = Systemd(path)
    yield systemd
    systemd.socket.close()


def test_each_message_is_one_datagram(systemd: Systemd, path: str) -> None:
    notify = Notify.from_environment({"NOTIFY_SOCKET": path}, 1)
    assert notify.ready()
    assert notify.status("two\nlines  of text")
    assert notify.ping()
    assert notify.stopping()
    assert [systemd.receive() for _ in range(4)] == [
        "READY=1",
        "STATUS=two lines of text",
        "WATCHDOG=1",
        "STOPPING=1",
    ]


def test_a_status_cannot_smuggle_in_another_message_and_is_short(
    systemd: Systemd, path: str
) -> None:
    Notify(path).status("x\nREADY=1 " + "y" * 1000)
    received = systemd.receive()
    assert "\n" not in received
    assert len(received) == len("STATUS=") + MAX_STATUS


@pytest.mark.parametrize(
    ("microseconds", "meant_for", "expected"),
    [
        ("30000000", "42", 30.0),
        ("30000000", None, 30.0),
        ("30000000", "", 30.0),
        ("30000000", "43", None),
        ("500000", None, 0.5),
        ("0", None, None),
        ("soon", None, None),
        ("-5", None, None),
        ("", None, None),
        (None, "42", None),
    ],
)
def test_the_watchdog_time_is_read_if_it_is_meant_for_us(
    microseconds: str | None, meant_for: str | None, expected: float | None
) -> None:
    environ = {"NOTIFY_SOCKET": "/run/x"}
    if microseconds is not None:
        environ["WATCHDOG_USEC"] = microseconds
    if meant_for is not None:
        environ["WATCHDOG_PID"] = meant_for
    assert Notify.from_environment(environ, 42).watchdog == expected


@pytest.mark.parametrize("address", [None, "", "vsock:2:1234", "relative"])
def test_without_a_manager_there_is_nothing_to_do(address: str | None) -> None:
    environ = {"WATCHDOG_USEC": "30000000"}
    if address is not None:
        environ["NOTIFY_SOCKET"] = address
    notify = Notify.from_environment(environ, 1)
    assert notify.ready()
    assert notify.watchdog is None
    assert not environ


def test_a_manager_that_has_gone_is_a_false_and_no_error(path: str) -> None:
    assert not Notify(path).ping()


def test_a_manager_that_does_not_read_holds_nobody_up(systemd: Systemd, path: str) -> None:
    notify = Notify(path)
    taken = [notify.ping() for _ in range(5000)]
    assert taken[0]
    assert not taken[-1], "the queue is full and we still run"
