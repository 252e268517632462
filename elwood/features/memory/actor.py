"""The actor that remembers: the only writer of the notes and of their index.

It also asks for vectors of notes and questions, if a service for them is configured.  A rough copy
of each vector, the signs of its numbers, is compared first; only the best are compared exactly, in
plain Python.  Without the service nothing is missing but them.
"""

import heapq
import logging
import math
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar, assert_never

import msgspec
import trio

from elwood.agent.approvals.messages import CommandResult
from elwood.agent.models.client import EmbeddingFailed
from elwood.agent.models.embeddings import Embedder, cosine, signs, unit
from elwood.agent.models.messages import Vector
from elwood.agent.tools.tool import ForgettingFailed, TextSearch
from elwood.features.memory.learning import Lesson
from elwood.features.memory.messages import (
    Forget,
    Forgotten,
    Learn,
    ListKnown,
    MemoryMail,
    MemoryOverview,
    Overlook,
    ReadNotes,
    Recall,
    Remember,
    SettleObservation,
    Suggest,
    Undo,
    Unlearn,
    Unlearned,
)
from elwood.features.memory.note import Note
from elwood.features.memory.store import NoteStore, NotesUnwritten
from elwood.features.memory.tools import SAVE
from elwood.foundation.runtime import Blocking, Mailbox, clear_error, report_error
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.search_index import (
    DatabaseUnusable,
    SearchHit,
    SearchIndex,
    SearchQuery,
    fingerprint,
    ranked,
)

log = logging.getLogger("elwood.memory")

T = TypeVar("T")

# Searches at once, each in a thread; more wait their turn.
MAX_READERS = 4
# Seconds given to close the index; it is sound without that.
LAST_CLOSE = 2.0
# Notes that are looked at for a suggestion.
SUGGESTED = 20
# Seconds after which a search has the files looked through for changes by hand; with many files
# that is as many times the time it takes, so that it is a twentieth of the work at most.
LOOK_EVERY, LOOK_SHARE = 5.0, 20.0

INDEX = "memory index"
# Seconds that a search waits for the vector of its question, and after a failure of the service
# until it is asked again.
WAIT, PAUSE = 2.0, 60.0
# Notes that are sent for their vectors at once.
BATCH = 32
SERVICE = "embeddings"
# Every model that works takes this.
TAKEN = "tea"
# Before which `missing` begins.
NEWEST = 1 << 62
# The vectors that are nearest by their rough copies are compared exactly, and so many are hits if
# they are near enough.
CLOSE = 200
MOST_HITS = 20
NEAR = 0.25

_MISSING = """
SELECT n.key, n.id FROM notes AS n LEFT JOIN vectors AS v ON v.id = n.id AND v.model = ?
WHERE v.id IS NULL AND n.kept = 1 AND n.id < ? ORDER BY n.id DESC LIMIT ?
"""
_EXACT = """
SELECT n.key, v.vector, n.updated, n.importance FROM vectors AS v JOIN notes AS n ON n.id = v.id
WHERE n.kept = 1 AND (n.expires IS NULL OR n.expires > ?) AND n.untrusted <= ? AND v.id = ?
"""


