"""A search index over texts, in SQLite with FTS5.  Disposable: the files are the truth.

There is one writer, and readers beside it.  Everything here blocks, and raises DatabaseUnusable.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path

import msgspec

from elwood.foundation.text.words import asked, expression, parts, widened, words

# Milliseconds to wait for a lock that somebody else holds.
BUSY = 1000
# Pages (4 KiB) that the writer and each reader may hold in memory.
WRITER_CACHE, READER_CACHE = 1000, 400
# An unknown table or column, a file that is shorter than it says, or none at all of SQLite's.
_DAMAGED = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# Raised with every change of the tables below, and of what stands in them.
VERSION = 5
# Hits that are ranked: the best by words alone.
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
# bm25 holds against a text that it is long; so a long correction would come behind the short note
# that it corrects.  This takes that back, for words that are in it once (k1 is 1.2, b is 0.75).
# How long texts are on average is told by the newest: to look at all of them takes longer than to
# search.
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
# Hits whose scores are at least this part of the best one's among them fit about equally well: two
# versions of a fact do, and then the newer comes first.  What has all words of the question is a
# version sooner, though the other bears some of them in its key.
ALIKE, ALIKE_WHOLE = 0.75, 0.55


class DatabaseUnusable(Exception):
    """The database cannot be used now.  *damaged*: it must be made anew."""

    def __init__(self, why: str, *, damaged: bool = False) -> None:
        super().__init__(why)
        self.damaged = damaged


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
    updated: str = ""
    expires: float | None = None


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search at Unix time *now*.

    Of its words, in any form (`widened`), documents must have all, else all but one, else any,
    whatever finds something first; or *any* as they are.  Without *untrusted*, what may hold
    strangers' words is left out.
    """

    query: str
    now: float
    any: bool = False
    untrusted: bool = True


class SearchHit(msgspec.Struct, frozen=True):
    """A document that was found; *score* is positive, and the higher the better.

    *whole*: it has all words of the question.
    """

    key: str
    score: float
    updated: str = ""
    whole: bool = False


class IndexCounts(msgspec.Struct, frozen=True):
    """How many documents there are, and of which kinds."""

    all: int = 0
    pending: int = 0
    untrusted: int = 0
    expired: int = 0


def stamp_of(found: os.stat_result) -> str:
    """Make the stamp of a file from what the disk says of it.

    It is another one whenever the file has changed, except by an edit that leaves its size and
    falls into the same tick of the file system's clock (a few milliseconds) as the one before.
    """
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def fingerprint(text: str) -> bytes:
    """Make what tells a text that was changed from what its vector was made of."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def grouped(hits: Iterable[SearchHit]) -> list[list[SearchHit]]:
    """Put what fits about equally well together, the best first; within a group the newest.

    *updated* only tells them apart, so no clock is needed.

    >>> old, new = SearchHit("old", 1.1, "2026-01-01"), SearchHit("new", 1.0, "2026-02-01")
    >>> [[hit.key for hit in group] for group in grouped([old, new, SearchHit("off", 0.2)])]
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


def ranked(hits: Iterable[SearchHit]) -> list[str]:
    """Name the best first; of those that fit about equally well, the newest (`grouped`)."""
    return [hit.key for group in grouped(hits) for hit in group]


