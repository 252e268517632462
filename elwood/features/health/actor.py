"""Watch Elwood: alert the owner, feed the systemd watchdog, write health.json for monitors."""

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import attrs
import msgspec
import trio

from elwood.agent.channels.messages import OutboxMail, Post, Sent, Undeliverable, Unsent, Unsure
from elwood.agent.conversation.route import Route
from elwood.agent.models.messages import Spending
from elwood.agent.models.settings import Limits
from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.session.admission import Admission
from elwood.agent.session.core import Core, inspect
from elwood.agent.session.inspection import DoneSeen, Inspection, Vitals, shorten
from elwood.features.health.settings import HealthSettings
from elwood.foundation.environment import Notify
from elwood.foundation.runtime import (
    ActorCrashed,
    ActorDown,
    ActorTable,
    ActorUnavailable,
    Address,
    Crashed,
    Event,
    Mailbox,
    Stuck,
    clear_error,
    report_warning,
)
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.storage.disk import Space, describe_room, refusal, write_or_report
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.markdown import Rich

log = logging.getLogger("elwood.health")

# Seconds between two checks of the actor table.
EVERY = 1.0
# Seconds that a check may be late before it is logged: something blocked the loop.
LATE = 1.0
# Seconds for one message to the owner, and between two attempts.
POST = 20.0
RETRY = 10.0
# Seconds for which a channel must work again before alarms of the outage are sent there.
CALM = 15.0
Outcome = Literal["sent", "unsure", "unsent", "down"]
# Seconds that a vital actor may be down or unresponsive: more than its longest restart delay.
VITAL = 90.0

# Lines of one message, and characters of one line: together they fit a message of any channel.
MAX_LINES = 10
MAX_LINE = 180

# Seconds between two checks of the disks.
MEASURE_EVERY = 20.0
# Checks between two writes of health.json: monitors ask once a minute.
WRITE_EVERY = 3
# The most actors and sessions in it.
LISTED = 200

# Prefix of the names of outboxes, and the scheduler's name for its heartbeat.
OUTBOX, HEARTBEAT = "outbox ", "heartbeat"

LITTLE, NONE, WRITE = "low disk space", "disk full", "writing health.json"


# --- alarms for the owner -------------------------------------------------------------------------


class Alarm(msgspec.Struct, frozen=True):
    """Something is stuck.  The owner gets one message for a *subject* until that is over."""

    subject: str
    text: str


class AlarmNews(msgspec.Struct, frozen=True):
    """Changes of alarms that the owner does not know yet."""

    begun: tuple[Alarm, ...] = ()
    over: tuple[Alarm, ...] = ()


def find_news(known: Mapping[str, Alarm], present: Iterable[Alarm]) -> AlarmNews | None:
    """Compare the *present* alarms with those *known* to the owner, by subject; None if equal."""
    by_subject: dict[str, Alarm] = {}
    for alarm in present:
        by_subject.setdefault(alarm.subject, alarm)
    begun = tuple(alarm for subject, alarm in by_subject.items() if subject not in known)
    over = tuple(alarm for subject, alarm in known.items() if subject not in by_subject)
    return AlarmNews(begun, over) if begun or over else None


def apply_news(known: Mapping[str, Alarm], news: AlarmNews) -> dict[str, Alarm]:
    """Return the alarms that the owner knows after *news* were sent."""
    over = {alarm.subject for alarm in news.over}
    lasting = {subject: alarm for subject, alarm in known.items() if subject not in over}
    return lasting | {alarm.subject: alarm for alarm in news.begun}


def format_news(news: AlarmNews) -> str:
    """Format *news* for the owner, as plain text of bounded length."""
    lines = [f"⚠ {one_line(alarm.text, MAX_LINE)}" for alarm in news.begun]
    lines += [f"✓ Resolved: {one_line(alarm.subject, MAX_LINE)}" for alarm in news.over]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES - 1 :] = [f"… and {len(lines) - MAX_LINES + 1} more (run elwood inspect)"]
    return "\n".join(lines)


# --- the disks, and health.json -------------------------------------------------------------------


class HealthFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of health.json."""

    # Unix time.
    at: float
    status: str
    version: str
    # Seconds.
    uptime: float
    heartbeat: DoneSeen | None
    # The last results of the actors of each channel.
    channels: Mapping[str, Sequence[DoneSeen]]
    vitals: Vitals
    # The number of unread messages by actor.
    queues: Mapping[str, int]
    restarts: int
    disk: Mapping[str, Space]
    inspection: Inspection
    # Warnings for the life of the process that the owner knows already.
    told: tuple[str, ...] = ()


def health_file(
    at: float, status: str, disk: Mapping[str, Space], seen: Inspection, sent: tuple[str, ...] = ()
) -> HealthFile:
    """Build the content of health.json from an inspection."""
    actors = {actor.name: actor for actor in seen.actors}
    channels = [name.removeprefix(OUTBOX) for name in actors if name.startswith(OUTBOX)]
    done = {name: [*actors[OUTBOX + name].done] for name in channels}
    for name in done.keys() & actors.keys():
        done[name] += actors[name].done
    beats = [one for actor in seen.actors for one in actor.done if one.what == HEARTBEAT]
    return HealthFile(
        at=at,
        status=status,
        version=seen.process.version,
        uptime=at - seen.process.started,
        heartbeat=next(iter(beats), None),
        channels=done,
        vitals=seen.vitals,
        queues={actor.name: actor.depth for actor in seen.actors if actor.depth},
        restarts=sum(actor.restarts for actor in seen.actors),
        disk=disk,
        inspection=msgspec.structs.replace(shorten(seen, LISTED), vitals=Vitals()),
        told=sent,
    )


def parse_health_file(data: bytes) -> HealthFile | None:
    """Parse health.json; return None if it is truncated or of another version."""
    try:
        return msgspec.json.decode(data, type=HealthFile)
    except (msgspec.DecodeError, RecursionError):
        return None


class LastError(logging.Handler):
    """Store the last logged error in *vitals*."""

    def __init__(self, vitals: Vitals, redact: Callable[[str], str]) -> None:
        super().__init__(logging.ERROR)
        self._vitals = vitals
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        with suppress(Exception):  # a bad record: stderr reports it, and the caller continues
            why = getattr(record, "why", "") or (error and f"{type(error).__name__}: {error}") or ""
            text = f"{record.name.removeprefix('elwood.')}: {record.getMessage()} {why}"
            self._vitals.last_error = one_line(self._redact(text), MAX_LINE)
            self._vitals.last_error_at = record.created


def sizes(state: Path, workspace: Path) -> dict[str, int]:
    """Sum the sizes of the files in *state*, without the *workspace*, in bytes.  Blocks."""
    totals = {"state": 0, "journals": 0, "memory index": 0}
    for folder, folders, names in os.walk(state):
        folders[:] = [name for name in folders if Path(folder, name) != workspace]
        for name in names:
            with suppress(OSError):  # deleted since
                size = os.lstat(f"{folder}/{name}").st_size
                totals["state"] += size
                totals["journals"] += size if name.endswith((".jsonl", ".jsonl.gz")) else 0
                totals["memory index"] += size if name.startswith("memory.db") else 0
    return totals


@attrs.define(eq=False)
class DiskMonitor:
    """Check the disks every few seconds; set the refusal of *admission* when one is full.

    *folders* map a description to a function that measures the disk and may raise OSError.
    *write* may raise DiskFull.  *measure* updates the vitals.
    """

    _folders: Mapping[str, Callable[[], Awaitable[Space]]]
    _write: Callable[[bytes], Awaitable[None]]
    _inspect: Callable[[], Inspection]
    _now: Callable[[], float]
    _admission: Admission
    _settings: HealthSettings
    _measure: Callable[[], Awaitable[None]]
    _spaces: dict[str, Space] = attrs.field(factory=dict, init=False)

    async def run(self, write: Callable[[], Awaitable[None]]) -> None:
        checks = 0
        while True:
            await self._check_disks()
            if checks % WRITE_EVERY == 0:
                await self._measure()
                await write()
            checks += 1
            await trio.sleep(MEASURE_EVERY)

    async def write(self, status: str, sent: tuple[str, ...] = ()) -> None:
        """Write health.json with a short *status*."""
        health = health_file(self._now(), status, self._spaces, self._inspect(), sent)
        content = msgspec.json.format(msgspec.json.encode(health)) + b"\n"
        await write_or_report(WRITE, self._write(content))

    async def _check_disks(self) -> None:
        """Measure the disks; on an error keep the last value."""
        for name, measure in self._folders.items():
            try:
                self._spaces[name] = await measure()
            except OSError as error:
                log.warning("free disk space unknown", extra={"of": name, "why": str(error)})
        low, full = self._settings.disk_warning, self._settings.disk_full
        self._admission.refusal = refusal(self._spaces, full)
        little = describe_room(self._spaces, low, full)
        for what, why in ((LITTLE, little), (NONE, self._admission.refusal)):
            if why:
                report_warning(what, why)
            else:
                clear_error(what)


# --- the actor ------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Health:
    """The actor on the lowest step: it may ask outboxes, since others only offer to it.

    *owner* returns the owner's routes, best first.  *vital* maps the actors that Elwood needs to
    the seconds that each may be down or leave its messages unread.  *up* is set when Elwood is
    ready, *stop* when it begins to stop.  Sent alarms survive a crash of this actor, but not the
    process; *known* has the lasting warnings sent by an earlier one.
    """

    _actor_table: ActorTable
    _outboxes: Mapping[str, Address[OutboxMail]]
    _owner: Callable[[], Sequence[Route]]
    _notify: Notify
    _vital: Mapping[str, float]
    _up: trio.Event
    _stop: trio.Event
    _redact: Callable[[str], str]
    _disks: DiskMonitor
    _known: Collection[str] = ()
    _stuck: dict[str, Stuck] = attrs.field(factory=dict, init=False)
    _silent: list[str] = attrs.field(factory=list, init=False)
    _status: str = attrs.field(default="", init=False)
    _is_ready: bool = attrs.field(default=False, init=False)
    _sent: dict[str, Alarm] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        lasting = (self._build_alarm(one) for one in self._actor_table.stuck() if one.lasts)
        self._sent = {alarm.subject: alarm for alarm in lasting if alarm.text in self._known}

    async def run(self, mailbox: Mailbox[Event]) -> None:
        """Check every second, and after each crash, until the mailbox is closed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            nursery.start_soon(self._report_alarms)
            nursery.start_soon(self._announce_states)
            nursery.start_soon(self._disks.run, self._write)
            async for event in mailbox:
                if isinstance(event, Crashed):
                    self._check_actors()
            nursery.cancel_scope.cancel()
        if not self._stop.is_set():  # stopped by an escalation, not from outside
            self._notify.announce_stop()
        await self._disks.write("stopped", self._list_sent_warnings())

    async def _announce_states(self) -> None:
        await self._up.wait()
        log.info("elwood up")
        self._notify_ready()
        await self._stop.wait()
        self._notify.announce_stop()

    async def _watch(self) -> None:
        period = min(EVERY, (self._notify.watchdog or EVERY) / 3)
        began = trio.current_time()
        due = began
        while True:
            late = trio.current_time() - due
            if late > LATE:
                log.warning("event loop was blocked", extra={"seconds": round(late, 1)})
            self._check_actors()
            self._feed_watchdog(began)
            self._notify_ready()
            due = trio.current_time() + period
            await trio.sleep(period)

    def _notify_ready(self) -> None:
        """Repeat until it is sent: systemd stops a service that never becomes ready."""
        if self._up.is_set() and not self._is_ready:
            self._is_ready = self._notify.ready()

    def _check_actors(self) -> None:
        """Log the changes since the last check, and update the status line."""
        stuck, before = {one.key: one for one in self._actor_table.stuck()}, self._stuck
        for one in (stuck[key] for key in stuck.keys() - before.keys()):
            log.warning("stuck", extra={"actor": one.actor, "what": one.what})
        for gone in (before[key] for key in before.keys() - stuck.keys()):
            log.info("no longer stuck", extra={"actor": gone.actor, "what": gone.subject})
        self._stuck = stuck
        status = self._describe_status()
        if status != self._status and self._notify.status(status):
            self._status = status

    def _describe_status(self) -> str:
        subjects = sorted(self._subjects())
        if self._stop.is_set():
            return "stopping"
        if self._silent:
            return f"not answering: {', '.join(self._silent)}"
        if subjects:
            return self._redact(f"stuck: {', '.join(subjects)}")
        return "running" if self._up.is_set() else "starting"

    def _feed_watchdog(self, began: float) -> None:
        """Feed the systemd watchdog if all vital actors respond.

        That this runs at all proves that the event loop runs.
        """
        silent = [] if self._stop.is_set() else silent_actors(self._actor_table, self._vital, began)
        if silent != self._silent:
            self._silent = silent
            if silent:
                log.error("vital actors silent, watchdog not fed", extra={"actors": silent})
        if not silent:
            self._notify.ping()

    async def _report_alarms(self) -> None:
        """Send changes to the owner; those that could not be sent are sent later if still true."""
        repeat = False
        while True:
            await trio.sleep(EVERY)
            fresh = find_news(self._sent, map(self._build_alarm, self._stuck.values()))
            if fresh is None:
                repeat = False
                continue
            outcome = await self._post(fresh, repeat)
            if outcome == "sent":
                self._sent = apply_news(self._sent, fresh)
                repeat = False
                await self._write()
                continue
            repeat = outcome == "unsure" or (repeat and outcome == "down")
            if outcome == "down":
                continue  # no pause: an actor that keeps crashing is up for moments only
            log.warning("owner not notified", extra={"stuck": len(fresh.begun), "why": outcome})
            await trio.sleep(RETRY)

    async def _write(self) -> None:
        await self._disks.write(self._describe_status(), self._list_sent_warnings())

    def _list_sent_warnings(self) -> tuple[str, ...]:
        """List the lasting warnings that were sent to the owner."""
        lasting = (self._build_alarm(one).subject for one in self._actor_table.stuck() if one.lasts)
        return tuple(self._sent[subject].text for subject in lasting if subject in self._sent)

    def _build_alarm(self, stuck: Stuck) -> Alarm:
        return Alarm(self._redact(_subject(stuck)), self._redact(stuck.told))

    async def _post(self, fresh: AlarmNews, repeat: bool) -> Outcome:
        """Send to the first of the owner's routes that accepts the message."""
        result: Outcome = "unsent"
        for route in self._owner():
            outbox = self._outboxes.get(route.channel)
            if outbox is None or f"{outbox.name}: unread messages" in self._subjects():
                continue  # the message would wait there until it is outdated
            post = Post(route=route, part=Rich(format_news(fresh)), repeat=repeat, calm=CALM)
            try:
                with trio.fail_after(POST):
                    answer = await outbox.ask(post)
            except ActorDown:  # it did not get the message
                result = "down" if result == "unsent" else result
                continue
            except (ActorCrashed, trio.TooSlowError):
                result = "unsure"
                continue
            match answer:
                case Sent():
                    return "sent"
                case Unsure():
                    return "unsure"
                case Unsent(why) | Undeliverable(why):
                    log.warning("owner unreachable", extra={"channel": route.channel, "why": why})
        return result

    def _subjects(self) -> set[str]:
        return set(map(_subject, self._stuck.values()))