class Memory:
    """Owns the notes in *store*; what is forgotten has to go from the *others*, too.

    *embedder* makes vectors, if there is one.  *now* is Unix time.
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
        self._embedder = embedder
        self._readers = trio.CapacityLimiter(MAX_READERS)
        self._reset()

    def _reset(self) -> None:
        self._writing = trio.Lock()
        self._looking = trio.Lock()
        self._look_again = -math.inf
        self._is_checked = False
        self._vectors: NoteVectors | None = None
        if self._embedder is not None:
            self._vectors = NoteVectors(self._embedder, self._store, self._blocking, self._write)

    async def run(self, mailbox: Mailbox[MemoryMail]) -> None:
        """Answer until stopped."""
        self._reset()
        await self._blocking(self._store.indexed.open)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look)
                if self._vectors is not None:
                    nursery.start_soon(self._vectors.run)
                async for message in mailbox:
                    match message:
                        case Suggest(message=text):
                            # A turn waits for suggestions: they come of what is known.
                            nursery.start_soon(self._look)
                            if self._store.indexed.is_empty:
                                message.reply.set(())
                            else:
                                nursery.start_soon(self._suggest, message, text)
                        case Recall() | ReadNotes() | ListKnown() | Overlook():
                            nursery.start_soon(self._read, message)
                        case Remember(drafts=drafts):
                            save = partial(self._store.save, drafts)
                            message.reply.set(tuple(await self._write(save)))
                            self._want_vectors()
                        case Learn():
                            message.reply.set(await self._learn(message))
                        case Unlearn(session=session, parts=parts):
                            unlearn = partial(self._store.unlearn, session, parts)
                            message.reply.set(await self._command(unlearn))
                        case SettleObservation(code=code, keep=is_kept):
                            settle = partial(self._store.settle, code, is_kept=is_kept)
                            message.reply.set(await self._command(settle))
                        case Forget(keys=keys):
                            message.reply.set(await self._forget(keys))
                        case Undo():
                            message.reply.set(await self._command(self._undo))
                        case _:
                            assert_never(message)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_CLOSE):
                await self._blocking(self._store.indexed.close)

    # --- writing ---------------------------------------------------------------------------------

    async def _learn(self, message: Learn) -> Lesson | Unlearned:
        learn = partial(self._store.learn, message.found, message.batch, message.settings)
        try:
            lesson = await self._write(learn)
        except (NotesUnwritten, DiskFull, DatabaseUnusable) as error:
            return Unlearned(str(error))
        self._want_vectors()
        return lesson

    async def _command(self, fn: Callable[[], str]) -> CommandResult:
        try:
            return CommandResult(await self._write(fn), ok=True)
        except (NotesUnwritten, DiskFull, DatabaseUnusable) as error:
            return CommandResult(f"Not all of it could be done: {error}", ok=False)

    async def _forget(self, keys: tuple[str, ...]) -> CommandResult:
        notes = await self._blocking(partial(self._store.read, keys))
        try:
            forgotten = await self._write(partial(self._store.forget, keys))
        except DiskFull as error:
            return CommandResult(Forgotten(why=str(error)).text, ok=False)
        forgotten = await forgotten_elsewhere(forgotten, notes, self._others)
        return CommandResult(forgotten.text, forgotten.ok)

    def _undo(self) -> str:
        done = self._store.undo()
        return "There is nothing to take back." if done is None else done.text

    async def _write(self, fn: Callable[[], T]) -> T:
        async with self._writing:
            return await self._blocking(fn)

    def _want_vectors(self) -> None:
        if self._vectors is not None:
            self._vectors.wanted()

    # --- reading ---------------------------------------------------------------------------------

    async def _read(self, message: Recall | ReadNotes | ListKnown | Overlook) -> None:
        store = self._store
        match message:
            case Recall():
                message.reply.set(tuple(await self._recall(message)))
            case ReadNotes(keys=keys):
                async with self._readers:
                    message.reply.set(tuple(await self._blocking(lambda: store.read(keys))))
            case ListKnown():
                message.reply.set(await self._indexed(store.known, ()))
            case Overlook():
                nothing: MemoryOverview | None = None
                message.reply.set(await self._indexed(store.overview, nothing))

    async def _recall(self, message: Recall) -> Sequence[Note]:
        await self._look()
        if message.every:
            query = SearchQuery(query=message.query, now=-math.inf, words="all")
        else:
            vector = None if self._vectors is None else await self._vectors.of(message.query)
            query = SearchQuery(query=message.query, now=self._now(), vector=vector)

        def search() -> list[Note]:
            close: Sequence[str] = ()
            if self._vectors is not None and query.vector is not None:
                close = ranked(near(self._store.indexed.index, self._vectors.model, query))
            return self._store.search(query, message.limit, close)

        return await self._indexed(search, [])

    async def _suggest(self, message: Suggest, text: str) -> None:
        query = SearchQuery(query=text, now=self._now(), words="any", untrusted=False)

        def search() -> list[Note]:
            return self._store.search(query, SUGGESTED) if self._store.indexed.is_ready else []

        try:
            async with self._readers:
                message.reply.set(tuple(await self._blocking(search)))
        except DatabaseUnusable as error:
            self._distrust(error)
            message.reply.set(())

    async def _indexed(self, fn: Callable[[], T], nothing: T) -> T:
        """Read by the index, which is brought up to the files before if it has to be.

        Gives *nothing* if that cannot be done; people are told of it as a trouble.
        """
        for again in (False, True):
            if again:
                self._look_again = -math.inf
                await self._look()
            try:
                async with self._readers:
                    if await self._blocking(lambda: self._store.indexed.is_ready):
                        return await self._blocking(fn)
            except DatabaseUnusable as error:
                self._distrust(error)
        return nothing

    def _distrust(self, error: DatabaseUnusable) -> None:
        log.warning("memory index not read", extra={"why": str(error)})
        self._is_checked = False

    async def _look(self) -> None:
        """Bring the index up to the files, which anybody may change, unless that was done just now.

        Others may write between the steps of it.
        """
        async with self._looking:
            began = trio.current_time()
            if began < self._look_again:
                return
            count = 0
            try:
                if not self._is_checked:
                    await self._write(self._store.indexed.check)
                steps = self._store.indexed.catch_up()
                while (took := await self._write(lambda: next(steps, None))) is not None:
                    count += took
            except DatabaseUnusable as error:
                log.warning("memory index not up to date", extra={"why": str(error)})
                report_error(INDEX, str(error))
            else:
                clear_error(INDEX)
                self._is_checked = True
            took_ = trio.current_time() - began
            self._look_again = trio.current_time() + max(LOOK_EVERY, LOOK_SHARE * took_)
        if count:
            log.info("memory index up to date", extra={"files taken in": count})
        self._want_vectors()


async def forgotten_elsewhere(
    forgotten: Forgotten, notes: Sequence[Note], others: Sequence[TextSearch]
) -> Forgotten:
    """Let *others* forget *notes*, too, which were *forgotten*; say what is left of them."""
    left: set[str] = set()
    why = [forgotten.why] if forgotten.why else []
    for other in others:
        try:
            for note in notes:
                left.update(await other.forget(note.key, note.text, SAVE))
        except ForgettingFailed as error:
            why.append(f"the {other.name} may still say it ({error})")
    return msgspec.structs.replace(forgotten, left=tuple(sorted(left)), why="; ".join(why))


# --- vectors -------------------------------------------------------------------------------------


class NoteVectors:
    """Asks *embedder* for vectors, and keeps those of the notes of *store* in its index.

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
        # What the service does not take, as fingerprints of texts.
        self._refused: set[bytes] = set()

    async def of(self, question: str) -> Vector | None:
        """Give the vector of *question*; None if there is none in time."""
        if trio.current_time() < self._silent_until:
            return None
        with trio.move_on_after(WAIT):
            try:
                [vector] = (await self._embedder.embed([question])).vectors
            except EmbeddingFailed as error:
                self._failed(error.why)
                return None
            self._worked()
            return vector
        self._failed(f"no answer within {WAIT:g} s")
        return None

    def wanted(self) -> None:
        """Tell that notes may have come, or changed."""
        self._due.set()

    async def run(self) -> None:
        """Give vectors to notes that have none, whenever that is wanted."""
        while True:
            await self._due.wait()
            self._due = trio.Event()
            await trio.sleep_until(max(self._silent_until, trio.current_time()))
            try:
                await self._give()
            except EmbeddingFailed as error:
                self._failed(error.why)
                self.wanted()
            except DatabaseUnusable as error:
                log.warning("vectors not kept", extra={"why": str(error)})

    async def _give(self) -> None:
        before = NEWEST
        while self._index.is_open:
            ask = partial(missing, self._index, self.model, before, BATCH)
            if not (without := await self._blocking(ask)):
                return
            before = without[-1][1]
            read = partial(self._store.read, [key for key, _ in without])
            notes = {note.key: note for note in await self._blocking(read)}
            told = [
                (id_, said, notes[key])
                for key, id_ in without
                if key in notes and (said := fingerprint(notes[key].text)) not in self._refused
            ]
            if not told:
                continue
            vectors = await self._embedded([_told(note) for _, _, note in told])
            rows = []
            for (id_, said, _), vector in zip(told, vectors, strict=True):
                if vector is None:
                    self._refused.add(said)
                else:
                    rows.append((id_, said, vector))
            await self._write(partial(put, self._index, self.model, rows))
            self._worked()

    async def _embedded(self, texts: Sequence[str]) -> Sequence[Vector | None]:
        """Ask for the vectors of *texts*: one by one if one of them keeps the others from theirs.

        Raises EmbeddingFailed if it is not that: the service does not take anything.
        """
        try:
            return (await self._embedder.embed(texts)).vectors
        except EmbeddingFailed as error:
            if not error.refused:
                raise
            refusal = error
        vectors: list[Vector | None] = []
        for text in texts:
            try:
                vectors += (await self._embedder.embed([text])).vectors
            except EmbeddingFailed as error:
                if not error.refused:
                    raise
                await self._embedder.embed([TAKEN])
                vectors.append(None)
        count = vectors.count(None)
        log.warning("notes without vectors", extra={"count": count, "why": refusal.why})
        return vectors

    def _failed(self, why: str) -> None:
        if self._silent_until == -math.inf:
            log.warning("searching without vectors", extra={"why": why})
        report_error(SERVICE, why)
        self._silent_until = trio.current_time() + PAUSE

    def _worked(self) -> None:
        if self._silent_until != -math.inf:
            log.info("searching with vectors again")
        clear_error(SERVICE)
        self._silent_until = -math.inf


