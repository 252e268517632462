"""Vectors of words and letters: they compare spelling, not meaning."""

import hashlib

from elwood.agent.models.embeddings import unit
from elwood.foundation.text.words import parse_query

HASHED = 256
# The weight of a word relative to one of its letter triples.
_WORD, _TRIPLE = 1.0, 0.3


def hashed(text: str) -> tuple[float, ...]:
    """Return a vector of the words and letter triples in *text*."""
    vector = [0.0] * HASHED
    for word in parse_query(text):
        framed = f"^{word}$"
        triples = (framed[at : at + 3] for at in range(len(framed) - 2))
        for piece, weight in ((word, _WORD), *((triple, _TRIPLE) for triple in triples)):
            digest = hashlib.blake2b(piece.encode("utf-8", "replace"), digest_size=4).digest()
            number = int.from_bytes(digest, "little")
            vector[number % HASHED] += weight if number & 0x8000_0000 else -weight
    return unit(vector)
