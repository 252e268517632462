"""The actor that remembers: the only writer of the notes and of their index."""

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar, assert_never

import msgspec
import trio

from elwood.agent.approvals.messages import CommandResult
from elwood.agent.models.embeddings import Embedder
from elwood.agent.tools.tool import ForgettingFailed, TextSearch
from elwood.features.memory.learning import Lesson
from elwood.features.memory.messages import (
    Forget,
    Forgotten,
    Learn,
    ListKnown,
    MemoryMail,
    Overlook,
    PendingNotes,
    ReadNotes,
    Rebuild,
    Recall,
    Remember,
    Saved,
    SettleObservation,
    Suggest,
    Tidy,
    Undo,
    Undone,
    Unlearned,
    Unsaved,
)
from elwood.features.memory.note import Note
from elwood.features.memory.store import NoteStore, NotesUnwritten
from elwood.features.memory.vectors import NoteVectors
from elwood.foundation.runtime import Blocking, Mailbox, clear_error, report_error
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.search_index import (
    Abandoned,
    CancelToken,
    DatabaseUnusable,
    SearchQuery,
)

log = logging.getLogger("elwood.memory")

T = TypeVar("T")

# Searches at once, each in a thread; more wait their turn.
MAX_READERS = 4
# Seconds that a search waits for that look: what changed a moment ago should be found.
LOOK_WAIT = 0.25
# Seconds given to close the index; it is sound without that.
LAST_CLOSE = 2.0
# Notes that are looked at for a suggestion.
SUGGESTED = 20
# Seconds after which a search has the files looked through for changes by hand; with many files
# that is as many times the time it takes, so that it is a twentieth of the work at most.
LOOK_EVERY, LOOK_SHARE = 5.0, 20.0
# Seconds after which an index is tried again that could not be brought up to date.
TRY_AGAIN = 60.0

