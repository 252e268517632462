"""Health: one alarm for the owner per fault, and the systemd watchdog."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio
import trio.testing

from elwood.agent.channels.messages import (
    OutboxMail,
    Post,
    PostResult,
    Sent,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.route import Route
from elwood.agent.session.admission import Admission
from elwood.agent.session.inspection import Inspection, ProcessSeen, Vitals
from elwood.app.build import listener
from elwood.features.health.actor import (
    LITTLE,
    MEASURE_EVERY,
    NONE,
    VITAL,
    DiskMonitor,
    Health,
    HealthFile,
    LastError,
    health_file,
    parse_health_file,
)
from elwood.features.health.check import findings
from elwood.features.health.settings import HealthSettings
from elwood.foundation.environment import Notify
from elwood.foundation.runtime import (
    ActorTable,
    Child,
    Escalated,
    Event,
    Mailbox,
    RestartPolicy,
    clear_error,
    report_error,
    show_wait,
    supervise,
)
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import DiskFull, Space, lock_state
from tests.foundation.net.test_systemd import Systemd
from tests.foundation.runtime.scene import make_child

pytestmark = pytest.mark.usefixtures("virtual_time")
OWNER = Route("telegram", chat="1")
SECRET = "sk-very-secret"
SEEN = Inspection(ProcessSeen("1", 0.0), ())
SETTINGS = HealthSettings()
ENDLESS = RestartPolicy(max_crashes=None, first_delay=1.0)


class Bug(Exception):
    """A bug in an actor."""


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    systemd = Systemd(tmp_path)
    yield systemd
    systemd.socket.close()


@attrs.define
class Channel:
    """An outbox that records posts and gives a fixed answer."""

    answer: PostResult = attrs.field(factory=lambda: Sent("1"))
    posts: list[Post] = attrs.field(factory=list)

    async def run(self, mailbox: Mailbox[OutboxMail]) -> None:
        async for message in mailbox:
            assert isinstance(message, Post)
            self.posts.append(message)
            message.reply.set(self.answer)

    @property
    def texts(self) -> list[str]:
        return [post.part.text for post in self.posts]


@attrs.define
class Setting:
    actor_table: ActorTable
    up: trio.Event
    stop: trio.Event
    channel: Channel


class Disks:
    """Two simulated disks that can be filled."""

    def __init__(self, settings: HealthSettings = SETTINGS) -> None:
        self.space = self.other = Space(10, 90)
        self.broken = self.full = False
        self.written: list[HealthFile] = []
        self.admission = Admission()
        folders = {"the state": self._measure, "the workspace": self._measure_other}
        self.monitor = DiskMonitor(
            folders,
            self._write,
            lambda: SEEN,
            lambda: 5.0,
            self.admission,
            settings,
            trio.lowlevel.checkpoint,
        )

    async def _measure(self) -> Space:
        await trio.lowlevel.checkpoint()
        if self.broken:
            raise OSError("no such folder")
        return self.space

    async def _measure_other(self) -> Space:
        await trio.lowlevel.checkpoint()
        return self.other

    async def _write(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.full:
            raise DiskFull(Path("health.json"))
        self.written.append(msgspec.json.decode(data, type=HealthFile))


@asynccontextmanager
async def watched(
    *children: Child,
    channel: Channel | None = None,
    systemd: Systemd | None = None,
    is_read: bool = True,
    watchdog: float = 30.0,
    vital: dict[str, float] | None = None,
    outbox: Child | None = None,
    disks: Disks | None = None,
    warning: str = "",
    earlier: bytes = b"",
) -> AsyncIterator[Setting]:
    """Run *children*, an outbox and health; *earlier* is the health.json of an old process."""
    actor_table, up, stop = ActorTable(trio.current_time), trio.Event(), trio.Event()
    if warning:
        actor_table.warn("weather", warning)
    channel = channel or Channel()
    outbox = outbox or make_child("outbox", channel.run, ENDLESS, capacity=2, grace=1)
    mailbox = Mailbox[Event]("health", 256)
    health = Health(
        actor_table,
        {"telegram": outbox.mailbox.address},
        lambda: [OWNER],
        notify=Notify(systemd.address, watchdog) if systemd else Notify(),
        vital=vital or {},
        up=up,
        stop=stop,
        redact=lambda text: text.replace(SECRET, "***"),
        disks=(disks or Disks()).monitor,
        known=last.told if (last := parse_health_file(earlier)) else (),
    )
    listen = listener(mailbox.address)
    everyone = [Child(mailbox, health.run, ENDLESS), outbox, *children]
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await supervise(everyone, stop=stop, listener=listen, actor_table=actor_table)
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        if systemd and is_read:
            nursery.start_soon(systemd.listen)
        await trio.testing.wait_all_tasks_blocked()
        yield Setting(actor_table, up, stop, channel)
        stop.set()


# --- alarms --------------------------------------------------------------------------------------


async def fail(what: str, errors: list[str], every: float) -> None:
    for error in errors:
        report_error(what, error)
        await trio.sleep(every)
    await trio.sleep(300)
    clear_error(what)
    await trio.sleep_forever()


async def two_pollers(mailbox: Mailbox[Any]) -> None:
    await fail("the poll", ["409 Conflict"] * 3, 3)


async def test_the_owner_gets_one_alarm_and_one_message_when_it_is_over() -> None:
    async def deaf_poll(mailbox: Mailbox[Any]) -> None:
        with show_wait("getUpdates", limit=70):
            await trio.sleep(400)
        await trio.sleep_forever()

    async with watched(make_child("it", deaf_poll, grace=0)) as setting:
        await trio.sleep(69)
        assert setting.channel.texts == []
        await trio.sleep(61)
        (begun,) = setting.channel.texts
        assert begun.startswith("⚠ Problem in it: waits for getUpdates, ")
        await trio.sleep(400)
        assert setting.channel.texts == [begun, "✓ Resolved: it: getUpdates"]


async def told(warning: str, earlier: bytes = b"") -> tuple[list[str], list[bytes]]:
    """Run for a while; return the owner's messages, and each health.json."""
    disks = Disks()
    async with watched(warning=warning, earlier=earlier, disks=disks) as setting:
        await trio.sleep(600)
        return setting.channel.texts, [msgspec.json.encode(one) for one in disks.written]


