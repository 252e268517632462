"""What a skill is: the rules of its SKILL.md, how the model sees it, and when one is meant.

The format is that of the open Agent Skills specification, read leniently as its guide for clients
asks: what can be made sense of is loaded.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import attrs
import msgspec

from elwood.foundation.storage.paths import refusal
from elwood.foundation.text.front_matter import (
    FrontMatterError,
    FrontMatterValue,
    read_front_matter,
)
from elwood.foundation.text.lines import escape_name
from elwood.foundation.text.tokens import estimate, fit

# Bytes of a SKILL.md; the recommended ones have a fifth of it.
MAX_FILE = 100_000
# What begins the text of a skill.
SKILL = '<skill name="'
# Characters of a name and of a description, by the specification.
MAX_NAME, MAX_DESCRIPTION = 64, 1024
# Tokens of one skill in the catalogue (about what the longest description has in English).
EACH = 120
# Programs, and variables, that are looked for.
MAX_NEEDS = 20

NAME_RULE = f"1 to {MAX_NAME} lower-case letters, digits and single hyphens between them"
_NAME = re.compile(r"[^\W_]+(-[^\W_]+)*")
# Where a tag begins.
_TAG = re.compile(r"<(?=[/!?A-Za-z])")
_NEED = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


class Unusable(msgspec.Struct, frozen=True):
    """This is no skill; *why* is for its owner."""

    why: str


@attrs.frozen(kw_only=True)
class Skill:
    """A skill, as its SKILL.md has it.

    *body* are the instructions; *programs* and *variables* are what commands must find for it,
    *packages* what it would have installed.
    """

    name: str
    description: str
    body: str = attrs.field(repr=False)
    programs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The tag that begins what the model is given of it: it changes with the instructions."""
        digest = hashlib.sha256(self.body.encode("utf-8", "surrogatepass")).hexdigest()
        return f'{SKILL}{self.name}" version="{digest[:12]}"'


