"""What follows from a pass of the observer, and from the owner's word about it: changes.

Nothing is done here: the changes are carried out by whoever keeps the notes.
"""

from collections.abc import Iterable, Sequence

import attrs
import msgspec

from elwood.agent.conversation.labels import CLEAN
from elwood.features.memory.learning import (
    MAX_FACTS,
    MAX_QUESTIONS,
    MAX_TEXT,
    Contradiction,
    Kept,
    Promotion,
    Seen,
    contradictions,
    digests,
    normal,
    overflow,
    promote,
)
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.text.lines import one_line

# Lines of a list for the owner, and sightings of one that contradict each other.
MAX_LISTED, MAX_DISPUTED = 20, 4


@attrs.frozen
class Keep:
    """Write *note*, in the place of one of its name."""

    note: Seen | Kept


@attrs.frozen
class Drop:
    """Remove the note *name*; *bury* are hashes of what must not be learned again."""

    name: str
    bury: tuple[str, ...] = ()


Change = Keep | Drop


@attrs.frozen
class Question:
    """What the owner is asked; each of *answers* is a command that a button carries."""

    text: str
    answers: tuple[str, ...]


@attrs.frozen
class Lesson:
    """What a pass comes to: *learned* facts are new, *lost* sightings were too many and too old."""

    changes: tuple[Change, ...] = ()
    questions: tuple[Question, ...] = ()
    learned: int = 0
    lost: int = 0


def learn(
    found: Sequence[Seen],
    pending: Iterable[Seen],
    kept: Iterable[Kept],
    settings: LearningSettings,
    *,
    corrected: bool = False,
) -> Lesson:
    """Decide what becomes of the facts *found* in one pass; *corrected*: the owner put them right.

    What is known already is passed over.  A correction replaces at once what is kept.  Strangers'
    words neither promote, nor contradict, nor correct anything.

    >>> seen = Seen("tea", "Likes tea.", "fact", "s", "t1", CLEAN, 0.0, "s/1")
    >>> learn([seen], [], [], LearningSettings()).learned
    1
    >>> old = Kept("tea", "Likes tea.", "fact", CLEAN, 0.0)
    >>> learn([seen], [], [old], LearningSettings()).learned
    0
    """
    if settings.mode == "off":
        return Lesson()
    sift = _Sift({one.name: one for one in pending}, {one.key: one for one in kept}, corrected)
    for one in found[:MAX_FACTS]:
        sift.take(one)
    disputes = sift.disputes()
    agreed = promote(sift.waiting.values(), settings.threshold, settings.mode)
    questions = [_dispute(one) for one in disputes[:MAX_QUESTIONS]]
    for dispute in disputes[:MAX_QUESTIONS]:
        sift.mark(dispute.sightings)
    disputed = {one.key for one in disputes}
    for promotion in agreed:
        if promotion.key in disputed:
            continue
        if settings.mode == "auto":
            newest = promotion.sightings[-1]
            sift.keep(promoted(newest, newest.at), promotion.sightings)
        elif len(questions) < MAX_QUESTIONS:
            questions.append(_proposal(promotion))
            sift.mark(promotion.sightings)
    return sift.lesson(questions)


class _Sift:
    """Works on what waits and what is kept, and tells in the end what has changed."""

    def __init__(self, waiting: dict[str, Seen], kept: dict[str, Kept], corrected: bool) -> None:
        self.waiting = dict(waiting)
        self._before = waiting
        self._kept = kept
        self._corrected = corrected
        self._notes: dict[str, Kept] = {}
        self._learned = 0

    def take(self, one: Seen) -> None:
        """Take one fact in: as a sighting, or as a correction."""
        old = self._kept.get(one.key)
        # What strangers said is not known by that: the owner may say it, too.
        known = (
            old is not None
            and normal(old.text) == normal(one.text)
            and (one.label.untrusted or not old.label.untrusted)
        )
        if known or len(one.text) > MAX_TEXT:
            return
        self._learned += one.name not in self.waiting
        if one.kind == "correction" and self._corrected and not one.label.untrusted:
            about = [seen for seen in self.waiting.values() if seen.key == one.key]
            # Of a note that says more than one thing a sentence could not take the place.
            if old is not None and len(old.text) <= MAX_TEXT:
                self.keep(replaced(old, one), about)
                return
            for seen in about:
                if normal(seen.text) != normal(one.text):
                    del self.waiting[seen.name]
        self.waiting.setdefault(one.name, one)

    def keep(self, note: Kept, sightings: Iterable[Seen]) -> None:
        """Make *note* a memory, in the place of *sightings*."""
        self._notes[note.key] = self._kept[note.key] = note
        for one in sightings:
            del self.waiting[one.name]

    def disputes(self) -> tuple[Contradiction, ...]:
        """Find what the owner should settle."""
        return contradictions(self.waiting.values(), self._kept.values())

    def mark(self, sightings: Iterable[Seen]) -> None:
        """Note that the owner is asked about *sightings*."""
        for one in sightings:
            self.waiting[one.name] = msgspec.structs.replace(one, asked=True)

    def lesson(self, questions: list[Question]) -> Lesson:
        """Say what is to be written and removed."""
        lost = overflow(list(self.waiting.values()))
        for one in lost:
            del self.waiting[one.name]
        new = [one for name, one in self.waiting.items() if self._before.get(name) != one]
        gone = [Drop(name) for name in self._before if name not in self.waiting]
        notes: list[Seen | Kept] = [*self._notes.values(), *new]
        return Lesson((*map(Keep, notes), *gone), tuple(questions), self._learned, len(lost))


