"""The tools that save, search and forget notes."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.calls import Other, Plan, ReadFiles, SaveMemory
from elwood.agent.conversation.labels import PRIVATE, Label
from elwood.agent.tools.tool import Output, SearchResult, TextSearch, Tool, ToolContext, ToolFailure
from elwood.features.memory.messages import (
    Forget,
    GetOverview,
    MemoryMail,
    ReadNotes,
    Recall,
    Remember,
    Saved,
    Unsaved,
)
from elwood.features.memory.note import MAX_NOTE, MAX_TAGS, TAG, TTL, Kind, Note, NoteDraft
from elwood.features.memory.store import fuse_rankings
from elwood.foundation.runtime import Address
from elwood.foundation.text.words import KEY, count_words, parse_query

_MARKED = ", marked: the conversation has strangers' words"

# Daily notes use it to find the turn that saved a note.
SAVE = "save_memory"
# Results of one search, and characters of all of them: below the limit of the tool.
MAX_FOUND = 20
MAX_SHOWN = 45_000
# Alternative queries in one search.
MAX_ALSO = 4
# Words that a result of another search must match to come before notes with fewer.
ENOUGH = 2


class NoteToSave(msgspec.Struct, forbid_unknown_fields=True):
    key: Annotated[
        str, Meta(pattern=KEY, description="Short name of the note: lowercase letters and hyphens")
    ]
    content: Annotated[str, Meta(max_length=MAX_NOTE, description="Text to remember, as Markdown")]
    tags: Annotated[
        tuple[Annotated[str, Meta(pattern=TAG)], ...],
        Meta(max_length=MAX_TAGS, description="Words to find it by; empty keeps the present tags"),
    ] = ()
    kind: Annotated[
        Kind | None,
        Meta(description="Kind of note; null keeps the present kind; a new note is a fact"),
    ] = None
    ttl: Annotated[
        str,
        Meta(
            pattern=f"{TTL}|^$", description="How long it is useful (12h, 30d, 6m), if not always"
        ),
    ] = ""


class NoteQuery(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=500, description="Words to search for")]
    limit: Annotated[int, Meta(ge=1, le=MAX_FOUND, description="Maximum number of notes")] = 5
    also: Annotated[
        tuple[Annotated[str, Meta(max_length=500)], ...],
        Meta(
            max_length=MAX_ALSO, description="Alternative words: synonyms, names, another language"
        ),
    ] = ()

    kind: Annotated[Kind | None, Meta(description="Only notes of this kind")] = None


class ForgetMemory(msgspec.Struct, forbid_unknown_fields=True):
    keys: Annotated[
        tuple[Annotated[str, Meta(pattern=KEY)], ...],
        Meta(min_length=1, max_length=MAX_FOUND, description="Keys of the notes to forget"),
    ]


class NoteTools:
    """Save, search and forget notes of *memory*; *searches* are all searches, also of notes."""

    def __init__(self, memory: Address[MemoryMail], searches: Sequence[TextSearch]) -> None:
        self._memory = memory
        self._searches = searches

    async def save(self, given: NoteToSave, context: ToolContext) -> str:
        if not given.content.strip():
            raise ToolFailure("content is empty; nothing was saved")
        untrusted = context.label.untrusted
        draft = NoteDraft(
            given.key,
            given.content,
            Label(untrusted=untrusted, private=True),
            context.source,
            given.tags or None,
            given.ttl or None,
            kind=given.kind,
        )
        marked = _MARKED if untrusted else ""
        match await self._memory.ask(Remember(draft=draft)):
            case Unsaved(_, why):
                raise ToolFailure(f"not saved: {why}")
            case Saved(key, replaced):
                return f"{'replaced' if replaced else 'saved'} {key}{marked}"

    async def search(self, given: NoteQuery, context: ToolContext) -> str | Output:
        if not re.search(r"[^\W_]", given.query):
            raise ToolFailure("query has no words to search for")
        also = (words for words in given.also if parse_query(words))
        most = given.limit if given.kind is None else MAX_FOUND
        found = await search_all(self._searches, (given.query, *also), most)
        if given.kind is not None:
            found = [one for one in found if one.kind == given.kind][: given.limit]
        if not found:
            return "no note has any of these words"
        text = format_results(found, MAX_SHOWN, "## ")
        untrusted = [one.origin for one in found if one.label.untrusted]
        origin = f"memory: {', '.join(untrusted)}" if untrusted else ""
        return Output(text, untrusted=bool(untrusted), private=True, origin=origin)

    async def forget(self, given: ForgetMemory, context: ToolContext) -> Output:
        keys = tuple(context.facts.get("notes", "").split())
        if not keys:
            raise ToolFailure("there is no such note; nothing was forgotten")
        done = await self._memory.ask(Forget(keys=keys))
        if not done.ok:
            raise ToolFailure(done.text)
        strange = context.facts.get("untrusted", "")
        origin = f"memory: {strange}" if strange else ""
        return Output(done.text, bool(strange), private=True, origin=origin)

    async def plan_forget(self, given: ForgetMemory, context: ToolContext) -> Plan:
        """Find the notes to forget; an approval is for these only.

        Ask the owner each time, as `/memory undo` cannot restore a forgotten note.  The
        question has only the keys: it is stored with the approvals, where the text would survive.
        """
        waiting = (await self._memory.ask(GetOverview())).pending
        noticed = [note for note in waiting if note.subject in given.keys]
        notes = {n.key: n for n in (*await self._memory.ask(ReadNotes(keys=given.keys)), *noticed)}
        if not notes:
            raise ToolFailure("there is no such note; nothing was forgotten")
        names = ", ".join(dict.fromkeys(map(_display_name, notes.values())))
        count = "1 note" if len(notes) == 1 else f"{len(notes)} notes"
        question = f"Delete {count} for good: {names}"
        strange = ", ".join(key for key, note in notes.items() if note.untrusted)
        facts = {"notes": " ".join(notes), "untrusted": strange}
        which = f"the note “{names}”" if len(notes) == 1 else count
        asks = f"delete {which} for good"
        return Plan(Other("destructive"), question, facts, asks=asks)


async def plan_save(given: NoteToSave, context: ToolContext) -> Plan:
    await trio.lowlevel.checkpoint()
    tags = f" [{', '.join(given.tags)}]" if given.tags else ""
    return Plan(SaveMemory(), f"Remember as {given.key}{tags}:\n{given.content}")


async def plan_search(given: NoteQuery, context: ToolContext) -> Plan:
    await trio.lowlevel.checkpoint()
    words = "; or: ".join((given.query, *given.also))
    return Plan(ReadFiles(), f"Search the notes: {words}", asks="search your notes")


def _display_name(note: Note) -> str:
    return f"{note.subject} (noticed)" if note.is_observation else note.key


async def search_all(
    searches: Sequence[TextSearch], queries: Sequence[str], limit: int
) -> list[SearchResult]:
    """Return the best *limit* results of all *searches*; notes come first.

    *queries* are alternative wordings of one query.
    """
    notes, others = list[Sequence[SearchResult]](), list[Sequence[SearchResult]]()
    for one in sorted(searches, key=lambda one: one.name):
        found = [await one.search(each, limit) for each in queries]
        (notes if isinstance(one, NoteSearch) else others).extend(found)
    return put_notes_first(merge_results(notes), merge_results(others), parse_query(queries[0]))[
        :limit
    ]


def merge_results(lists: Iterable[Sequence[SearchResult]]) -> list[SearchResult]:
    """Merge the results of several searches by rank."""
    rankings, most = [], dict[tuple[str, str], SearchResult]()
    for found in lists:
        rankings.append([(one.origin, one.text) for one in found])
        for one in found:
            before = most.setdefault((one.origin, one.text), one)
            if one.words > before.words:
                most[one.origin, one.text] = one
    return [most[key] for key in fuse_rankings(*rankings)]


def put_notes_first(
    notes: Sequence[SearchResult], others: Iterable[SearchResult], chosen: Sequence[str]
) -> list[SearchResult]:
    """Put *notes* first, in their order, after those of *others* that match more words.

    These must match at least `ENOUGH` words, or all: a note that is near by meaning is better than
    a match of one common word.
    """
    enough = max([min(ENOUGH, len(chosen)), *(one.words + 1 for one in notes)])
    found = sorted(others, key=lambda one: -one.words)
    better = [one for one in found if one.words >= enough]
    return [*better, *notes, *found[len(better) :]]


def format_results(found: Sequence[SearchResult], room: int, head: str = "") -> str:
    """Format results in about *room* characters, each after *head*."""
    room //= max(1, len(found))
    parts = []
    for one in found:
        about = [f"updated {one.updated[:10]}"] if one.updated else []
        about += [one.about] if one.about else []
        about += ["may contain strangers' words"] if one.label.untrusted else []
        suffix = f" ({'; '.join(about)})" if about else ""
        text = one.text
        if len(text) > room:
            text = f"{text[:room]}\n[cut: {len(text) - room} more characters]"
        parts.append(f"{head}{one.origin}{suffix}\n{text}")
    return "\n\n".join(parts)


class NoteSearch:
    """Search for notes of *memory*; `forget` does nothing, as the memory removes them itself."""

    name = "notes"

    def __init__(self, memory: Address[MemoryMail]) -> None:
        self._memory = memory

    async def search(self, query: str, limit: int) -> list[SearchResult]:
        notes = await self._memory.ask(Recall(query=query, limit=limit))
        return results(notes, query)

    async def forget(self, key: str, text: str, tool: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        return []


def results(notes: Iterable[Note], query: str) -> list[SearchResult]:
    """Convert *notes* to results of a search for *query*."""
    chosen = parse_query(query)
    found = []
    for note in notes:
        about: list[str] = [note.kind] if note.kind != "fact" else []
        about += ["not confirmed yet"] if note.status == "pending" else []
        about += ["archived"] if note.status == "archived" else []
        about += [f"tags: {', '.join(note.tags)}"] if note.tags else []
        about += [f"from {note.source}"] if note.source else []
        found.append(
            SearchResult(
                text=note.text,
                origin=note.key,
                label=note.label,
                updated=note.updated,
                about="; ".join(about),
                words=count_words(note.words, chosen),
                kind=note.kind,
            )
        )
    return found


def tools(memory: Address[MemoryMail], searches: Sequence[TextSearch]) -> tuple[Tool, ...]:
    notes = NoteTools(memory, searches)
    return (
        Tool(
            name=SAVE,
            id="memory.note.save",
            description=(
                "Remember something across conversations, as a note. A note with the same key is "
                "replaced: to add to it, look it up first and save all of it. When the user "
                "corrects something you know, save the corrected note immediately."
            ),
            input=NoteToSave,
            run=notes.save,
            risk="write",
            effect="keyed",
            timeout=30.0,
            target=lambda given: given.key,
            plan=plan_save,
            deeds=("remember",),
        ),
        Tool(
            name="search_memory",
            id="memory.note.search",
            description=(
                "Search the notes from earlier conversations: the notes that have most of the "
                "words, in their key, tags or text; of several versions the newest comes first. "
                "Words match only words: give alternative words in also. It also finds lines of "
                "your daily notes and reflections, by words and dates; read their files for the "
                "rest."
            ),
            input=NoteQuery,
            run=notes.search,
            risk="read",
            effect="pure",
            timeout=30.0,
            target=lambda given: given.query,
            plan=plan_search,
            gives=PRIVATE,
        ),
        Tool(
            name="forget_memory",
            id="memory.note.forget",
            description=(
                "Delete notes for good, when the user wants something forgotten. Search for them "
                "first. The user must agree. To correct a note, save it again instead."
            ),
            input=ForgetMemory,
            run=notes.forget,
            risk="destructive",
            effect="keyed",
            timeout=60.0,
            target=lambda given: ", ".join(given.keys),
            plan=notes.plan_forget,
            deeds=("delete",),
            forgets=True,
        ),
    )
