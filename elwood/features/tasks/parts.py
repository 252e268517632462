"""What tasks brings to one run of the app."""

import logging
from collections.abc import Sequence
from functools import partial

import trio

from elwood.agent.channels.owner_notices import TellOwner
from elwood.agent.channels.post_until_delivered import PostUntilDelivered
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import Owner
from elwood.agent.models.messages import MayAsk
from elwood.agent.models.settings import Limits
from elwood.agent.parts import Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.session.extension import Runs, SessionExtension, SlashCommand
from elwood.agent.tools.talk import Messenger
from elwood.features.tasks.actor import Scheduler, TimetableActor
from elwood.features.tasks.chores import chore_task
from elwood.features.tasks.commands import TasksCommand
from elwood.features.tasks.heartbeat import read_checklist
from elwood.features.tasks.messages import Adopt, TimetableMail, WhichCancelled, Woken
from elwood.features.tasks.run import TaskRunner
from elwood.features.tasks.settings import ConfiguredTasks
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.features.tasks.store import AGENT_FILE, AgentFile, HeartbeatFile, Written, fingerprint
from elwood.features.tasks.task import Origin, Task, session_of
from elwood.features.tasks.tools import tools
from elwood.foundation.runtime import Address, Mailbox, clear_error, report_error
from elwood.foundation.storage.confined import Unconfined
from elwood.foundation.storage.journal import Journal

log = logging.getLogger("elwood.clock")

# Problems of HEARTBEAT.md that are told; the first are mended first.
MAX_PROBLEMS = 10
# Characters of each: together they fit into one message of any channel.
MAX_PROBLEM = 350

HEARTBEAT = "reading HEARTBEAT.md"


async def build(core: Core, others: Gathered) -> Parts:
    """Make the timetable, and the scheduler that asks it."""
    clock = TaskClock(core, others)
    timetable = clock.timetable.address
    command = TasksCommand(timetable, core.models, core.clock, core.admission)
    messenger = Messenger(core.channels, core.approvals)
    actors = [Actor(step=2, mailbox=clock.timetable, body=clock.keep_timetable)]
    if core.stays:
        actors.append(Actor(step=5, mailbox=clock.scheduler, body=clock.schedule, grace=1.0))
    return Parts(
        actors=actors,
        tools=tools(timetable, messenger, core.config.of(Limits).purse(None)),
        sessions=[lambda log: TaskExtension(timetable)],
        commands=[
            SlashCommand(
                name="tasks",
                help="list what is planned; /tasks pause, resume, cancel, run, stop ID; /tasks all",
                run=command.run,
            )
        ],
    )


class TaskExtension(SessionExtension):
    """Tasks in one conversation: what a cancelled one has asked for is let go."""

    def __init__(self, timetable: Address[TimetableMail]) -> None:
        self._timetable = timetable

    async def cancelled(self, runs: Runs) -> Runs:
        """Ask until the timetable answers: what it forbids must not be done."""
        return await self._timetable.insist(partial(WhichCancelled, runs=runs))


class TaskClock:
    """The bodies of the two actors, with what they act with."""

    def __init__(self, core: Core, others: Gathered) -> None:
        self.timetable: Mailbox[TimetableMail] = Mailbox("timetable", 32)
        self.scheduler: Mailbox[Woken] = Mailbox("scheduler", 32)
        self._config = core.config
        self._zone = core.config.of(Owner).timezone
        self._core = core
        self._others = others
        self._channels = core.channels
        self._tell = TellOwner(
            PostUntilDelivered(core.channels.outboxes), core.channels.owner_routes, core.redactor
        )

    async def keep_timetable(self, mailbox: Mailbox[TimetableMail]) -> None:
        """Be the timetable."""
        state = self._core.paths.state
        file = AgentFile(state / AGENT_FILE, self._core.disk)

        async def changed(tasks: Sequence[Task]) -> None:
            await self._core.disk.blocking(lambda: file.write(tasks))

        found = self._core.admission.restored
        journal: Journal[TimetableEntry, Timetable] = Journal(
            state / "schedule.jsonl", TimetableEntry, Timetable, self._core.disk
        )
        actor = TimetableActor(
            journal,
            hint=self.scheduler.address.offer,
            changed=changed,
            clock=self._core.clock.now,
            zone=self._zone,
            restored_at=found.restored_at if found else None,
        )
        await actor.run(mailbox)

    async def schedule(self, mailbox: Mailbox[Woken]) -> None:
        """Be the scheduler."""
        await self._channels.heard.load()
        chores = self._others.chores
        await self._adopt("config", self._config.of(ConfiguredTasks).tasks)
        await self._adopt("house", tuple(chore_task(one, self._zone) for one in chores))
        runner = TaskRunner(
            self._core.sessions,
            chores={one.id: one.do for one in chores},
            watching=self._watching,
            route=self._route,
            home=self._channels.session_at,
            refusal=self._refusal,
            now=self._core.clock.now,
            zone=self._zone,
        )
        tell = self._tell
        file, before = HeartbeatFile(self._core.workspace), Written()
        async with trio.open_nursery() as nursery:

            async def refresh() -> None:
                nonlocal before
                await self._channels.heard.save()
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
                now=self._core.clock.now,
                full=lambda: self._core.admission.refusal,
            )
            await scheduler.run(mailbox)
            nursery.cancel_scope.cancel()

    # --- what is to be done ----------------------------------------------------------------------

    async def _read_heartbeat(self, file: HeartbeatFile) -> Written | None:
        """Read what people have written into HEARTBEAT.md; None if it cannot be read now."""
        try:
            written = await self._core.environment.blocking(file.read)
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
        watched = partial(fingerprint, self._core.workspace, task.watch or (), task.prompt)
        return await self._core.environment.blocking(watched)

    async def _refusal(self, task: Task) -> str:
        purse, session = task.purse, session_of(task)
        ask = partial(MayAsk, session=session, job=task.id, purse=purse)
        return await self._core.models.insist(ask)

    # --- where it is said ------------------------------------------------------------------------

    def _route(self, task: Task) -> Route | None:
        wanted, places = task.route, self._channels.owner_routes()
        if wanted is not None and wanted.chat and self._channels.named(wanted.channel) is not None:
            return wanted
        # Without a chat any place of the owner's in that channel is meant.
        near = [one for one in places if wanted is not None and one.channel == wanted.channel]
        return next(iter([*near, *places]), None)