async def test_a_lasting_warning_is_sent_once_over_many_processes() -> None:
    rain, words = f"It rains on {SECRET}.", ["⚠ It rains on ***."]
    texts, (untold, *_, last) = await told(rain)
    assert texts == words
    assert (await told(rain, last))[0] == []
    assert (await told("It pours.", last))[0] == ["⚠ It pours."]
    for other in (untold, last[:-9], b"", b"{}"):
        assert (await told(rain, other))[0] == words
    none, (*_, dry) = await told("", last)
    assert none == []
    assert (await told(rain, dry))[0] == words


async def test_secrets_do_not_reach_the_owner() -> None:
    async def leaky(mailbox: Mailbox[Any]) -> None:
        await fail("the model", [f"401 for {SECRET}"] * 3, 0)

    async with watched(make_child("it", leaky, grace=0)) as setting:
        await trio.sleep(10)
        (text,) = setting.channel.texts
        assert SECRET not in text
        assert "401 for ***" in text


@pytest.mark.parametrize("answer", [Unsent("no route"), Undeliverable("blocked")])
async def test_an_unsent_alarm_is_sent_later(answer: PostResult) -> None:
    async with watched(make_child("it", two_pollers, grace=0), channel=Channel()) as setting:
        setting.channel.answer = answer
        await trio.sleep(40)
        assert 2 <= len(setting.channel.posts) <= 5, "tried again, but not without pause"
        assert not any(post.repeat for post in setting.channel.posts)
        setting.channel.answer = Sent("1")
        await trio.sleep(15)
        told = len(setting.channel.posts)
        await trio.sleep(60)
        assert len(setting.channel.posts) == told, "and told once"


async def test_an_uncertain_delivery_is_repeated_with_a_mark() -> None:
    channel = Channel(answer=Unsure("the connection broke"))
    async with watched(make_child("it", two_pollers, grace=0), channel=channel):
        await trio.sleep(12)
        channel.answer = Sent("1")
        await trio.sleep(60)
        assert [post.repeat for post in channel.posts] == [False, True]


async def test_a_stuck_outbox_is_logged_and_reported_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    channel = Channel()

    async def deaf_at_first(mailbox: Mailbox[OutboxMail]) -> None:
        await trio.sleep(200)
        await channel.run(mailbox)

    outbox = make_child("outbox", deaf_at_first, ENDLESS, capacity=1, grace=0)
    async with watched(make_child("it", two_pollers, grace=0), outbox=outbox, channel=channel):
        await trio.sleep(199)
        stuck = {r.__dict__["actor"] for r in caplog.records if r.message == "stuck"}
        assert stuck == {"it", "outbox"}
        assert any(r.message == "owner not notified" for r in caplog.records)
        await trio.sleep(61)
        live = [post for post in channel.posts if "the poll" in post.part.text]
        assert live
        answered = [post for post in live if not post.reply._is_abandoned]
        assert len(answered) == 1, "posts left in its queue do not count"


