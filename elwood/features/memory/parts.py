"""What memory brings to one run of the app; and ``/memory``, what is remembered, for the owner."""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import attrs
import trio

from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.models.embeddings import Embedder, HttpEmbedder, ThroughModels
from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import Providers, can_think
from elwood.agent.parts import Actor, ControlCommand, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.agent.session.paging import asked_page, page
from elwood.agent.session.settings import SessionSettings
from elwood.agent.tools.tool import TextSearch
from elwood.features.memory.actor import Memory
from elwood.features.memory.extension import ROLE, Learning, MemoryExtension
from elwood.features.memory.learning import listing, observations_of
from elwood.features.memory.messages import (
    Forget,
    MemoryMail,
    MemoryOverview,
    Overlook,
    ReadNotes,
    Remember,
    SettleObservation,
    Undo,
    Unsaved,
)
from elwood.features.memory.note import Note, NoteDraft, Status
from elwood.features.memory.settings import LearningSettings, MemorySettings, OwnLearning
from elwood.features.memory.store import NoteStore
from elwood.features.memory.tools import MAX_FOUND, NoteSearch, results, search_all, shown, tools
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import ActorUnavailable, Address, Mailbox
from elwood.foundation.text.lines import cut

# Seconds for a command.
COMMAND_LIMIT = 20.0
# Notes of each kind in an overview, and found; characters of each in a list.
LISTED, GLIMPSE = 5, 120
# What is listed alone, so many notes to a page.
LISTS, MANY = ("archived", "facts", "preferences", "procedures", "episodes"), 30
# Characters of notes in one answer.
MAX_SHOWN = 12_000

USAGE = (
    "/memory goes through it; /memory search WORDS looks it up; /memory show KEY shows one "
    "note, /memory archive KEY puts one away and /memory activate KEY brings it back; /memory "
    "facts, preferences, procedures, episodes or archived lists those alone; "
    "/memory pending lists what I noticed and have not kept, /memory keep CODE and "
    "/memory drop CODE settle it; /memory undo takes back what I remembered or noticed last."
)
NOTHING = "No note has any of these words."
UNAVAILABLE = "The memory does not answer now. Try again in a minute."


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
    if embedder is None and (model := settings.embeddings) is not None:
        embedder = HttpEmbedder(model, providers[split_name(model)[0]], client)
    search = NoteSearch(memory)
    actor = Memory(
        NoteStore(state, core.disk, max_notes=settings.max_notes),
        blocking=core.environment.blocking,
        now=core.clock.now,
        embedder=embedder and ThroughModels(embedder.model, core.models),
        others=others.searches,
    )
    learning, idle = _learning(core), core.config.of(SessionSettings).idle
    return Parts(
        actors=[Actor(step=3, mailbox=mailbox, body=actor.run)],
        tools=tools(memory, others.searches),
        embedder=embedder,
        sessions=[partial(MemoryExtension, memory, learning, settings.offered, idle)],
        commands=[
            SlashCommand(
                name="memory",
                help="what I remember",
                usage=USAGE,
                run=partial(command, memory, others.searches),
                group="What I know and plan",
            )
        ],
        searches=[search],
        control=[control_command(memory), search_command(others.searches)],
    )


def control_command(memory: Address[MemoryMail]) -> ControlCommand:
    return ControlCommand(name="forget", run=lambda keys: memory.ask(Forget(keys=tuple(keys))))


def search_command(searches: Sequence[TextSearch]) -> ControlCommand:
    """Make what other programs on this machine look up."""

    async def search(words: Sequence[str]) -> CommandResult:
        match words:
            case [query, limit] if re.fullmatch("[0-9]{1,3}", limit):
                found = await search_all(searches, (query,), min(int(limit), MAX_FOUND))
                return CommandResult(shown(found, MAX_SHOWN) or NOTHING, ok=True)
        return CommandResult("words and a number of notes are wanted", ok=False)

    return ControlCommand(name="search", run=search)


