"""The control socket, over a real socket."""

import os
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio
import trio.testing

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    DecideRequest,
    ListApprovals,
    RevokePermission,
)
from elwood.agent.approvals.state import CONTROL
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.parts import ControlCommand
from elwood.agent.people.messages import ApprovePairing, ChangeAccess
from elwood.agent.session.inspection import (
    ActorSeen,
    Inspection,
    ProcessSeen,
    SessionSeen,
    inspect_actors,
)
from elwood.features.control.actor import (
    MAX_CLIENTS,
    Control,
    ControlUnavailable,
    approval_commands,
    listen,
)
from elwood.features.control.view import encode_fitting
from elwood.foundation.net import control as wire
from elwood.foundation.runtime import ActorTable, Child, Mailbox, inline, report_error, show_wait
from tests.foundation.runtime.scene import make_child, run_app

SECRET = "sk-very-secret"
# Nested deeper than a parser accepts.
DEEP = b'{"command":"inspect","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
FACTS = ProcessSeen("0.1.0", 5.0, pid=7, sessions=(SessionSeen("a", turn_age=3.0, undelivered=1),))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="elwood-") as name:
        yield Path(name) / "run"


@attrs.define
class Setting:
    """Run a control socket, and approvals with one pairing code."""

    folder: Path
    approvals: Mailbox[ApprovalsMail]
    actor_table: ActorTable

    async def ask(self, command: str, *words: str) -> wire.ControlAnswer:
        return await trio.to_thread.run_sync(wire.ask, self.folder, command, *words)

    async def inspect(self) -> Inspection:
        answer = await self.ask("inspect")
        assert answer.ok
        return msgspec.json.decode(answer.text, type=Inspection)

    async def send(self, line: bytes) -> wire.ControlAnswer:
        async with await self.connect() as client:
            await client.send_all(line)
            return await answer_on(client)

    async def connect(self) -> trio.SocketStream:
        return await trio.open_unix_socket(str(self.folder / wire.NAME))


async def approve(mailbox: Mailbox[ApprovalsMail]) -> None:
    async for message in mailbox:
        match message:
            case ApprovePairing(code=code, guest=guest):
                good = code == "K7Q2"
                paired = "paired as a guest" if guest else "paired"
                message.reply.set(CommandResult(paired if good else "no such code", good))
            case ListApprovals(by=by):
                message.reply.set(CommandResult(f"{by} may run {SECRET}", True))
            case DecideRequest() | RevokePermission() | ChangeAccess():
                message.reply.set(CommandResult(repr(message), True))
            case other:
                raise AssertionError(other)


async def busy(mailbox: Mailbox[Any]) -> None:
    report_error("poll", f"refused with {SECRET} and \ud800")
    with show_wait("a model", limit=60):
        await trio.sleep_forever()


@asynccontextmanager
async def running(
    folder: Path, answering: Callable[[Mailbox[Any]], Awaitable[None]] = approve
) -> AsyncIterator[Setting]:
    approvals = make_child("approvals", answering, grace=0)
    others = make_child("busy", busy, grace=0)
    actor_table = ActorTable(trio.current_time)
    mailbox = Mailbox[None]("control", 16)

    async def inspect(words: Sequence[str]) -> CommandResult:
        await trio.lowlevel.checkpoint()
        seen = inspect_actors(actor_table, FACTS, lambda text: text.replace(SECRET, "***"))
        return CommandResult(encode_fitting(seen), ok=True)

    control = Control(
        folder,
        [
            ControlCommand(name="inspect", run=inspect),
            *approval_commands(approvals.mailbox.address),
        ],
        redact=lambda text: text.replace(SECRET, "***"),
        blocking=inline,
    )
    setting = Setting(folder, approvals.mailbox, actor_table)
    async with run_app(approvals, others) as scene, trio.open_nursery() as nursery:
        setting.actor_table.statuses.update(scene.actor_table.statuses)
        nursery.start_soon(control.run, mailbox)
        await trio.testing.wait_all_tasks_blocked()
        yield setting
        mailbox.close()