class SearchIndex:
    """The index in the file *path*; one of another version is made anew.

    What is deleted is overwritten.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is open for writing, and still there."""
        return self._db is not None and self.exists

    @property
    def exists(self) -> bool:
        return os.path.lexists(self.path)

    def open(self) -> None:
        """Open it for writing, making it anew if it is missing, broken or of another version."""
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
            with judged(), suppress(FileNotFoundError):
                os.unlink(f"{self.path}{suffix}")

    def check(self) -> None:
        """Look through the whole file for damage."""
        with self.reading() as db:
            [(found,)] = db.execute("PRAGMA quick_check(1)").fetchall()
        if found != "ok":
            raise DatabaseUnusable(f"it is damaged: {found}", damaged=True)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that can only read; without a file, one to an empty index."""
        with judged():
            exists = self.exists
            uri = f"{self.path.absolute().as_uri()}?mode=ro" if exists else "file::memory:"
            with closing(_connected(uri, READER_CACHE)) as db:
                if not exists:
                    self._set_up(db)
                db.execute("PRAGMA query_only = ON")
                yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the writer's connection for one transaction."""
        db = self.writer()
        with judged():
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:  # whatever it was, and it goes on: nothing half-done may stay
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    def writer(self) -> sqlite3.Connection:
        """Give the writer's connection, for what cannot stand in a transaction."""
        if self._db is None:
            raise DatabaseUnusable("it is not open")
        return self._db

    def _open(self) -> None:
        self.close()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with judged():
            # Made by us, so that it is for nobody else; SQLite gives its other files the same mode.
            os.close(os.open(self.path, flags, 0o600))
            db = _connected(f"{self.path.absolute().as_uri()}?mode=rw", WRITER_CACHE)
            try:
                self._set_up(db)
            except BaseException:  # and it goes on: the file must not stay open
                db.close()
                raise
        self._db = db

    def _set_up(self, db: sqlite3.Connection) -> None:
        [(version,)] = db.execute("PRAGMA user_version").fetchall()
        [(tables,)] = db.execute("SELECT count(*) FROM sqlite_master").fetchall()
        if tables and version != VERSION:
            raise DatabaseUnusable(f"it is of version {version}", damaged=True)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")
        if not tables:
            db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")

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
        with judged():
            # What was deleted stays in the index of words until its parts are merged, and in the
            # log that changes are written to first until that is emptied.
            self.writer().execute("INSERT INTO words (words) VALUES ('optimize')")
            [(busy, _, _)] = self.writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise DatabaseUnusable("somebody reads what was deleted", damaged=True)

    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Find by words: documents that have all of them, else all but one, else any."""
        chosen = asked(query.query)
        if not chosen:
            return []
        most = len(chosen)
        tries = [(least, widened(chosen, least)) for least in (most, max(1, most - 1), 1)]
        if query.any:
            tries = [(1, expression(chosen, 1))]
        with self.reading() as db:
            for least, wanted in tries:
                given = (wanted, MOST_HITS, query.now, query.untrusted)
                if found := db.execute(_FIND, given).fetchall():
                    whole = least == most
                    return [SearchHit(key, score, at, whole) for key, score, at in found]
        return []

    def newest(self, limit: int, *, pending: bool = False) -> list[str]:
        """Name the newest documents, listed or not (*pending*), the newest first."""
        with self.reading() as db:
            ask = "SELECT key FROM notes WHERE kept = ? ORDER BY updated DESC, id DESC LIMIT ?"
            return [key for (key,) in db.execute(ask, (not pending, limit))]

    def stamps(self, keys: Sequence[str]) -> Mapping[str, str]:
        marks = ", ".join("?" * len(keys))
        with self.reading() as db:
            return dict(db.execute(f"SELECT key, stamp FROM notes WHERE key IN ({marks})", keys))

    def all_keys(self) -> list[str]:
        with self.reading() as db:
            return [key for (key,) in db.execute("SELECT key FROM notes")]

    def count(self) -> int:
        with self.reading() as db:
            [(number,)] = db.execute("SELECT count(*) FROM notes").fetchall()
        return int(number)

    def counts(self, now: float) -> IndexCounts:
        """Count the documents by kind; what expires is judged at Unix time *now*."""
        with self.reading() as db:
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
def judged() -> Iterator[None]:
    """Turn the errors of SQLite, and of its files, into DatabaseUnusable."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        damaged = not isinstance(error, sqlite3.OperationalError) or code in _DAMAGED
        raise DatabaseUnusable(f"it cannot be used: {error}", damaged=damaged) from error
    except OSError as error:
        raise DatabaseUnusable(f"it cannot be opened: {error.strerror}") from error


def _connected(uri: str, cache: int) -> sqlite3.Connection:
    # Worker threads take turns with a connection; never two at once.
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY}")
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute(f"PRAGMA cache_size = {cache}")
    except BaseException:  # and it goes on: the file must not stay open
        db.close()
        raise
    return db
