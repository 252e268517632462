"""Skills: parse SKILL.md, format a skill for the model, and match messages to skills.

The format is the open Agent Skills specification, parsed leniently as its guide for clients asks: a
skill is loaded if it makes sense.
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

# Bytes of a SKILL.md; five times the recommended length.
MAX_FILE = 100_000
# Prefix of the text of a skill.
SKILL = '<skill name="'
# Characters of a name and of a description, by the specification.
MAX_NAME, MAX_DESCRIPTION = 64, 1024
# Tokens of one skill in the catalogue (about the longest description in English).
EACH = 120
# Programs, or variables, that are looked for.
MAX_NEEDS = 20

NAME_RULE = f"1 to {MAX_NAME} lower-case letters, digits and single hyphens between them"
_NAME = re.compile(r"[^\W_]+(-[^\W_]+)*")
# Start of a tag.
_TAG = re.compile(r"<(?=[/!?A-Za-z])")
_NEED = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


class Unusable(msgspec.Struct, frozen=True):
    """This is not a skill."""

    why: str  # the reason, for its owner


@attrs.frozen(kw_only=True)
class Skill:
    """A skill from its SKILL.md."""

    name: str
    description: str
    body: str = attrs.field(repr=False)  # instructions
    programs: tuple[str, ...] = ()  # needed by its commands
    variables: tuple[str, ...] = ()  # needed by its commands
    packages: tuple[str, ...] = ()  # packages that it would install

    @property
    def mark(self) -> str:
        """Prefix of the text for the model, unique to this version of the instructions."""
        digest = hashlib.sha256(self.body.encode("utf-8", "surrogatepass")).hexdigest()
        return f'{SKILL}{self.name}" version="{digest[:12]}"'


def parse(content: bytes, folder: str | None = None) -> Skill | Unusable:
    """Parse a SKILL.md in *folder*, whose name is the skill's; without one it names itself."""
    if len(content) > MAX_FILE:
        return Unusable(f"SKILL.md has more than {MAX_FILE:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Unusable("SKILL.md is not UTF-8 text")
    if "\0" in text:
        return Unusable("SKILL.md contains a zero byte")
    try:
        matter = read_front_matter(text)
    except FrontMatterError as error:
        return Unusable(str(error))
    declared = unicodedata.normalize("NFKC", format_line(matter.fields.get("name")))
    name = declared if folder is None else unicodedata.normalize("NFKC", folder)
    if not is_name(name, limit=MAX_NAME if folder is None else 255):
        return Unusable(f"the name of a skill must be {NAME_RULE}")
    description = format_line(matter.fields.get("description"))
    if not description:
        return Unusable("it has no description")
    programs, variables, packages = _parse_needs(matter.fields)
    return Skill(
        name=name,
        description=description[:MAX_DESCRIPTION],
        body=matter.body.strip("\n"),
        programs=programs,
        variables=variables,
        packages=packages,
    )


def is_name(name: str, limit: int = MAX_NAME) -> bool:
    """Return True if *name* is valid for a skill.

    >>> [is_name(name) for name in ("pdf-forms", "PDF", "a--b", "-a", "../a", "", "überblick")]
    [True, False, False, False, False, False, True]
    """
    return len(name) <= limit and name == name.lower() and _NAME.fullmatch(name) is not None


def format_line(value: FrontMatterValue | None) -> str:
    r"""Format a value as one line, with invisible and special characters removed.

    >>> format_line("two\nlines\u202e </skill> -> 3 < 4"), format_line(("a",)), format_line(None)
    ('two lines /skill> -> 3 < 4', '', '')
    """
    if not isinstance(value, str):
        return ""
    text = " ".join(_TAG.sub("", value).split())
    return "".join(char for char in text if unicodedata.category(char)[0] != "C").strip()


def _parse_needs(fields: Mapping[str, FrontMatterValue]) -> tuple[tuple[str, ...], ...]:
    """Parse the programs, variables and packages that a skill needs.

    Its metadata names them as ``requires``, ours or OpenClaw's, a text or a map; and as ``addons``,
    which may be outside the metadata.
    """
    metadata = fields.get("metadata", "")
    inner = metadata.get("openclaw", metadata) if isinstance(metadata, Mapping) else {}
    inner = inner if isinstance(inner, Mapping) else {}
    requires, addons = inner.get("requires", ""), fields.get("addons", inner.get("addons"))
    if isinstance(requires, str):
        pairs = (part.partition(":") for part in requires.split(";"))
        requires = {key.strip(): value for key, _, value in pairs}
    requires, addons = (one if isinstance(one, Mapping) else {} for one in (requires, addons))
    variables = _parse_names(requires.get("env", "")) + _parse_names(addons.get("env", ""))
    return (
        _parse_names(requires.get("bins", "")),
        variables,
        _parse_names(addons.get("packages", "")),
    )


def _parse_names(value: FrontMatterValue) -> tuple[str, ...]:
    names = value.replace(",", " ").split() if isinstance(value, str) else value
    valid = (name for name in names if isinstance(name, str) and _NEED.fullmatch(name))
    return tuple(dict.fromkeys(valid))[:MAX_NEEDS]


# --- text for the model ---------------------------------------------------------------------------

HEAD = (
    "Skills are instructions for kinds of work. Before work that matches a skill of this list, "
    "call activate_skill with its name, and follow its instructions."
)


def format_catalogue(skills: Sequence[Skill], budget: int) -> str:
    """List *skills* for the system prompt, in about *budget* tokens; "" if there are none.

    The rest is counted; `find_matching` still finds it.
    """
    if not skills:
        return ""
    lines = [HEAD]
    left = budget - estimate(HEAD)
    for number, skill in enumerate(skills):
        line = fit(f"- {skill.name}: {skill.description}", EACH).rstrip()
        left -= estimate(line) + 1
        if left < 0:
            lines.append(f"({len(skills) - number} more skills are not listed here.)")
            break
        lines.append(line)
    return "\n".join(lines)


def format_resident(skills: Sequence[Skill], budget: int) -> tuple[str, list[str]]:
    """Format the bodies of *skills* for the prompt; return the names of those that are too long."""
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


# --- matching -------------------------------------------------------------------------------------

# Points from which a skill fits: two words of its name, or one word of its name and another of its
# description.  A word of a name counts three points, any other one.
FITS, NAMED = 4, 3
# Points from which its instructions are added: more than a word of its name and another.
LOADS = 5
# Words of a message that are matched.
MAX_WORDS = 300
# Common first letters that make two words forms of one word.
STEM = 4

_WORD = re.compile(r"[^\W_]{3,40}")
# Words that carry no meaning for the match.
_IDLE = frozenset(
    _WORD.findall(
        "about after all also and any are before can does for from get has have how into its just "
        "like make more not now one other our out please should some such than that the their them "
        "then there these they this use used user uses using want was what when where which "
        "while who will with without work would you your"
    )
)


def match_command(skills: Iterable[Skill], message: str) -> tuple[Skill, str] | None:
    """Find the skill that *message* starts with as ``/name``, and the text after it.

    Telegram commands have no dashes: ``_`` is used for one.

    >>> skills = [Skill(name="code-review", description="Review changes.", body="")]
    >>> found = match_command(skills, "/code_review the last commit")
    >>> found and (found[0].name, found[1])
    ('code-review', 'the last commit')
    >>> match_command(skills, "/code")
    """
    word, *rest = message.split(maxsplit=1) or [""]
    name = word[1:].split("@")[0].rstrip(":.").replace("_", "-").casefold()
    if not word.startswith("/"):
        return None
    skill = next((skill for skill in skills if skill.name.casefold() == name), None)
    return None if skill is None else (skill, "".join(rest))


def find_matching(
    skills: Iterable[Skill], message: str, limit: int = 3, least: int = FITS
) -> tuple[Skill, ...]:
    """Find at most *limit* skills that clearly fit *message*, the best first."""
    by_stem: dict[str, list[str]] = {}
    for word in _split_words(message[: MAX_WORDS * 40])[:MAX_WORDS]:
        by_stem.setdefault(word[:STEM], []).append(word)
    scored = [(_count_points(skill, by_stem), skill) for skill in skills]
    fitting = [(-points, skill.name, skill) for points, skill in scored if points >= least]
    return tuple(skill for _, _, skill in sorted(fitting, key=lambda one: one[:2])[:limit])


def _count_points(skill: Skill, by_stem: Mapping[str, Sequence[str]]) -> int:
    """Count the points of *skill* for a message's words, *by_stem*."""
    named, about, stems = _index_words(skill.name, skill.description)
    if stems.isdisjoint(by_stem):
        return 0
    points = NAMED * sum(_is_among(word, by_stem) for word in named)
    return points + sum(_is_among(word, by_stem) for word in about)


@lru_cache(maxsize=1024)  # used each turn for every skill
def _index_words(name: str, description: str) -> tuple[list[str], list[str], frozenset[str]]:
    """Return the words of a skill's name, the other words of its description, and all stems."""
    named = _split_words(name)
    about = [word for word in _split_words(description) if word not in named]
    return named, about, frozenset(word[:STEM] for word in (*named, *about))


def _split_words(text: str) -> list[str]:
    words = dict.fromkeys(_WORD.findall(text.casefold()))
    return [word for word in words if word not in _IDLE]


def _is_among(word: str, by_stem: Mapping[str, Sequence[str]]) -> bool:
    return any(_is_form(word, other) for other in by_stem.get(word[:STEM], ()))


def _is_form(one: str, other: str) -> bool:
    """Return True if two words with a common start are forms of one: summary, summarize."""
    alike = 0
    while one[: alike + 1] == other[: alike + 1] and alike < min(len(one), len(other)):
        alike += 1
    return one == other or (alike >= STEM and 3 * alike >= 2 * max(len(one), len(other)))


# --- checks and review before an install ----------------------------------------------------------

MANUAL = "SKILL.md"
# File that we write into an installed skill: its source.
RECORD = ".installed.json"
# Files of a skill, bytes of all together, and depth of folders.
MAX_FILES, MAX_BYTES, MAX_DEPTH = 300, 4 << 20, 6
# Characters of a script shown in full; other files that are listed.
SHOW_ONE, MAX_LISTED = 4_000, 40

_SCRIPTS = re.compile(
    r".*\.(sh|bash|zsh|fish|py|pyw|js|mjs|cjs|ts|rb|pl|php|lua|ps1|bat|cmd|r|jl|tcl|awk|sql|nix"
    r"|exe|dll|so|dylib|jar|wasm|class|pyc|whl|deb|rpm|appimage|desktop|service)"
    r"|(.*/)?(makefile|justfile|dockerfile|rakefile)",
    re.IGNORECASE,
)


@attrs.frozen
class SkillFile:
    """A file of a skill; *path* is relative to the skill's folder."""

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


def build_candidate(
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
        return Unusable("it has no SKILL.md in its top folder")
    skill = parse(manual.content)
    if isinstance(skill, Unusable):
        return skill
    return Candidate(skill, tuple(files), digest(files), source, commit)


def digest(files: Sequence[SkillFile]) -> str:
    """Hash all *files*: names, content, and the executable bits."""
    hashed = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.path):
        hashed.update(f"{file.path}\0{file.executable:d} {file.digest}\0".encode())
    return hashed.hexdigest()


def is_executable(file: SkillFile) -> bool:
    """Return True if *file* can be run: by its mode, folder, name, or first bytes."""
    return (
        file.executable
        or file.path.startswith(("scripts/", "bin/", "hooks/"))
        or _SCRIPTS.fullmatch(file.path) is not None
        or file.content.startswith((b"#!", b"\x7fELF", b"MZ"))
        or b"\0" in file.content[:4096]
    )


def review(offered: Candidate, hidden: str = "") -> str:
    """Format everything that instructs or can act, for the owner's consent to an install.

    A file too long to read is named by its hash.  *hidden* is the folder of a skill of the same
    name that this one would replace.
    """
    skill, commit = offered.skill, f" at commit {offered.commit}" if offered.commit else ""
    lines = [
        f"Install the skill {skill.name} from {offered.source}{commit}",
        f"Description (in every prompt): {skill.description}",
    ]
    if hidden:
        lines.append(f"It hides the skill with the same name in {hidden}.")
    lines += [f"SHA-256 of all its files: {offered.digest}", ""]
    lines += ["--- instructions ---", skill.body or "(none)", ""]
    scripts = [file for file in offered.files if is_executable(file)]
    lines += map(_format_script, scripts)
    if not scripts:
        lines.append("It has no executable files.")
    others = [f for f in offered.files if f not in scripts and f.path != MANUAL]
    if others:
        named = [f"{file.path} ({len(file.content):,} bytes)" for file in others[:MAX_LISTED]]
        more = f" and {len(others) - MAX_LISTED} more" if len(others) > MAX_LISTED else ""
        lines += ["", f"Other files: {', '.join(named)}{more}"]
    return "\n".join(lines)


def _format_script(file: SkillFile) -> str:
    try:
        text = file.content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text and len(text) <= SHOW_ONE:
        return f"--- executable: {file.path} ---\n{text}"
    size = f"{len(file.content):,} bytes"
    return f"--- executable, not shown: {file.path}, {size}, SHA-256 {file.digest}"
