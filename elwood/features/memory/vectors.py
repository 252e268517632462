"""Vectors of notes and questions: asked for, kept in the index, compared.

A rough copy of each vector, the signs of its numbers, is compared first; only the best are compared
exactly, in plain Python.  Without the service nothing is missing but them.
"""

import heapq
import logging
import math
import sqlite3
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import trio

from elwood.agent.models.embeddings import Embedder, EmbeddingFailed
from elwood.agent.models.vectors import Vector, cosine, signs, unit
from elwood.features.memory.note import Note
from elwood.foundation.runtime import Blocking, clear_error, report_error
from elwood.foundation.storage.search_index import (
    CancelToken,
    DatabaseUnusable,
    SearchHit,
    SearchIndex,
    SearchQuery,
)
from elwood.foundation.text.words import asked, expression, saying

log = logging.getLogger("elwood.memory")

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
# Vectors whose rough copies are all compared (some 10 ms); of more only those whose notes have a
# word of the question, so many of them.
MAX_COMPARED = 20_000
PRESELECTED = 500
# Of these the exact vectors are compared, and so many are hits if they are near enough.
CLOSE = 200
MOST_HITS = 20
NEAR = 0.25

_MISSING = """
SELECT n.key, n.id FROM notes AS n LEFT JOIN vectors AS v ON v.id = n.id AND v.model = ?
WHERE v.id IS NULL AND n.kept = 1 AND n.id < ? ORDER BY n.id DESC LIMIT ?
"""
_ALL = "SELECT id, bits FROM vectors WHERE model = ?"
_SOME = f"""
SELECT id, bits FROM vectors WHERE model = ? AND id IN (
  SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT {PRESELECTED}
)
"""
_EXACT = f"""
SELECT n.key, v.vector, n.updated, n.importance FROM vectors AS v JOIN notes AS n ON n.id = v.id
WHERE n.kept = 1 AND (n.expires IS NULL OR n.expires > ?) AND n.untrusted <= ?
  AND v.id IN ({", ".join("?" * CLOSE)})
"""


class NoteVectors:
    """Asks *embedder* for vectors, and keeps those of notes, which *read* gives, in *index*.

    *write* runs a function as the only writer of the index.
    """

    def __init__(
        self,
        embedder: Embedder,
        index: SearchIndex,
        read: Callable[[Sequence[str]], Sequence[Note]],
        blocking: Blocking,
        write: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self.model = embedder.model
        self._embedder = embedder
        self._index = index
        self._read = read
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
            read = partial(self._read, [key for key, _ in without])
            notes = {note.key: note for note in await self._blocking(read)}
            told = [
                (id_, said, notes[key])
                for key, id_ in without
                if key in notes and (said := saying(notes[key].text)) not in self._refused
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


def near(
    index: SearchIndex, model: str, query: SearchQuery, cancel: CancelToken
) -> list[SearchHit]:
    """Find the notes whose vectors are near to that of *query*.  Raises Abandoned."""
    if query.vector is None:
        return []
    wanted = unit(query.vector)
    rough, size = signs(wanted), len(_bits(wanted))
    with index.reading(cancel) as db:
        near_ = [
            ((rough ^ int.from_bytes(bits, "little")).bit_count(), id_)
            for id_, bits in _compared(db, model, query.query)
            if len(bits) == size
        ]
        ids: list[int | None] = [id_ for _, id_ in heapq.nsmallest(CLOSE, near_)]
        ids += [None] * (CLOSE - len(ids))
        hits = []
        given = (query.now, query.untrusted, *ids)
        for key, stored, updated, importance in db.execute(_EXACT, given):
            exact: Sequence[float] = array("f", stored)
            if len(exact) == len(wanted) and (score := cosine(exact, wanted)) >= NEAR:
                hits.append(SearchHit(key, score, updated, importance))
    return heapq.nlargest(MOST_HITS, hits, key=lambda hit: hit.score)


def _compared(db: sqlite3.Connection, model: str, query: str) -> Iterable[tuple[int, bytes]]:
    [(count,)] = db.execute("SELECT count(*) FROM vectors").fetchall()
    if count <= MAX_COMPARED:
        return db.execute(_ALL, (model,))
    chosen = asked(query)
    return db.execute(_SOME, (model, expression(chosen, 1))) if chosen else ()


def _bits(vector: Vector) -> bytes:
    return signs(vector).to_bytes((len(vector) + 7) // 8, "little")


def _told(note: Note) -> str:
    """Write what a vector is made of."""
    return f"{note.key.replace('-', ' ')} {' '.join(note.tags)}\n{note.text}"
