"""What a session does with the memory besides its tools: offering notes, and /memory."""

import trio

from elwood.agent.conversation.labels import Label
from elwood.agent.session.log.branch import private_texts
from elwood.agent.session.log.entries import Received, Reminded
from elwood.agent.session.log.state import Session, is_command
from elwood.agent.session.turn.surroundings import Surroundings
from elwood.features.memory.learning_deps import Unwritten
from elwood.features.memory.messages import (
    MemoryMail,
    Overlook,
    ReadNotes,
    Recall,
    Suggest,
    Undo,
)
from elwood.features.memory.note import Note
from elwood.features.memory.ranking import offered, relevant
from elwood.features.memory.results import Overview, Undone
from elwood.foundation.runtime import ActorUnavailable, Address

# Seconds that a turn waits for notes that may help: an answer must not be late for them.
SUGGEST_WAIT = 0.5
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


async def reminder(house: Surroundings, session: Session) -> Reminded | None:
    """Choose notes that may help in the turn that has begun; None if there are none.

    Only the owner's own words, in a private chat that has read none of strangers, bring notes
    along: they hold private data, and nobody asked for them.  What is in view is not offered again.
    """
    turn = session.turn
    if house.memory is None or not house.offered or turn is None or not turn.inputs:
        return None
    if turn.errand is not None:
        return None  # it can look them up
    strange = session.taint.label.untrusted or any(one.untrusted for one in turn.inputs)
    if strange or not turn.route.private or turn.attempts > 1:
        return None
    message = "\n".join(one.text for one in turn.inputs if not is_command(one))
    notes: tuple[Note, ...] = ()
    with trio.move_on_after(SUGGEST_WAIT):
        try:
            notes = (await house.memory.ask(Suggest(message=message))).notes
        except ActorUnavailable:
            return None
    if not notes:
        return None
    seen = "\n".join(private_texts(session.path, (), summed_up=False))
    chosen = relevant([n for n in notes if n.text not in seen], message, house.offered)
    if not chosen:
        return None
    private = any(note.label.private for note in chosen)
    return Reminded(turn.id, house.redact(offered(chosen)), Label(private=private))


async def memory_command(received: Received, given: str, house: Surroundings) -> str:
    """Carry out ``/memory``, for the owner only."""
    if received.untrusted:
        return "What I remember is for my owner only."
    if house.memory is None:
        return "There is no memory here."
    answer = UNAVAILABLE
    with trio.move_on_after(COMMAND_LIMIT):
        try:
            if house.learning is not None and given.split()[:1] in (
                ["pending"],
                ["keep"],
                ["drop"],
            ):
                answer = await house.learning.command(given, house.now())
            else:
                answer = await _answer(given, house.memory)
        except ActorUnavailable:
            return UNAVAILABLE
        except Unwritten as error:
            return f"Not all of it could be done: {error}"
    return answer


async def _answer(given: str, memory: Address[MemoryMail]) -> str:
    match given.split(maxsplit=1):
        case []:
            return overview(await memory.ask(Overlook(limit=LISTED)))
        case ["undo"]:
            return undone(await memory.ask(Undo()))
        case ["search", words]:
            found = (await memory.ask(Recall(query=words, limit=LISTED))).notes
            return shown(found) or "No note has any of these words."
        case ["show", key]:
            return shown(await memory.ask(ReadNotes(keys=(key.lower(),)))) or (
                f"There is no note called {key}."
            )
        case _:
            return USAGE


def overview(seen: Overview) -> str:
    """Say what is remembered.

    >>> overview(Overview()).splitlines()[0]
    'Nobody can say now how much I remember.'
    """
    counts = seen.counts
    if counts is None:
        lines = ["Nobody can say now how much I remember."]
    else:
        kinds = [
            (counts.pending, "wait for your word"),
            (counts.untrusted, "may hold strangers' words"),
            (counts.expired, "are out of date"),
        ]
        told = [f"{number} {what}" for number, what in kinds if number]
        number = "1 note" if counts.all == 1 else f"{counts.all:,} notes"
        lines = [f"I remember {number}" + (f"; {', '.join(told)}." if told else ".")]
    for title, notes in (("Newest", seen.newest), ("Waiting", seen.pending)):
        if notes:
            lines += ["", f"{title}:", *map(_glimpse, notes)]
    if seen.passed_over:
        names = ", ".join(seen.passed_over[:LISTED])
        lines += ["", f"Not read, as their names are no keys (a-z, 0-9, -): {names}"]
    return "\n".join([*lines, "", USAGE])


def undone(done: Undone | None) -> str:
    """Say what was taken back.

    >>> undone(Undone(0.0, ("tea",), ("car",), ("cat",)))
    'Removed: tea. As before: car. Left, as changed since: cat.'
    """
    if done is None:
        return "There is nothing to take back."
    parts = [
        ("Removed", done.removed),
        ("As before", done.restored),
        ("Left, as changed since", done.changed),
    ]
    told = [f"{what}: {', '.join(keys)}." for what, keys in parts if keys]
    if done.why:
        told.append(f"Not all could be done: {done.why}.")
    return " ".join(told) or "There was nothing left of it to take back."


def shown(notes: tuple[Note, ...]) -> str:
    """Show *notes* whole, as far as they fit into one answer."""
    room = MAX_SHOWN // max(1, len(notes))
    parts = []
    for note in notes:
        about = [note.updated[:10]] if note.updated else []
        about += ["waits for your word"] if note.status == "pending" else []
        about += ["may hold strangers' words"] if note.untrusted else []
        about += [f"from {note.source}"] if note.source else []
        cut = "…" if len(note.text) > room else ""
        head = f"{note.key} ({'; '.join(about)})" if about else note.key
        parts.append(f"{head}\n{note.text[:room]}{cut}")
    return "\n\n".join(parts)


def _glimpse(note: Note) -> str:
    text = " ".join(note.text.split())
    cut = "…" if len(text) > GLIMPSE else ""
    return f"- {note.key}: {text[:GLIMPSE]}{cut}"