# --- systemd ------------------------------------------------------------------------------------


async def test_ready_is_sent_when_elwood_is_up_and_stopping_when_it_stops(systemd: Systemd) -> None:
    async with watched(systemd=systemd) as setting:
        await trio.sleep(5)
        parse_health_file = systemd.received()
        assert "READY=1" not in parse_health_file
        assert "STATUS=starting" in parse_health_file
        setting.up.set()
        await trio.sleep(5)
        after = systemd.received()
        assert after.count("READY=1") == 1
        assert "STATUS=running" in after
    last = systemd.received()
    assert last.count("STOPPING=1") == 1


async def test_ready_is_repeated_until_it_is_accepted(systemd: Systemd) -> None:
    sender = Notify(systemd.address)
    while sender.status("filling the queue"):
        pass
    async with watched(systemd=systemd, is_read=False) as setting:
        setting.up.set()
        await trio.sleep(3)
        assert "READY=1" not in systemd.received()
        await trio.sleep(3)
        assert systemd.received().count("READY=1") == 1


async def test_stopping_is_also_sent_after_an_escalation(systemd: Systemd) -> None:
    async def bad(mailbox: Mailbox[Any]) -> None:
        await trio.sleep(5)
        raise Bug

    with pytest.RaisesGroup(Escalated):
        async with watched(make_child("bad", bad, RestartPolicy(max_crashes=0)), systemd=systemd):
            await trio.sleep(20)
    assert systemd.received().count("STOPPING=1") == 1


async def test_the_watchdog_is_fed_while_the_vital_actors_respond(systemd: Systemd) -> None:
    """A crash with its normal delay, a busy minute and faults of other actors do not stop it."""
    begun = 0

    async def sessions(mailbox: Mailbox[Any]) -> None:
        nonlocal begun
        begun += 1
        await trio.sleep(40)
        if begun == 1:
            raise Bug
        async for _ in mailbox:
            pass

    it = make_child("sessions", sessions)
    other = make_child("other", two_pollers, grace=0)
    async with watched(it, other, systemd=systemd, vital={"sessions": VITAL}):
        it.mailbox.address.offer("a message")
        for _ in range(30):
            await trio.sleep(10)
            assert systemd.pings() >= 9


