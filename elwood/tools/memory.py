"""The tools that keep facts for later conversations and look them up."""

import re
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from elwood.core.actions import SaveMemory as Saving
from elwood.core.actions import SearchMemory as Searching
from elwood.core.labels import PRIVATE
from elwood.core.plans import Plan
from elwood.store.calls import DiskFull
from elwood.store.notes import KEY, MAX_NOTE, MAX_TAGS, TAG, Note, Notes, NotSaved
from elwood.tools import Hands, Output, Tool, ToolFailure

# Notes that one search may show, and characters of all of them: below the limit of the tool.
MAX_FOUND = 20
MAX_SHOWN = 45_000


class SaveMemory(msgspec.Struct, forbid_unknown_fields=True):
    key: Annotated[
        str,
        Meta(pattern=KEY, description="Short name, in small letters and hyphens; names the note"),
    ]
    content: Annotated[str, Meta(max_length=MAX_NOTE, description="What to remember, as Markdown")]
    tags: Annotated[
        tuple[Annotated[str, Meta(pattern=TAG)], ...],
        Meta(max_length=MAX_TAGS, description="Words to find it by"),
    ] = ()


class SearchMemory(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[
        str, Meta(min_length=1, max_length=500, description="Words that the notes should have")
    ]
    limit: Annotated[int, Meta(ge=1, le=MAX_FOUND, description="Most notes to show")] = 5


async def save_memory(given: SaveMemory, hands: Hands) -> str:
    """Save one note."""
    if not given.content.strip():
        raise ToolFailure("content is empty; nothing was saved")
    notes = _notes(hands)
    untrusted = hands.untrusted()
    try:
        replaced = await notes.save(
            given.key,
            given.content.strip(),
            given.tags,
            untrusted=untrusted,
            source=hands.source(),
        )
    except NotSaved as error:
        raise ToolFailure(f"not saved: {error.why}") from error
    except DiskFull as error:
        raise ToolFailure("not saved: the disk is full") from error
    done = "replaced" if replaced else "saved"
    return f"{done} {given.key}{_MARKED if untrusted else ''}"


async def search_memory(given: SearchMemory, hands: Hands) -> str | Output:
    """Find notes by words."""
    words = re.findall(r"\w+", given.query)
    if not words:
        raise ToolFailure("query has no words; give some that the notes should have")
    found = await _notes(hands).find(words, given.limit)
    if not found:
        return "no note has any of these words"
    room = MAX_SHOWN // len(found)
    text = "\n\n".join(_shown(note, room) for note in found)
    strange = [note.key for note in found if note.untrusted]
    origin = f"memory: {', '.join(strange)}" if strange else ""
    return Output(text, untrusted=bool(strange), private=True, origin=origin)


async def plan_save(given: SaveMemory, hands: Hands) -> Plan:
    """Say what would be remembered."""
    await trio.lowlevel.checkpoint()
    tags = f" [{', '.join(given.tags)}]" if given.tags else ""
    return Plan(Saving(), f"Remember as {given.key}{tags}:\n{given.content}")


async def plan_search(given: SearchMemory, hands: Hands) -> Plan:
    """Say what would be looked up."""
    await trio.lowlevel.checkpoint()
    return Plan(Searching(), f"Look up in the memory: {given.query}")


_MARKED = ", marked as from a conversation with strangers' words"


def _notes(hands: Hands) -> Notes:
    if hands.notes is None:
        raise ToolFailure("there is no memory here")
    return hands.notes


def _shown(note: Note, room: int) -> str:
    about = [f"tags: {', '.join(note.tags)}"] if note.tags else []
    about += [f"updated {note.updated}"] if note.updated else []
    about += [f"from {note.source}"] if note.source else []
    about += ["may hold strangers' words"] if note.untrusted else []
    head = f"## {note.key}" + (f" ({'; '.join(about)})" if about else "")
    text = note.text
    if len(text) > room:
        text = f"{text[:room]}\n[cut: {len(text) - room} more characters; limit=1 shows more]"
    return f"{head}\n{text}"


SAVE_MEMORY = Tool(
    name="save_memory",
    id="memory.note.save",
    description=(
        "Remember something across conversations, as a note. A note of the same key is replaced: "
        "to add to it, look it up first and save all of it."
    ),
    input=SaveMemory,
    run=save_memory,
    risk="write",
    effect="keyed",
    timeout=30.0,
    target=lambda given: given.key,
    plan=plan_save,
)

SEARCH_MEMORY = Tool(
    name="search_memory",
    id="memory.note.search",
    description=(
        "Look up what was remembered in earlier conversations: the notes that have most of the "
        "words, in their key, tags or text."
    ),
    input=SearchMemory,
    run=search_memory,
    risk="read",
    effect="pure",
    timeout=30.0,
    target=lambda given: given.query,
    plan=plan_search,
    gives=PRIVATE,
)
