"""A search index over texts, in SQLite with FTS5.  Disposable: the files are the truth.

Everything here blocks, and raises `sqlite.DatabaseUnusable`.
"""

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from elwood.foundation.storage.sqlite import CancelToken, Database, judged
from elwood.foundation.text.words import asked, expression, saying, words

# Raised with every change of the tables below, and of what stands in them.
VERSION = 2
# Hits that are ranked: the best by words alone.
MOST_HITS = 200
# Documents of one fingerprint that are looked at.
MOST_TWINS = 9
# From this version on FTS5 can overwrite what is deleted at once (sqlite.org/fts5.html).
SECURE_FTS = (3, 42, 0)
# Stands in the head of a file (application_id) that has once caught up with all documents: "Elwo".
COMPLETE = 0x456C776F

_TABLES = """
CREATE TABLE notes (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, kept INTEGER NOT NULL,
  untrusted INTEGER NOT NULL, importance INTEGER NOT NULL, updated TEXT NOT NULL, expires REAL,
  saying BLOB NOT NULL
);
CREATE INDEX sayings ON notes (saying);
CREATE INDEX newest ON notes (kept, updated);
CREATE VIRTUAL TABLE words USING fts5 (key, tags, text, tokenize = 'unicode61');
CREATE TABLE vectors (
  id INTEGER PRIMARY KEY, model TEXT NOT NULL, bits BLOB NOT NULL, vector BLOB NOT NULL
);
"""
_SECURE = "INSERT INTO words (words, rank) VALUES ('secure-delete', 1);"
_FIND = """
SELECT n.key, -found.rank, n.updated, n.importance FROM (
  SELECT rowid, rank FROM words
  WHERE words MATCH ? AND rank MATCH 'bm25(5.0, 3.0, 1.0)' ORDER BY rank LIMIT ?
) AS found JOIN notes AS n ON n.id = found.rowid
WHERE (n.expires IS NULL OR n.expires > ?) AND n.untrusted <= ?
"""
_COUNT = """
SELECT count(*), count(*) FILTER (WHERE kept = 0), sum(untrusted),
  count(*) FILTER (WHERE expires <= ?), (SELECT count(*) FROM vectors) FROM notes
"""
_COLUMNS = ("key", "stamp", "kept", "untrusted", "importance", "updated", "expires", "saying")
_INSERT = f"INSERT INTO notes ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_UPDATE = f"UPDATE notes SET {', '.join(f'{name} = ?' for name in _COLUMNS)} WHERE id = ?"

# The importance of what nobody has weighed, of 1 to 5.
USUAL = 3
# What one step of importance is worth.
STEP_WEIGHT = 0.06
# Hits whose scores are at least this part of the best one's among them fit about equally well: two
# versions of a fact do, and then the newer comes first.
ALIKE = 0.75


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A text to be found; *stamp* is another one whenever its file has changed.

    What is not *listed* is known of, and never found by its words.  *expires* is Unix time.
    """

    key: str
    stamp: str
    text: str
    tags: tuple[str, ...] = ()
    listed: bool = True
    untrusted: bool
    importance: int = USUAL
    updated: str = ""
    expires: float | None = None


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search at Unix time *now*.

    Of its words documents must have *all*, or *any*; or all, else all but one, else any, whatever
    finds something first.  Without *untrusted*, what may hold strangers' words is left out.
    """

    query: str
    now: float
    words: Literal["all", "any", "all, else any"] = "all, else any"
    untrusted: bool = True
    vector: Sequence[float] | None = None


class SearchHit(msgspec.Struct, frozen=True):
    """A document that was found; *score* is positive, and the higher the better.

    *whole*: it has all words of the question.
    """

    key: str
    score: float
    updated: str = ""
    importance: int = USUAL
    whole: bool = False


class IndexCounts(msgspec.Struct, frozen=True):
    """How many documents there are, and of which kinds; *vectors* can be found by meaning."""

    all: int = 0
    pending: int = 0
    untrusted: int = 0
    expired: int = 0
    vectors: int = 0


def stamp_of(found: os.stat_result) -> str:
    """Make the stamp of a file from what the disk says of it.

    It is another one whenever the file has changed, except by an edit that leaves its size and
    falls into the same tick of the file system's clock (a few milliseconds) as the one before.
    """
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def grouped(hits: Iterable[SearchHit]) -> list[list[SearchHit]]:
    """Put what fits about equally well together, the best first; within a group the newest.

    *updated* only tells them apart, so no clock is needed.

    >>> old, new = SearchHit("old", 1.1, "2026-01-01"), SearchHit("new", 1.0, "2026-02-01")
    >>> [[hit.key for hit in group] for group in grouped([old, new, SearchHit("off", 0.2)])]
    [['new', 'old'], ['off']]
    """
    weighed = sorted(
        ((hit.score * (1 + STEP_WEIGHT * (hit.importance - USUAL)), hit) for hit in hits),
        key=lambda one: (-one[0], one[1].key),
    )
    best = 0.0
    groups: list[list[SearchHit]] = []
    for score, hit in weighed:
        if not groups or score < ALIKE * best:
            best = score
            groups.append([])
        groups[-1].append(hit)
    for group in groups:
        group.sort(key=lambda hit: hit.updated, reverse=True)
    return groups


def ranked(hits: Iterable[SearchHit]) -> list[str]:
    """Name the best first; of those that fit about equally well, the newest (`grouped`)."""
    return [hit.key for group in grouped(hits) for hit in group]