INDEX = "memory index"


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
        self._vectors: NoteVectors | None = None
        if self._embedder is not None:
            index, read = self._store.indexed.index, self._store.read
            self._vectors = NoteVectors(self._embedder, index, read, self._blocking, self._write)
        wanted = self._vectors.wanted if self._vectors is not None else lambda: None
        self._upkeep = IndexUpkeep(self._store.indexed, self._write, wanted)

    async def run(self, mailbox: Mailbox[MemoryMail]) -> None:
        """Answer until stopped."""
        self._reset()
        await self._blocking(self._store.open)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._upkeep.run)
                if self._vectors is not None:
                    nursery.start_soon(self._vectors.run)
                async for message in mailbox:
                    match message:
                        case Suggest() if self._store.indexed.is_empty:
                            self._upkeep.want()
                            message.reply.set(())
                        case Recall() | Suggest():
                            nursery.start_soon(self._search, message)
                        case ReadNotes() | PendingNotes() | ListKnown() | Overlook():
                            nursery.start_soon(self._read, message)
                        case Remember():
                            message.reply.set(await self._remember(message))
                        case Learn():
                            message.reply.set(await self._learn(message))
                        case SettleObservation():
                            message.reply.set(await self._settle(message))
                        case Forget(keys=keys):
                            message.reply.set(await self._forget(keys))
                        case Undo():
                            message.reply.set(await self._undo())
                        case Rebuild():
                            message.reply.set(await self._rebuild())
                        case Tidy():
                            message.reply.set(await self._tidy())
                        case _:
                            assert_never(message)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_CLOSE):
                await self._blocking(self._store.indexed.close)

    # --- writing ---------------------------------------------------------------------------------

    async def _remember(self, message: Remember) -> tuple[Saved | Unsaved, ...]:
        answers = await self._write(partial(self._store.save, message.drafts, batch=message.batch))
        if self._vectors is not None:
            self._vectors.wanted()
        return tuple(answers)

    async def _learn(self, message: Learn) -> Lesson | Unlearned:
        found, batch, settings = message.found, message.batch, message.settings
        learn = partial(self._store.learn, found, batch, settings, corrected=message.corrected)
        try:
            lesson = await self._write(learn)
        except (NotesUnwritten, DiskFull, DatabaseUnusable) as error:
            return Unlearned(str(error))
        if self._vectors is not None:
            self._vectors.wanted()
        return lesson

    async def _settle(self, message: SettleObservation) -> CommandResult:
        settle = partial(self._store.settle, message.code, message.at, is_kept=message.keep)
        try:
            done = await self._write(settle)
        except (NotesUnwritten, DiskFull, DatabaseUnusable) as error:
            return CommandResult(f"Not all of it could be done: {error}", ok=False)
        return CommandResult(done or "There is nothing of that kind.", ok=bool(done))

    async def _forget(self, keys: tuple[str, ...]) -> CommandResult:
        notes = await self._blocking(partial(self._store.read, keys))
        try:
            forgotten = await self._write(partial(self._store.forget, keys))
        except DiskFull as error:
            return CommandResult(Forgotten(why=str(error)).text, ok=False)
        forgotten = await forgotten_elsewhere(forgotten, notes, self._others)
        return CommandResult(forgotten.text, forgotten.ok)

    async def _undo(self) -> Undone | None:
        try:
            return await self._write(self._store.undo)
        except (DiskFull, DatabaseUnusable) as error:
            return Undone(why=str(error))

    async def _rebuild(self) -> CommandResult:
        try:
            await self._write(self._store.indexed.index.discard)
        except DatabaseUnusable as error:
            return CommandResult(str(error), ok=False)
        self._upkeep.insist()
        return CommandResult("The index is being made anew.", ok=True)

    async def _tidy(self) -> CommandResult:
        try:
            count = await self._write(partial(self._store.tidy, self._now()))
        except (DiskFull, DatabaseUnusable) as error:
            return CommandResult(str(error), ok=False)
        return CommandResult(f"{count} notes that were out of date removed", ok=True)

    async def _write(self, fn: Callable[[], T]) -> T:
        async with self._writing:
            return await self._blocking(fn)

    # --- reading ---------------------------------------------------------------------------------

    async def _read(self, message: ReadNotes | PendingNotes | ListKnown | Overlook) -> None:
        store = self._store
        match message:
            case ReadNotes(keys=keys):
                async with self._readers:
                    message.reply.set(tuple(await self._blocking(lambda: store.read(keys))))
            case PendingNotes(limit=limit):
                newest = partial(store.newest, limit, pending=True)
                message.reply.set(tuple(await self._indexed(newest, [])))
            case ListKnown():
                message.reply.set(await self._indexed(store.known, ()))
            case Overlook(limit=limit):
                message.reply.set(await self._indexed(lambda: store.overview(limit), None))

    async def _indexed(self, fn: Callable[[], T], nothing: T) -> T:
        """Read by the index, which is brought up to the files before if it has to be.

        Gives *nothing* if that cannot be done; people are told of it as a trouble.
        """
        if not await self._blocking(lambda: self._store.indexed.is_ready):
            await self._upkeep.finish()
        for last in (False, True):
            try:
                async with self._readers:
                    return await self._blocking(fn)
            except DatabaseUnusable as error:
                log.warning("memory index not read", extra={"why": str(error)})
                if last or not await self._repaired():
                    break
        return nothing

    async def _repaired(self) -> bool:
        try:
            await self._write(self._store.indexed.repair)
        except DatabaseUnusable as error:
            report_error(INDEX, str(error))
            return False
        return True

    async def _search(self, message: Recall | Suggest) -> None:
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                await message.reply.wait_abandoned()
                nursery.cancel_scope.cancel()

            nursery.start_soon(leave)
            message.reply.set(tuple(await self._found(message)))
            nursery.cancel_scope.cancel()

    async def _found(self, message: Recall | Suggest) -> Sequence[Note]:
        store = self._store
        match message:
            case Suggest(message=text):
                # A turn waits for suggestions: they come of what is known.
                self._upkeep.want()
                query = SearchQuery(query=text, now=self._now(), words="any", untrusted=False)

                def suggest(cancel: CancelToken) -> list[Note]:
                    return store.search(query, SUGGESTED, cancel) if store.indexed.is_ready else []

                return await self._interruptibly(partial(self._in_reader, suggest))
            case Recall(query=words, limit=limit, every=every):
                await self._upkeep.look()
                if every:
                    query = SearchQuery(query=words, now=-math.inf, words="all")
                else:
                    vector = None if self._vectors is None else await self._vectors.of(words)
                    query = SearchQuery(query=words, now=self._now(), vector=vector)
                model = self._vectors.model if self._vectors is not None else ""

                async def recall(cancel: CancelToken) -> list[Note]:
                    return await self._indexed(
                        lambda: store.search(query, limit, cancel, model), []
                    )

                return await self._interruptibly(recall)

    async def _in_reader(self, fn: Callable[[CancelToken], T], cancel: CancelToken) -> T:
        async with self._readers:
            return await self._blocking(partial(fn, cancel))

    async def _interruptibly(
        self, search: Callable[[CancelToken], Awaitable[list[Note]]]
    ) -> list[Note]:
        """Search in a way that ends when we are cancelled, instead of being waited for."""
        cancel = CancelToken()
        found: list[Note] = []
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    cancel.cancel()

            nursery.start_soon(watch)
            try:
                found = await search(cancel)
            except Abandoned:
                log.debug("search broken off")
            nursery.cancel_scope.cancel()
        return found


