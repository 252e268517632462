"""The memory actor: the only writer of the notes and their index.

If an embedding service is configured, it also requests vectors of notes and queries.  A search
first compares a rough copy of each vector, the signs of its numbers, then the best ones exactly,
in plain Python.  Without the service, searches use words only.
"""

import heapq
import logging
import math
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar, assert_never

import trio
from msgspec.structs import replace

from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.models.client import EmbeddingFailed
from elwood.agent.models.embeddings import Embedder, cosine, signs, unit
from elwood.agent.models.messages import Vector
from elwood.agent.tools.tool import ForgettingFailed, TextSearch
from elwood.features.memory.learning import LearningPlan
from elwood.features.memory.messages import (
    Forget,
    Forgotten,
    GetOverview,
    Learn,
    MemoryMail,
    MemoryOverview,
    ReadNotes,
    Recall,
    Remember,
    RemoveExpired,
    SettleObservation,
    Suggest,
    Undo,
    Unlearn,
    Unlearned,
)
from elwood.features.memory.note import Note
from elwood.features.memory.store import NoteStore, NotesUnwritten
from elwood.features.memory.tools import SAVE
from elwood.foundation.runtime import Blocking, Lock, Mailbox, clear_error, report_error
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.search_index import (
    DatabaseUnusable,
    SearchHit,
    SearchIndex,
    SearchQuery,
    fingerprint,
    rank_keys,
)

log = logging.getLogger("elwood.memory")

T = TypeVar("T")

# Concurrent searches, each in a thread; others wait.
MAX_READERS = 4
# Seconds to close the index; it stays consistent without that.
LAST_CLOSE = 2.0
# Notes that are read for a suggestion.
SUGGESTED = 20
INDEX = "memory index"
# Seconds that a search waits for its vector, and from a failure of the service to the next request.
WAIT, PAUSE = 2.0, 60.0
# Notes in one embedding request.
BATCH = 32
SERVICE = "embeddings"
# A text that every working model accepts.
PROBE = "tea"
# Start value of `missing`: above all note numbers.
NEWEST = 1 << 62
# Vectors that are compared exactly, most hits of these, and the least similarity of a hit.
CLOSE = 200
MOST_HITS = 20
NEAR = 0.25

_MISSING = """
SELECT n.key, n.id FROM notes AS n LEFT JOIN vectors AS v ON v.id = n.id AND v.model = ?
WHERE v.id IS NULL AND n.kept = 1 AND n.id < ? ORDER BY n.id DESC LIMIT ?
"""
_EXACT = """
SELECT n.key, v.vector, n.updated FROM vectors AS v JOIN notes AS n ON n.id = v.id
WHERE n.kept = 1 AND (n.expires IS NULL OR n.expires > ?) AND n.untrusted <= ? AND v.id = ?
"""


