"""The clock of the house: the timetable, the scheduler, and what they act with."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import trio

from elwood.agent.channels.channel import Channel
from elwood.agent.channels.last_heard import LastHeard
from elwood.agent.channels.owner_notices import TellOwner
from elwood.agent.conversation.route import Route
from elwood.agent.models.messages import MayAsk, ModelsMail
from elwood.agent.session.log.restored import restored
from elwood.agent.session.messages import SessionsMail
from elwood.app.config.settings import Config
from elwood.features.daily_notes.store import DailyNotes, DailyNoteSearch
from elwood.features.memory.messages import MemoryMail
from elwood.features.tasks.actor import Scheduler, TimetableActor
from elwood.features.tasks.chores import (
    BACKUP,
    MEMORY,
    REFLECTIONS,
    SWEEP,
    Chore,
    Reflecting,
    Report,
    Sweep,
    TidyMemory,
    house_tasks,
)
from elwood.features.tasks.heartbeat import read_checklist
from elwood.features.tasks.messages import Adopt, TimetableMail, Woken
from elwood.features.tasks.run import TaskRunner
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.features.tasks.store import AGENT_FILE, AgentFile, HeartbeatFile, Written, fingerprint
from elwood.features.tasks.task import Origin, Task, session_of
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import (
    Address,
    Mailbox,
    clear_error,
    report_error,
)
from elwood.foundation.storage.confined import Unconfined
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.journal import Journal

log = logging.getLogger("elwood.clock")

# Problems of HEARTBEAT.md that are told; the first are mended first.
MAX_PROBLEMS = 10
# Characters of each: together they fit into one message of any channel.
MAX_PROBLEM = 350

HEARTBEAT = "reading HEARTBEAT.md"


class Clockwork:
    """Makes the actors.

    *places* are where the owner reads, the best first; *tell* tells them something there; *full*
    says why no new work is taken, if none is.
    """

    def __init__(
        self,
        config: Config,
        outside: Environment,
        disk: Disk,
        *,
        timetable: Mailbox[TimetableMail],
        sessions: Address[SessionsMail],
        models: Address[ModelsMail],
        memory: Address[MemoryMail],
        places: Callable[[], Sequence[Route]],
        tell: TellOwner,
        channels: Sequence[Channel],
        threads: DailyNotes,
        daily: DailyNoteSearch,
        heard: LastHeard,
        full: Callable[[], str],
    ) -> None:
        self.timetable = timetable
        self.scheduler: Mailbox[Woken] = Mailbox("scheduler", 32)
        self._config = config
        self._outside = outside
        self._disk = disk
        self._sessions = sessions
        self._models = models
        self._memory = memory
        self._places = places
        self._tell = tell
        self._channels = {channel.name: channel for channel in channels}
        self._threads = threads
        self._daily = daily
        self._heard = heard
        self._full = full
        self._root = Root(config.paths.workspace)

    async def keep_timetable(self, mailbox: Mailbox[TimetableMail]) -> None:
        """Be the timetable."""
        state = self._config.paths.state
        file = AgentFile(state / AGENT_FILE, self._disk)

        async def changed(tasks: Sequence[Task]) -> None:
            await self._disk.blocking(lambda: file.write(tasks))

        found = await self._disk.blocking(lambda: restored(state))
        journal: Journal[TimetableEntry, Timetable] = Journal(
            state / "schedule.jsonl", TimetableEntry, Timetable, self._disk
        )
        actor = TimetableActor(
            journal,
            hint=self.scheduler.address.offer,
            changed=changed,
            clock=self._outside.now,
            zone=self._config.owner.timezone,
            restored_at=found.restored_at if found else None,
        )
        await actor.run(mailbox)

    async def schedule(self, mailbox: Mailbox[Woken]) -> None:
        """Be the scheduler."""
        await self._heard.load()
        config = self._config
        await self._adopt("config", config.tasks)
        await self._adopt("house", self._house_tasks())
        runner = TaskRunner(
            self._sessions,
            chores=self._chores(),
            watching=self._watching,
            route=self._route,
            home=self._home,
            refusal=self._refusal,
            now=self._outside.now,
            zone=config.owner.timezone,
        )
        tell = self._tell
        file, before = HeartbeatFile(self._root), Written()
        async with trio.open_nursery() as nursery:

            async def refresh() -> None:
                nonlocal before
                await self._heard.save()
                written = await self._read_heartbeat(file)
                if written is not None and written is not before:
                    before = written
                    if mistakes := await self._take_in(written):
                        # The channel may be away: nothing else waits for that.
                        nursery.start_soon(tell, mistakes, (), False)

            scheduler = Scheduler(
                self.timetable.address,
                runner,
                refresh=refresh,
                tell=tell,
                now=self._outside.now,
                full=self._full,
            )
            await scheduler.run(mailbox)
            nursery.cancel_scope.cancel()

    # --- what is to be done ----------------------------------------------------------------------

    def _house_tasks(self) -> tuple[Task, ...]:
        config = self._config
        provider = config.providers.get(config.models.summarizer.partition("/")[0])
        # The model of rules has nothing to say about a week.
        thinks = provider is not None and provider.api != "offline" and config.learning.reflections
        zone, every = config.owner.timezone, config.backup.every
        return house_tasks(zone, backup_every=every, off=() if thinks else (REFLECTIONS,))

    def _chores(self) -> Mapping[str, Chore]:
        config, now, blocking = self._config, self._outside.now, self._outside.blocking
        after = config.sessions.archive
        logs = config.paths.state / "sessions"

        async def back_up(last: float) -> Report:
            # What packs archives takes 20 ms and 1 MB to import: a start must not wait for it.
            from elwood.features.backup.rules import BackupFailed
            from elwood.features.backup.store import planned

            try:
                return Report(await blocking(lambda: planned(config, now)))
            except BackupFailed as error:
                return Report(f"no backup was taken: {error}", failed=True)

        return {
            SWEEP: Sweep(logs, self._sessions, after, now, blocking),
            MEMORY: TidyMemory(self._memory, self._daily),
            REFLECTIONS: Reflecting(self._threads, now),
            BACKUP: back_up,
        }

    async def _read_heartbeat(self, file: HeartbeatFile) -> Written | None:
        """Read what people have written into HEARTBEAT.md; None if it cannot be read now."""
        try:
            written = await self._outside.blocking(file.read)
        except Unconfined as error:
            report_error(HEARTBEAT, str(error))
            return None
        clear_error(HEARTBEAT)
        return written

    async def _take_in(self, written: Written) -> str:
        """Adopt the tasks of HEARTBEAT.md; say what is wrong with it."""
        found = read_checklist(self._config, written.text)
        await self._adopt("heartbeat", found.tasks)
        problems = [*filter(None, [written.problem]), *found.problems]
        if not problems:
            return ""
        log.warning("HEARTBEAT.md has mistakes", extra={"what": "; ".join(problems)})
        told = [problem[:MAX_PROBLEM] for problem in problems[:MAX_PROBLEMS]]
        if len(problems) > len(told):
            told.append(f"… and {len(problems) - len(told)} more, in the log")
        return "\n".join(["These parts of HEARTBEAT.md do not count:", *told])

    async def _adopt(self, origin: Origin, tasks: tuple[Task, ...]) -> None:
        await self.timetable.address.insist(partial(Adopt, origin=origin, tasks=tasks))

    async def _watching(self, task: Task) -> str:
        watched = partial(fingerprint, self._root, task.watch or (), task.prompt)
        return await self._outside.blocking(watched)

    async def _refusal(self, task: Task) -> str:
        purse, session = task.purse, session_of(task)
        ask = partial(MayAsk, session=session, job=task.id, purse=purse)
        return await self._models.insist(ask)

    # --- where it is said ------------------------------------------------------------------------

    def _route(self, task: Task) -> Route | None:
        wanted, places = task.route, self._places()
        if wanted is not None and wanted.chat and wanted.channel in self._channels:
            return wanted
        # Without a chat any place of the owner's in that channel is meant.
        near = [one for one in places if wanted is not None and one.channel == wanted.channel]
        return next(iter([*near, *places]), None)

    def _home(self, route: Route) -> str | None:
        channel = self._channels.get(route.channel)
        return channel.session(route) if channel is not None else None
