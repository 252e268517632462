"""Build the actors and chores of tasks for one run of the app, and the command ``/tasks``."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

import msgspec
import trio

from elwood.agent.conversation.calls import Look
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import Owner, OwnerClock
from elwood.agent.models.check import check_prices, is_written
from elwood.agent.models.messages import MayAsk
from elwood.agent.models.settings import Limits, ModelSettings
from elwood.agent.parts import Actor, Chore, Gathered, Parts, Report
from elwood.agent.session.admission import Admission
from elwood.agent.session.core import Core
from elwood.agent.session.extension import (
    CommandAnswer,
    CommandCall,
    Reminder,
    Runs,
    SessionExtension,
    SlashCommand,
    build_reminder,
)
from elwood.agent.session.log.entries import Reminded
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.paging import page, parse_page
from elwood.agent.session.settings import SessionSettings
from elwood.agent.session.store import remove_old
from elwood.agent.session.turn.gate import Toolset, toolset
from elwood.agent.session.turn.looking import run_look
from elwood.agent.tools.talk import Messenger
from elwood.features.tasks.actor import Scheduler, TaskRunner, TimetableActor
from elwood.features.tasks.heartbeat import OwnHeartbeat, Written, parse_checklist
from elwood.features.tasks.messages import (
    Adopt,
    Change,
    ListTasks,
    TimetableChanged,
    TimetableMail,
    WhichCancelled,
)
from elwood.features.tasks.rules import WatchedState
from elwood.features.tasks.settings import ConfiguredTasks, HeartbeatSettings, OwnTasks
from elwood.features.tasks.state import SCHEDULE, Timetable, TimetableEntry
from elwood.features.tasks.store import fingerprint, log_run, read_heartbeat, read_runs
from elwood.features.tasks.task import BY_TOOL, ID, Origin, Task, session_of
from elwood.features.tasks.texts import USAGE, buttons, list_planned, list_tasks, summarize_tasks
from elwood.features.tasks.tools import tools
from elwood.features.tasks.when import Cadence, Every, When
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.command_line import ask
from elwood.foundation.runtime import ActorUnavailable, Address, Mailbox, clear_error, report_error
from elwood.foundation.settings import Answers, BadSetting, Config
from elwood.foundation.storage.confined import Unconfined
from elwood.foundation.storage.journal import Journal

log = logging.getLogger("elwood.tasks")

# Characters of the problems of HEARTBEAT.md in a message: one message of any channel.
MAX_PROBLEMS = 3_500
# In the state folder: the logs of the runs of tasks, for people.
RUNS = "runs"
# Seconds: a chore that was missed for a week is still run.
HOUR, DAY = 3_600.0, 86_400.0
LATE = 8 * DAY
# Seconds for a command, and tasks on a page of the list: they have up to six lines each.
COMMAND_LIMIT, PAGE = 20.0, 6
# Seconds that a turn waits for the list of tasks.
REMIND_WAIT = 0.5
# Seconds that /status waits for it.
STATUS_WAIT = 0.5
# Prefix of the reminder of planned tasks.
PLANNED = "[planned: "
# The actor of a change, as the model and people read it.
BY = "the owner"
UNAVAILABLE = "I cannot read my list of tasks right now. Try again in a minute."
HEARTBEAT = "reading HEARTBEAT.md"


async def build(core: Core, others: Gathered) -> Parts:
    """Build the timetable and the scheduler."""
    clock = TaskClock(core, others)
    timetable = clock.timetable.address
    messenger = Messenger(core.channels, core.approvals)
    actors = [Actor(step=2, mailbox=clock.timetable, body=clock.keep_timetable)]
    if core.stays:
        actors.append(Actor(step=6, mailbox=clock.scheduler, body=clock.schedule, grace=1.0))
    kept = core.config.get(SessionSettings)

    async def sweep(last: float) -> Report:
        removed = await remove_old(core, core.clock.now(), SCHEDULE)
        return Report(f"files removed: {removed}" if removed else "")

    async def newest_runs(id_: str) -> str:
        path = core.paths.state / RUNS / f"{id_}.log"
        return await core.environment.blocking(partial(read_runs, path))

    sweeper = Chore(id="sweep", title="remove old records", every=DAY, do=sweep)
    return Parts(
        chores=[sweeper] if kept.keep or kept.keep_runs else [],
        actors=actors,
        tools=tools(timetable, messenger, core.config.get(Limits).budget(None)),
        sessions=[partial(TaskExtension, timetable, str(core.clock.zone))],
        commands=[
            SlashCommand(
                name="tasks",
                help="list what is planned",
                usage=USAGE,
                run=partial(tasks_command, timetable, core.clock, core.admission, newest_runs),
                group="What I know and plan",
            )
        ],
        status=[partial(describe_status, timetable, core.clock)],
    )


async def describe_status(timetable: Address[TimetableMail], clock: OwnerClock) -> str:
    """Return the line of ``/status`` about tasks."""
    with trio.move_on_after(STATUS_WAIT), suppress(ActorUnavailable):
        tasks = await timetable.ask(ListTasks())
        return summarize_tasks(tasks, str(clock.zone), clock.now())
    return UNAVAILABLE


class TaskExtension(SessionExtension):
    """Tasks in one session: remind of planned tasks, void calls of cancelled ones."""

    def __init__(self, timetable: Address[TimetableMail], zone: str, log: SessionLog) -> None:
        self._timetable = timetable
        self._zone = zone
        self._log = log

    def reminder(self) -> Reminder | None:
        """Return the reminder of planned tasks, if the private conversation is only the owner's."""
        turn = self._log.turn
        is_allowed = turn.is_owners_alone and not turn.bounds
        return self._remind if is_allowed and self._log.state.taint.label == PRIVATE else None

    async def _remind(self) -> Reminded | None:
        turn = self._log.turn
        with trio.move_on_after(REMIND_WAIT), suppress(ActorUnavailable):
            tasks = await self._timetable.ask(ListTasks())
            text = list_planned(tasks, turn.route, self._zone)
            return build_reminder(self._log, "planned", PLANNED, text, "your tasks", private=True)
        return None

    async def find_cancelled(self, runs: Runs) -> Runs:
        """Ask until the timetable answers: calls of cancelled runs must not be done."""
        return await self._timetable.insist(partial(WhichCancelled, runs=runs))


