"""What sessions act with: tools, hands, rules, and the gate that all of it passes."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

import attrs
import trio

from elwood.agent.approvals.messages import ApprovalsMail, FindPerson
from elwood.agent.channels.channel import Channel
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.models.embeddings import Embedder
from elwood.agent.models.messages import ModelsMail
from elwood.agent.policy.decide import Rules, version
from elwood.agent.policy.settings import PolicySettings, Word
from elwood.agent.session.commands.exporting import Exports
from elwood.agent.session.log.restored import restored
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.turn.approval_client import ApprovalClient, Hints
from elwood.agent.session.turn.gate import Gate, Toolset
from elwood.agent.tools.messenger import Voice
from elwood.agent.tools.tool import Hands, Tool, with_hands
from elwood.app.config.settings import Config
from elwood.features.daily_notes.store import DailyNotes, DailyNoteSearch
from elwood.features.memory.actor import Memory
from elwood.features.memory.extension import DailyQuota, Learning, OwnerQuestions
from elwood.features.memory.messages import MemoryMail
from elwood.features.memory.store import NoteStore
from elwood.features.memory.tools import NoteSearch
from elwood.features.skills.git_client import Git
from elwood.features.skills.installer import Places
from elwood.features.skills.store import Shelf
from elwood.features.tasks.bounds import Reach
from elwood.features.tasks.messages import TimetableMail
from elwood.features.web.client import Web
from elwood.features.web.search_client import search_of
from elwood.foundation.environment import Environment
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import Address, Blocking
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.running import reap
from elwood.foundation.secrets.redaction import Redactor, redact
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root

log = logging.getLogger("elwood")

# Seconds to give back what was held, also when the house is being ended.
CLOSING = 5.0


@asynccontextmanager
async def equipped(config: Config, blocking: Blocking) -> AsyncIterator[Hands]:
    """Give hands that can run commands, search and fetch, for as long as the block lasts.

    Commands that an earlier house left running are ended first (CP-15).
    """
    paths = config.paths
    if left := await blocking(lambda: reap(paths.state / "running")):
        log.warning("ended commands of an earlier run", extra={"count": left})
    places = Places(paths.state / "skills", paths.workspace)
    await blocking(places.sweep)
    hands = Hands(paths.workspace, blocking, git=Git(config.egress), places=places)
    shelf = Shelf(hands.root, blocking, config.skills.folders, off=config.skills.off)
    hands = attrs.evolve(hands, skills=shelf)
    try:
        folders = (paths.workspace, paths.state, config.skills.folders)
        picked = await pick(config.sandbox, *folders, blocking=blocking)
    except NoSandbox as error:
        log.warning("commands cannot be run", extra={"why": error.why})
        hands = attrs.evolve(hands, sandbox=error)
    else:
        log.info("sandbox ready", extra={"rung": picked.rung, "notes": "; ".join(picked.notes)})
        hands = attrs.evolve(hands, sandbox=picked.executor)
    web, client = Web(config.egress), Client(connections=4)
    try:
        yield attrs.evolve(hands, web=web, search=search_of(config.search, client))
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSING):
            await web.aclose()
            await client.aclose()
            if not isinstance(hands.sandbox, NoSandbox):
                await hands.sandbox.close()


def remembering(
    config: Config,
    outside: Environment,
    disk: Disk,
    embedder: Embedder | None,
    daily: DailyNoteSearch,
) -> Memory:
    """Make the actor that remembers."""
    return Memory(
        NoteStore(config.paths.state, disk, max_notes=config.memory.max_notes),
        blocking=outside.blocking,
        now=outside.now,
        embedder=embedder,
        others=(daily,),
    )


def learning(
    config: Config,
    outside: Environment,
    disk: Disk,
    memory: Address[MemoryMail],
    models: Address[ModelsMail],
    questions: OwnerQuestions,
) -> Learning:
    """Make what sessions learn with.

    The model of rules cannot observe anything, so it is not asked to.
    """
    settings = config.learning
    provider = config.providers.get(config.models.summarizer.partition("/")[0])
    if provider is None or provider.api == "offline":
        settings = attrs.evolve(settings, mode="off")
    return Learning(
        settings=settings,
        memory=memory,
        models=models,
        quota=DailyQuota(config.paths.state / "learning.day", disk, settings.calls_per_day),
        questions=questions,
        redact=lambda text: redact(text, config.secrets),
        now=outside.now,
        zone=ZoneInfo(config.owner.timezone),
    )


class Equipment:
    """Makes the gates of all sessions.

    *owners* are the principals whose words are the owner's; the words of tasks are their own.
    *places* are where the owner can be told something, *threads* the daily notes; *export* gives
    files to people.  *now* is the wall clock; *restored* is there if the state was restored.
    """

    def __init__(
        self,
        config: Config,
        hands: Hands,
        tools: Sequence[Tool],
        approvals: Address[ApprovalsMail],
        channels: Sequence[Channel],
        outboxes: Mapping[str, Address[OutboxMail]],
        memory: Address[MemoryMail],
        now: Callable[[], float],
        dry_run: bool,
        timetable: Address[TimetableMail] | None = None,
    ) -> None:
        self.owners = frozenset[str]().union(*(channel.owners for channel in channels))
        self.places = tuple(route for channel in channels for route in channel.owner)
        root, zone = Root(config.paths.workspace), ZoneInfo(config.owner.timezone)
        self.threads = DailyNotes(
            root, zone, hands.blocking, lambda text: redact(text, config.secrets)
        )
        self.daily = DailyNoteSearch(config.paths.state, config.paths.workspace, hands.blocking)
        self._config = config
        self.searches = (NoteSearch(memory), self.daily)
        self._hands = attrs.evolve(
            hands,
            memory=memory,
            searches=self.searches,
            timetable=timetable,
            zone=config.owner.timezone,
            now=now,
        )
        self._tools = {tool.name: tool for tool in tools}
        self._approvals = approvals
        self._now = now
        self._dry_run = dry_run
        for task in config.tasks:
            for name in set(task.tools or ()) - self._tools.keys():
                setting = f"tasks, {task.id}: tools: {name}"
                log.warning("no tool has this name", extra={"setting": setting})
        self._rules = Rules(tools=words(config.policy, tools))
        self._voice = Voice(
            outboxes=outboxes,
            owners=self.places,
            recognise=lambda principal: approvals.ask(FindPerson(principal=principal)),
        )
        carrying = frozenset(channel.name for channel in channels if channel.files)
        self.export = Exports(hands.root, hands.blocking, self._voice, carrying)
        self._version = version(self._rules)
        usual = Reach(usual=config.limits.purse(None))
        bound = attrs.evolve(self._hands, voice=self._voice, reach=lambda: usual)
        self._toolset = Toolset(
            tools={tool.name: with_hands(tool, bound) for tool in tools},
            rules=self._rules,
            owners=self.owners,
            zone=config.owner.timezone,
            dry_run=dry_run,
            deadline=config.turn.tool_deadline,
        )
        self.restored = restored(config.paths.state)

    def gate(self, session: str, log_: SessionLog) -> Gate:
        """Make the gate of one session."""
        config = self._config
        approval_client = ApprovalClient(
            session=session,
            state=lambda: log_.state,
            record=log_.record,
            approvals=self._approvals,
            hints=Hints(),
            version=self._version,
            wait=config.approvals.wait,
            lasts=config.approvals.expires,
            now=self._now,
        )
        redactor = Redactor(config.secrets)
        return Gate(session, log_, self._toolset, approval_client, redactor, self._now)

    def sandbox(self) -> str:
        """Say in one line where commands run."""
        sandbox = self._hands.sandbox
        if isinstance(sandbox, NoSandbox):
            return f"Commands cannot be run: {sandbox.why}"
        return f"Commands run in: {sandbox.rung}."


def words(policy: PolicySettings, tools: Sequence[Tool]) -> dict[str, Word]:
    """Find the word for each tool: the owner's, by its name or a pattern of its id, else its own.

    What the owner's words name and no tool bears is told in the log.
    """
    found = {tool.name: tool.policy for tool in tools if tool.policy is not None}
    for pattern, word in policy.words().items():
        named = [t.name for t in tools if t.name == pattern or fnmatchcase(t.id, pattern)]
        if not named:
            log.warning("no tool has this name", extra={"setting": f"policy.{word}: {pattern}"})
        found |= dict.fromkeys(named, word)
    return found
