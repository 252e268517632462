"""Build the memory for one run of the app, and the command ``/memory``."""

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
from elwood.agent.parts import Actor, Chore, ControlCommand, Gathered, Parts, Report
from elwood.agent.session.core import Core
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.agent.session.paging import page, parse_page
from elwood.agent.session.settings import SessionSettings
from elwood.agent.tools.tool import TextSearch
from elwood.features.memory.actor import Memory
from elwood.features.memory.extension import ROLE, Learning, MemoryExtension
from elwood.features.memory.learning import list_observations, observations_of
from elwood.features.memory.messages import (
    Forget,
    GetOverview,
    MemoryMail,
    MemoryOverview,
    ReadNotes,
    Remember,
    RemoveExpired,
    SettleObservation,
    Undo,
    Unsaved,
)
from elwood.features.memory.note import Note, NoteDraft, Status
from elwood.features.memory.settings import LearningSettings, MemorySettings, OwnLearning
from elwood.features.memory.store import NoteStore
from elwood.features.memory.tools import (
    MAX_FOUND,
    NoteSearch,
    format_results,
    results,
    search_all,
    tools,
)
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import ActorUnavailable, Address, Mailbox
from elwood.foundation.text.lines import shorten

# Seconds for a command.
COMMAND_LIMIT = 20.0
# Notes per list of an overview or a search; characters of each in a list.
LISTED, GLIMPSE = 5, 120
# Lists that can be shown alone, and notes per page.
LISTS, MANY = ("archived", "facts", "preferences", "procedures", "episodes"), 30
# Characters of notes in one answer.
MAX_SHOWN = 12_000

USAGE = (
    "/memory lists my notes.\n"
    "/memory search WORDS finds notes.\n"
    "/memory show KEY shows one note.\n"
    "/memory archive KEY puts a note away, /memory activate KEY brings it back.\n"
    "/memory facts, preferences, procedures, episodes or archived lists only those notes.\n"
    "/memory pending lists the facts that I noticed but do not remember yet.\n"
    "/memory keep CODE remembers one of them, /memory drop CODE drops it.\n"
    "/memory undo removes or restores the notes that I changed last, or those of a code."
)
EMPTY = "I have no notes yet. Say “remember that …” and I will keep it."
MORE = "/help memory lists the commands."
DAY = 86_400.0
NOTHING = "No note has any of these words."
UNAVAILABLE = "I cannot read my notes now. Please try again in a minute."


