"""What was noticed in conversations, and what becomes of it: kept, asked about, or let be.

A sighting is *pending* until it is promoted; what is kept is part of the memory.  What was seen
where strangers had a part stays pending until the owner looks for it (security.md §5).
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import attrs
import msgspec

from elwood.agent.conversation.labels import Label
from elwood.foundation.text.words import pieces

# Facts of one pass, characters of each, and sightings that wait; the oldest go first.
MAX_FACTS, MAX_TEXT, MAX_PENDING = 10, 300, 500
# Questions of one pass: more would be a nuisance.
MAX_QUESTIONS = 3
# Seconds between two sightings in one conversation that count as two: a chat with a person never
# ends, so another part of the day stands for another conversation.
APART = 6 * 3600.0
# Characters of the code by which a fact is named, in hexadecimal.
CODE = 8
KEY = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
# Words that change nothing about what a sentence says.
_EMPTY = frozenset(
    [
        *("the", "a", "an", "owner", "owner's", "user", "user's", "my"),
        *("der", "die", "das", "ein", "eine", "mein", "meine"),
    ]
)

Mode = Literal["auto", "suggest", "off"]
Kind = Literal["fact", "procedure", "correction"]


class Seen(msgspec.Struct, frozen=True):
    """One sighting: *text* about *key*, in *session* before the end of *turn*, at Unix time *at*.

    *batch* is the pass that found it; *asked* says that the owner was asked about it.  *note* is
    the name under which it is kept, if that is another than it would be given.
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
        """Under which name it is kept; the same for the same sighting."""
        return self.note or f"seen-{_hash(f'{self.batch} {self.key} {normal(self.text)}')[:16]}"

    @property
    def code(self) -> str:
        """By which the owner names what was seen; the same for equal facts."""
        return _hash(f"{self.key} {normal(self.text)}")[:CODE]


class Kept(msgspec.Struct, frozen=True):
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


@attrs.frozen
class Promotion:
    """*sightings* agree about *key*: it may be kept as *text*."""

    key: str
    text: str
    kind: Kind
    sightings: tuple[Seen, ...]


@attrs.frozen
class Contradiction:
    """What was seen about *key* is not what is kept, or not always the same; oldest first."""

    key: str
    kept: str | None
    sightings: tuple[Seen, ...]


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

    >>> digests("a", "The tea") == digests("a", "tea!")
    True
    >>> digests("a", "4-May, 7 pm") == digests("a", "4 May 7 PM")
    True
    """
    words = (word for word in re.findall(r"\w+", _plain(text)) if word not in _EMPTY)
    return _hash(f"key {key}"), _hash(f"text {' '.join(words) or normal(text)}")


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text[: 4 * MAX_TEXT]).casefold()


def promote(pending: Iterable[Seen], threshold: int, mode: Mode) -> tuple[Promotion, ...]:
    """Find what was seen in *threshold* conversations, always the same, and never among strangers.

    In mode `suggest` these are proposals.  What the owner was asked about waits for the answer.

    >>> seen = [Seen("tea", "Likes tea.", "fact", s, "t1", Label(), 0.0, s) for s in "abc"]
    >>> [found.text for found in promote(seen, 3, "auto")]
    ['Likes tea.']
    >>> promote(seen[:2], 3, "auto"), promote(seen, 3, "off")
    ((), ())
    """
    if mode == "off":
        return ()
    found = []
    for key, sightings in _by_key(pending).items():
        if any(one.asked for one in sightings) or len({normal(s.text) for s in sightings}) > 1:
            continue
        if conversations(sightings) >= max(1, threshold):
            last = sightings[-1]
            found.append(Promotion(key, last.text, last.kind, sightings))
    return tuple(found)


def contradictions(pending: Iterable[Seen], kept: Iterable[Kept]) -> tuple[Contradiction, ...]:
    """Find what was said in two ways, and has not been asked about since.

    >>> old = Kept("home", "Lives in Rome.", "fact", Label(), 0.0)
    >>> new = Seen("home", "Lives in Oslo.", "fact", "s", "t1", Label(), 1.0, "s/1")
    >>> contradictions([new], [old])[0].kept
    'Lives in Rome.'
    """
    known = {one.key: one.text for one in kept if not one.label.untrusted}
    found = []
    for key, sightings in _by_key(pending).items():
        said = {normal(one.text) for one in sightings}
        old = known.get(key)
        if old is not None:
            said.add(normal(old))
        if len(said) > 1 and not all(one.asked for one in sightings):
            found.append(Contradiction(key, old, sightings))
    return tuple(found)


def conversations(sightings: Iterable[Seen]) -> int:
    """Count in how many conversations something was seen.

    >>> seen = [Seen("k", "t", "fact", "s", "t1", Label(), at, "b") for at in (0.0, 60.0, 30_000.0)]
    >>> conversations(seen)
    2
    """
    last: dict[str, float] = {}
    count = 0
    for one in sorted(sightings, key=lambda one: one.at):
        before = last.get(one.session)
        if before is None or one.at - before >= APART:
            last[one.session] = one.at
            count += 1
    return count


def overflow(pending: Sequence[Seen]) -> tuple[Seen, ...]:
    """List the oldest of *pending*, which are too many to be kept; empty if they are not.

    >>> overflow([])
    ()
    """
    surplus = max(0, len(pending) - MAX_PENDING)
    return tuple(sorted(pending, key=lambda one: one.at)[:surplus])


_CORRECTS = re.compile(
    r"\b(actually|correction|i meant|i mean|that'?s (wrong|not right|not true|incorrect|outdated)"
    r"|no longer|not any ?more|you got (that|it) wrong|you'?re wrong|it'?s not \w+,? but"
    r"|eigentlich|tatsächlich|richtig ist|korrektur|ich meinte|das stimmt nicht|stimmt nicht"
    r"|das ist falsch|nicht mehr|falsch gemerkt|sondern)\b",
    re.IGNORECASE,
)


def corrects(text: str) -> bool:
    """Tell whether somebody puts something right, in English or German.

    >>> corrects("Actually, it is the 5th."), corrects("Nein, das stimmt nicht.")
    (True, True)
    >>> corrects("It is the 5th.")
    False
    """
    return _CORRECTS.search(text.replace("\u2019", "'")) is not None


def _by_key(pending: Iterable[Seen]) -> dict[str, tuple[Seen, ...]]:
    """Sort what may be relied on by what it is about, the oldest first."""
    found: dict[str, list[Seen]] = {}
    for one in sorted(pending, key=lambda one: one.at):
        if not one.label.untrusted:
            found.setdefault(one.key, []).append(one)
    return {key: tuple(sightings) for key, sightings in found.items()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
