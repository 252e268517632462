"""What was noticed in conversations, and what becomes of it: kept, asked about, or let be.

An observation is a pending note until it is promoted; what it is about and where it was made stand
in lines above its text.  What was observed where strangers had a part stays pending until the owner
looks for it.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.session.settings import LearningSettings
from elwood.features.memory.note import MAX_SOURCE, Note, NoteDraft, fields_of, moment, stamped
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.words import pieces

# Facts of one pass, characters of each, and observations that wait; the oldest go first.
MAX_FACTS, MAX_TEXT, MAX_PENDING = 10, 300, 500
# Questions of one pass: more would be a nuisance.
MAX_QUESTIONS = 3
# Lines of a list for the owner, and observations of one that contradict each other.
MAX_LISTED, MAX_DISPUTED = 20, 4
# Seconds between two observations in one conversation that count as two: a chat with a person never
# ends, so another part of the day stands for another conversation.
APART = 6 * 3600.0
# Characters of the code by which a fact is named, in hexadecimal.
CODE = 8
# The tag of notes that say how something is done.
PROCEDURE = "procedure"
# Words that change nothing about what a sentence says.
_EMPTY = frozenset(
    [
        *("the", "a", "an", "owner", "owner's", "user", "user's", "my"),
        *("der", "die", "das", "ein", "eine", "mein", "meine"),
    ]
)
_CORRECTS = re.compile(
    r"\b(actually|correction|i meant|i mean|that'?s (wrong|not right|not true|incorrect|outdated)"
    r"|no longer|not any ?more|you got (that|it) wrong|you'?re wrong|it'?s not \w+,? but"
    r"|eigentlich|tatsächlich|richtig ist|korrektur|ich meinte|das stimmt nicht|stimmt nicht"
    r"|das ist falsch|nicht mehr|falsch gemerkt|sondern)\b",
    re.IGNORECASE,
)

Kind = Literal["fact", "procedure", "correction"]


class Observation(msgspec.Struct, frozen=True):
    """*text* was noticed about *key*, in *session* before the end of *turn*, at Unix time *at*.

    *batch* is the pass that found it; *asked* says that the owner was asked about it.  *note* is
    the name under which it waits, if that is another than it would be given.
    """

    key: str
    text: str
    kind: Kind
    session: str
    turn: str
    label: Label
    at: float
    batch: str
    asked: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """Under which name it waits; the same for the same observation."""
        return self.note or f"seen-{_hash(f'{self.batch} {self.key} {normal(self.text)}')[:16]}"

    @property
    def code(self) -> str:
        """By which the owner names what was observed; the same for equal facts."""
        return _hash(f"{self.key} {normal(self.text)}")[:CODE]


class KnownFact(msgspec.Struct, frozen=True):
    """What is remembered under *key* since *at*, Unix time; *source* says where it is from."""

    key: str
    text: str
    kind: Kind
    label: Label
    at: float
    source: str = ""

    @property
    def name(self) -> str:
        """Under which name it is kept."""
        return self.key


class LearningQuestion(msgspec.Struct, frozen=True):
    """What the owner is asked; each of *answers* is a command that a button carries."""

    text: str
    answers: tuple[str, ...]


class Lesson(msgspec.Struct, frozen=True):
    """What a look at a conversation comes to.

    *notes* are to be written, each in the place of one of its name, and then the observations
    *dropped* be removed; what has the hashes *buried* (`digests`) must not be learned again.
    *learned* facts are new, *lost* observations were too many and too old.
    """

    notes: tuple[Observation | KnownFact, ...] = ()
    dropped: tuple[str, ...] = ()
    buried: tuple[str, ...] = ()
    questions: tuple[LearningQuestion, ...] = ()
    learned: int = 0
    lost: int = 0


# --- equal facts ----------------------------------------------------------------------------------


def normal(text: str) -> str:
    """Reduce *text* to what two sayings of the same have in common.

    >>> normal("The owner's  sister is Ada.") == normal("owner's sister is ADA")
    True
    >>> normal("It is -5 €.") == normal("It is 5 €.")
    False
    """
    return " ".join(word for word in pieces(_plain(text)) if word not in _EMPTY)


def digests(key: str, text: str) -> tuple[str, str]:
    """Give the hashes by which a fact that was forgotten is known, without saying what it was.

    Of *text* by its words alone: what is to stay forgotten is known by less than what is kept.

    >>> digests("a", "4-May, 7 pm") == digests("a", "4 May 7 PM")
    True
    """
    words = (word for word in re.findall(r"\w+", _plain(text)) if word not in _EMPTY)
    return _hash(f"key {key}"), _hash(f"text {' '.join(words) or normal(text)}")


def conversations(observed: Iterable[Observation]) -> int:
    """Count in how many conversations something was noticed.

    >>> at = lambda at: Observation("k", "t", "fact", "s", "t1", CLEAN, at, "b")
    >>> conversations([at(0.0), at(60.0), at(30_000.0)])
    2
    """
    last: dict[str, float] = {}
    count = 0
    for one in sorted(observed, key=_at):
        before = last.get(one.session)
        if before is None or one.at - before >= APART:
            last[one.session] = one.at
            count += 1
    return count


def corrects(text: str) -> bool:
    """Tell whether somebody puts something right, in English or German.

    >>> corrects("Actually, it is the 5th."), corrects("It is the 5th.")
    (True, False)
    """
    return _CORRECTS.search(text.replace("\u2019", "'")) is not None


# --- notes ----------------------------------------------------------------------------------------


def draft_of(one: Observation | KnownFact) -> NoteDraft:
    """Write what was noticed, or is to be kept, as a note.

    >>> one = Observation("tea", "Likes tea.", "fact", "tg-1", "t5", CLEAN, 60.0, "tg-1/9")
    >>> draft_of(one).more[:3], draft_of(one).status
    (('about: tea', 'kind: fact', 'turn: t5'), 'pending')
    """
    # As `save_memory` does: what people tell is theirs.
    label = Label(untrusted=one.label.untrusted, private=True)
    if isinstance(one, KnownFact):
        tags = (PROCEDURE,) if one.kind == "procedure" else None
        return NoteDraft(one.key, one.text, label, one.source, tags)
    lines = {
        "about": one.key,
        "kind": one.kind,
        "turn": one.turn,
        "seen": stamped(one.at),
        "batch": one.batch,
        "asked": "yes" if one.asked else "no",
    }
    more = tuple(f"{name}: {one_line(value, MAX_SOURCE)}".rstrip() for name, value in lines.items())
    return NoteDraft(one.name, one.text, label, one.session, status="pending", more=more)


def observation_of(note: Note) -> Observation | None:
    """Read an observation; None if *note* is none, but was made to wait by somebody else.

    >>> observation_of(Note("tea", "Likes tea.", status="pending"))
    """
    lines = fields_of(note.more)
    if note.status != "pending" or not lines.get("about"):
        return None
    kinds: tuple[Kind, ...] = get_args(Kind)
    one = Observation(
        lines["about"],
        note.text,
        next((kind for kind in kinds if kind == lines.get("kind")), "fact"),
        note.source,
        lines.get("turn", ""),
        note.label,
        _first(lines.get("seen", ""), note.updated),
        lines.get("batch", ""),
        lines.get("asked") == "yes",
    )
    # Somebody may have put the text right.
    return one if one.name == note.key else msgspec.structs.replace(one, note=note.key)


def observations_of(notes: Iterable[Note]) -> list[Observation]:
    """Pick the observations among *notes*."""
    return [one for note in notes if (one := observation_of(note)) is not None]


def fact_of(note: Note) -> KnownFact:
    """Read what is kept, whoever wrote it."""
    kind: Kind = "procedure" if PROCEDURE in note.tags else "fact"
    at = _first(note.updated, note.created)
    return KnownFact(note.key, note.text, kind, note.label, at, note.source)


# --- what becomes of it ---------------------------------------------------------------------------


def learn(
    found: Sequence[Observation],
    pending: Iterable[Observation],
    known: Iterable[KnownFact],
    settings: LearningSettings,
    *,
    corrected: bool = False,
) -> Lesson:
    """Decide what becomes of the facts *found* in one pass; *corrected*: the owner put them right.

    What is known already is passed over.  A correction replaces at once what is kept.  Strangers'
    words neither promote, nor contradict, nor correct anything.  What was always said the same, in
    `threshold` conversations, is kept, or in mode `suggest` proposed; what was said in two ways is
    asked about, once.

    >>> one = Observation("tea", "Likes tea.", "fact", "s", "t1", CLEAN, 0.0, "s/1")
    >>> learn([one], [], [], LearningSettings()).learned
    1
    >>> old = KnownFact("tea", "Likes tea.", "fact", CLEAN, 0.0)
    >>> learn([one], [], [old], LearningSettings()).learned
    0
    """
    if settings.mode == "off":
        return Lesson()
    before = {one.name: one for one in pending}
    waiting = dict(before)
    facts = {one.key: one for one in known}
    kept: dict[str, KnownFact] = {}
    learned = 0
    for one in found[:MAX_FACTS]:
        old = facts.get(one.key)
        if (old is not None and _is_known(one, old)) or len(one.text) > MAX_TEXT:
            continue
        learned += one.name not in waiting
        if one.kind == "correction" and corrected and not one.label.untrusted:
            stale = [name for name, other in waiting.items() if other.key == one.key]
            # Of a note that says more than one thing a sentence could not take the place.
            if old is not None and len(old.text) <= MAX_TEXT:
                kept[one.key] = facts[one.key] = _fact(one, one.at, old.kind)
                for name in stale:
                    del waiting[name]
                continue
            for name in stale:
                if normal(waiting[name].text) != normal(one.text):
                    del waiting[name]
        waiting.setdefault(one.name, one)

    questions: list[LearningQuestion] = []

    def ask(question: LearningQuestion, about: Iterable[Observation]) -> None:
        questions.append(question)
        for one in about:
            waiting[one.name] = msgspec.structs.replace(one, asked=True)

    by_key = _trusted_by_key(waiting.values())
    disputed = [key for key, seen in by_key.items() if _is_disputed(seen, facts.get(key))]
    for key in disputed[:MAX_QUESTIONS]:
        ask(_dispute(key, by_key[key], facts.get(key)), by_key[key])
    for key, seen in by_key.items():
        if key in disputed or not _is_agreed(seen, settings.threshold):
            continue
        if settings.mode == "auto":
            kept[key] = _fact(seen[-1], seen[-1].at)
            for one in seen:
                del waiting[one.name]
        elif len(questions) < MAX_QUESTIONS:
            ask(_proposal(seen[-1]), seen)
    surplus = max(0, len(waiting) - MAX_PENDING)
    for one in sorted(waiting.values(), key=_at)[:surplus]:
        del waiting[one.name]
    new = [one for name, one in waiting.items() if before.get(name) != one]
    return Lesson(
        (*kept.values(), *new),
        tuple(name for name in before if name not in waiting),
        questions=tuple(questions),
        learned=learned,
        lost=surplus,
    )


def _is_known(one: Observation, old: KnownFact) -> bool:
    # What strangers said is not known by that: the owner may say it, too.
    said = one.label.untrusted or not old.label.untrusted
    return said and normal(old.text) == normal(one.text)


def _trusted_by_key(waiting: Iterable[Observation]) -> Mapping[str, list[Observation]]:
    """Sort what may be relied on by what it is about, the oldest first."""
    found: dict[str, list[Observation]] = {}
    for one in sorted(waiting, key=_at):
        if not one.label.untrusted:
            found.setdefault(one.key, []).append(one)
    return found


def _is_disputed(seen: Sequence[Observation], known: KnownFact | None) -> bool:
    """Tell whether something was said in two ways, and has not been asked about since."""
    said = {normal(one.text) for one in seen}
    if known is not None and not known.label.untrusted:
        said.add(normal(known.text))
    return len(said) > 1 and not all(one.asked for one in seen)


def _is_agreed(seen: Sequence[Observation], threshold: int) -> bool:
    """Tell whether something was always said the same, often enough, and never asked about."""
    alike = len({normal(one.text) for one in seen}) == 1 and not any(one.asked for one in seen)
    return alike and conversations(seen) >= max(1, threshold)


def _fact(one: Observation, at: float, kind: Kind | None = None) -> KnownFact:
    """Make a memory of *one*, at Unix time *at*."""
    kind = kind or ("fact" if one.kind == "correction" else one.kind)
    return KnownFact(one.key, one.text, kind, one.label, at, f"{one.session}, noticed")


# --- the owner's word -----------------------------------------------------------------------------


def keep(code: str, pending: Iterable[Observation], at: float) -> Lesson | None:
    """Keep what the owner calls *code*; whatever else was noticed about its key is dropped.

    The owner's word makes it trusted, and replaces what was kept.  None if there is no such thing.

    >>> seen = Observation("tea", "Likes tea.", "fact", "s", "t1", CLEAN, 0.0, "s/1")
    >>> keep(seen.code, [seen], 5.0).notes[0].text, keep("nothing", [seen], 5.0)
    ('Likes tea.', None)
    """
    waiting = list(pending)
    chosen = [one for one in waiting if one.code == code.lower()]
    if not chosen:
        return None
    one = msgspec.structs.replace(max(chosen, key=_at), label=CLEAN)
    return Lesson((_fact(one, at),), tuple(o.name for o in waiting if o.key == one.key))


def drop(code: str, pending: Iterable[Observation]) -> Lesson | None:
    """Drop what the owner calls *code*, and do not learn that text again; None if it is unknown.

    >>> seen = Observation("tea", "Likes tea.", "fact", "s", "t1", CLEAN, 0.0, "s/1")
    >>> drop(seen.code, [seen]).buried == digests("tea", "Likes tea.")[1:]
    True
    """
    chosen = [one for one in pending if one.code == code.lower()]
    if not chosen:
        return None
    buried = dict.fromkeys(digests(one.key, one.text)[1] for one in chosen)
    return Lesson(dropped=tuple(one.name for one in chosen), buried=tuple(buried))


def listing(pending: Iterable[Observation]) -> str:
    """List what waits, the newest first, for the owner.

    >>> listing([])
    'Nothing waits.'
    """
    shown: dict[str, list[Observation]] = {}
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


def _proposal(one: Observation) -> LearningQuestion:
    text = f"You said this in several conversations: {_quoted(one.text)}\nShall I remember it?"
    return LearningQuestion(text, (f"/memory keep {one.code}", f"/memory drop {one.code}"))


def _dispute(key: str, seen: Sequence[Observation], known: KnownFact | None) -> LearningQuestion:
    said = {one.code: one.text for one in seen[-MAX_DISPUTED:]}
    lines = [f"{code}: {_quoted(text)}" for code, text in said.items()]
    answers = [f"/memory keep {code}" for code in said]
    if known is not None and not known.label.untrusted:
        lines.insert(0, f"I remember: {_quoted(known.text)}")
        answers += [f"/memory drop {code}" for code in said]
    lines.insert(0, f"About {key} I have heard different things.")
    return LearningQuestion("\n".join([*lines, "What is right?"]), tuple(answers))


def _quoted(text: str) -> str:
    return f"“{one_line(text, MAX_TEXT)}”"


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text[: 4 * MAX_TEXT]).casefold()


def _first(*times: str) -> float:
    """Read the first of *times* that is one; long ago if none is."""
    return next((at for time in times if (at := moment(time)) is not None), 0.0)


def _at(one: Observation) -> float:
    return one.at


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