async def test_inspect_shows_actors_and_facts_without_secrets(folder: Path) -> None:
    async with running(folder) as setting:
        seen = await setting.inspect()
        assert seen.process == FACTS
        assert [actor.name for actor in seen.actors] == ["approvals", "busy"]
        (approvals, other) = seen.actors
        assert (approvals.state, approvals.depth, approvals.capacity) == ("running", 0, 8)
        (wait,) = other.waits
        assert (wait.what, wait.limit) == ("a model", 60)
        assert 0 <= wait.age < 60
        assert [t.error for t in other.troubles] == ["refused with *** and ?"]
        assert seen.stuck == ()


async def test_decisions_are_sent_to_approvals_as_the_socket(folder: Path) -> None:
    async with running(folder) as setting:
        decide = DecideRequest(code="ABC234", answer="always", by=CONTROL)
        revoke = RevokePermission(number=3, by=CONTROL)
        for request, ok, told in (
            ("pair K7Q2", True, "paired"),
            ("pair K7Q2 guest", True, "paired as a guest"),
            ("pair nope", False, "no such code"),
            ("decide ABC234 always", True, repr(decide)),
            ("decide ABC234 yes", False, "give a code and an answer"),
            ("revoke 3", True, repr(revoke)),
            ("revoke x", False, "give the number of a permission"),
            ("remove Eve", True, repr(ChangeAccess(who="Eve", role=None, by=CONTROL))),
            ("fly", False, "the running Elwood has no command fly; is its feature turned off?"),
        ):
            assert await setting.ask(*request.split()) == wire.ControlAnswer(ok, told)
        setting.approvals.end()
        answer = await setting.ask("pair", "K7Q2")
        assert answer == wire.ControlAnswer(False, "approvals is down; try again in a moment")


async def test_folder_and_socket_are_private_with_any_umask(folder: Path) -> None:
    before = os.umask(0)
    make(folder, 0o755)
    try:
        async with running(folder):
            assert mode(folder) == 0o700
            assert mode(folder / wire.NAME) == 0o600
    finally:
        os.umask(before)


async def test_a_stale_socket_is_replaced_and_ours_is_removed_at_the_end(folder: Path) -> None:
    listen(folder).close()  # as kill -9 leaves it
    assert (folder / wire.NAME).exists()
    async with running(folder) as setting:
        assert await setting.inspect()
    assert not (folder / wire.NAME).exists()


def test_a_socket_in_use_is_kept_even_if_its_queue_is_full(folder: Path) -> None:
    clients = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CLIENTS + 5)]
    with listen(folder):
        for client in clients:
            client.setblocking(False)
            client.connect_ex(str(folder / wire.NAME))
        with pytest.raises(ControlUnavailable, match="another Elwood"):
            listen(folder)
    for client in clients:
        client.close()


