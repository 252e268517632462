"""The actor that remembers: the only writer of the notes and of their index."""

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar, assert_never

import trio

from elwood.agent.approvals.messages import CommandResult
from elwood.agent.models.embeddings import Embedder
from elwood.features.daily_notes.index import Pages, forget, search
from elwood.features.memory.messages import (
    Buried,
    Discard,
    Forget,
    KeptNotes,
    MemoryMail,
    Overlook,
    PendingNotes,
    ReadNotes,
    Rebuild,
    Recall,
    Recalled,
    Remember,
    Suggest,
    Tidy,
    Undo,
)
from elwood.features.memory.note import Note
from elwood.features.memory.results import (
    Forgotten,
    Saved,
    Undone,
    Unsaved,
    in_words,
)
from elwood.features.memory.store import Memory
from elwood.features.memory.tidy import tidy
from elwood.features.memory.upkeep import Upkeep
from elwood.features.memory.vectors import Vectors
from elwood.foundation.runtime import Blocking, Mailbox
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.search_index import SearchQuery
from elwood.foundation.storage.sqlite import Abandoned, CancelToken, DatabaseUnusable

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


class Remembering:
    """Owns *memory*, and the index of *pages*, if there are any.

    *embedder* makes vectors, if there is one.  *now* is Unix time.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        blocking: Blocking,
        now: Callable[[], float],
        embedder: Embedder | None = None,
        pages: Pages | None = None,
    ) -> None:
        self._memory = memory
        self._pages = pages
        self._catalogs = (memory.shelf, *([] if pages is None else [pages]))
        self._blocking = blocking
        self._now = now
        self._embedder = embedder
        self._readers = trio.CapacityLimiter(MAX_READERS)
        self._reset()

    def _reset(self) -> None:
        self._writing = trio.Lock()
        self._vectors = (
            Vectors(self._embedder, self._memory, self._blocking, self._write)
            if self._embedder is not None
            else None
        )
        wanted = self._vectors.wanted if self._vectors is not None else lambda: None
        self._upkeep = Upkeep(self._catalogs, self._write, wanted)

    async def run(self, mailbox: Mailbox[MemoryMail]) -> None:
        """Answer until stopped."""
        self._reset()
        shelf = self._memory.shelf
        for catalog in self._catalogs:
            await self._blocking(catalog.open)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._upkeep.run)
                if self._vectors is not None:
                    nursery.start_soon(self._vectors.run)
                async for message in mailbox:
                    match message:
                        case Suggest() if shelf.is_empty:
                            self._upkeep.want()
                            message.reply.set(Recalled(()))
                        case Recall() | Suggest():
                            nursery.start_soon(self._search, message)
                        case ReadNotes() | PendingNotes() | KeptNotes() | Buried() | Overlook():
                            nursery.start_soon(self._read, message)
                        case Remember():
                            message.reply.set(await self._remember(message))
                        case Forget(keys=keys):
                            message.reply.set(await self._forget(keys))
                        case Discard(keys=keys, bury=bury):
                            message.reply.set(await self._discard(keys, bury))
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
                for catalog in self._catalogs:
                    await self._blocking(catalog.close)

    # --- writing ---------------------------------------------------------------------------------

    async def _remember(self, message: Remember) -> tuple[Saved | Unsaved, ...]:
        save = partial(self._memory.save, message.drafts)
        with_batch = partial(save, batch=message.batch, learned=message.learned)
        answers = await self._write(with_batch)
        if self._vectors is not None:
            self._vectors.wanted()
        return tuple(answers)

    async def _forget(self, keys: tuple[str, ...]) -> CommandResult:
        try:
            forgotten = await self._write(lambda: forget(self._memory, self._pages, keys))
        except DiskFull as error:
            forgotten = Forgotten(why=str(error))
        return CommandResult(in_words(forgotten), ok=bool(forgotten.keys) and not forgotten.why)

    async def _discard(self, keys: tuple[str, ...], bury: tuple[str, ...]) -> CommandResult:
        try:
            why = await self._write(lambda: self._memory.discard(keys, bury))
        except DiskFull as error:
            why = str(error)
        return CommandResult(why or "Let go.", ok=not why)

    async def _undo(self) -> Undone | None:
        try:
            return await self._write(self._memory.undo)
        except DiskFull as error:
            return Undone(why=str(error))

    async def _rebuild(self) -> CommandResult:
        try:
            for catalog in self._catalogs:
                await self._write(catalog.discard)
        except DatabaseUnusable as error:
            return CommandResult(str(error), ok=False)
        self._upkeep.insist()
        return CommandResult("The index is being made anew.", ok=True)

    async def _tidy(self) -> CommandResult:
        try:
            count, why = await self._write(partial(tidy, self._memory.shelf, self._now()))
            if self._pages is not None:
                await self._write(self._pages.tidy)
        except DiskFull as error:
            count, why = 0, str(error)
        return CommandResult(why or f"{count} notes that were out of date removed", ok=not why)

    async def _write(self, fn: Callable[[], T]) -> T:
        async with self._writing:
            return await self._blocking(fn)

    # --- reading ---------------------------------------------------------------------------------

    async def _read(
        self, message: ReadNotes | PendingNotes | KeptNotes | Buried | Overlook
    ) -> None:
        memory = self._memory
        async with self._readers:
            match message:
                case ReadNotes(keys=keys):
                    message.reply.set(tuple(await self._blocking(lambda: memory.read(keys))))
                case PendingNotes(limit=limit):
                    newest = partial(memory.newest, limit, pending=True)
                    message.reply.set(tuple(await self._blocking(newest)))
                case KeptNotes(limit=limit):
                    message.reply.set(tuple(await self._blocking(lambda: memory.newest(limit))))
                case Buried(hashes=hashes):
                    message.reply.set(await self._blocking(lambda: memory.buried(hashes)))
                case Overlook(limit=limit):
                    message.reply.set(await self._blocking(lambda: memory.overview(limit)))

    async def _search(self, message: Recall | Suggest) -> None:
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                await message.reply.wait_abandoned()
                nursery.cancel_scope.cancel()

            nursery.start_soon(leave)
            message.reply.set(Recalled(tuple(await self._found(message))))
            nursery.cancel_scope.cancel()

    async def _found(self, message: Recall | Suggest) -> list[Note]:
        # A turn waits for suggestions: they come of what is known.
        await self._upkeep.look(wait=0 if isinstance(message, Suggest) else LOOK_WAIT)
        pages: Pages | None = None
        match message:
            case Recall(query=query, limit=limit, every=True):
                asked = SearchQuery(query=query, now=-math.inf, words="all")
            case Recall(query=query, limit=limit):
                vector = None if self._vectors is None else await self._vectors.of(query)
                asked = SearchQuery(query=query, now=self._now(), vector=vector)
                pages = self._pages
            case Suggest(message=text):
                asked = SearchQuery(query=text, now=self._now(), words="any", untrusted=False)
                limit = SUGGESTED
        model = self._vectors.model if self._vectors is not None else ""
        async with self._readers:
            return await self._interruptibly(
                lambda cancel: search(self._memory, pages, asked, limit, cancel, model)
            )

    async def _interruptibly(self, fn: Callable[[CancelToken], list[Note]]) -> list[Note]:
        """Run a search that ends when we are cancelled, instead of being waited for."""
        cancel = CancelToken()
        found: list[Note] = []

        async def watch() -> None:
            try:
                await trio.sleep_forever()
            finally:
                cancel.cancel()

        def run() -> None:
            try:
                found.extend(fn(cancel))
            except Abandoned:
                log.debug("search broken off")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await self._blocking(run)
            nursery.cancel_scope.cancel()
        return found
