"""What memory brings to one run of the app."""

from functools import partial

import attrs

from elwood.agent.models.embeddings import Embedder, ThroughModels, embedder_of
from elwood.agent.models.settings import ModelSettings, Providers
from elwood.agent.parts import Actor, Chore, ControlCommand, Gathered, Parts, Report
from elwood.agent.session.core import Core
from elwood.agent.session.extension import SlashCommand
from elwood.agent.session.settings import LearningSettings, SessionSettings
from elwood.features.memory.actor import Memory
from elwood.features.memory.commands import MemoryCommand
from elwood.features.memory.extension import Learning, MemoryExtension
from elwood.features.memory.messages import Forget, MemoryMail, Tidy
from elwood.features.memory.settings import MemorySettings
from elwood.features.memory.store import NoteStore
from elwood.features.memory.tools import NoteSearch, tools
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import ActorUnavailable, Address, Mailbox


async def build(core: Core, others: Gathered, embedder: Embedder | None = None) -> Parts:
    """Make the actor that remembers, and all that asks it.

    *embedder* takes the place of the one that the configuration names.
    """
    settings, state = core.config.of(MemorySettings), core.paths.state
    mailbox: Mailbox[MemoryMail] = Mailbox("memory", 32)
    memory = mailbox.address
    client = Client(connections=4)
    core.closing.push_async_callback(client.aclose)
    providers = core.config.of(Providers).by_name
    embedder = embedder or embedder_of(settings.embeddings, providers, client)
    search = NoteSearch(memory)
    actor = Memory(
        NoteStore(state, core.disk, max_notes=settings.max_notes),
        blocking=core.environment.blocking,
        now=core.clock.now,
        embedder=embedder and ThroughModels(embedder.model, core.models),
        others=others.searches,
    )
    learning, idle = _learning(core), core.config.of(SessionSettings).idle
    command = MemoryCommand(memory, others.searches)
    return Parts(
        actors=[Actor(step=3, mailbox=mailbox, body=actor.run)],
        tools=tools(memory, others.searches),
        embedder=embedder,
        sessions=[partial(MemoryExtension, memory, learning, settings.offered, idle)],
        commands=[
            SlashCommand(
                name="memory",
                help="say what I remember; /memory search, show, pending, keep, drop or undo",
                run=command.run,
            )
        ],
        chores=[
            Chore(id="memory", title="tidy the memory up", every=86_400.0, do=partial(tidy, memory))
        ],
        searches=[search],
        control=[control_command(memory)],
    )


def control_command(memory: Address[MemoryMail]) -> ControlCommand:
    """Make what ``elwood memory`` asks of a running service."""
    return ControlCommand(name="forget", run=lambda keys: memory.ask(Forget(keys=tuple(keys))))


def _learning(core: Core) -> Learning:
    """Make what sessions learn with.

    The model of rules cannot observe anything, so it is not asked to.
    """
    settings = core.config.of(LearningSettings)
    summarizer = core.config.of(ModelSettings).summarizer.partition("/")[0]
    provider = core.config.of(Providers).by_name.get(summarizer)
    if provider is None or provider.api == "offline":
        settings = attrs.evolve(settings, mode="off")
    return Learning(
        settings,
        core.models,
        core.channels.outboxes,
        core.channels.owner_routes,
        core.redactor,
        core.clock,
    )


async def tidy(memory: Address[MemoryMail], last: float) -> Report:
    """Have the memory tidied up."""
    try:
        done = await memory.ask(Tidy())
    except ActorUnavailable as error:
        return Report(str(error), failed=True)
    return Report(done.text, failed=not done.ok)