class Memory:
    """Owner of the notes in *store*.

    Forgotten notes are also removed from *others*.  *embedder*, if any, makes vectors.  *now* is
    Unix time.
    """

    def __init__(
        self,
        store: NoteStore,
        *,
        blocking: Blocking,
        now: Callable[[], float],
        embedder: Embedder | None = None,
        others: Sequence[TextSearch] = (),
    ) -> None:
        self._store = store
        self._others = others
        self._blocking = blocking
        self._now = now
        self._readers = trio.CapacityLimiter(MAX_READERS)
        self._writing = Lock()
        self._vectors: NoteVectors | None = None
        if embedder is not None:
            self._vectors = NoteVectors(embedder, store, blocking, self._write)

    async def run(self, mailbox: Mailbox[MemoryMail]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._start)
                async for message in mailbox:
                    match message:
                        case Suggest() | Recall() | ReadNotes() | GetOverview():
                            nursery.start_soon(self._read, message)
                        case Remember(draft=draft):
                            [answer] = await self._write(partial(self._store.save, [draft]))
                            message.reply.set(answer)
                            self._request_vectors()
                        case Learn():
                            message.reply.set(await self._learn(message))
                        case Unlearn(session=session, parts=parts):
                            unlearn = partial(self._store.unlearn, session, parts)
                            message.reply.set(await self._command(unlearn))
                        case SettleObservation(code=code, keep=is_kept):
                            settle = partial(self._store.decide_observation, code, is_kept=is_kept)
                            message.reply.set(await self._command(settle))
                        case Forget(keys=keys):
                            message.reply.set(await self._forget(keys))
                        case RemoveExpired():
                            message.reply.set(await self._command(self._store.remove_expired))
                        case Undo(code=code):
                            undo = partial(self._store.undo, code)
                            message.reply.set(await self._command(undo))
                        case _:
                            assert_never(message)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_CLOSE):
                await self._blocking(self._store.indexed.close)

    async def _start(self) -> None:
        await self._update_index()
        if self._vectors is not None:
            await self._vectors.run()

    # --- writing ---------------------------------------------------------------------------------

    async def _learn(self, message: Learn) -> LearningPlan | Unlearned:
        learn = partial(self._store.learn, message.found, message.batch, message.settings)
        try:
            plan = await self._write(learn)
        except (NotesUnwritten, DiskFull, DatabaseUnusable) as error:
            return Unlearned(str(error))
        self._request_vectors()
        return plan

    async def _command(self, fn: Callable[[], str]) -> CommandResult:
        try:
            return CommandResult(await self._write(fn), ok=True)
        except (NotesUnwritten, DiskFull, DatabaseUnusable) as error:
            return CommandResult(f"A part failed: {error}", ok=False)

    async def _forget(self, keys: tuple[str, ...]) -> CommandResult:
        notes = await self._blocking(partial(self._store.read, keys))
        try:
            forgotten = await self._write(partial(self._store.forget, keys))
        except DiskFull as error:
            return CommandResult(Forgotten(why=str(error)).text, ok=False)
        left: set[str] = set()
        why = [forgotten.why] if forgotten.why else []
        for other in self._others:
            try:
                for note in notes:
                    left.update(await other.forget(note.key, note.text, SAVE))
            except ForgettingFailed as error:
                why.append(f"the {other.name} may still contain it ({error})")
        forgotten = replace(forgotten, left=tuple(sorted(left)), why="; ".join(why))
        return CommandResult(forgotten.text, forgotten.ok)

    async def _write(self, fn: Callable[[], T]) -> T:
        async with self._writing:
            return await self._blocking(fn)

    def _request_vectors(self) -> None:
        if self._vectors is not None:
            self._vectors.request()

    # --- reading ---------------------------------------------------------------------------------

    async def _read(self, message: Suggest | Recall | ReadNotes | GetOverview) -> None:
        store = self._store
        match message:
            case Suggest(message=text):
                # A turn waits for the reply: use the current index, and update it afterwards.
                query = SearchQuery(query=text, now=self._now(), any=True, untrusted=False)
                found: list[Note] = []
                if not (store.indexed.is_ready and store.indexed.is_empty):
                    found = await self._indexed(lambda: store.search(query, SUGGESTED), found)
                message.reply.set(tuple(found))
                await self._update_index()
            case Recall():
                message.reply.set(tuple(await self._recall(message)))
            case ReadNotes(keys=keys):
                async with self._readers:
                    message.reply.set(tuple(await self._blocking(lambda: store.read(keys))))
            case GetOverview():
                message.reply.set(await self._indexed(store.overview, MemoryOverview()))

    async def _recall(self, message: Recall) -> Sequence[Note]:
        await self._update_index()
        store, vectors, vector = self._store, self._vectors, None
        query = SearchQuery(query=message.query, now=self._now())
        if vectors is not None:
            vector = await vectors.embed_question(message.query)

        def search() -> list[Note]:
            close: Sequence[str] = ()
            if vectors is not None and vector is not None:
                close = rank_keys(find_near(store.indexed.index, vectors.model, vector, query))
            return store.search(query, message.limit, close)

        return await self._indexed(search, [])

    async def _indexed(self, fn: Callable[[], T], nothing: T) -> T:
        """Read from the index, after an update if it is not ready.

        Return *nothing* if the index cannot be used; that is reported as an error.
        """
        indexed = self._store.indexed
        for _ in range(2):
            if not indexed.is_ready:
                await self._update_index()
            if indexed.is_ready:
                try:
                    async with self._readers:
                        return await self._blocking(fn)
                except DatabaseUnusable as error:
                    indexed.distrust(error)
        return nothing

    async def _update_index(self) -> None:
        try:
            count = await self._store.indexed.update(self._write)
        except DatabaseUnusable as error:
            log.warning("memory index not up to date", extra={"why": str(error)})
            report_error(INDEX, str(error))
            return
        clear_error(INDEX)
        if count:
            log.info("memory index up to date", extra={"files indexed": count})
            self._request_vectors()


# --- vectors -------------------------------------------------------------------------------------


