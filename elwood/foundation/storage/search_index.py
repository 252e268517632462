"""A search index for texts, in SQLite with FTS5.  Disposable: the files are the source.

It has one writer and concurrent readers. All functions block and raise DatabaseUnusable.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path

import msgspec

from elwood.foundation.text.words import expression, parse_query, parts, widen_query, words

# Milliseconds to wait for a lock.
BUSY = 1000
# Maximum pages (4 KiB) in memory of the writer and of each reader.
WRITER_CACHE, READER_CACHE = 1000, 400
# An unknown table or column, a truncated file, or a file that is not SQLite's.
_DAMAGED = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# Schema version. Increment it when the tables or their contents change.
VERSION = 5
# Maximum hits that are ranked: the best by words alone.
MOST_HITS = 200

_TABLES = """
CREATE TABLE notes (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, kept INTEGER NOT NULL,
  untrusted INTEGER NOT NULL, updated TEXT NOT NULL, expires REAL,
  saying BLOB NOT NULL, length INTEGER NOT NULL
);
CREATE INDEX newest ON notes (kept, updated);
CREATE VIRTUAL TABLE words USING fts5 (key, tags, text, parts, tokenize = 'unicode61');
CREATE TABLE vectors (
  id INTEGER PRIMARY KEY, model TEXT NOT NULL, bits BLOB NOT NULL, vector BLOB NOT NULL
);
"""
# bm25 penalises long texts, so a long correction would come after the short note that it corrects.
# This formula compensates that, for words that occur once (k1 is 1.2, b is 0.75). The average
# length is that of the newest texts: a scan of all takes longer than the search.
_FIND = """
WITH newest AS (SELECT length FROM notes ORDER BY id DESC LIMIT 1000)
SELECT n.key, -found.rank * (1.3 + 0.9 * n.length / (SELECT avg(length) FROM newest)), n.updated
FROM (
  SELECT rowid, rank FROM words
  WHERE words MATCH ? AND rank MATCH 'bm25(5.0, 3.0, 1.0, 0.3)' ORDER BY rank LIMIT ?
) AS found JOIN notes AS n ON n.id = found.rowid
WHERE (n.expires IS NULL OR n.expires > ?) AND n.untrusted <= ?
"""
_COUNT = """
SELECT count(*), count(*) FILTER (WHERE kept = 0), sum(untrusted),
  count(*) FILTER (WHERE expires <= ?) FROM notes
"""
# Hits with at least this share of the best score match about equally well, like two versions of a
# fact; then the newer comes first. For hits with all words of the query the share is lower,
# although the other version may have some of the words in its key.
ALIKE, ALIKE_WHOLE = 0.75, 0.55


class DatabaseUnusable(Exception):
    """The database cannot be used now.  *damaged*: it must be rebuilt."""

    def __init__(self, why: str, *, damaged: bool = False) -> None:
        super().__init__(why)
        self.damaged = damaged


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A searchable text; *stamp* changes whenever its file changes.

    If not *listed*, it is recorded but never found by its words. *expires* is Unix time.
    """

    key: str
    stamp: str
    text: str
    tags: tuple[str, ...] = ()
    listed: bool = True
    untrusted: bool
    updated: str = ""
    expires: float | None = None


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search at Unix time *now*.

    Match all words in any form (`widen_query`); if there are no results, all but one; then any.
    With *any*, match any word in its exact form. Without *untrusted*, leave out documents that may
    contain strangers' words.
    """

    query: str
    now: float
    any: bool = False
    untrusted: bool = True


class SearchHit(msgspec.Struct, frozen=True):
    """A matching document; *score* is positive, and a higher score is better.

    *whole*: it has all words of the query.
    """

    key: str
    score: float
    updated: str = ""
    whole: bool = False


class IndexCounts(msgspec.Struct, frozen=True):
    """The number of documents, in total and by kind."""

    all: int = 0
    pending: int = 0
    untrusted: int = 0
    expired: int = 0


def stamp_of(found: os.stat_result) -> str:
    """Return the stamp of a file for its status.

    It changes whenever the file changes, except for an edit with the same size within one tick of
    the file system's clock (a few milliseconds) after the previous one.
    """
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def fingerprint(text: str) -> bytes:
    """Return a hash that shows whether a text has changed since its vector was made."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def group_hits(hits: Iterable[SearchHit]) -> list[list[SearchHit]]:
    """Group hits that match about equally well, best first; within a group the newest first.

    *updated* is only compared, so no clock is needed.

    >>> old, new = SearchHit("old", 1.1, "2026-01-01"), SearchHit("new", 1.0, "2026-02-01")
    >>> [[hit.key for hit in group] for group in group_hits([old, new, SearchHit("off", 0.2)])]
    [['new', 'old'], ['off']]
    """
    best = 0.0
    groups: list[list[SearchHit]] = []
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.key)):
        if not groups or hit.score < (ALIKE_WHOLE if hit.whole else ALIKE) * best:
            best = hit.score
            groups.append([])
        groups[-1].append(hit)
    for group in groups:
        group.sort(key=lambda hit: hit.updated, reverse=True)
    return groups


