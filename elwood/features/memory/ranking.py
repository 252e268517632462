"""Which notes come first, and which are offered unasked: the ranking behind a search."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import attrs

from elwood.features.memory.note import Note
from elwood.foundation.storage.search_index import USUAL, SearchHit
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import asked, matches, words

# Hits whose scores are at least this part of the best one's among them fit about equally well: two
# versions of a fact do, and then the newer comes first.
ALIKE = 0.75
# What one step of importance is worth.
STEP = 0.06
# The constant of reciprocal rank fusion, as published (Cormack et al., 2009).
FUSION = 60
# Words that must be in a note's text for it to be offered, unless one is in its key or tags.
ENOUGH = 2
OFFERED = "[notes that may help:"


def grouped(hits: Iterable[SearchHit]) -> list[list[SearchHit]]:
    """Put what fits about equally well together, the best first; within a group the newest.

    *updated* only tells them apart, so no clock is needed.

    >>> old, new = SearchHit("old", 1.1, "2026-01-01"), SearchHit("new", 1.0, "2026-02-01")
    >>> [[hit.key for hit in group] for group in grouped([old, new, SearchHit("off", 0.2)])]
    [['new', 'old'], ['off']]
    """
    weighed = sorted(
        ((hit.score * (1 + STEP * (hit.importance - USUAL)), hit) for hit in hits),
        key=lambda one: (-one[0], one[1].key),
    )
    best = 0.0
    groups: list[list[SearchHit]] = []
    for score, hit in weighed:
        if not groups or score < ALIKE * best:
            best = score
            groups.append([])
        groups[-1].append(hit)
    for group in groups:
        group.sort(key=lambda hit: hit.updated, reverse=True)
    return groups


def ranked(hits: Iterable[SearchHit]) -> list[str]:
    """Name the best first; of those that fit about equally well, the newest (`grouped`)."""
    return [hit.key for group in grouped(hits) for hit in group]


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


def worth(note: Note, chosen: Sequence[str]) -> tuple[int, float]:
    """Count the *chosen* words that *note* has, and weigh where they stand.

    >>> worth(Note("tea", "Green tea."), ["tea", "milk"])
    (1, 6.0)
    """
    places: Mapping[float, list[str]] = {
        5.0: words(note.key),
        3.0: words(" ".join(note.tags)),
        1.0: words(note.text),
    }
    different, score = 0, 0.0
    for word in chosen:
        found = {
            weight: sum(matches(word, other) for other in others)
            for weight, others in places.items()
        }
        different += any(found.values())
        score += sum(weight * min(count, 4) for weight, count in found.items())
    return different, score


def joined(notes: Iterable[Note], pages: Iterable[Note], chosen: Sequence[str]) -> list[Note]:
    """Put *pages* (`core.pages`) among *notes*, which keep their order, and come first.

    But a page comes before a note that has fewer of the words, if it has several or all of them:
    notes that are near by meaning alone are worth more than a word that is everywhere.

    >>> note, page = Note("boiler", "It is red."), Note("day", "The boiler broke in March.")
    >>> [found.key for found in joined([note], [page], ["boiler"])]
    ['boiler', 'day']
    >>> [found.key for found in joined([note], [page], ["boiler", "march"])]
    ['day', 'boiler']
    """
    # Tags of a page are what people call its day, to be found by, and not to be shown.
    fits = [(worth(page, chosen)[0], attrs.evolve(page, tags=())) for page in pages]
    waiting = deque(sorted(fits, key=lambda one: -one[0]))
    found: list[Note] = []
    enough = min(ENOUGH, len(chosen))
    for note in notes:
        fit, _ = worth(note, chosen)
        while waiting and waiting[0][0] >= max(enough, fit + 1):
            found.append(waiting.popleft()[1])
        found.append(note)
    return found + [page for _, page in waiting]


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
        different, _ = worth(note, chosen)
        named, _ = worth(attrs.evolve(note, text=""), chosen)
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