async def build(core: Core, others: Gathered, embedder: Embedder | None = None) -> Parts:
    """Build the memory actor and its clients.

    *embedder* replaces the configured one.
    """
    settings, state = core.config.get(MemorySettings), core.paths.state
    mailbox: Mailbox[MemoryMail] = Mailbox("memory", 32)
    memory = mailbox.address
    client = Client(connections=4)
    core.closing.push_async_callback(client.aclose)
    providers = core.config.get(Providers).by_name
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
    learning, idle = _learning(core), core.config.get(SessionSettings).idle

    async def remove_expired(last: float) -> Report:
        done = await memory.ask(RemoveExpired())
        return Report(done.text, failed=not done.ok)

    chore = Chore(id="memory", title="remove expired notes", every=DAY, do=remove_expired)
    return Parts(
        chores=[chore],
        actors=[Actor(step=3, mailbox=mailbox, body=actor.run)],
        tools=tools(memory, others.searches),
        embedder=embedder,
        sessions=[partial(MemoryExtension, memory, learning, settings.offered, idle)],
        commands=[
            SlashCommand(
                name="memory",
                help="list my notes",
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
    """Build the search for other programs on this machine."""

    async def search(words: Sequence[str]) -> CommandResult:
        match words:
            case [query, limit] if re.fullmatch("[0-9]{1,3}", limit):
                found = await search_all(searches, (query,), min(int(limit), MAX_FOUND))
                return CommandResult(format_results(found, MAX_SHOWN) or NOTHING, ok=True)
        return CommandResult("give words and a number of notes", ok=False)

    return ControlCommand(name="search", run=search)


def _learning(core: Core) -> Learning:
    """Build what observers share; learning is off if the observer's model is the offline one."""
    configured = core.config.get(LearningSettings)
    if not can_think(core.config, ROLE):
        configured = attrs.evolve(configured, mode="off")

    def settings() -> LearningSettings:
        own = core.own.now.get(OwnLearning)
        mode = configured.mode if own.on else "off"
        return attrs.evolve(
            configured, mode=mode, threshold=max(configured.threshold, own.threshold)
        )

    return Learning(settings, core.models, core.tell_owner, core.redactor, core.clock)


async def command(
    memory: Address[MemoryMail], searches: Sequence[TextSearch], call: CommandCall
) -> CommandAnswer:
    """Run ``/memory``; *searches* answer ``/memory search``."""
    given, number = parse_page(call.given)
    with trio.move_on_after(COMMAND_LIMIT), suppress(ActorUnavailable):
        if given:
            if given in LISTS:
                return _list(await memory.ask(GetOverview()), given, number)
            return CommandAnswer(await _run_subcommand(call.given, memory, searches))
        seen = await memory.ask(GetOverview())
        notes, pages = page(seen.newest, number, LISTED, "/memory")
        return CommandAnswer(overview(seen, notes), pages=pages)
    return CommandAnswer(UNAVAILABLE)


async def _run_subcommand(
    given: str, memory: Address[MemoryMail], searches: Sequence[TextSearch]
) -> str:
    match given.split(maxsplit=1):
        case ["undo", *code]:
            return (await memory.ask(Undo(code="".join(code)))).text
        case ["search", words]:
            found = await search_all(searches, (words,), LISTED)
            return format_results(found, MAX_SHOWN) or NOTHING
        case ["show", key]:
            notes = await memory.ask(ReadNotes(keys=(key.lower(),)))
            return (
                format_results(results(notes, ""), MAX_SHOWN) or f"There is no note called {key}."
            )
        case ["archive" | "activate" as word, key]:
            return await _set_status(
                memory, key.lower(), "archived" if word == "archive" else "active"
            )
        case ["pending"]:
            return list_observations(observations_of((await memory.ask(GetOverview())).pending))
        case ["keep" | "drop" as word, code]:
            settle = SettleObservation(code=code.strip(), keep=word == "keep")
            return (await memory.ask(settle)).text
        case _:
            return USAGE


def _list(seen: MemoryOverview, which: str, number: int) -> CommandAnswer:
    newest = [note for note in seen.newest if f"{note.kind}s" == which]
    notes = seen.archived if which == "archived" else newest
    listed, pages = page(notes, number, MANY, f"/memory {which}")
    none = f"I have no {'archived notes' if which == 'archived' else which}."
    return CommandAnswer("\n".join(map(_list_line, listed)) or none, pages=pages)


async def _set_status(memory: Address[MemoryMail], key: str, status: Status) -> str:
    for note in await memory.ask(ReadNotes(keys=(key,))):
        draft = NoteDraft(key, note.text, note.label, note.source, status=status)
        saved = await memory.ask(Remember(draft=draft))
        if isinstance(saved, Unsaved):
            return f"I could not change the note: {saved.why}."
        return f"{key} is put away." if status == "archived" else f"{key} is active again."
    return f"There is no note called {key}."


def overview(seen: MemoryOverview, newest: Sequence[Note]) -> str:
    counts = seen.counts
    if counts is None:
        return UNAVAILABLE
    kinds = [
        (counts.pending - len(seen.archived), "waiting for your answer"),
        (len(seen.archived), "archived"),
        (counts.untrusted, "possibly with strangers' words"),
    ]
    counted = [f"{number} {what}" for number, what in kinds if number]
    if not (counts.all > counts.expired or counted):
        return f"{EMPTY}\n\n{MORE}"
    all_ = counts.all - counts.expired
    number = {0: "no notes", 1: "1 note"}.get(all_, f"{all_:,} notes")
    lines = [f"I have {number}" + (f" ({', '.join(counted)})." if counted else ".")]
    for title, notes in (("Newest", newest), ("Waiting for your answer", seen.pending[:LISTED])):
        if notes:
            lines += ["", f"{title}:", *map(_list_line, notes)]
    return "\n".join([*lines, "", MORE])


def _list_line(note: Note) -> str:
    kind = f" ({note.kind})" if note.kind != "fact" else ""
    return f"- {note.key}{kind}: {shorten(' '.join(note.text.split()), GLIMPSE)}"