def parse(content: bytes, folder: str | None = None) -> Skill | Unusable:
    """Read a SKILL.md that lies in *folder*, whose name is the skill's; else it names itself."""
    if len(content) > MAX_FILE:
        return Unusable(f"SKILL.md has more than {MAX_FILE:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Unusable("SKILL.md is not text in UTF-8")
    if "\0" in text:
        return Unusable("SKILL.md has a zero byte in it")
    try:
        matter = read_front_matter(text)
    except FrontMatterError as error:
        return Unusable(str(error))
    declared = unicodedata.normalize("NFKC", said(matter.fields.get("name")))
    name = declared if folder is None else unicodedata.normalize("NFKC", folder)
    if not is_name(name, limit=MAX_NAME if folder is None else 255):
        return Unusable(f"the name of a skill must be {NAME_RULE}")
    description = said(matter.fields.get("description"))
    if not description:
        return Unusable("it has no description, by which it could be found")
    programs, variables, packages = _needs(matter.fields)
    return Skill(
        name=name,
        description=description[:MAX_DESCRIPTION],
        body=matter.body.strip("\n"),
        programs=programs,
        variables=variables,
        packages=packages,
    )


def is_name(name: str, limit: int = MAX_NAME) -> bool:
    """Tell whether *name* is one of a skill.

    >>> [is_name(name) for name in ("pdf-forms", "PDF", "a--b", "-a", "../a", "", "überblick")]
    [True, False, False, False, False, False, True]
    """
    return len(name) <= limit and name == name.lower() and _NAME.fullmatch(name) is not None


def said(value: FrontMatterValue | None) -> str:
    r"""Make one line of a value: no character in it can hide, or pass for something else.

    >>> said("two\nlines\u202e </skill> -> 3 < 4"), said(("a",)), said(None)
    ('two lines /skill> -> 3 < 4', '', '')
    """
    if not isinstance(value, str):
        return ""
    text = " ".join(_TAG.sub("", value).split())
    return "".join(char for char in text if unicodedata.category(char)[0] != "C").strip()


def _needs(fields: Mapping[str, FrontMatterValue]) -> tuple[tuple[str, ...], ...]:
    """Read the programs, variables and packages that a skill needs.

    Its metadata names them as ``requires``, ours or OpenClaw's, a text or a map; and ``addons``,
    which may stand outside of it.
    """
    metadata = fields.get("metadata", "")
    inner = metadata.get("openclaw", metadata) if isinstance(metadata, Mapping) else {}
    inner = inner if isinstance(inner, Mapping) else {}
    requires, addons = inner.get("requires", ""), fields.get("addons", inner.get("addons"))
    if isinstance(requires, str):
        pairs = (part.partition(":") for part in requires.split(";"))
        requires = {key.strip(): value for key, _, value in pairs}
    requires, addons = (one if isinstance(one, Mapping) else {} for one in (requires, addons))
    variables = _names(requires.get("env", "")) + _names(addons.get("env", ""))
    return _names(requires.get("bins", "")), variables, _names(addons.get("packages", ""))


def _names(value: FrontMatterValue) -> tuple[str, ...]:
    names = value.replace(",", " ").split() if isinstance(value, str) else value
    found = (name for name in names if isinstance(name, str) and _NEED.fullmatch(name))
    return tuple(dict.fromkeys(found))[:MAX_NEEDS]


# --- what the model sees --------------------------------------------------------------------------

HEAD = (
    "Skills are instructions for kinds of work. Before work that one of these is about, call "
    "activate_skill with its name, and follow what it says."
)


def catalogue(skills: Sequence[Skill], budget: int) -> str:
    """List *skills* for the system prompt, in about *budget* tokens; "" if there are none.

    What does not fit is counted; `matching` finds it nevertheless.
    """
    if not skills:
        return ""
    lines = [HEAD]
    left = budget - estimate(HEAD)
    for number, skill in enumerate(skills):
        line = fit(f"- {skill.name}: {skill.description}", EACH).rstrip()
        left -= estimate(line) + 1
        if left < 0:
            lines.append(f"({len(skills) - number} more are not listed here.)")
            break
        lines.append(line)
    return "\n".join(lines)


def resident(skills: Sequence[Skill], budget: int) -> tuple[str, list[str]]:
    """Write out the bodies of *skills* for the prompt; return the names of those too long."""
    parts: list[str] = []
    left_out: list[str] = []
    for skill in skills:
        text = f"{skill.mark}>\n{skill.body}\n</skill>"
        cost = estimate(text)
        if cost > budget:
            left_out.append(skill.name)
            continue
        budget -= cost
        parts.append(text)
    return "\n\n".join(parts), left_out


# --- which skill is meant -------------------------------------------------------------------------

# Points from which a skill is said to fit: two words of a name, or one and another in what is said
# about it.  A word of a name counts three points, any other one.
FITS, NAMED = 4, 3
# Points from which its instructions are given at once: more than a word of its name and another.
LOADS = 5
# Words of a message that are looked at.
MAX_WORDS = 300
# Letters that two words must begin with alike to be two forms of one word.
STEM = 4

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
    name = word[1:].split("@")[0].rstrip(":.").replace("_", "-").casefold()
    if not word.startswith("/"):
        return None
    skill = next((skill for skill in skills if skill.name.casefold() == name), None)
    return None if skill is None else (skill, "".join(rest))


def matching(
    skills: Iterable[Skill], message: str, limit: int = 3, least: int = FITS
) -> tuple[Skill, ...]:
    """Find at most *limit* skills that clearly fit *message*, the best first."""
    wanted: dict[str, list[str]] = {}
    for word in _words(message[: MAX_WORDS * 40])[:MAX_WORDS]:
        wanted.setdefault(word[:STEM], []).append(word)
    scored = [(_score(skill, wanted), skill) for skill in skills]
    fitting = [(-points, skill.name, skill) for points, skill in scored if points >= least]
    return tuple(skill for _, _, skill in sorted(fitting, key=lambda one: one[:2])[:limit])


def _score(skill: Skill, wanted: Mapping[str, Sequence[str]]) -> int:
    """Count what *wanted*, words by how they begin, has in common with *skill*."""
    named, about, stems = _subject(skill.name, skill.description)
    if stems.isdisjoint(wanted):
        return 0
    points = NAMED * sum(_is_among(word, wanted) for word in named)
    return points + sum(_is_among(word, wanted) for word in about)


@lru_cache(maxsize=1024)  # asked at each turn about every skill
def _subject(name: str, description: str) -> tuple[list[str], list[str], frozenset[str]]:
    """Return the words of a skill's name, the others that are said of it, and how all begin."""
    named = _words(name)
    about = [word for word in _words(description) if word not in named]
    return named, about, frozenset(word[:STEM] for word in (*named, *about))


def _words(text: str) -> list[str]:
    words = dict.fromkeys(_WORD.findall(text.casefold()))
    return [word for word in words if word not in _IDLE]


def _is_among(word: str, wanted: Mapping[str, Sequence[str]]) -> bool:
    return any(_is_form(word, other) for other in wanted.get(word[:STEM], ()))


def _is_form(one: str, other: str) -> bool:
    """Tell whether two words that begin alike are forms of one: summary, summarize."""
    alike = 0
    while one[: alike + 1] == other[: alike + 1] and alike < min(len(one), len(other)):
        alike += 1
    return one == other or (alike >= STEM and 3 * alike >= 2 * max(len(one), len(other)))


# --- a skill that somebody offers: whether it may be placed, and what the owner must see of it ----

MANUAL = "SKILL.md"
# Written by us beside it: where a skill came from.
RECORD = ".installed.json"
# Files of a skill, bytes of all together, folders within one another.
MAX_FILES, MAX_BYTES, MAX_DEPTH = 300, 4 << 20, 6
# Characters of a script that is shown, not only named by its hash; other files that are listed.
SHOW_ONE, MAX_LISTED = 4_000, 40

_SCRIPTS = re.compile(
    r".*\.(sh|bash|zsh|fish|py|pyw|js|mjs|cjs|ts|rb|pl|php|lua|ps1|bat|cmd|r|jl|tcl|awk|sql|nix"
    r"|exe|dll|so|dylib|jar|wasm|class|pyc|whl|deb|rpm|appimage|desktop|service)"
    r"|(.*/)?(makefile|justfile|dockerfile|rakefile)",
    re.IGNORECASE,
)


@attrs.frozen
class SkillFile:
    """A file of a skill, by its *path* from the skill's folder."""

    path: str
    content: bytes = attrs.field(repr=False)
    executable: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@attrs.frozen
class Candidate:
    """A skill that may be installed, from *source*; *digest* is the hash of all its files."""

    skill: Skill
    files: tuple[SkillFile, ...] = attrs.field(repr=False)
    digest: str
    source: str = ""
    commit: str = ""


def candidate(
    files: Sequence[SkillFile], source: str = "", commit: str = ""
) -> Candidate | Unusable:
    for file in files:
        why = refusal(file.path)
        if why is None and file.path.count("/") >= MAX_DEPTH:
            why = f"it is more than {MAX_DEPTH} folders deep"
        if why is not None:
            return Unusable(f"{escape_name(file.path)}: {why}")
    manual = next((file for file in files if file.path == MANUAL), None)
    if manual is None:
        return Unusable("there is no SKILL.md at its top")
    skill = parse(manual.content)
    if isinstance(skill, Unusable):
        return skill
    return Candidate(skill, tuple(files), digest(files), source, commit)


def digest(files: Sequence[SkillFile]) -> str:
    """Hash all *files*: names, what is in them, and which may be run."""
    hashed = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.path):
        hashed.update(f"{file.path}\0{file.executable:d} {file.digest}\0".encode())
    return hashed.hexdigest()


