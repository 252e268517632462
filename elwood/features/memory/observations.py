"""What was noticed, and what is kept of it, as notes that people can read and edit.

A sighting is a pending note; what it is about and where it was seen stand in lines above its text.
"""

from collections.abc import Iterable, Sequence
from typing import get_args

import msgspec

from elwood.agent.conversation.labels import Label
from elwood.features.memory.learning import Kept, Kind, Seen
from elwood.features.memory.note import (
    MAX_SOURCE,
    Draft,
    Note,
    moment,
    stamped,
)
from elwood.foundation.text.lines import one_line

# The tag of notes that say how something is done.
PROCEDURE = "procedure"


def sighted(one: Seen) -> Draft:
    """Write a sighting as a pending note; `sighting` gives it back, to the second.

    >>> from elwood.features.memory.note import render
    >>> one = Seen("tea", "Likes tea.", "fact", "tg-1", "t5", Label(), 60.0, "tg-1/9")
    >>> sighted(one).more[:3], sighted(one).status
    (('about: tea', 'kind: fact', 'turn: t5'), 'pending')
    """
    lines = {
        "about": one.key,
        "kind": one.kind,
        "turn": one.turn,
        "seen": stamped(one.at),
        "batch": one.batch,
        "asked": "yes" if one.asked else "no",
    }
    more = tuple(f"{name}: {one_line(value, MAX_SOURCE)}".rstrip() for name, value in lines.items())
    return Draft(
        key=one.name,
        text=one.text,
        label=_kept_private(one.label),
        source=one.session,
        status="pending",
        more=more,
    )


def sighting(note: Note) -> Seen | None:
    """Read a sighting; None if *note* is none, but was made to wait by somebody else.

    >>> sighting(Note("tea", "Likes tea.", status="pending"))
    """
    lines = _lines(note.more)
    if note.status != "pending" or not lines.get("about"):
        return None
    one = Seen(
        lines["about"],
        note.text,
        _kind(lines.get("kind", "")),
        note.source,
        lines.get("turn", ""),
        note.label,
        _first(lines.get("seen", ""), note.updated),
        lines.get("batch", ""),
        lines.get("asked") == "yes",
    )
    # Somebody may have put the text right.
    return one if one.name == note.key else msgspec.structs.replace(one, note=note.key)


def remembered(one: Kept) -> Draft:
    """Write what is kept as a note; what is not said here stays as it is there."""
    tags = (PROCEDURE,) if one.kind == "procedure" else None
    return Draft(one.key, one.text, _kept_private(one.label), one.source, tags)


def memory(note: Note) -> Kept:
    """Read what is kept, whoever wrote it."""
    kind: Kind = "procedure" if PROCEDURE in note.tags else "fact"
    at = _first(note.updated, note.created)
    return Kept(note.key, note.text, kind, note.label, at, note.source)


def is_sighting(more: Iterable[str] | None) -> bool:
    """Tell whether the note with these lines is a sighting, as which there may be many alike."""
    return more is not None and any(line.startswith("about:") for line in more)


def subject(note: Note) -> str:
    """Name what *note* is about: as what it is kept, or would be.

    >>> subject(Note("tea", "Green.")), subject(Note("seen-1", "Green.", more=("about: tea",)))
    ('tea', 'tea')
    """
    return _lines(note.more).get("about") or note.key


def _lines(more: Sequence[str]) -> dict[str, str]:
    return {name.strip(): value.strip() for name, _, value in (m.partition(":") for m in more)}


def _first(*times: str) -> float:
    """Read the first of *times* that is one; long ago if none is."""
    return next((at for time in times if (at := moment(time)) is not None), 0.0)


def _kind(value: str) -> Kind:
    kinds: tuple[Kind, ...] = get_args(Kind)
    return next((kind for kind in kinds if kind == value), "fact")


def _kept_private(label: Label) -> Label:
    """Give the label that `save_memory` gives as well: what people tell is theirs."""
    return Label(untrusted=label.untrusted, private=True)
