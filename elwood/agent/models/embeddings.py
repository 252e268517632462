"""Vectors of texts: the services that make them, and what that costs.

The services speak as Ollama and OpenAI do.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
import trio

from elwood.agent.conversation.message import Usage
from elwood.agent.models.messages import Embed, ModelsMail, Unembedded
from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import ProviderSettings
from elwood.agent.models.spending.store import Caller, UsageBook
from elwood.agent.models.vectors import Embeddings, Vector, hashed
from elwood.foundation.net.http import Client, Interrupted, Unreachable
from elwood.foundation.runtime import ActorUnavailable, Address
from elwood.foundation.text.tokens import estimate

T = TypeVar("T")

# Seconds for an answer; a model that must first be loaded takes longer, and is asked again.
DEADLINE = 30.0
# Bytes of an answer: 32 vectors of 4096 numbers, written out.
MAX_ANSWER = 8 * 1024 * 1024
# Characters of a text: about what the models take; the rest is left out.
MAX_TEXT = 8_000
# The largest vector that is taken: no model in use has more numbers.
MAX_DIMENSIONS = 8_192


class EmbeddingFailed(Exception):
    """There are no vectors; *why* is for the operator.  Searches go on without.

    *refused* says that the service does not take these texts: others it may.
    """

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.refused = refused


class Embedder(Protocol):
    """Turns texts into vectors; *model* names what made them, for ever."""

    model: str

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one vector per text.  Raises EmbeddingFailed."""


def embedder_of(
    model: str | None, providers: Mapping[str, ProviderSettings], client: Client
) -> Embedder | None:
    """Make the embedder that the configuration names, if any; *client* stays the caller's.

    ``ollama`` is asked in its own language, every other service as OpenAI is; ``offline`` needs no
    service and knows spelling only.
    """
    if model is None:
        return None
    name, its = split_name(model)
    settings = providers[name]
    key = settings.key.reveal() if settings.key is not None else ""
    base = settings.base_url.rstrip("/")
    if settings.api == "offline":
        return Hashing()
    if name == "ollama":
        return Ollama(client, base.removesuffix("/v1"), its, key)
    return OpenAILike(client, name, base, its, key)


class Hashing:
    """Vectors of words and letters, made here."""

    model = "offline/hashing-256"

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one vector per text."""
        await trio.lowlevel.checkpoint()
        return Embeddings([hashed(text) for text in texts], tokens=0)


class _Embeddings(msgspec.Struct):
    embeddings: list[list[float]]
    prompt_eval_count: int | None = None


class Ollama:
    """Ollama at *base*: ``POST /api/embed``."""

    def __init__(self, client: Client, base: str, model: str, key: str = "") -> None:
        self.model = f"ollama/{model}"
        self._client = client
        self._url = f"{base}/api/embed"
        self._name = model
        self._key = key

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one vector per text.  Raises EmbeddingFailed."""
        asked = {"model": self._name, "input": [_cut(text) for text in texts], "truncate": True}
        answer = await _ask(self._client, "ollama", self._url, asked, self._key, _Embeddings)
        vectors = _sound("ollama", answer.embeddings, len(texts))
        return Embeddings(vectors, answer.prompt_eval_count)


class _Datum(msgspec.Struct):
    index: int
    embedding: list[float]


class _Used(msgspec.Struct):
    prompt_tokens: int | None = None


class _Data(msgspec.Struct):
    data: list[_Datum]
    usage: _Used | None = None


class OpenAILike:
    """Any service *name* at *base* that has ``POST /embeddings`` as OpenAI does."""

    def __init__(self, client: Client, name: str, base: str, model: str, key: str = "") -> None:
        self.model = f"{name}/{model}"
        self._client = client
        self._service = name
        self._url = f"{base}/embeddings"
        self._name = model
        self._key = key

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one vector per text.  Raises EmbeddingFailed."""
        # An empty text is refused, and would take the others with it.
        asked = {
            "model": self._name,
            "input": [_cut(text) or " " for text in texts],
            "encoding_format": "float",
        }
        answer = await _ask(self._client, self._service, self._url, asked, self._key, _Data)
        data = sorted(answer.data, key=lambda datum: datum.index)
        if [datum.index for datum in data] != list(range(len(texts))):
            raise EmbeddingFailed(f"{self._service} gave vectors of other texts than were sent")
        vectors = _sound(self._service, [datum.embedding for datum in data], len(texts))
        return Embeddings(vectors, answer.usage.prompt_tokens if answer.usage else None)


async def _ask(
    client: Client, name: str, url: str, asked: Mapping[str, object], key: str, kind: type[T]
) -> T:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = msgspec.json.encode(asked)
    try:
        with trio.fail_after(DEADLINE):
            answer = await client.post_json(
                url, body, headers=headers, read_timeout=DEADLINE, limit=MAX_ANSWER
            )
    except (Unreachable, Interrupted) as error:
        raise EmbeddingFailed(f"{name} could not be asked: {error.why}") from error
    except trio.TooSlowError as error:
        raise EmbeddingFailed(f"{name} did not answer within {DEADLINE:g} s") from error
    if answer.status != 200:
        hint = _HINTS.get(answer.status, "it may work later")
        why = f"{name} answered with status {answer.status}; {hint}"
        raise EmbeddingFailed(why, refused=answer.status in _REFUSED)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EmbeddingFailed(f"the vectors of {name} are not readable") from error


# What services answer to a text that is too long: also 500 (llama.cpp).
_REFUSED = frozenset({400, 413, 422, 500})
_HINTS = {
    400: "it does not take these texts, or the model makes no vectors",
    401: "it does not accept the key",
    403: "it does not permit this",
    404: "it does not have this model; with Ollama, pull it first",
}


def _sound(name: str, vectors: Sequence[list[float]], count: int) -> list[Vector]:
    sizes = {len(vector) for vector in vectors}
    if len(vectors) != count or len(sizes) != 1 or not 0 < min(sizes) <= MAX_DIMENSIONS:
        raise EmbeddingFailed(f"{name} gave {len(vectors)} vectors for {count} texts")
    return list(vectors)


def _cut(text: str) -> str:
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()


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
        if (why := self._book.limit_reached(NOBODY)) is not None:
            return Unembedded(f"{why} {BY_WORDS}")
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