@pytest.mark.parametrize("ill", ["restarting", "deaf", "missing", "gave up"])
async def test_the_watchdog_is_not_fed_while_a_vital_actor_is_down(
    ill: str, systemd: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    async def sessions(mailbox: Mailbox[Any]) -> None:
        if ill != "deaf":
            await trio.lowlevel.checkpoint()
            raise Bug
        await trio.sleep_forever()

    crashes = 0 if ill == "gave up" else None
    policy = RestartPolicy(mode="transient", max_crashes=crashes, first_delay=3600, max_delay=3600)
    it = make_child("somebody else" if ill == "missing" else "sessions", sessions, policy, grace=0)
    async with watched(it, systemd=systemd, vital={"sessions": VITAL}):
        it.mailbox.address.offer("a message")
        await trio.sleep(VITAL - 2)
        assert systemd.pings() >= VITAL - 5
        await trio.sleep(5)
        systemd.received()
        await trio.sleep(600)
        received = systemd.received()
        assert "WATCHDOG=1" not in received
        assert not [m for m in received if m.startswith("STATUS=running")]
    (line,) = [r for r in caplog.records if r.message.startswith("vital actors silent")]
    assert line.__dict__["actors"] == ["sessions"]


async def test_the_watchdog_is_fed_again_after_recovery_and_while_stopping(
    systemd: Systemd,
) -> None:
    async def sessions(mailbox: Mailbox[Any]) -> None:
        await trio.sleep(200)
        async for _ in mailbox:
            pass
        await trio.sleep(20)  # the last turn ends while Elwood stops

    it = make_child("sessions", sessions, grace=60)
    async with watched(it, systemd=systemd, vital={"sessions": 90}) as setting:
        it.mailbox.address.offer("a message")
        await trio.sleep(199)
        systemd.received()
        await trio.sleep(10)
        assert systemd.pings() >= 7
        setting.stop.set()
        await trio.sleep(15)
        received = systemd.received()
        assert received.count("WATCHDOG=1") >= 14
        assert "STATUS=stopping" in received


async def test_a_short_watchdog_is_fed_three_times_as_often(systemd: Systemd) -> None:
    async with watched(systemd=systemd, watchdog=0.6):
        systemd.received()
        await trio.sleep(3)
        assert systemd.pings() >= 14


async def test_a_blocked_loop_does_not_feed_the_watchdog_and_is_logged(
    mock_clock: trio.testing.MockClock, systemd: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(systemd=systemd):
        systemd.received()
        mock_clock.jump(40)  # all that time no task got its turn
        assert systemd.pings() == 0
        await trio.testing.wait_all_tasks_blocked()
        assert systemd.pings() == 1
        (line,) = [r for r in caplog.records if r.message == "event loop was blocked"]
        assert line.__dict__["seconds"] == pytest.approx(39, abs=1)


# --- the disks, and health.json -------------------------------------------------------------------


async def test_little_space_is_reported_and_a_full_disk_refuses_work() -> None:
    disks = Disks()
    async with watched(disks=disks) as setting:

        async def seen(seconds: float) -> tuple[str, set[str]]:
            await trio.sleep(seconds)
            return disks.admission.refusal, {found.subject for found in setting.actor_table.stuck()}

        assert await seen(4 * MEASURE_EVERY) == ("", set())
        disks.space = Space(91, 9)
        assert await seen(MEASURE_EVERY) == ("", {LITTLE})
        disks.space = Space(96, 4)
        refusal, stuck = await seen(4 * MEASURE_EVERY)
        assert "95 % of the disk with the state is in use" in refusal
        assert stuck == {LITTLE, NONE}
        disks.broken = True
        assert await seen(MEASURE_EVERY) == (refusal, stuck), "an unknown size changes nothing"
        disks.broken, disks.space = False, Space(10, 90)
        assert await seen(2 * MEASURE_EVERY) == ("", set())
        disks.broken, disks.other = True, Space(96, 4)
        refusal, stuck = await seen(4 * MEASURE_EVERY)
        assert "95 % of the disk with the workspace is in use" in refusal
        assert stuck == {LITTLE, NONE}


async def test_the_operator_sets_the_thresholds() -> None:
    disks = Disks(HealthSettings(disk_warning=50.0, disk_full=99.5))
    async with watched(disks=disks) as setting:
        disks.space = Space(96, 4)
        await trio.sleep(2 * MEASURE_EVERY)
        assert disks.admission.refusal == ""
        [stuck] = setting.actor_table.stuck()
        assert stuck.what == (
            "more than 50 % of the disk with the state is in use; at 99.5 % I stop taking new work"
        )


async def test_the_doctor_reads_health_json(tmp_path: Path) -> None:
    def found(now: float, **settings: float) -> list[tuple[str, str, str]]:
        paths = Paths(state=tmp_path, workspace=tmp_path / "workspace", runtime=tmp_path)
        config = Config.from_values(paths, HealthSettings(**settings))
        return [(one.level, one.subject, one.what) for one in findings(config, now)]

    assert found(5.0) == []
    written = health_file(5.0, "stuck: disk full", {}, SEEN)
    (tmp_path / "health.json").write_bytes(msgspec.json.encode(written))
    with lock_state(tmp_path):
        assert found(25.0) == [("warning", "health", "stuck: disk full, 20 s ago")]
        assert found(905.0) == [("warning", "health", "stuck: disk full, 15 min ago")]
    assert found(905.0) == [("ok", "health", "not running since 1970-01-01 00:00 UTC")]
    [(level, subject, what), _] = found(905.0, disk_warning=1.0, disk_full=1.0)
    assert (level, subject) == ("problem", "disk")
    assert what.startswith("more than 1 % of the disk with the state folder is in use")


async def test_health_is_written_each_minute() -> None:
    disks = Disks()
    async with watched(disks=disks) as setting:
        setting.up.set()
        await trio.sleep(61)
        spaces = {"the state": disks.space, "the workspace": disks.other}
        assert disks.written[1:] == [health_file(5.0, "running", spaces, SEEN)]
        disks.full = True
        await trio.sleep(180)
        disks.full = False
        await trio.sleep(60)
        assert len(disks.written) > 2
    assert disks.written[-1].status == "stopped"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("said", [("%d of us", "none"), ("%s", Unspeakable())])
def test_an_unprintable_error_does_not_raise_at_the_log_call(said: tuple[object, ...]) -> None:
    vitals, log = Vitals(), logging.Logger("elwood.disk")
    log.addHandler(LastError(vitals, str))
    log.error("it is away", extra={"why": "EIO"})
    log.error(*said, exc_info=Unspeakable())
    assert vitals.last_error == "disk: it is away EIO"
