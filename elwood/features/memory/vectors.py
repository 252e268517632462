"""Gives vectors to notes and questions; without the service nothing is missing but them."""

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from elwood.agent.models.embeddings import Embedder, EmbeddingFailed
from elwood.agent.models.vectors import Vector
from elwood.features.memory import vector_store as memory_vectors
from elwood.features.memory.note import Note
from elwood.features.memory.store import Memory
from elwood.foundation.runtime import Blocking, clear_error, report_error
from elwood.foundation.storage.sqlite import DatabaseUnusable
from elwood.foundation.text.words import saying

log = logging.getLogger("elwood.memory")

# Seconds that a search waits for the vector of its question, and after a failure of the service
# until it is asked again.
WAIT, PAUSE = 2.0, 60.0
# Notes that are sent for their vectors at once.
BATCH = 32
SERVICE = "embeddings"
# Every model that works takes this.
TAKEN = "tea"


class Vectors:
    """Asks *embedder* for vectors, and keeps those of notes in the index of *memory*.

    *write* runs a function as the only writer of the memory.
    """

    def __init__(
        self,
        embedder: Embedder,
        memory: Memory,
        blocking: Blocking,
        write: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self.model = embedder.model
        self._embedder = embedder
        self._memory = memory
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
        index = self._memory.shelf.index
        before = memory_vectors.NEWEST
        while index.is_open:
            ask = partial(memory_vectors.missing, index, self.model, before, BATCH)
            if not (missing := await self._blocking(ask)):
                return
            before = missing[-1][1]
            read = partial(self._memory.read, [key for key, _ in missing])
            notes = {note.key: note for note in await self._blocking(read)}
            told = [
                (id_, saying(notes[key].text), notes[key]) for key, id_ in missing if key in notes
            ]
            told = [one for one in told if one[1] not in self._refused]
            if not told:
                continue
            vectors = await self._embedded([_told(note) for _, _, note in told])
            self._refused.update(
                said for (_, said, _), vector in zip(told, vectors, strict=True) if vector is None
            )
            rows = [
                (id_, said, vector)
                for (id_, said, _), vector in zip(told, vectors, strict=True)
                if vector is not None
            ]
            await self._write(partial(memory_vectors.put, index, self.model, rows))
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
        log.warning(
            "notes without vectors", extra={"count": vectors.count(None), "why": refusal.why}
        )
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


def _told(note: Note) -> str:
    """Write what a vector is made of."""
    return f"{note.key.replace('-', ' ')} {' '.join(note.tags)}\n{note.text}"
