"""Which skills are meant: those called by name, and those that clearly fit what somebody says."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from elwood.features.skills.skill import Skill

# Points from which a skill is said to fit: two words of a name, or one and another in what is said
# about it.  A word of a name counts three points, any other one.
FITS, NAMED = 4, 3
# Words of a message that are looked at.
MAX_WORDS = 300
# Letters that two words must begin with alike to be two forms of one word.
STEM = 4

Words = tuple[str, ...]

_WORD = re.compile(r"[^\W_]{3,40}")
# Words that say nothing about what something is for.
_IDLE = frozenset(
    _WORD.findall(
        "about after all also and any are before can does for from get has have how into its just "
        "like make more not now one other our out please should some such than that the their them "
        "then there these they this use used user uses using want was what when where which "
        "while who will with without work would you your"
    )
)


def called(skills: Iterable[Skill], message: str) -> tuple[Skill, str] | None:
    """Find the skill that *message* begins with as ``/name``, and what is said behind it.

    Commands of Telegram have no dashes: ``_`` stands for one.

    >>> skills = [Skill(name="code-review", description="Review changes.", body="")]
    >>> found = called(skills, "/code_review the last commit")
    >>> found and (found[0].name, found[1])
    ('code-review', 'the last commit')
    >>> called(skills, "/code")
    """
    word, *rest = message.split(maxsplit=1) or [""]
    name = word[1:].split("@")[0].replace("_", "-").casefold()
    if not word.startswith("/"):
        return None
    skill = next((skill for skill in skills if skill.name.casefold() == name), None)
    return None if skill is None else (skill, "".join(rest))


def matching(skills: Iterable[Skill], message: str, limit: int = 3) -> tuple[Skill, ...]:
    """Find at most *limit* skills that clearly fit *message*, the best first.

    >>> skills = [
    ...     Skill(name="code-review", description="Review changes of a program.", body=""),
    ...     Skill(name="web-research", description="Find out facts from pages.", body=""),
    ... ]
    >>> [skill.name for skill in matching(skills, "Could you review the code in src?")]
    ['code-review']
    >>> matching(skills, "What is the weather like?")
    ()
    """
    wanted = _words(message)
    scored = [(score(skill, wanted), skill) for skill in skills]
    fitting = sorted(
        ((points, skill) for points, skill in scored if points >= FITS),
        key=lambda one: (-one[0], one[1].name),
    )
    return tuple(skill for _, skill in fitting[:limit])


def score(skill: Skill, wanted: Mapping[str, Sequence[str]]) -> int:
    """Count what *wanted*, words by how they begin, has in common with *skill*."""
    name, about, begin = _said_of(skill.name, skill.description)
    if begin.isdisjoint(wanted):
        return 0  # nearly always: there may be hundreds of skills
    named = sum(_is_among(word, wanted) for word in name)
    return NAMED * named + sum(_is_among(word, wanted) for word in about)


@lru_cache(maxsize=1024)
def _said_of(
    name: str, description: str
) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    """Give the words of a name, those of a description that are not in it, and how all begin."""
    named = tuple(dict.fromkeys(_of(name)))
    about = tuple(word for word in dict.fromkeys(_of(description)) if word not in named)
    return named, about, frozenset(word[:STEM] for word in (*named, *about))


def _words(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in list(dict.fromkeys(_of(text[: MAX_WORDS * 40])))[:MAX_WORDS]:
        found.setdefault(word[:STEM], []).append(word)
    return found


def _of(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.casefold()) if word not in _IDLE]


def _is_among(word: str, wanted: Mapping[str, Sequence[str]]) -> bool:
    return any(_is_form(word, other) for other in wanted.get(word[:STEM], ()))


def _is_form(one: str, other: str) -> bool:
    """Tell whether two words that begin alike are forms of one: summary, summarize."""
    longer = max(len(one), len(other))
    alike = next((n for n in range(min(len(one), len(other)), 0, -1) if one[:n] == other[:n]), 0)
    return one == other or (alike >= STEM and 3 * alike >= 2 * longer)