async def tasks_command(
    timetable: Address[TimetableMail],
    clock: OwnerClock,
    admission: Admission,
    newest_runs: Callable[[str], Awaitable[str]],
    call: CommandCall,
) -> CommandAnswer:
    """Carry out ``/tasks``."""
    if call.again and call.given.split()[:1] == ["run"]:
        text = "I was interrupted, so it may be running already. Send /tasks to check."
        return CommandAnswer(text, buttons=("/tasks",))
    given, number = parse_page(call.given)
    with trio.move_on_after(COMMAND_LIMIT), suppress(ActorUnavailable):
        match given.split(maxsplit=1):
            case [] | ["all"]:
                tasks = await timetable.ask(ListTasks(chores=bool(given)))
                shown, pages = page(tasks, number, PAGE, f"/tasks {given}".rstrip())
                text = "There are no tasks yet. Tell me what to do and when."
                if shown:
                    # str() of the owner's zone is its IANA name.
                    listed = list_tasks(shown, str(clock.zone), clock.now())
                    text = f"{listed}\n\n/help tasks lists the commands."
                return CommandAnswer(text, buttons=buttons(shown), pages=pages)
            case [("pause" | "resume" | "cancel" | "run" | "stop") as verb, wanted]:
                id_ = wanted.strip().lower()
                settled = await timetable.ask(Change(id=id_, verb=verb, by=BY))
                text = settled.text
                if verb == "run" and settled.ok and (full := admission.refusal):
                    text = f"It will start when I accept new work again: {full}."
                after = await timetable.ask(ListTasks(chores=True))
                changed = [one for one in after if one.task.id == id_]
                return CommandAnswer(f"{id_}: {text}", buttons=(*buttons(changed), "/tasks"))
            case ["log", wanted] if ID.fullmatch(id_ := wanted.strip().lower()):
                return CommandAnswer(
                    await newest_runs(id_) or f"{id_}: there is no record of a run."
                )
            case _:
                return CommandAnswer(f"I do not understand that.\n{USAGE}")
    return CommandAnswer(UNAVAILABLE)