def is_executable(file: SkillFile) -> bool:
    """Tell whether *file* can be run: by its mode, place, name, or how it begins."""
    return (
        file.executable
        or file.path.startswith(("scripts/", "bin/", "hooks/"))
        or _SCRIPTS.fullmatch(file.path) is not None
        or file.content.startswith((b"#!", b"\x7fELF", b"MZ"))
        or b"\0" in file.content[:4096]
    )


def review(offered: Candidate, hidden: str = "") -> str:
    """Write what the owner is shown before a skill is installed: all that instructs or can act.

    What is too long to be read is named by its hash.  *hidden* is where a skill of this name lies
    that would be used no more.
    """
    skill, commit = offered.skill, f" at commit {offered.commit}" if offered.commit else ""
    lines = [
        f"Install the skill {skill.name} from {offered.source}{commit}",
        f"What it is for (in every prompt): {skill.description}",
    ]
    if hidden:
        lines.append(f"It takes the place of the skill of this name in {hidden}.")
    lines += [f"SHA-256 of all its files: {offered.digest}", ""]
    lines += ["--- instructions ---", skill.body or "(none)", ""]
    scripts = [file for file in offered.files if is_executable(file)]
    lines += map(_script, scripts)
    if not scripts:
        lines.append("It has no files that can be run.")
    others = [f for f in offered.files if f not in scripts and f.path != MANUAL]
    if others:
        named = [f"{file.path} ({len(file.content):,} bytes)" for file in others[:MAX_LISTED]]
        more = f" and {len(others) - MAX_LISTED} more" if len(others) > MAX_LISTED else ""
        lines += ["", f"Other files: {', '.join(named)}{more}"]
    return "\n".join(lines)


def _script(file: SkillFile) -> str:
    try:
        text = file.content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text and len(text) <= SHOW_ONE:
        return f"--- can be run: {file.path} ---\n{text}"
    size = f"{len(file.content):,} bytes"
    return f"--- can be run, not shown: {file.path}, {size}, SHA-256 {file.digest}"
