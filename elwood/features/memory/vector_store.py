"""The vectors of notes, in the index: which are missing, and which are near to one.

A rough copy of each, the signs of its numbers, is compared first; only the best are compared
exactly, in plain Python (libraries.md §2.6).
"""

import heapq
import sqlite3
from array import array
from collections.abc import Iterable, Sequence

from elwood.agent.models.vectors import (
    Vector,
    cosine,
    signs,
    unit,
)
from elwood.foundation.storage.search_index import SearchHit, SearchIndex, SearchQuery
from elwood.foundation.storage.sqlite import CancelToken
from elwood.foundation.text.words import asked, expression

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


def missing(index: SearchIndex, model: str, before: int, limit: int) -> list[tuple[str, int]]:
    """Name kept notes, newest entry first, that have no vector of *model*: key and number.

    Only those whose number is below *before*: go on from the last one.  Raises Unusable.
    """
    with index.reading() as db:
        return db.execute(_MISSING, (model, before, limit)).fetchall()


def put(index: SearchIndex, model: str, vectors: Iterable[tuple[int, bytes, Vector]]) -> None:
    """Keep vectors by *model*, of the note of this number if it still says what this said.

    Raises Unusable.
    """
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
    """Find the notes whose vectors are near to that of the question.

    Raises Unusable, Abandoned.
    """
    if query.vector is None:
        return []
    wanted = unit(query.vector)
    rough, size = signs(wanted), len(_bits(wanted))
    with index.reading(cancel) as db:
        near_ = [
            ((rough ^ int.from_bytes(bits, "little")).bit_count(), id_)
            for id_, bits in _compared(db, model, query)
            if len(bits) == size
        ]
        ids: list[int | None] = [id_ for _, id_ in heapq.nsmallest(CLOSE, near_)]
        ids += [None] * (CLOSE - len(ids))
        hits = []
        for key, vector, updated, importance in db.execute(
            _EXACT, (query.now, query.untrusted, *ids)
        ):
            exact: Sequence[float] = array("f", vector)
            if len(exact) == len(wanted) and (score := cosine(exact, wanted)) >= NEAR:
                hits.append(SearchHit(key, score, updated, importance))
    return heapq.nlargest(MOST_HITS, hits, key=lambda hit: hit.score)


def _compared(
    db: sqlite3.Connection, model: str, query: SearchQuery
) -> Iterable[tuple[int, bytes]]:
    [(count,)] = db.execute("SELECT count(*) FROM vectors").fetchall()
    if count <= MAX_COMPARED:
        return db.execute(_ALL, (model,))
    chosen = asked(query.query)
    return db.execute(_SOME, (model, expression(chosen, 1))) if chosen else ()


def _bits(vector: Vector) -> bytes:
    return signs(vector).to_bytes((len(vector) + 7) // 8, "little")