def _learning(core: Core) -> Learning:
    """Make what sessions learn with.

    The model of rules cannot observe anything, so it is not asked to.
    """
    written = core.config.of(LearningSettings)
    if not can_think(core.config, ROLE):
        written = attrs.evolve(written, mode="off")

    def settings() -> LearningSettings:
        own = core.own.now.of(OwnLearning)
        mode = written.mode if own.on else "off"
        return attrs.evolve(written, mode=mode, threshold=max(written.threshold, own.threshold))

    return Learning(settings, core.models, core.tell_owner, core.redactor, core.clock)


async def command(
    memory: Address[MemoryMail], searches: Sequence[TextSearch], call: CommandCall
) -> CommandAnswer:
    """Carry ``/memory`` out; *searches* are asked for what is looked up."""
    given, number = asked_page(call.given)
    with trio.move_on_after(COMMAND_LIMIT), suppress(ActorUnavailable):
        if given:
            if given in LISTS:
                return _list(await memory.ask(Overlook()), given, number)
            return CommandAnswer(await _answer(call.given, memory, searches))
        seen = await memory.ask(Overlook())
        notes, pages = page(seen.newest, number, LISTED, "/memory")
        return CommandAnswer(overview(seen, notes), pages=pages)
    return CommandAnswer(UNAVAILABLE)


async def _answer(given: str, memory: Address[MemoryMail], searches: Sequence[TextSearch]) -> str:
    match given.split(maxsplit=1):
        case ["undo"]:
            return (await memory.ask(Undo())).text
        case ["search", words]:
            found = await search_all(searches, (words,), LISTED)
            return shown(found, MAX_SHOWN) or NOTHING
        case ["show", key]:
            notes = await memory.ask(ReadNotes(keys=(key.lower(),)))
            return shown(results(notes, ""), MAX_SHOWN) or f"There is no note called {key}."
        case ["archive" | "activate" as word, key]:
            return await _put(memory, key.lower(), "archived" if word == "archive" else "active")
        case ["pending"]:
            return listing(observations_of((await memory.ask(Overlook())).pending))
        case ["keep" | "drop" as word, code]:
            settle = SettleObservation(code=code.strip(), keep=word == "keep")
            return (await memory.ask(settle)).text
        case _:
            return USAGE


def _list(seen: MemoryOverview, which: str, number: int) -> CommandAnswer:
    newest = [note for note in seen.newest if f"{note.kind}s" == which]
    notes = seen.archived if which == "archived" else newest
    listed, pages = page(notes, number, MANY, f"/memory {which}")
    return CommandAnswer("\n".join(map(_glimpse, listed)) or f"There are no {which}.", pages=pages)


async def _put(memory: Address[MemoryMail], key: str, status: Status) -> str:
    for note in await memory.ask(ReadNotes(keys=(key,))):
        draft = NoteDraft(key, note.text, note.label, note.source, status=status)
        saved = await memory.ask(Remember(draft=draft))
        if isinstance(saved, Unsaved):
            return f"That could not be done: {saved.why}."
        return f"{key} is {'put away' if status == 'archived' else 'active'} now."
    return f"There is no note called {key}."


def overview(seen: MemoryOverview, newest: Sequence[Note]) -> str:
    counts = seen.counts
    if counts is None:
        return f"Nobody can say now how much I remember.\n\n{USAGE}"
    kinds = [
        (counts.pending - len(seen.archived), "wait for your word"),
        (len(seen.archived), "are archived"),
        (counts.untrusted, "may hold strangers' words"),
        (counts.expired, "are out of date"),
    ]
    told = [f"{number} {what}" for number, what in kinds if number]
    number = "1 note" if counts.all == 1 else f"{counts.all:,} notes"
    lines = [f"I remember {number}" + (f"; {', '.join(told)}." if told else ".")]
    for title, notes in (("Newest", newest), ("Waiting", seen.pending[:LISTED])):
        if notes:
            lines += ["", f"{title}:", *map(_glimpse, notes)]
    return "\n".join([*lines, "", USAGE])


def _glimpse(note: Note) -> str:
    kind = f" ({note.kind})" if note.kind != "fact" else ""
    return f"- {note.key}{kind}: {cut(' '.join(note.text.split()), GLIMPSE)}"
