"""The index of notes, in SQLite with FTS5.  Disposable: the files are the truth.

Everything here blocks, and raises `sqlite.Unusable`.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from elwood.features.memory.note import expires
from elwood.features.memory.note_files import Filed
from elwood.features.memory.ranking import Hit
from elwood.features.memory.results import Counts
from elwood.features.memory.search_query import Asked, Tie
from elwood.foundation.storage.sqlite import Database, judged
from elwood.foundation.text.words import (
    asked,
    expression,
    saying,
    words,
)

# Raised with every change of the tables below, and of what stands in them.
VERSION = 2
# Hits that are ranked: the best by words alone.
MOST_HITS = 200
# Notes of one fingerprint that are looked at.
MOST_TWINS = 9
# From this version on FTS5 can overwrite what is deleted at once (sqlite.org/fts5.html).
SECURE_FTS = (3, 42, 0)
# Stands in the head of a file (application_id) that has once caught up with all notes: "Elwo".
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


class Index(Database):
    """The index in the file *path*; a `MemoryStore`."""

    def __init__(self, path: Path) -> None:
        self._is_secure = sqlite3.sqlite_version_info >= SECURE_FTS
        super().__init__(path, _TABLES + _SECURE if self._is_secure else _TABLES, VERSION)

    @property
    def is_complete(self) -> bool:
        """Whether it has once caught up with all notes; since then it lacks changes only."""
        with self.reading() as db:
            [(mark,)] = db.execute("PRAGMA application_id").fetchall()
        return bool(mark == COMPLETE)

    def complete(self) -> None:
        """Note that it has caught up with all notes."""
        with self.writing() as db:
            db.execute(f"PRAGMA application_id = {COMPLETE}")

    def put(self, filed: Sequence[Filed]) -> None:
        """Take in what is new in these files, all of it or nothing."""
        with self.writing() as db:
            for each in filed:
                _put(db, each)

    def drop(self, keys: Sequence[str]) -> None:
        """Forget these notes: no byte of them stays in any file of the index."""
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

    def search(self, asked_: Asked, tie: Tie) -> list[Hit]:
        """Find by words: notes that have all of them, else all but one, else any.

        Raises Abandoned.
        """
        chosen = asked(asked_.query)
        if not chosen:
            return []
        most = len(chosen)
        tries = {"all": (most,), "any": (1,), "all, else any": (most, max(1, most - 1), 1)}
        with self.reading(tie) as db:
            for least in dict.fromkeys(tries[asked_.words]):
                given = (expression(chosen, least), MOST_HITS, asked_.now, asked_.untrusted)
                if found := db.execute(_FIND, given).fetchall():
                    whole = least == most
                    return [Hit(key, score, at, weight, whole) for key, score, at, weight in found]
        return []

    def twin(self, said: bytes) -> list[str]:
        """Name the notes that say the same."""
        with self.reading() as db:
            ask = "SELECT key FROM notes WHERE saying = ? ORDER BY kept DESC LIMIT ?"
            return [key for (key,) in db.execute(ask, (said, MOST_TWINS))]

    def newest(self, limit: int, *, pending: bool = False) -> list[str]:
        """Name the newest notes, kept or *pending*, the newest first."""
        with self.reading() as db:
            ask = "SELECT key FROM notes WHERE kept = ? ORDER BY updated DESC, id DESC LIMIT ?"
            return [key for (key,) in db.execute(ask, (not pending, limit))]

    def expired(self, before: float, limit: int) -> list[str]:
        """Name notes whose time was up at Unix time *before*."""
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
        """Name the next *limit* notes behind *after*, by key."""
        with self.reading() as db:
            ask = "SELECT key FROM notes WHERE key > ? ORDER BY key LIMIT ?"
            return [key for (key,) in db.execute(ask, (after, limit))]

    def count(self) -> int:
        """Count the notes."""
        with self.reading() as db:
            [(number,)] = db.execute("SELECT count(*) FROM notes").fetchall()
        return int(number)

    def counts(self, now: float) -> Counts:
        """Count the notes by kind; what expires is judged at Unix time *now*."""
        with self.reading() as db:
            [row] = db.execute(_COUNT, (now,)).fetchall()
        return Counts(*(value or 0 for value in row))


def _put(db: sqlite3.Connection, filed: Filed) -> None:
    note = filed.note
    said = saying(note.text)
    values = (
        note.key,
        filed.stamp,
        note.status == "kept",
        note.untrusted,
        note.importance,
        note.updated,
        expires(note),
        said,
    )
    row = db.execute("SELECT id, saying FROM notes WHERE key = ?", (note.key,)).fetchone()
    if row is None:
        id_ = db.execute(_INSERT, values).lastrowid
    else:
        id_ = row[0]
        db.execute(_UPDATE, (*values, id_))
        db.execute("DELETE FROM words WHERE rowid = ?", (id_,))
        if row[1] != said:
            db.execute("DELETE FROM vectors WHERE id = ?", (id_,))
    if note.status == "kept":
        told = (" ".join(words(part)) for part in (note.key, " ".join(note.tags), note.text))
        db.execute("INSERT INTO words (rowid, key, tags, text) VALUES (?, ?, ?, ?)", (id_, *told))