class NoteVectors:
    """Request vectors from *embedder* and store those of notes in the index of *store*.

    *write* runs a function as the only writer of the index.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: NoteStore,
        blocking: Blocking,
        write: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self.model = embedder.model
        self._embedder = embedder
        self._store = store
        self._index = store.indexed.index
        self._blocking = blocking
        self._write = write
        self._due = trio.Event()
        self._silent_until = -math.inf

    async def embed_question(self, question: str) -> Vector | None:
        """Return the vector of *question*; None if the service fails or is slow."""
        if trio.current_time() < self._silent_until:
            return None
        with trio.move_on_after(WAIT):
            try:
                [vector] = (await self._embedder.embed([question])).vectors
            except EmbeddingFailed as error:
                self._note_failure(error.why)
                return None
            self._note_success()
            return vector
        self._note_failure(f"no answer within {WAIT:g} s")
        return None

    def request(self) -> None:
        self._due.set()

    async def run(self) -> None:
        """Add missing vectors to notes, at the start and after each `request`."""
        self.request()
        while True:
            await self._due.wait()
            self._due = trio.Event()
            await trio.sleep_until(max(self._silent_until, trio.current_time()))
            try:
                await self._add_missing()
            except EmbeddingFailed as error:
                self._note_failure(error.why)
                self.request()
            except DatabaseUnusable as error:
                log.warning("vectors not stored", extra={"why": str(error)})

    async def _add_missing(self) -> None:
        before = NEWEST
        while without := await self._blocking(
            partial(list_unembedded, self._index, self.model, before, BATCH)
        ):
            before = without[-1][1]
            read = partial(self._store.read, [key for key, _ in without])
            notes = {note.key: note for note in await self._blocking(read)}
            found = [(id_, notes[key]) for key, id_ in without if key in notes]
            if not found:
                continue
            vectors = await self._embed([_text_to_embed(note) for _, note in found])
            rows = [
                (id_, fingerprint(note.text), vector)
                for (id_, note), vector in zip(found, vectors, strict=True)
            ]
            await self._write(partial(store_vectors, self._index, self.model, rows))
            self._note_success()

    async def _embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Request the vectors of *texts*, one by one if the service refuses them together.

        A refused text gets an empty vector, which is never a hit.  Raises EmbeddingFailed if the
        service refuses every text.
        """
        try:
            return (await self._embedder.embed(texts)).vectors
        except EmbeddingFailed as error:
            if not error.refused:
                raise
            if len(texts) == 1:
                await self._embedder.embed([PROBE])
                log.warning("note without a vector", extra={"why": error.why})
                return [()]
        return [vector for text in texts for vector in await self._embed([text])]

    def _note_failure(self, why: str) -> None:
        if self._silent_until == -math.inf:
            log.warning("searching without vectors", extra={"why": why})
        report_error(SERVICE, why)
        self._silent_until = trio.current_time() + PAUSE

    def _note_success(self) -> None:
        if self._silent_until != -math.inf:
            log.info("searching with vectors again")
        clear_error(SERVICE)
        self._silent_until = -math.inf


# --- in the index; these block, and raise DatabaseUnusable ----------------------------------------


def list_unembedded(
    index: SearchIndex, model: str, before: int, limit: int
) -> list[tuple[str, int]]:
    """List key and number of active notes without a vector of *model*, newest entry first.

    Only numbers below *before*: pass the last number to continue.
    """
    with index.open_reader() as db:
        return db.execute(_MISSING, (model, before, limit)).fetchall()


def store_vectors(
    index: SearchIndex, model: str, vectors: Iterable[tuple[int, bytes, Vector]]
) -> None:
    """Store vectors of *model* by note number, unless the note's text has changed since."""
    with index.open_writer() as db:
        for number, text_hash, vector in vectors:
            of_unit = unit(vector)
            db.execute(
                "INSERT OR REPLACE INTO vectors SELECT id, ?, ?, ? FROM notes"
                " WHERE id = ? AND saying = ?",
                (model, _bits(of_unit), array("f", of_unit).tobytes(), number, text_hash),
            )


def find_near(
    index: SearchIndex, model: str, vector: Vector, query: SearchQuery
) -> list[SearchHit]:
    """Find the notes that *query* allows whose vectors of *model* are near to *vector*."""
    wanted = unit(vector)
    rough, size = signs(wanted), len(_bits(wanted))
    hits = []
    with index.open_reader() as db:
        near_ = [
            ((rough ^ int.from_bytes(bits, "little")).bit_count(), id_)
            for id_, bits in db.execute("SELECT id, bits FROM vectors WHERE model = ?", (model,))
            if len(bits) == size
        ]
        for _, id_ in heapq.nsmallest(CLOSE, near_):
            found = db.execute(_EXACT, (query.now, query.untrusted, id_))
            for key, stored, updated in found:
                exact: Sequence[float] = array("f", stored)
                if len(exact) == len(wanted) and (score := cosine(exact, wanted)) >= NEAR:
                    hits.append(SearchHit(key, score, updated))
    return heapq.nlargest(MOST_HITS, hits, key=lambda hit: hit.score)


def _bits(vector: Vector) -> bytes:
    return signs(vector).to_bytes((len(vector) + 7) // 8, "little")


def _text_to_embed(note: Note) -> str:
    return f"{note.key.replace('-', ' ')} {' '.join(note.tags)}\n{note.text}"