# --- in the index; these block, and raise DatabaseUnusable ----------------------------------------


def missing(index: SearchIndex, model: str, before: int, limit: int) -> list[tuple[str, int]]:
    """Name kept notes, newest entry first, that have no vector of *model*: key and number.

    Only those whose number is below *before*: go on from the last one.
    """
    with index.reading() as db:
        return db.execute(_MISSING, (model, before, limit)).fetchall()


def put(index: SearchIndex, model: str, vectors: Iterable[tuple[int, bytes, Vector]]) -> None:
    """Keep vectors by *model*, of the note of this number if it still says what this said."""
    with index.writing() as db:
        for number, said, vector in vectors:
            of_unit = unit(vector)
            db.execute(
                "INSERT OR REPLACE INTO vectors SELECT id, ?, ?, ? FROM notes"
                " WHERE id = ? AND saying = ?",
                (model, _bits(of_unit), array("f", of_unit).tobytes(), number, said),
            )


def near(index: SearchIndex, model: str, query: SearchQuery) -> list[SearchHit]:
    """Find the notes whose vectors by *model* are near to that of *query*."""
    wanted = unit(query.vector or ())
    rough, size = signs(wanted), len(_bits(wanted))
    hits = []
    with index.reading() as db:
        near_ = [
            ((rough ^ int.from_bytes(bits, "little")).bit_count(), id_)
            for id_, bits in db.execute("SELECT id, bits FROM vectors WHERE model = ?", (model,))
            if len(bits) == size
        ]
        for _, id_ in heapq.nsmallest(CLOSE, near_):
            found = db.execute(_EXACT, (query.now, query.untrusted, id_))
            for key, stored, updated, importance in found:
                exact: Sequence[float] = array("f", stored)
                if len(exact) == len(wanted) and (score := cosine(exact, wanted)) >= NEAR:
                    hits.append(SearchHit(key, score, updated, importance))
    return heapq.nlargest(MOST_HITS, hits, key=lambda hit: hit.score)


def _bits(vector: Vector) -> bytes:
    return signs(vector).to_bytes((len(vector) + 7) // 8, "little")


def _told(note: Note) -> str:
    """Write what a vector is made of."""
    return f"{note.key.replace('-', ' ')} {' '.join(note.tags)}\n{note.text}"