def replaced(old: Kept, new: Seen) -> Kept:
    """Put *new* in the place of *old*."""
    return Kept(new.key, new.text, old.kind, new.label, new.at, _noticed(new))


def promoted(one: Seen, at: float) -> Kept:
    """Make a memory of the sighting *one*, at Unix time *at*."""
    kind = "fact" if one.kind == "correction" else one.kind
    return Kept(one.key, one.text, kind, one.label, at, _noticed(one))


def take(code: str, pending: Iterable[Seen], at: float) -> tuple[Change, ...]:
    """Keep what the owner calls *code*; whatever else was seen about its key is dropped.

    The owner's word makes it trusted, and replaces what was kept.

    >>> seen = Seen("tea", "Likes tea.", "fact", "s", "t1", CLEAN, 0.0, "s/1")
    >>> take(seen.code, [seen], 5.0)[0].note.text
    'Likes tea.'
    >>> take("nothing", [seen], 5.0)
    ()
    """
    seen = list(pending)
    chosen = [one for one in seen if one.code == code.lower()]
    if not chosen:
        return ()
    one = msgspec.structs.replace(max(chosen, key=_at), label=CLEAN)
    return (Keep(promoted(one, at)), *(Drop(other.name) for other in seen if other.key == one.key))


def refuse(code: str, pending: Iterable[Seen]) -> tuple[Change, ...]:
    """Drop what the owner calls *code*, and do not learn that text again.

    >>> seen = Seen("tea", "Likes tea.", "fact", "s", "t1", CLEAN, 0.0, "s/1")
    >>> refuse(seen.code, [seen])[0].bury == digests("tea", "Likes tea.")[1:]
    True
    """
    chosen = [one for one in pending if one.code == code.lower()]
    return tuple(Drop(one.name, digests(one.key, one.text)[1:]) for one in chosen)


def listing(pending: Iterable[Seen]) -> str:
    """List what waits, the newest first, for the owner.

    >>> listing([])
    'Nothing waits.'
    """
    shown: dict[str, list[Seen]] = {}
    for one in sorted(pending, key=_at, reverse=True):
        shown.setdefault(one.code, []).append(one)
    if not shown:
        return "Nothing waits."
    lines = []
    for code, seen in list(shown.items())[:MAX_LISTED]:
        strange = ", strangers had a part in it" if seen[0].label.untrusted else ""
        lines.append(f"{code}: {_quoted(seen[0].text)} (seen {len(seen)} times{strange})")
    if len(shown) > MAX_LISTED:
        lines.append(f"… and {len(shown) - MAX_LISTED} more")
    return "\n".join([*lines, "/memory keep CODE, /memory drop CODE"])


def _proposal(promotion: Promotion) -> Question:
    one = promotion.sightings[-1]
    text = f"You said this in several conversations: {_quoted(one.text)}\nShall I remember it?"
    return Question(text, (f"/memory keep {one.code}", f"/memory drop {one.code}"))


def _dispute(dispute: Contradiction) -> Question:
    said = {one.code: one.text for one in dispute.sightings[-MAX_DISPUTED:]}
    kept = [f"I remember: {_quoted(dispute.kept)}"] if dispute.kept is not None else []
    lines = [*kept, *(f"{code}: {_quoted(text)}" for code, text in said.items())]
    text = "\n".join([f"About {dispute.key} I have heard different things.", *lines])
    answers = [f"/memory keep {code}" for code in said]
    if dispute.kept is not None:
        answers += [f"/memory drop {code}" for code in said]
    return Question(f"{text}\nWhat is right?", tuple(answers))


def _quoted(text: str) -> str:
    return f"“{one_line(text, MAX_TEXT)}”"


def _noticed(one: Seen) -> str:
    return f"{one.session}, noticed"


def _at(one: Seen) -> float:
    return one.at