async def forgotten_elsewhere(
    forgotten: Forgotten, notes: Sequence[Note], others: Sequence[TextSearch]
) -> Forgotten:
    """Let *others* forget *notes*, too, which were *forgotten*; say what is left of them."""
    left: set[str] = set()
    why = [forgotten.why] if forgotten.why else []
    for other in others:
        try:
            for note in notes:
                left.update(await other.forget(note.key, note.text))
        except ForgettingFailed as error:
            why.append(f"the {other.name} may still say it ({error})")
    return msgspec.structs.replace(forgotten, left=tuple(sorted(left)), why="; ".join(why))


class Write(Protocol):
    """Runs a function as the only writer of the memory."""

    def __call__(self, fn: Callable[[], T], /) -> Awaitable[T]: ...


class IndexUpkeep:
    """Brings the index of *files*, which anybody may change, up to them; *done* is told then."""

    def __init__(self, files: IndexedFiles, write: Write, done: Callable[[], object]) -> None:
        self._files = files
        self._write = write
        self._tell = done
        self._due = trio.Event()
        self._done = trio.Event()
        self._looked = -math.inf
        self._took = 0.0
        self._is_checked = False

    async def run(self) -> None:
        """Look now, and whenever that is wanted, until cancelled."""
        self._due.set()
        while True:
            await self._due.wait()
            self._due = trio.Event()
            began = trio.current_time()
            try:
                if not self._is_checked:
                    await self._write(self._files.check)
                await self._go_through(self._files.catch_up())
            except DatabaseUnusable as error:
                log.warning("memory index not up to date", extra={"why": str(error)})
                report_error(INDEX, str(error))
                self._looked = trio.current_time() + TRY_AGAIN
            else:
                clear_error(INDEX)
                self._is_checked = True
                self._looked = trio.current_time()
                self._took = self._looked - began
            self._done.set()
            self._done = trio.Event()
            self._tell()

    def insist(self) -> None:
        """Have the files looked through, whenever that was done last."""
        self._due.set()

    def want(self) -> bool:
        """Have changes by hand looked for; False if that was done just now."""
        if trio.current_time() < self._looked + max(LOOK_EVERY, LOOK_SHARE * self._took):
            return False
        self._due.set()
        return True

    async def look(self) -> None:
        """Have changes by hand looked for, if that was not done just now, and wait a little."""
        done = self._done
        if self.want():
            with trio.move_on_after(LOOK_WAIT):
                await done.wait()

    async def finish(self) -> None:
        """Have the files looked through, and wait until that is done, or cannot be."""
        done = self._done
        self._due.set()
        await done.wait()

    async def _go_through(self, steps: Iterator[int]) -> None:
        count = 0
        while (took := await self._write(lambda: next(steps, None))) is not None:
            count += took
        if count:
            log.info("memory index up to date", extra={"files taken in": count})