async def test_another_file_in_its_place_is_reported_and_waited_for(
    folder: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The actor continues: a restart would not help."""
    autojump_clock.autojump_threshold = 0.05
    make(folder, 0o700)
    (folder / wire.NAME).write_text("precious")
    control = Control(folder, (), redact=str, blocking=inline)
    actor = Child(Mailbox[None]("control", 1), control.run)
    async with run_app(actor) as scene:
        await trio.sleep(30)
        (trouble,) = scene.actor_table.statuses["control"].troubles.values()
        assert "not a socket; move it away" in trouble.error
        assert trouble.count > 1
        assert (folder / wire.NAME).read_text() == "precious"
        (folder / wire.NAME).unlink()
        await trio.sleep(30)
        status = scene.actor_table.statuses["control"]
        assert (status.restarts, list(status.troubles)) == (0, [])
        async with await trio.open_unix_socket(str(folder / wire.NAME)) as client:
            await client.send_all(wire.encode(wire.ControlRequest("fly")))
            assert "no command fly" in (await answer_on(client)).text


def test_a_folder_behind_a_link_is_not_trusted(folder: Path) -> None:
    folder.with_name("elsewhere").mkdir()
    folder.symlink_to("elsewhere")
    with pytest.raises(ControlUnavailable, match="must be a folder of the same user"):
        listen(folder)


def test_a_path_longer_than_an_address_works(folder: Path) -> None:
    deep = folder / ("x" * 120)
    with listen(deep):
        assert (deep / wire.NAME).is_socket()
        with pytest.raises(ControlUnavailable, match="another Elwood"):
            listen(deep)


@pytest.mark.parametrize(
    "bad", [b"hello", b"", b"[]", b'{"words":[]}', b'{"command":7}', b"\xff", DEEP]
)
async def test_bad_input_gets_a_clear_error(folder: Path, bad: bytes) -> None:
    async with running(folder) as setting:
        failed = await setting.send(bad + b"\n")
        assert not failed.ok
        assert failed.text.startswith("this version does not understand the request")


async def test_a_request_may_arrive_in_pieces_and_from_a_later_version(folder: Path) -> None:
    async with running(folder) as setting, await setting.connect() as client:
        for byte in b'{"command":"pair","words":["K7Q2"],"since":5}\n':
            await client.send_all(bytes([byte]))
        assert await answer_on(client) == wire.ControlAnswer(True, "paired")


async def test_an_endless_line_is_cut_at_the_limit(folder: Path) -> None:
    async with running(folder) as setting:
        failed = await setting.send(b"x" * wire.MAX_LINE)
        assert failed.text == f"a request may have at most {wire.MAX_LINE} bytes"
        assert await setting.inspect()


async def test_at_most_eight_clients_are_served_and_a_ninth_is_refused(folder: Path) -> None:
    async with running(folder) as setting:
        clients = [await setting.connect() for _ in range(MAX_CLIENTS)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        answer = await setting.ask("inspect")
        assert "8 other clients are connected" in answer.text
        await clients.pop().aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert await setting.inspect()
        for client in clients:
            await client.aclose()


async def test_a_silent_client_is_disconnected(
    folder: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Five virtual seconds; the bytes arrive immediately."""
    autojump_clock.autojump_threshold = 0.05
    async with running(folder) as setting, await setting.connect() as client:
        await client.send_all(b'{"type":')
        start = trio.current_time()
        failed = await answer_on(client)
        assert failed.text == "the request was not complete after 5 s"
        assert trio.current_time() - start == pytest.approx(5, abs=0.1)
        assert await client.receive_some() == b""


async def test_requests_to_blocked_approvals_time_out(
    folder: Path, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with running(folder, busy) as setting:
        failed = await setting.send(wire.encode(wire.ControlRequest("pair", ("K7Q2",))))
        assert "pair got no answer in time" in failed.text


async def test_vanished_clients_do_not_affect_others(folder: Path) -> None:
    async with running(folder) as setting:
        for _ in range(3 * MAX_CLIENTS):
            client = await setting.connect()
            await client.send_all(wire.encode(wire.ControlRequest("inspect")))
            await client.aclose()
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert await setting.inspect()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or sys.platform != "linux",
    reason="NOT TESTED HERE: another user is refused (needs root on Linux to become one)",
)
async def test_another_user_is_refused_even_if_the_modes_let_him_in(folder: Path) -> None:
    async with running(folder) as setting:
        open_up(folder)
        client = (
            "import os, sys; from pathlib import Path;"
            "from elwood.foundation.net.control import print_response;"
            "os.setgid(65534); os.setuid(65534);"
            "sys.exit(print_response(Path(sys.argv[1]), 'inspect'))"
        )
        done = await trio.run_process(
            [sys.executable, "-c", client, str(folder)], capture_stderr=True, check=False
        )
        assert done.returncode == 1
        assert b"permission denied; use the same user as the running Elwood" in done.stderr
        assert await setting.inspect()


def make(folder: Path, mode: int) -> None:
    folder.mkdir(mode=mode)


def open_up(folder: Path) -> None:
    """Open the modes for everyone, as a person could."""
    folder.parent.chmod(0o711)
    folder.chmod(0o711)
    (folder / wire.NAME).chmod(0o666)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def answer_on(client: trio.SocketStream) -> wire.ControlAnswer:
    received = b""
    while not received.endswith(b"\n"):
        more = await client.receive_some()
        assert more, f"closed after {received!r}"
        received += more
    return wire.decode(received, wire.ControlAnswer)


def test_an_inspection_never_outgrows_a_line() -> None:
    actors = tuple(
        ActorSeen(f"sessions/{n}", "running", 1.0, last_crash='"' * 300) for n in range(5000)
    )
    sessions = tuple(SessionSeen(str(n), 1.0, 1, 1) for n in range(20_000))
    text = encode_fitting(Inspection(ProcessSeen("1", 0.0, sessions=sessions), actors))
    assert len(wire.encode(wire.ControlAnswer(True, text))) <= wire.MAX_LINE
    kept = msgspec.json.decode(text, type=Inspection)
    assert len(kept.actors) + len(kept.process.sessions) + kept.left_out == 25_000
