"""The control socket, spoken to over the real thing."""

import os
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ApprovePairing,
    CommandResult,
    DecideRequest,
    ListApprovals,
    RevokePermission,
)
from elwood.agent.approvals.state import CONTROL
from elwood.agent.session.core import look
from elwood.agent.session.inspection import House, SessionSeen, StuckSeen, WaitSeen
from elwood.features.control import protocol as wire
from elwood.features.control.actor import MAX_CLIENTS, Control, ControlUnavailable, listen
from elwood.features.control.client import ask
from elwood.foundation.runtime import ActorTable, Mailbox, inline, report_error, waiting
from tests.foundation.runtime.scene import child, house

SECRET = "sk-very-secret"
FACTS = House("0.1.0", 5.0, pid=7, sessions=(SessionSeen("a", turn_age=3.0, undelivered=1),))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="elwood-") as name:
        yield Path(name) / "run"


@attrs.define
class Setting:
    """A house with a control socket and approvals that know one pairing code."""

    folder: Path
    control: Control
    mailbox: Mailbox[None]
    approvals: Mailbox[ApprovalsMail]
    actor_table: ActorTable

    async def ask(self, request: wire.Request) -> wire.Answer:
        return await trio.to_thread.run_sync(ask, self.folder, request)

    async def connect(self) -> trio.SocketStream:
        return await trio.open_unix_socket(str(self.folder / wire.NAME))


async def approve(mailbox: Mailbox[ApprovalsMail]) -> None:
    async for message in mailbox:
        match message:
            case ApprovePairing(code=code):
                good = code == "K7Q2"
                message.reply.set(CommandResult("paired" if good else "no such code", good))
            case ListApprovals(by=by):
                message.reply.set(CommandResult(f"{by} may run {SECRET}", True))
            case DecideRequest() | RevokePermission():
                message.reply.set(CommandResult(repr(message), True))
            case other:
                raise AssertionError(other)


async def busy(mailbox: Mailbox[Any]) -> None:
    report_error("poll", f"refused with {SECRET} and \ud800")
    with waiting("a model", limit=60):
        await trio.sleep_forever()


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Setting]:
    approvals = child("approvals", approve)
    others = child("busy", busy, grace=0)
    actor_table = ActorTable(trio.current_time)
    mailbox = Mailbox[None]("control", 16)
    control = Control(
        folder,
        lambda: look(actor_table, FACTS, lambda text: text.replace(SECRET, "***")),
        approvals.mailbox.address,
        (),
        redact=lambda text: text.replace(SECRET, "***"),
        blocking=inline,
    )
    setting = Setting(folder, control, mailbox, approvals.mailbox, actor_table)
    async with house(approvals, others) as scene, trio.open_nursery() as nursery:
        setting.actor_table.statuses.update(scene.actor_table.statuses)
        nursery.start_soon(control.run, mailbox)
        await trio.testing.wait_all_tasks_blocked()
        yield setting
        mailbox.close()


async def test_inspect_shows_board_and_facts_without_secrets(folder: Path) -> None:
    async with running(folder) as setting:
        answer = await setting.ask(wire.Inspect())
        assert isinstance(answer, wire.Inspected)
        seen = answer.inspection
        assert seen.house == FACTS
        assert [actor.name for actor in seen.actors] == ["approvals", "busy"]
        (approvals, other) = seen.actors
        assert (approvals.state, approvals.depth, approvals.capacity) == ("running", 0, 8)
        (wait,) = other.waits
        assert (wait.what, wait.limit) == ("a model", 60)
        assert 0 <= wait.age < 60
        assert [t.error for t in other.troubles] == ["refused with *** and ?"]
        assert seen.stuck == ()


async def test_what_is_stuck_is_named(folder: Path) -> None:
    async with running(folder) as setting:
        (wait,) = setting.actor_table.statuses["busy"].waits.values()
        wait.since -= 100
        wait.limit = float("inf")
        answer = await setting.ask(wire.Inspect())
        assert isinstance(answer, wire.Inspected)
        assert answer.inspection.stuck == ()
        assert isinstance(answer.inspection.actors[1].waits[0], WaitSeen)
        assert answer.inspection.actors[1].waits[0].limit is None
        wait.limit = 60
        answer = await setting.ask(wire.Inspect())
        assert isinstance(answer, wire.Inspected)
        (stuck,) = answer.inspection.stuck
        assert stuck == StuckSeen("busy", "a model has taken 100 s (limit 60 s)")


