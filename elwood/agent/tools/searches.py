"""The contract of what can be searched: each feature that keeps texts may offer one."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from elwood.agent.conversation.labels import Label


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A *text* that was found, what it is from (*origin*), and what it brings along.

    *updated* is a date or time (ISO 8601), *about* says more of it in a few words; *words* counts
    those of the question that are in it.
    """

    text: str
    origin: str
    label: Label
    updated: str = ""
    about: str = ""
    words: int = 0


class TextSearch(Protocol):
    """What `search_memory` asks, and what has to forget as well."""

    name: str

    async def search(self, query: str, limit: int) -> Sequence[SearchResult]:
        """Find the best *limit* texts, the best first."""

    async def forget(self, key: str, text: str) -> Sequence[str]:
        """Let no place of ours say *text* (noted as *key*) any more; name those that still do.

        Raises ForgettingFailed.
        """


class ForgettingFailed(Exception):
    """It may still be said somewhere; the text says why."""