class TaskClock:
    """The bodies of the two actors, and their dependencies."""

    def __init__(self, core: Core, others: Gathered) -> None:
        self.timetable: Mailbox[TimetableMail] = Mailbox("timetable", 32)
        self.scheduler: Mailbox[TimetableChanged] = Mailbox("scheduler", 32)
        self._config = core.config
        self._zone = core.config.get(Owner).timezone
        self._core = core
        self._others = others
        self._heartbeat: Written | None = None
        self._own: tuple[Task, ...] | None = None
        self._toolset: Toolset | None = None
        self._tell = core.tell_owner

    async def keep_timetable(self, mailbox: Mailbox[TimetableMail]) -> None:
        state = self._core.paths.state

        async def log_runs(lines: Mapping[str, str]) -> None:
            await self._core.environment.blocking(partial(log_run, state / RUNS, lines))

        found = self._core.admission.restored
        journal: Journal[TimetableEntry, Timetable] = Journal(
            state / SCHEDULE, TimetableEntry, Timetable, self._core.disk
        )
        actor = TimetableActor(
            journal,
            hint=self.scheduler.address.offer,
            log_runs=log_runs,
            clock=self._core.clock.now,
            zone=self._zone,
            reserved=self._config.chores,
            restored_at=found.restored_at if found else None,
        )
        await actor.run(mailbox)

    async def schedule(self, mailbox: Mailbox[TimetableChanged]) -> None:
        chores = self._others.chores
        await self._adopt("config", self._config.get(ConfiguredTasks).tasks)
        await self._adopt("house", tuple(chore_task(one, self._zone) for one in chores))
        runner = TaskRunner(
            self._core.sessions,
            chores={one.id: one.do for one in chores},
            watching=self._read_watch,
            route=self._route,
            home=self._core.channels.session_at,
            refusal=self._refusal,
            now=self._core.clock.now,
            zone=self._zone,
        )
        async with trio.open_nursery() as nursery:
            scheduler = Scheduler(
                self.timetable.address,
                runner,
                refresh=partial(self._refresh, nursery),
                tell=self._tell,
                now=self._core.clock.now,
                full=lambda: self._core.admission.refusal,
            )
            await scheduler.run(mailbox)
            nursery.cancel_scope.cancel()

    # --- tasks and watches -----------------------------------------------------------------------

    async def _refresh(self, nursery: trio.Nursery) -> None:
        """Read the tasks of agent.toml and HEARTBEAT.md; send the owner problems of the latter."""
        own = self._core.own.now
        if self._own != (tasks := own.get(OwnTasks).tasks):
            await self._adopt("own", tasks)
            self._own = tasks
        try:
            written = await self._core.environment.blocking(
                partial(read_heartbeat, self._core.workspace)
            )
        except Unconfined as error:
            report_error(HEARTBEAT, str(error))
            return
        clear_error(HEARTBEAT)
        if more := own.get(OwnHeartbeat).checklist.strip():
            # A heading ends the entry before it.
            written = msgspec.structs.replace(written, text=f"{written.text}\n\n# Own\n{more}")
        if written == self._heartbeat:
            return
        self._heartbeat = written
        found = parse_checklist(self._config, written)
        await self._adopt("heartbeat", found.tasks)
        if found.problems:
            log.warning("HEARTBEAT.md has mistakes", extra={"what": "; ".join(found.problems)})
            told = "\n".join(["I ignore these parts of HEARTBEAT.md:", *found.problems])
            # The channel may be down: nothing else waits for it.
            nursery.start_soon(self._tell, told[:MAX_PROBLEMS])

    async def _adopt(self, origin: Origin, tasks: tuple[Task, ...]) -> None:
        at = self._core.channels.get_by_route
        tasks = tuple(
            msgspec.structs.replace(one, route=at(one.route).set_privacy(one.route))
            if one.route is not None
            else one
            for one in tasks
        )
        await self.timetable.address.insist(partial(Adopt, origin=origin, tasks=tasks))

    async def _read_watch(self, task: Task) -> WatchedState:
        watch = task.watch or ()
        by_tool = [one for one in watch if one.startswith(BY_TOOL)]
        looks = [await self._run_look(task, one) for one in by_tool]
        files = [one for one in watch if not one.startswith(BY_TOOL)]
        seen = (f"{what}: {one.text}" for what, one in zip(by_tool, looks, strict=True))
        text = "\n".join((task.prompt, *seen))
        watched = partial(fingerprint, self._core.workspace, files, text)
        # The output is compared only, never sent.
        receipts = tuple(msgspec.structs.replace(one, text="") for one in looks)
        return WatchedState(await self._core.environment.blocking(watched), receipts)

    async def _run_look(self, task: Task, what: str) -> Look:
        """Run a tool on *what* without an approval; a failure counts as a state.

        Raises BadSetting if the call would need an approval or is not read-only.
        """
        core, tools = self._core, self._others.tools
        offered = ((tool, tool.watched(what)) for tool in tools if tool.watched)
        tool, given = next((one for one in offered if one[1] is not None), (None, None))
        if tool is None or tool.plan is None:
            raise BadSetting(f"{what!r} cannot be watched", "the tool for it is missing")
        if self._toolset is None:
            self._toolset = toolset(core, tools, dry_run=False)
        call = (tool.name, given)
        found = await run_look(core, self._toolset, session_of(task), task.id, what, call)
        if found.outcome == "denied":
            remedy = "watch a web page, or a read-only command that needs no approval"
            raise BadSetting(f"{core.redactor(what)!r} cannot be watched: {found.text}", remedy)
        return found

    async def _refusal(self, task: Task) -> str:
        budget, session = task.budget, session_of(task)
        ask = partial(MayAsk, session=session, job=task.id, budget=budget)
        return await self._core.models.insist(ask)

    # --- routes ----------------------------------------------------------------------------------

    def _route(self, task: Task) -> Route | None:
        wanted, places = task.route, self._core.channels.owner_routes()
        if wanted is not None and wanted.chat and wanted.channel in self._core.channels.outboxes:
            return wanted
        # Without a chat, use any route of the owner in that channel.
        near = [one for one in places if wanted is not None and one.channel == wanted.channel]
        return next(iter([*near, *places]), None)