def rank_keys(hits: Iterable[SearchHit]) -> list[str]:
    """Return the keys, best first; among about equal matches the newest (`group_hits`)."""
    return [hit.key for group in group_hits(hits) for hit in group]


class SearchIndex:
    """The index in the file *path*; one of another version is rebuilt.

    Deleted data is overwritten.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is open for writing, and the file still exists."""
        return self._db is not None and self.exists

    @property
    def exists(self) -> bool:
        return os.path.lexists(self.path)

    def open(self) -> None:
        """Open it for writing; rebuild it if it is missing, damaged or of another version."""
        try:
            self._open()
        except DatabaseUnusable as error:
            if not error.damaged:
                raise
            self.discard()
            self._open()

    def close(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
        self._db = None

    def __del__(self) -> None:
        """Close the database when the actor has ended; Python 3.13 warns of an open one."""
        self.close()

    def discard(self) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm", "-journal"):
            with convert_errors(), suppress(FileNotFoundError):
                os.unlink(f"{self.path}{suffix}")

    def check(self) -> None:
        """Check the whole file for damage."""
        with self.open_reader() as db:
            [(found,)] = db.execute("PRAGMA quick_check(1)").fetchall()
        if found != "ok":
            raise DatabaseUnusable(f"it is damaged: {found}", damaged=True)

    @contextmanager
    def open_reader(self) -> Iterator[sqlite3.Connection]:
        """Provide a read-only connection; without a file, one to an empty index."""
        with convert_errors():
            exists = self.exists
            uri = f"{self.path.absolute().as_uri()}?mode=ro" if exists else "file::memory:"
            with closing(_connect(uri, READER_CACHE)) as db:
                if not exists:
                    self._set_up(db)
                db.execute("PRAGMA query_only = ON")
                yield db

    @contextmanager
    def open_writer(self) -> Iterator[sqlite3.Connection]:
        """Provide the writer's connection for one transaction."""
        db = self.writer()
        with convert_errors():
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:  # re-raised; no partial transaction may remain
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    def writer(self) -> sqlite3.Connection:
        """Return the writer's connection, for statements that cannot be in a transaction."""
        if self._db is None:
            raise DatabaseUnusable("it is not open")
        return self._db

    def _open(self) -> None:
        self.close()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with convert_errors():
            # Created here, so that it is private; SQLite gives its other files the same mode.
            os.close(os.open(self.path, flags, 0o600))
            db = _connect(f"{self.path.absolute().as_uri()}?mode=rw", WRITER_CACHE)
            try:
                self._set_up(db)
            except BaseException:  # re-raised; the file must not stay open
                db.close()
                raise
        self._db = db

    def _set_up(self, db: sqlite3.Connection) -> None:
        [(version,)] = db.execute("PRAGMA user_version").fetchall()
        [(tables,)] = db.execute("SELECT count(*) FROM sqlite_master").fetchall()
        if tables and version != VERSION:
            raise DatabaseUnusable(f"it has version {version}", damaged=True)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")
        if not tables:
            db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")

    def put(self, documents: Sequence[Document]) -> None:
        """Add or update these documents, all of them or none."""
        with self.open_writer() as db:
            for document in documents:
                _put(db, document)

    def drop(self, keys: Sequence[str]) -> None:
        """Delete these documents: no byte of them remains in any file of the index."""
        with self.open_writer() as db:
            for key in keys:
                for (id_,) in db.execute("SELECT id FROM notes WHERE key = ?", (key,)).fetchall():
                    for table, column in (("words", "rowid"), ("vectors", "id"), ("notes", "id")):
                        db.execute(f"DELETE FROM {table} WHERE {column} = ?", (id_,))
        with convert_errors():
            # Deleted text stays in the word index until its segments are merged, and in the
            # write-ahead log until that is emptied.
            self.writer().execute("INSERT INTO words (words) VALUES ('optimize')")
            [(busy, _, _)] = self.writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise DatabaseUnusable("a reader still has the deleted pages open", damaged=True)

    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Search for documents with all words of *query*, else all but one, else any."""
        chosen = parse_query(query.query)
        if not chosen:
            return []
        most = len(chosen)
        tries = [(least, widen_query(chosen, least)) for least in (most, max(1, most - 1), 1)]
        if query.any:
            tries = [(1, expression(chosen, 1))]
        with self.open_reader() as db:
            for least, wanted in tries:
                given = (wanted, MOST_HITS, query.now, query.untrusted)
                if found := db.execute(_FIND, given).fetchall():
                    whole = least == most
                    return [SearchHit(key, score, at, whole) for key, score, at in found]
        return []

    def newest(self, limit: int, *, pending: bool = False) -> list[str]:
        """Return the keys of the newest documents, listed or not (*pending*), newest first."""
        with self.open_reader() as db:
            ask = "SELECT key FROM notes WHERE kept = ? ORDER BY updated DESC, id DESC LIMIT ?"
            return [key for (key,) in db.execute(ask, (not pending, limit))]

    def expired(self, now: float) -> list[str]:
        """Return the keys of the documents that have expired at *now* (Unix time)."""
        with self.open_reader() as db:
            ask = "SELECT key FROM notes WHERE expires <= ?"
            return [key for (key,) in db.execute(ask, (now,))]

    def stamps(self, keys: Sequence[str]) -> Mapping[str, str]:
        marks = ", ".join("?" * len(keys))
        with self.open_reader() as db:
            return dict(db.execute(f"SELECT key, stamp FROM notes WHERE key IN ({marks})", keys))

    def all_keys(self) -> list[str]:
        with self.open_reader() as db:
            return [key for (key,) in db.execute("SELECT key FROM notes")]

    def count(self) -> int:
        with self.open_reader() as db:
            [(number,)] = db.execute("SELECT count(*) FROM notes").fetchall()
        return int(number)

    def counts(self, now: float) -> IndexCounts:
        """Count the documents by kind; *now* (Unix time) determines the expired ones."""
        with self.open_reader() as db:
            [row] = db.execute(_COUNT, (now,)).fetchall()
        return IndexCounts(*(value or 0 for value in row))


def _put(db: sqlite3.Connection, found: Document) -> None:
    said = fingerprint(found.text)
    told = [words(part) for part in (found.key, " ".join(found.tags), found.text)]
    told.append(parts(chain(*told)))
    before = db.execute("SELECT id, saying FROM notes WHERE key = ?", (found.key,)).fetchone()
    id_, said_before = before or (None, said)
    if before is not None:
        db.execute("DELETE FROM words WHERE rowid = ?", (id_,))
    if said_before != said:
        db.execute("DELETE FROM vectors WHERE id = ?", (id_,))
    row = (
        id_,
        found.key,
        found.stamp,
        found.listed,
        found.untrusted,
        found.updated,
        found.expires,
        said,
        sum(map(len, told)),
    )
    put = f"INSERT OR REPLACE INTO notes VALUES ({', '.join('?' * len(row))})"
    id_ = db.execute(put, row).lastrowid
    if found.listed:
        columns = map(" ".join, told)
        ask = "INSERT INTO words (rowid, key, tags, text, parts) VALUES (?, ?, ?, ?, ?)"
        db.execute(ask, (id_, *columns))


@contextmanager
def convert_errors() -> Iterator[None]:
    """Convert the errors of SQLite, and of its files, to DatabaseUnusable."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        damaged = not isinstance(error, sqlite3.OperationalError) or code in _DAMAGED
        raise DatabaseUnusable(f"it cannot be used: {error}", damaged=damaged) from error
    except OSError as error:
        raise DatabaseUnusable(f"it cannot be opened: {error.strerror}") from error


def _connect(uri: str, cache: int) -> sqlite3.Connection:
    # Worker threads take turns with a connection; it is never used concurrently.
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY}")
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute(f"PRAGMA cache_size = {cache}")
    except BaseException:  # re-raised; the file must not stay open
        db.close()
        raise
    return db
