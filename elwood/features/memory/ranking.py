"""Which notes come first, and which are offered unasked: the ranking behind a search."""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from elwood.agent.conversation.message import OFFERED
from elwood.agent.tools.tool import SearchResult
from elwood.features.memory.note import Note
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import asked, matches, words

# The constant of reciprocal rank fusion, as published (Cormack et al., 2009).
FUSION = 60
# Words that must be in a note's text for it to be offered, unless one is in its key or tags.
ENOUGH = 2


def fused(*lists: Sequence[str]) -> list[str]:
    """Join rankings by the places that each gives (reciprocal rank fusion).

    >>> fused(["a", "b"], ["c", "b"])
    ['b', 'a', 'c']
    """
    scores: dict[str, float] = {}
    for keys in lists:
        for place, key in enumerate(keys, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (FUSION + place)
    return sorted(scores, key=lambda key: -scores[key])


def placed(keys: Sequence[str], group: Sequence[str]) -> list[str]:
    """Bring those of *keys* that are in *group* into its order, in the places they have.

    >>> placed(["old", "a", "new"], ["new", "old", "b"])
    ['new', 'a', 'old']
    """
    in_order = iter([key for key in group if key in keys])
    members = set(group)
    return [next(in_order) if key in members else key for key in keys]


def fit(note: Note, chosen: Sequence[str]) -> int:
    """Count the *chosen* words that *note* has, in its key, tags or text.

    >>> fit(Note("tea", "Green tea."), ["tea", "milk"])
    1
    """
    there = set(words(f"{note.key} {' '.join(note.tags)} {note.text}"))
    return sum(any(matches(word, other) for other in there) for word in chosen)


def joined(
    first: Iterable[SearchResult], others: Iterable[SearchResult], chosen: Sequence[str]
) -> list[SearchResult]:
    """Put *others* among the results *first*, which keep their order, and come first.

    But another comes before one that has fewer of the words, if it has several or all of them:
    notes that are near by meaning alone are worth more than a word that is everywhere.
    """
    waiting = deque(sorted(others, key=lambda one: -one.words))
    found: list[SearchResult] = []
    enough = min(ENOUGH, len(chosen))
    for one in first:
        while waiting and waiting[0].words >= max(enough, one.words + 1):
            found.append(waiting.popleft())
        found.append(one)
    return [*found, *waiting]


def relevant(notes: Iterable[Note], message: str, budget: int) -> tuple[Note, ...]:
    """Choose of *notes* what may help with *message*, in at most *budget* tokens.

    Neither pending ones nor what may hold strangers' words: nobody asked for these.

    >>> from elwood.agent.conversation.labels import Label
    >>> mine = Label(private=True)
    >>> notes = [Note("tea", "Green, no sugar.", label=mine), Note("car", "A red one.")]
    >>> [note.key for note in relevant(notes, "Make me a tea, in a red cup", 100)]
    ['tea']
    """
    chosen = asked(message)
    fitting: list[tuple[tuple[int, int, str], Note]] = []
    for note in notes:
        if note.untrusted or note.status != "kept":
            continue
        different = fit(note, chosen)
        named = fit(msgspec.structs.replace(note, text=""), chosen)
        if named or different >= ENOUGH:
            fitting.append(((different + named, note.importance, note.updated), note))
    fitting.sort(key=lambda one: one[0], reverse=True)
    taken: list[Note] = []
    left = budget - estimate(OFFERED)
    for _, note in fitting:
        cost = estimate(_line(note))
        if cost <= left:
            left -= cost
            taken.append(note)
    return tuple(taken)


def offered(notes: Sequence[Note]) -> str:
    """Write *notes* as the model is offered them.

    >>> print(offered([Note("tea", "Green.", updated="2026-11-22T10:00:00+00:00")]))
    [notes that may help:
    - tea (2026-11-22): Green.]
    """
    return "\n".join([OFFERED, *map(_line, notes)]) + "]"


def _line(note: Note) -> str:
    when = f" ({note.updated[:10]})" if note.updated else ""
    return f"- {note.key}{when}: {note.text}"