async def test_pairing_is_asked_of_approvals(folder: Path) -> None:
    async with running(folder) as setting:
        assert await setting.ask(wire.Pair("K7Q2")) == wire.Settled(True, "paired")
        assert await setting.ask(wire.Pair("nope")) == wire.Settled(False, "no such code")


async def test_decisions_are_asked_of_approvals_in_the_name_of_the_socket(folder: Path) -> None:
    async with running(folder) as setting:
        for request, asked in (
            (wire.Rule("ABC234", "once"), DecideRequest(code="ABC234", answer="once", by=CONTROL)),
            (wire.Revoke(3), RevokePermission(number=3, by=CONTROL)),
        ):
            assert await setting.ask(request) == wire.Settled(True, repr(asked))
        assert await setting.ask(wire.ShowApprovals()) == wire.Settled(
            True, f"{CONTROL} may run ***"
        )


async def test_without_approvals_pairing_says_so(folder: Path) -> None:
    async with running(folder) as setting:
        setting.approvals.end()
        answer = await setting.ask(wire.Pair("K7Q2"))
        assert answer == wire.Failed("approvals is down; try again in a moment")


async def test_folder_and_socket_are_ours_alone_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    make(folder, 0o755)
    try:
        async with running(folder):
            assert mode(folder) == 0o700
            assert mode(folder / wire.NAME) == 0o600
    finally:
        os.umask(before)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a chmod follows the bind")
def test_the_kernel_takes_the_mode_of_a_socket_from_its_descriptor(folder: Path) -> None:
    """What `listen` relies on, so that the name is never open to others, not for a moment."""
    before = os.umask(0)
    try:
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as probe:
            os.fchmod(probe.fileno(), 0o600)
            probe.bind(str(folder / "probe"))
            assert mode(folder / "probe") == 0o600
    finally:
        os.umask(before)


async def test_the_socket_goes_with_the_house(folder: Path) -> None:
    async with running(folder):
        assert (folder / wire.NAME).exists()
    assert not (folder / wire.NAME).exists()


async def test_a_socket_left_behind_is_replaced(folder: Path) -> None:
    listen(folder).close()  # as kill -9 leaves it
    assert (folder / wire.NAME).exists()
    async with running(folder) as setting:
        assert isinstance(await setting.ask(wire.Inspect()), wire.Inspected)


async def test_a_socket_in_use_is_left_alone(folder: Path) -> None:
    async with running(folder) as setting:
        with pytest.raises(ControlUnavailable, match="another Elwood listens there"):
            listen(folder)
        assert isinstance(await setting.ask(wire.Inspect()), wire.Inspected)


def test_a_socket_in_use_is_left_alone_even_if_its_queue_is_full(folder: Path) -> None:
    clients = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CLIENTS + 5)]
    with listen(folder):
        for client in clients:
            client.setblocking(False)
            client.connect_ex(str(folder / wire.NAME))
        with pytest.raises(ControlUnavailable, match="another Elwood"):
            listen(folder)
    for client in clients:
        client.close()


def test_what_is_not_a_socket_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / wire.NAME).write_text("precious")
    with pytest.raises(ControlUnavailable, match="not a socket"):
        listen(folder)
    assert (folder / wire.NAME).read_text() == "precious"


def test_a_folder_behind_a_link_is_not_trusted(folder: Path) -> None:
    folder.with_name("elsewhere").mkdir()
    folder.symlink_to("elsewhere")
    with pytest.raises(ControlUnavailable, match="must be a folder of the user"):
        listen(folder)


def test_a_path_longer_than_an_address_is_fine(folder: Path) -> None:
    deep = folder / ("x" * 120)
    with listen(deep):
        assert (deep / wire.NAME).is_socket()
        with pytest.raises(ControlUnavailable, match="another Elwood"):
            listen(deep)


async def test_bad_input_gets_a_clear_error_and_the_next_request_an_answer(folder: Path) -> None:
    async with running(folder) as setting, await setting.connect() as client:
        for bad in (b"hello\n", b"\n", b'{"type":"reboot"}\n', b"\xff\n"):
            await client.send_all(bad)
            failed = await answer_on(client)
            assert isinstance(failed, wire.Failed)
            assert failed.why.startswith("not a request that this version understands")
        await client.send_all(wire.encode(wire.Pair("K7Q2")))
        assert isinstance(await answer_on(client), wire.Settled)


