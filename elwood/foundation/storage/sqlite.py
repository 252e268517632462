"""A disposable SQLite database: one writer, and readers beside it.  Everything here blocks."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Milliseconds to wait for a lock that somebody else holds.
BUSY = 1000
# Pages (4 KiB) that the writer and each reader may hold in memory.
WRITER_CACHE, READER_CACHE = 1000, 400
# Connections that are kept open between two readings.
IDLE = 2
# An unknown table or column, a file that is shorter than it says, or none at all of SQLite's.
_DAMAGED = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class DatabaseUnusable(Exception):
    """The database cannot be used now.  *damaged*: it must be made anew."""

    def __init__(self, why: str, *, damaged: bool = False) -> None:
        super().__init__(why)
        self.damaged = damaged


class Abandoned(Exception):
    """Whoever asked does not want the answer any more."""


class CancelToken:
    """Lets whoever asked for a search break it off, from any thread."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._stop: Callable[[], None] | None = None

    def cancel(self) -> None:
        """Break it off."""
        self.is_cancelled = True
        if self._stop is not None:
            self._stop()

    @contextmanager
    def to(self, stop: Callable[[], None]) -> Iterator[None]:
        """Have *stop* called by `cancel`, as long as the block runs."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None


class Database:
    """The file *path*, with the *tables* of a *version*; one of another is made anew.

    What is deleted is overwritten.  All methods raise DatabaseUnusable.
    """

    def __init__(self, path: Path, tables: str, version: int) -> None:
        self.path = path
        self._tables = tables
        self._version = version
        self._db: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._epoch = 0
        self._at_idle = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether it is open for writing, and still there."""
        return self._db is not None and self.exists

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
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
        """Close all connections that are not in use."""
        with self._at_idle:
            self._epoch += 1
            idle, self._idle = self._idle, []
        for db in (*idle, *([self._db] if self._db else [])):
            with suppress(sqlite3.Error):
                db.close()
        self._db = None

    def discard(self) -> None:
        """Remove it, with everything in it."""
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
    def reading(self, cancel: CancelToken | None = None) -> Iterator[sqlite3.Connection]:
        """Lend a connection that can only read; *cancel* can break off what is done with it.

        Raises Abandoned if it did.
        """
        db, epoch = self._reader()
        try:
            with judged(cancel), (cancel or CancelToken()).to(db.interrupt):
                yield db
        except BaseException:  # and it goes on: what was broken off is not lent again
            db.close()
            raise
        with self._at_idle:
            if epoch == self._epoch and len(self._idle) < IDLE:
                self._idle.append(db)
                return
        db.close()

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

    def truncate(self) -> None:
        """Empty the log that changes are written to first."""
        with judged():
            [(busy, _, _)] = self.writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise DatabaseUnusable("somebody reads what was deleted", damaged=True)

    def _reader(self) -> tuple[sqlite3.Connection, int]:
        with self._at_idle:
            if self._idle:
                return self._idle.pop(), self._epoch
            epoch = self._epoch
        with judged():
            db = _connected(
                f"{self.path.absolute().as_uri()}?mode=ro", READER_CACHE, "PRAGMA query_only = ON"
            )
        return db, epoch

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
        if tables and version != self._version:
            raise DatabaseUnusable(f"it is of version {version}", damaged=True)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")
        if not tables:
            version_ = f"PRAGMA user_version = {self._version};"
            db.executescript(f"BEGIN IMMEDIATE; {self._tables} {version_} COMMIT;")


@contextmanager
def judged(cancel: CancelToken | None = None) -> Iterator[None]:
    """Turn the errors of SQLite, and of its files, into DatabaseUnusable."""
    try:
        yield
    except sqlite3.Error as error:
        if cancel is not None and cancel.is_cancelled:
            raise Abandoned from error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        damaged = not isinstance(error, sqlite3.OperationalError) or code in _DAMAGED
        raise DatabaseUnusable(f"it cannot be used: {error}", damaged=damaged) from error
    except OSError as error:
        raise DatabaseUnusable(f"it cannot be opened: {error.strerror}") from error


def _connected(uri: str, cache: int, *more: str) -> sqlite3.Connection:
    # Worker threads take turns with a connection; never two at once.
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY}")
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute(f"PRAGMA cache_size = {cache}")
        for pragma in more:
            db.execute(pragma)
    except BaseException:  # and it goes on: the file must not stay open
        db.close()
        raise
    return db