def chore_task(chore: Chore, zone: str) -> Task:
    """Build the task of *chore*."""
    words: dict[float, When] = {HOUR: Cadence("hourly"), DAY: Cadence("daily")}
    return Task(
        chore.id,
        chore.title,
        words.get(chore.every) or Every(chore.every),
        zone,
        chore=chore.id,
        role="cheap",
        tools=chore.tools or None,
        catch_up=LATE,
        origin="house",
    )


async def check(context: CheckContext) -> list[Finding]:
    """Find tasks with a limit in dollars only whose models have no price."""
    await trio.lowlevel.checkpoint()
    config, found = context.config, list[Finding]()
    models, heartbeat = config.get(ModelSettings), config.get(HeartbeatSettings)
    if is_written(heartbeat, "usd") and not is_written(heartbeat, "tokens"):
        names = models.role(heartbeat.model).models
        found += check_prices(config, names, "heartbeat.usd cannot limit")
    for task in config.get(ConfiguredTasks).tasks:
        if task.budget is not None and task.budget.usd is not None and task.budget.tokens is None:
            names = models.role(task.role).models
            found += check_prices(config, names, f"usd of the task {task.id} blocks")
    return found


# --- `elwood init` --------------------------------------------------------------------------------

MORNING = (
    "Tell me in a few lines my plan for today: the things due, and the things I said I would do."
)


def set_up(config: Config) -> Answers:
    """Offer a first task."""
    print("\nFirst task: a daily summary of your plans, written by the model.")
    clock = ask(
        "When, for example 7:30? Press Enter to skip.",
        "",
        "(([01]?[0-9]|2[0-3]):([0-5][0-9]))?",
        "Write a time from 0:00 to 23:59, or press Enter.",
    )
    hour, _, minute = clock.partition(":")
    task = {"title": "Plan for today", "when": f"{minute} {hour} * * *", "prompt": MORNING}
    return {("tasks", key): said for key, said in task.items()} if clock else {}