class SearchIndex(Database):
    """The index in the file *path*."""

    def __init__(self, path: Path) -> None:
        self._is_secure = sqlite3.sqlite_version_info >= SECURE_FTS
        super().__init__(path, _TABLES + _SECURE if self._is_secure else _TABLES, VERSION)

    @property
    def is_complete(self) -> bool:
        """Whether it has once caught up with all documents; since then it lacks changes only."""
        with self.reading() as db:
            [(mark,)] = db.execute("PRAGMA application_id").fetchall()
        return bool(mark == COMPLETE)

    def complete(self) -> None:
        """Note that it has caught up with all documents."""
        with self.writing() as db:
            db.execute(f"PRAGMA application_id = {COMPLETE}")

    def put(self, documents: Sequence[Document]) -> None:
        """Take in these documents, all of them or none."""
        with self.writing() as db:
            for document in documents:
                _put(db, document)

    def drop(self, keys: Sequence[str]) -> None:
        """Forget these documents: no byte of them stays in any file of the index."""
        with self.writing() as db:
            for key in keys:
                for (id_,) in db.execute("SELECT id FROM notes WHERE key = ?", (key,)).fetchall():
                    for table, column in (("words", "rowid"), ("vectors", "id"), ("notes", "id")):
                        db.execute(f"DELETE FROM {table} WHERE {column} = ?", (id_,))
        if not self._is_secure:
            # It keeps the words of what was deleted until its parts are merged.
            with judged():
                self.writer().execute("INSERT INTO words (words) VALUES ('optimize')")
        self.truncate()

    def search(self, query: SearchQuery, cancel: CancelToken) -> list[SearchHit]:
        """Find by words: documents that have all of them, else all but one, else any.

        Raises Abandoned.
        """
        chosen = asked(query.query)
        if not chosen:
            return []
        most = len(chosen)
        tries = {"all": (most,), "any": (1,), "all, else any": (most, max(1, most - 1), 1)}
        with self.reading(cancel) as db:
            for least in dict.fromkeys(tries[query.words]):
                given = (expression(chosen, least), MOST_HITS, query.now, query.untrusted)
                if found := db.execute(_FIND, given).fetchall():
                    whole = least == most
                    return [
                        SearchHit(key, score, at, weight, whole) for key, score, at, weight in found
                    ]
        return []

    def twin(self, said: bytes) -> list[str]:
        """Name the documents that say the same."""
        with self.reading() as db:
            ask = "SELECT key FROM notes WHERE saying = ? ORDER BY kept DESC LIMIT ?"
            return [key for (key,) in db.execute(ask, (said, MOST_TWINS))]

    def newest(self, limit: int, *, pending: bool = False) -> list[str]:
        """Name the newest documents, listed or not (*pending*), the newest first."""
        with self.reading() as db:
            ask = "SELECT key FROM notes WHERE kept = ? ORDER BY updated DESC, id DESC LIMIT ?"
            return [key for (key,) in db.execute(ask, (not pending, limit))]

    def expired(self, before: float, limit: int) -> list[str]:
        """Name documents whose time was up at Unix time *before*."""
        with self.reading() as db:
            ask = "SELECT key FROM notes WHERE expires <= ? LIMIT ?"
            return [key for (key,) in db.execute(ask, (before, limit))]

    def tidy(self) -> None:
        """Merge what the search for words has in parts, and empty the log of changes."""
        with judged():
            self.writer().execute("INSERT INTO words (words) VALUES ('optimize')")
            self.writer().execute("PRAGMA optimize")
        self.truncate()

    def stamps(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Say as of which stamp each of *keys* is known."""
        marks = ", ".join("?" * len(keys))
        with self.reading() as db:
            return dict(db.execute(f"SELECT key, stamp FROM notes WHERE key IN ({marks})", keys))

    def keys(self, after: str, limit: int) -> list[str]:
        """Name the next *limit* documents behind *after*, by key."""
        with self.reading() as db:
            ask = "SELECT key FROM notes WHERE key > ? ORDER BY key LIMIT ?"
            return [key for (key,) in db.execute(ask, (after, limit))]

    def count(self) -> int:
        """Count the documents."""
        with self.reading() as db:
            [(number,)] = db.execute("SELECT count(*) FROM notes").fetchall()
        return int(number)

    def counts(self, now: float) -> IndexCounts:
        """Count the documents by kind; what expires is judged at Unix time *now*."""
        with self.reading() as db:
            [row] = db.execute(_COUNT, (now,)).fetchall()
        return IndexCounts(*(value or 0 for value in row))


def _put(db: sqlite3.Connection, found: Document) -> None:
    said = saying(found.text)
    values = (
        found.key,
        found.stamp,
        found.listed,
        found.untrusted,
        found.importance,
        found.updated,
        found.expires,
        said,
    )
    row = db.execute("SELECT id, saying FROM notes WHERE key = ?", (found.key,)).fetchone()
    if row is None:
        id_ = db.execute(_INSERT, values).lastrowid
    else:
        id_ = row[0]
        db.execute(_UPDATE, (*values, id_))
        db.execute("DELETE FROM words WHERE rowid = ?", (id_,))
        if row[1] != said:
            db.execute("DELETE FROM vectors WHERE id = ?", (id_,))
    if found.listed:
        told = (" ".join(words(part)) for part in (found.key, " ".join(found.tags), found.text))
        db.execute("INSERT INTO words (rowid, key, tags, text) VALUES (?, ?, ?, ?)", (id_, *told))
