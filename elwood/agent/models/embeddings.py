"""Vectors of texts: services that make them, and their comparison.

The services have the API of OpenAI, as Ollama also does.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import msgspec
import trio

from elwood.agent.models.client import EmbeddingFailed
from elwood.agent.models.messages import Embed, Embeddings, ModelsMail, Vector
from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import Client, Interrupted, Unreachable
from elwood.foundation.runtime import ActorUnavailable, Address

# Seconds for an answer; loading a model takes longer, and the request is repeated then.
DEADLINE = 30.0
# Seconds for an answer of the actor: the same for the service, and for the usage book.
PATIENCE = 2 * DEADLINE
# Maximum bytes of an answer: 32 vectors of 4096 numbers, as text.
MAX_ANSWER = 8 * 1024 * 1024
# Status codes for a text that is too long; 500 is llama.cpp's.
_REFUSED = frozenset({400, 413, 422, 500})
# Maximum characters of a text: about the limit of the models; the rest is dropped.
MAX_TEXT = 8_000
# Maximum numbers of a vector: no model in use has more.
MAX_DIMENSIONS = 8_192


class Embedder(Protocol):
    """Converts texts into vectors; *model* is stored with them."""

    model: str

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one vector per text.  Raises EmbeddingFailed."""


class _Datum(msgspec.Struct):
    index: int
    embedding: list[float]


class _Used(msgspec.Struct):
    prompt_tokens: int | None = None


class _Data(msgspec.Struct):
    data: list[_Datum]
    usage: _Used | None = None


class HttpEmbedder:
    """A service with ``POST /embeddings``; *model* is ``provider/name``."""

    def __init__(self, model: str, settings: ProviderSettings, client: Client) -> None:
        self.model = model
        self._service, self._name = split_name(model)
        self._url = f"{settings.base_url.rstrip('/')}/embeddings"
        self._key = settings.key
        self._client = client

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        # An empty text is refused, and the others with it.
        cut = [text[:MAX_TEXT].encode("utf-8", "replace").decode() or " " for text in texts]
        asked = {"model": self._name, "input": cut, "encoding_format": "float"}
        answer = await self._ask(msgspec.json.encode(asked))
        data = sorted(answer.data, key=lambda datum: datum.index)
        if [datum.index for datum in data] != list(range(len(texts))):
            raise EmbeddingFailed(f"{self._service} returned vectors for other texts")
        sizes = {len(datum.embedding) for datum in data}
        if len(sizes) != 1 or not 0 < min(sizes) <= MAX_DIMENSIONS:
            raise EmbeddingFailed(f"{self._service} returned vectors of different lengths")
        tokens = answer.usage.prompt_tokens if answer.usage else None
        return Embeddings([datum.embedding for datum in data], tokens)

    async def _ask(self, body: bytes) -> _Data:
        name = self._service
        key = {"authorization": f"Bearer {self._key.reveal()}"} if self._key is not None else {}
        try:
            with trio.fail_after(DEADLINE):
                answer = await self._client.post_json(
                    self._url, body, headers=key, read_timeout=DEADLINE, limit=MAX_ANSWER
                )
        except (Unreachable, Interrupted) as error:
            raise EmbeddingFailed(f"{name} did not answer: {error.why}") from error
        except trio.TooSlowError as error:
            raise EmbeddingFailed(f"{name} did not answer within {DEADLINE:g} s") from error
        if answer.status != 200:
            hint = _HINTS.get(answer.status, "it may work later")
            why = f"{name} answered with status {answer.status}; {hint}"
            raise EmbeddingFailed(why, refused=answer.status in _REFUSED)
        try:
            return msgspec.json.decode(answer.body, type=_Data)
        except msgspec.DecodeError as error:
            raise EmbeddingFailed(f"{name} returned unreadable vectors") from error


_HINTS = {
    400: "it rejects these texts, or the model cannot make embeddings",
    401: "it does not accept the API key",
    404: "it does not have this model; with Ollama, pull it first",
}


class ThroughModels:
    """Requests vectors from the *models* actor; *model* is their model."""

    def __init__(self, model: str, models: Address[ModelsMail]) -> None:
        self.model = model
        self._models = models

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        try:
            with trio.fail_after(PATIENCE):
                answer = await self._models.ask(Embed(texts=tuple(texts)))
        except (ActorUnavailable, trio.TooSlowError) as error:
            raise EmbeddingFailed("the models are not available now") from error
        if isinstance(answer, EmbeddingFailed):
            raise answer
        return answer


def unit(vector: Vector) -> tuple[float, ...]:
    """Scale *vector* to length 1, so that products are cosines; a zero vector is unchanged.

    >>> unit([3.0, 4.0]), unit([0.0])
    ((0.6, 0.8), (0.0,))
    """
    length = math.sqrt(sum(map(float.__mul__, vector, vector)))
    sound = math.isfinite(length) and length > 0
    return tuple(x / length for x in vector) if sound else tuple(0.0 for _ in vector)


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of length 1: 1.0 is the same direction.

    >>> cosine([0.6, 0.8], [0.8, 0.6])
    0.96
    """
    return float(sum(map(float.__mul__, one, other)))


def signs(vector: Vector) -> int:
    """Return the sign of each number as one bit: a rough copy that is compared quickly.

    >>> bin(signs([0.5, -0.5, 0.1]))
    '0b101'
    """
    return sum(1 << place for place, x in enumerate(vector) if x > 0)
