"""Vectors: what an embedding is made into, how two are compared, and one made without a model."""

import hashlib
import math
from collections.abc import Sequence

import msgspec

from elwood.foundation.text.words import telling, words

Vector = Sequence[float]


class Embeddings(msgspec.Struct, frozen=True):
    """One vector per text; *tokens* is what the service counted, None if it did not say."""

    vectors: Sequence[Vector]
    tokens: int | None = None


# Dimensions of a hashed vector.
HASHED = 256
# What a word weighs against one of the triples of letters in it.
_WORD, _TRIPLE = 1.0, 0.3


def unit(vector: Vector) -> tuple[float, ...]:
    """Bring *vector* to length 1, so that products are cosines; nothing stays nothing.

    >>> unit([3.0, 4.0]), unit([0.0])
    ((0.6, 0.8), (0.0,))
    """
    length = math.sqrt(sum(map(float.__mul__, vector, vector)))
    sound = math.isfinite(length) and length > 0
    return tuple(x / length for x in vector) if sound else tuple(0.0 for _ in vector)


def cosine(one: Vector, other: Vector) -> float:
    """Compare two vectors of length 1: 1.0 is the same direction.

    >>> cosine([0.6, 0.8], [0.8, 0.6])
    0.96
    """
    return float(sum(map(float.__mul__, one, other)))


def signs(vector: Vector) -> int:
    """Keep the sign of each number only, as one bit: a rough copy that is compared quickly.

    >>> bin(signs([0.5, -0.5, 0.1]))
    '0b101'
    """
    return sum(1 << place for place, x in enumerate(vector) if x > 0)


def hashed(text: str) -> tuple[float, ...]:
    """Make a vector of the words and triples of letters in *text*, without any model.

    It knows spelling, not meaning: for tests, and where there is no model.

    >>> a, b, c = map(hashed, ("birthday", "birthdays", "a red car"))
    >>> cosine(a, b) > 0.3 > cosine(a, c)
    True
    """
    vector = [0.0] * HASHED
    for word in telling(words(text)):
        framed = f"^{word}$"
        triples = (framed[at : at + 3] for at in range(len(framed) - 2))
        for piece, weight in ((word, _WORD), *((triple, _TRIPLE) for triple in triples)):
            digest = hashlib.blake2b(piece.encode("utf-8", "replace"), digest_size=4).digest()
            number = int.from_bytes(digest, "little")
            vector[number % HASHED] += weight if number & 0x8000_0000 else -weight
    return unit(vector)
