"""Which tools there are: sources merged, clashes refused, and so many chosen as a model takes."""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

# Letters of a word that says something about what a tool is for.
LEAST = 3
_WORD = re.compile(rf"[^\W_]{{{LEAST},40}}")


class Named(Protocol):
    """What a catalogue needs to know of a tool."""

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> str: ...

    @property
    def description(self) -> str: ...


T = TypeVar("T", bound=Named)


class Clash(Exception):
    """Two sources bring tools of one name or id; the operator must drop or rename one of each."""

    def __init__(self, clashes: Sequence[str]) -> None:
        super().__init__("; ".join(clashes))
        self.clashes = tuple(clashes)


def merge(sources: Mapping[str, Sequence[T]]) -> tuple[T, ...]:
    """Put the tools of all *sources* together, in their order.  Raises Clash, with all of them."""
    merged: list[T] = []
    owners: dict[str, str] = {}
    clashes = []
    for source, tools in sources.items():
        for tool in tools:
            for name in (tool.name, tool.id):
                if name in owners:
                    clashes.append(f"{name} comes from {owners[name]} and from {source}")
                owners[name] = source
            merged.append(tool)
    if clashes:
        raise Clash(clashes)
    return tuple(merged)


def choose(tools: Sequence[T], words: str, limit: int) -> tuple[T, ...]:
    """Choose at most *limit* tools, those that fit *words* best; they stay in their order.

    A tool fits by how many of the words stand in its name (twice) or its description; where that
    says nothing, who stands first goes first.

    >>> import attrs
    >>> Tool = attrs.make_class("Tool", ["name", "id", "description"])
    >>> tools = [Tool("grep", "a", "Search files."), Tool("mail", "b", "Send mail to people.")]
    >>> [tool.name for tool in choose(tools, "please mail Ann", 1)]
    ['mail']
    >>> [tool.name for tool in choose(tools, "", 1)]
    ['grep']
    """
    wanted = set(_WORD.findall(words.casefold()))

    def fit(tool: T) -> int:
        name = set(_WORD.findall(tool.name.casefold()))
        about = set(_WORD.findall(tool.description.casefold()))
        return 2 * len(wanted & name) + len(wanted & about)

    best = sorted(range(len(tools)), key=lambda at: (-fit(tools[at]), at))[:limit]
    return tuple(tools[at] for at in sorted(best))