def _subject(stuck: Stuck) -> str:
    return f"{stuck.actor}: {stuck.subject}" if stuck.actor else stuck.subject


def silent_actors(actor_table: ActorTable, vital: Mapping[str, float], began: float) -> list[str]:
    """List the *vital* actors that were down or unresponsive for longer than their limit.

    An actor without a status counts as down since *began*.
    """
    now, silent = actor_table.get_time(), []
    for name, limit in vital.items():
        status = actor_table.statuses.get(name)
        since: float | None = began
        if status is not None:
            answers = status.state in ("running", "stopping")
            since = status.unread_since() if answers else status.since
        if since is not None and now - since > limit:
            silent.append(name)
    return silent


async def build(core: Core, others: Gathered) -> Parts:
    """Build the health actor: it may ask all others, and others only send it hints."""
    paths, blocking = core.paths, core.environment.blocking
    calls, file = core.environment.calls(), core.paths.state / "health.json"

    async def write(data: bytes) -> None:
        await blocking(lambda: core.disk.replace(file, data))

    last = await blocking(lambda: parse_health_file(file.read_bytes() if file.is_file() else b""))
    vitals, limits = core.vitals, core.config.get(Limits)
    if last is not None:
        vitals.last_error = last.vitals.last_error
        vitals.last_error_at = last.vitals.last_error_at
    errors = LastError(vitals, core.redactor)
    logging.getLogger("elwood").addHandler(errors)
    core.closing.callback(logging.getLogger("elwood").removeHandler, errors)

    async def measure() -> None:
        warnings = {one.subject: one.what for one in core.table.stuck() if one.lasts}
        sandbox = others.sandbox
        vitals.sandbox = "none" if isinstance(sandbox, NoSandbox) else sandbox.rung
        vitals.sandbox_warning = warnings.get("sandbox", "")
        vitals.sizes = await blocking(lambda: sizes(paths.state, paths.workspace))
        with trio.move_on_after(POST), suppress(ActorUnavailable):
            today = (await core.models.ask(Spending(session=""))).day
            vitals.budget = {"tokens": today.tokens, "usd": today.usd}
            vitals.budget |= {"limit_tokens": limits.day_tokens, "limit_usd": limits.day_usd}

    disks = DiskMonitor(
        {
            "the state folder": lambda: blocking(lambda: calls.space(paths.state)),
            "the workspace": lambda: blocking(lambda: calls.space(paths.workspace)),
        },
        write,
        partial(inspect, core),
        core.clock.now,
        core.admission,
        core.config.get(HealthSettings),
        measure,
    )
    health = Health(
        core.table,
        core.channels.outboxes,
        core.channels.owner_routes,
        notify=core.environment.notify,
        vital=dict.fromkeys(("sessions", "models", "approvals"), VITAL),
        up=core.up,
        stop=core.stop,
        redact=core.redactor,
        disks=disks,
        known=last.told if last is not None else (),
    )
    return Parts(
        actors=[
            Actor(
                step=6,
                mailbox=core.events,
                body=health.run,
                policy=WORLD,
                grace=1.0,
                stops_last=True,
            )
        ]
    )
