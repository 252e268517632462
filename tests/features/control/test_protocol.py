"""The lines of the control socket."""

import socket
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.session.inspection import ActorSeen, House, Inspection, SessionSeen, StuckSeen
from elwood.features.control import protocol as wire


def test_requests_and_answers_come_back_as_they_were() -> None:
    house = House("1", 2.0, sessions=(SessionSeen("a", 1.0, 2, 3),))
    actors = (ActorSeen("a", "running", 1.0),)
    inspection = Inspection(house, actors, (StuckSeen("a", "b"),))
    requests: list[wire.Request] = [
        wire.Inspect(),
        wire.Pair("K7Q2"),
        wire.ShowApprovals(),
        wire.Rule("ABC234", "denied"),
        wire.Revoke(3),
    ]
    answers: list[wire.Answer] = [
        wire.Inspected(inspection),
        wire.Settled(True, "ok"),
        wire.Failed("no"),
    ]
    for request in requests:
        line = wire.encode(request)
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert wire.decode_request(line) == request
    for answer in answers:
        assert wire.decode_answer(wire.encode(answer)) == answer


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"hello\n",
        b"{}\n",
        b"[]\n",
        b'{"type":"reboot"}\n',
        b'{"type":"pair"}\n',
        b'{"type":"pair","code":""}\n',
        b'{"type":"pair","code":7}\n',
        b'{"type":"pair","code":"' + b"x" * 65 + b'"}\n',
        b'{"type":"rule","code":"ABC234","answer":"yes"}\n',
        b'{"type":"rule","code":"","answer":"once"}\n',
        b'{"type":"revoke"}\n',
        b'{"type":"inspect"\n',
        b'{"type":"pair","code":"\xff\xfe"}\n',
        b'{"type":"inspect","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    ],
    ids=lambda line: repr(line[:20]),
)
def test_a_bad_line_is_said_to_be_bad(line: bytes) -> None:
    with pytest.raises(wire.BadLine):
        wire.decode_request(line)


@given(st.binary(max_size=200))
def test_no_line_does_anything_else(line: bytes) -> None:
    for decode in (wire.decode_request, wire.decode_answer):
        with suppress(wire.BadLine):
            decode(line)


def test_a_client_of_a_later_version_may_say_more() -> None:
    assert wire.decode_request(b'{"type":"inspect","depth":3}\n') == wire.Inspect()


def test_an_inspection_never_outgrows_a_line() -> None:
    actors = tuple(
        ActorSeen(f"sessions/{n}", "running", 1.0, last_crash="x" * 300) for n in range(5000)
    )
    sessions = tuple(SessionSeen(str(n), 1.0, 1, 1) for n in range(20_000))
    line = wire.encode(wire.Inspected(Inspection(House("1", 0.0, sessions=sessions), actors)))
    assert len(line) <= wire.MAX_LINE
    answer = wire.decode_answer(line)
    assert isinstance(answer, wire.Inspected)
    kept = answer.inspection
    assert len(kept.actors) > 500
    assert len(kept.actors) + len(kept.house.sessions) + kept.left_out == 25_000


def test_a_socket_is_reached_however_long_its_path_is(tmp_path: Path) -> None:
    """An address has 108 bytes only (unix(7))."""
    folder = tmp_path / ("x" * 100) / ("y" * 100)
    folder.mkdir(parents=True)
    path = folder / wire.NAME
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        wire.bind(listener, path)
        listener.listen()
        assert path.is_socket()
        wire.connect(client, path)
        peer, _ = listener.accept()
        with peer:
            client.sendall(b"hello")
            assert peer.recv(5) == b"hello"
