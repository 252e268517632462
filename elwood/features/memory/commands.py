"""``/memory``: what is remembered, for the owner."""

from collections.abc import Sequence

import trio

from elwood.agent.session.extension import CommandAnswer, CommandCall
from elwood.agent.tools.tool import SearchResult, TextSearch
from elwood.features.memory.learning import listing, observations_of
from elwood.features.memory.messages import (
    MemoryMail,
    MemoryOverview,
    Overlook,
    PendingNotes,
    ReadNotes,
    SettleObservation,
    Undo,
)
from elwood.features.memory.note import Note
from elwood.features.memory.store import MOST_PENDING
from elwood.features.memory.tools import results, search_all
from elwood.foundation.runtime import ActorUnavailable, Address

# Seconds for a command.
COMMAND_LIMIT = 20.0
# Notes of a list, and characters of each there.
LISTED, GLIMPSE = 5, 120
# Characters of notes in one answer.
MAX_SHOWN = 12_000

USAGE = (
    "/memory says what I remember; /memory search WORDS looks it up; /memory show KEY shows one "
    "note; /memory pending lists what I noticed and have not kept, /memory keep CODE and "
    "/memory drop CODE settle it; /memory undo takes back what I remembered or noticed last."
)
UNAVAILABLE = "The memory does not answer now. Try again in a minute."


class MemoryCommand:
    """Carries out ``/memory``, for the owner only; *searches* are asked for what is looked up."""

    def __init__(self, memory: Address[MemoryMail], searches: Sequence[TextSearch]) -> None:
        self._memory = memory
        self._searches = searches

    async def run(self, call: CommandCall) -> CommandAnswer:
        """Carry it out."""
        if call.received.untrusted:
            return CommandAnswer("What I remember is for my owner only.")
        answer = UNAVAILABLE
        with trio.move_on_after(COMMAND_LIMIT):
            try:
                answer = await _answer(call.given, self._memory, self._searches)
            except ActorUnavailable:
                return CommandAnswer(UNAVAILABLE)
        return CommandAnswer(answer)


async def _answer(given: str, memory: Address[MemoryMail], searches: Sequence[TextSearch]) -> str:
    match given.split(maxsplit=1):
        case []:
            return overview(await memory.ask(Overlook(limit=LISTED)))
        case ["undo"]:
            return (await memory.ask(Undo())).text
        case ["search", words]:
            found = await search_all(searches, words, LISTED)
            return shown(found) or "No note has any of these words."
        case ["show", key]:
            notes = await memory.ask(ReadNotes(keys=(key.lower(),)))
            return shown(results(notes, "")) or f"There is no note called {key}."
        case ["pending"]:
            notes = await memory.ask(PendingNotes(limit=MOST_PENDING))
            return listing(observations_of(notes))
        case ["keep" | "drop" as word, code]:
            settle = SettleObservation(code=code.strip(), keep=word == "keep")
            return (await memory.ask(settle)).text
        case _:
            return USAGE


def overview(seen: MemoryOverview | None) -> str:
    """Say what is remembered."""
    if seen is None:
        return f"Nobody can say now how much I remember.\n\n{USAGE}"
    kinds = [
        (seen.counts.pending, "wait for your word"),
        (seen.counts.untrusted, "may hold strangers' words"),
        (seen.counts.expired, "are out of date"),
    ]
    told = [f"{number} {what}" for number, what in kinds if number]
    number = "1 note" if seen.counts.all == 1 else f"{seen.counts.all:,} notes"
    lines = [f"I remember {number}" + (f"; {', '.join(told)}." if told else ".")]
    for title, notes in (("Newest", seen.newest), ("Waiting", seen.pending)):
        if notes:
            lines += ["", f"{title}:", *map(_glimpse, notes)]
    if seen.passed_over:
        names = ", ".join(seen.passed_over[:LISTED])
        lines += ["", f"Not read, as their names are no keys (a-z, 0-9, -): {names}"]
    return "\n".join([*lines, "", USAGE])


def shown(found: Sequence[SearchResult]) -> str:
    """Show what was *found* whole, as far as it fits into one answer."""
    room = MAX_SHOWN // max(1, len(found))
    parts = []
    for one in found:
        about = [one.updated[:10]] if one.updated else []
        about += ["may hold strangers' words"] if one.label.untrusted else []
        about += [one.about] if one.about else []
        cut = "…" if len(one.text) > room else ""
        head = f"{one.origin} ({'; '.join(about)})" if about else one.origin
        parts.append(f"{head}\n{one.text[:room]}{cut}")
    return "\n\n".join(parts)


def _glimpse(note: Note) -> str:
    text = " ".join(note.text.split())
    cut = "…" if len(text) > GLIMPSE else ""
    return f"- {note.key}: {text[:GLIMPSE]}{cut}"