async def test_requests_may_come_in_pieces_and_several_at_once(folder: Path) -> None:
    async with running(folder) as setting, await setting.connect() as client:
        line = wire.encode(wire.Pair("K7Q2"))
        for byte in line:
            await client.send_all(bytes([byte]))
        assert isinstance(await answer_on(client), wire.Settled)
        await client.send_all(line + line)
        received = b""
        while received.count(b"\n") < 2:
            received += await client.receive_some()
        assert all(isinstance(wire.decode_answer(x), wire.Settled) for x in received.splitlines())


async def test_a_line_that_never_ends_is_cut_off_at_its_limit(folder: Path) -> None:
    async with running(folder) as setting, await setting.connect() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pour, client)
            failed = await answer_on(client)
            assert failed == wire.Failed(f"a request has at most {wire.MAX_LINE} bytes")
            nursery.cancel_scope.cancel()
        assert isinstance(await setting.ask(wire.Inspect()), wire.Inspected)


async def pour(client: trio.SocketStream) -> None:
    try:
        for _ in range(100):
            await client.send_all(b"x" * 65_536)
    except trio.BrokenResourceError:
        pass


async def test_at_most_eight_clients_are_served_and_a_ninth_is_told(folder: Path) -> None:
    async with running(folder) as setting:
        clients = [await setting.connect() for _ in range(MAX_CLIENTS)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        answer = await setting.ask(wire.Inspect())
        assert isinstance(answer, wire.Failed)
        assert "8 others are asking already" in answer.why
        await clients.pop().aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert isinstance(await setting.ask(wire.Inspect()), wire.Inspected)
        for client in clients:
            await client.aclose()


async def test_a_client_that_says_nothing_is_sent_away(
    folder: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Five virtual seconds; the bytes themselves are there at once."""
    autojump_clock.autojump_threshold = 0.05
    async with running(folder) as setting, await setting.connect() as client:
        await client.send_all(b'{"type":')
        start = trio.current_time()
        failed = await answer_on(client)
        assert failed == wire.Failed("no whole request within 5 s")
        assert trio.current_time() - start == pytest.approx(5, abs=0.1)
        assert await client.receive_some() == b""


async def test_approvals_that_hang_are_not_waited_for_without_end(
    folder: Path, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    approvals = Mailbox[ApprovalsMail]("approvals", 1)
    control = Control(
        folder,
        lambda: look(ActorTable(trio.current_time), FACTS, str),
        approvals.address,
        (),
        redact=str,
        blocking=inline,
    )
    mailbox = Mailbox[None]("control", 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.run, mailbox)
        await trio.testing.wait_all_tasks_blocked()
        async with await trio.open_unix_socket(str(folder / wire.NAME)) as client:
            await client.send_all(wire.encode(wire.Pair("K7Q2")))
            failed = await answer_on(client)
            assert isinstance(failed, wire.Failed)
            assert "no answer from approvals in time" in failed.why
        mailbox.close()


async def test_clients_that_vanish_harm_nobody(folder: Path) -> None:
    async with running(folder) as setting:
        for _ in range(3 * MAX_CLIENTS):
            client = await setting.connect()
            await client.send_all(wire.encode(wire.Inspect()))
            await client.aclose()
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert isinstance(await setting.ask(wire.Inspect()), wire.Inspected)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or sys.platform != "linux",
    reason="NOT TESTED HERE: another user is refused (needs root on Linux to become one)",
)
async def test_another_user_is_refused_even_if_the_modes_let_him_in(folder: Path) -> None:
    async with running(folder) as setting:
        open_up(folder)
        client = (
            "import os, sys; from pathlib import Path;"
            "from elwood.features.control import client;"
            "from elwood.features.control.cli import inspect;"
            "os.setgid(65534); os.setuid(65534); sys.exit(inspect(Path(sys.argv[1]), True, False))"
        )
        done = await trio.run_process(
            [sys.executable, "-c", client, str(folder)], capture_stderr=True, check=False
        )
        assert done.returncode == 1
        assert b"only the user who runs Elwood may ask it" in done.stderr
        assert isinstance(await setting.ask(wire.Inspect()), wire.Inspected)


def make(folder: Path, mode: int) -> None:
    folder.mkdir(mode=mode)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_up(folder: Path) -> None:
    """Let everybody in, as if somebody had done it by hand."""
    folder.parent.chmod(0o711)
    folder.chmod(0o711)
    (folder / wire.NAME).chmod(0o666)


async def answer_on(client: trio.SocketStream) -> wire.Answer:
    received = b""
    while not received.endswith(b"\n"):
        more = await client.receive_some()
        assert more, f"closed after {received!r}"
        received += more
    return wire.decode_answer(received)
