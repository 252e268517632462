"""Vectors that are paid for: asked for through the models actor, which keeps the book."""

from collections.abc import Sequence

import trio

from elwood.agent.conversation.message import Usage
from elwood.agent.models.budget import No
from elwood.agent.models.embeddings import DEADLINE, Embedder, EmbeddingFailed
from elwood.agent.models.messages import Embed, ModelsMail, Unembedded
from elwood.agent.models.usage_book import Caller, UsageBook
from elwood.agent.models.vectors import Embeddings
from elwood.foundation.runtime import ActorUnavailable, Address
from elwood.foundation.text.tokens import estimate

# Seconds for an answer: those of the service, and as many for the book to be written.
PATIENCE = 2 * DEADLINE
# They serve all conversations, and none of them pays: a day and a month do.
NOBODY = Caller("")
BY_WORDS = "Notes are found by words alone meanwhile."


class PaidEmbedding:
    """Asks *embedder* if no limit is reached, and notes in *book* what it cost."""

    def __init__(self, embedder: Embedder | None, book: UsageBook) -> None:
        self._embedder = embedder
        self._book = book

    async def answer(self, ask: Embed) -> None:
        """Answer *ask*; also if nobody waits any more, as it is billed all the same."""
        ask.reply.set(await self._embed(ask.texts))
        await self._book.settle()

    async def _embed(self, texts: Sequence[str]) -> Embeddings | Unembedded:
        if self._embedder is None:
            return Unembedded("no model is configured that makes vectors")
        if not await self._book.settle():
            return Unembedded("the disk is full, no cost can be noted: make room")
        verdict = self._book.allowed(NOBODY)
        if isinstance(verdict, No):
            return Unembedded(f"{verdict.why} {BY_WORDS}")
        try:
            made = await self._embedder.embed(texts)
        except EmbeddingFailed as error:
            return Unembedded(error.why, refused=error.refused)
        if made.tokens is None:
            usage = Usage(input=sum(map(estimate, texts)), estimated=True)
        else:
            usage = Usage(input=made.tokens)
        if usage.input:
            self._book.owe(NOBODY, self._embedder.model, usage)
        return made


class ThroughModels:
    """Has the *models* actor ask for vectors; *model* names what makes them."""

    def __init__(self, model: str, models: Address[ModelsMail]) -> None:
        self.model = model
        self._models = models

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one vector per text.  Raises EmbeddingFailed."""
        try:
            with trio.fail_after(PATIENCE):
                answer = await self._models.ask(Embed(texts=tuple(texts)))
        except (ActorUnavailable, trio.TooSlowError) as error:
            raise EmbeddingFailed("the models cannot be asked now") from error
        if isinstance(answer, Unembedded):
            raise EmbeddingFailed(answer.why, refused=answer.refused)
        return answer
