"""What a skill is: the rules of its SKILL.md, what it needs, and how the model sees it.

The format is that of the open Agent Skills specification, read leniently as its guide for clients
asks: what can be made sense of is loaded with a warning.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence

import attrs

from elwood.foundation.text.front_matter import (
    FrontMatterError,
    FrontMatterValue,
    read_front_matter,
)
from elwood.foundation.text.tokens import estimate, fit

# Bytes of a SKILL.md; the recommended ones have a fifth of it.
MAX_FILE = 100_000
# Characters of a name and of a description, by the specification.
MAX_NAME, MAX_DESCRIPTION = 64, 1024
# Tokens of one skill in the catalogue (about what the longest description has in English).
EACH = 120

_NAME = re.compile(r"[^\W_]+(-[^\W_]+)*")
# Where a tag begins.
_TAG = re.compile(r"<(?=[/!?A-Za-z])")
# Names of one kind that are looked for.
MAX_NAMES = 20
_PROGRAM = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_SYSTEMS = {"darwin": "macOS", "win32": "Windows", "linux": "Linux"}


@attrs.frozen
class Needs:
    """Programs that must all exist, programs of which one must, variables, and operating systems.

    Systems are named as in OpenClaw's skills: linux, darwin, win32.
    """

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    os: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """All programs that have to be looked for."""
        return (*self.bins, *self.any_bins)


@attrs.frozen
class There:
    """What commands find: *bins* and *env* of those that were looked for, and the system *os*."""

    bins: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    os: str = "linux"


@attrs.frozen
class Unusable:
    """This is no skill; *why* is for its owner."""

    why: str


@attrs.frozen(kw_only=True)
class Skill:
    """A skill, as its SKILL.md has it.

    *body* are the instructions; *needs* is what must exist for it, *always* says that it wishes
    to be in every prompt.  *allowed_tools* are shown to the owner, and allow nothing.
    """

    name: str
    description: str
    body: str = attrs.field(repr=False)
    needs: Needs = attrs.field(factory=Needs)
    always: bool = False
    allowed_tools: tuple[str, ...] = ()
    license: str = ""
    compatibility: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The tag that begins what the model is given of it: it changes with the instructions."""
        digest = hashlib.sha256(self.body.encode("utf-8", "surrogatepass")).hexdigest()
        return f'<skill name="{self.name}" version="{digest[:12]}"'


def parse(content: bytes, folder: str) -> Skill | Unusable:
    r"""Read a SKILL.md that lies in *folder*, whose name is the skill's.

    >>> skill = parse(b"---\nname: pdf\ndescription: Fill PDF forms.\n---\nDo it.", "pdf")
    >>> skill.name, skill.description, skill.body, skill.warnings
    ('pdf', 'Fill PDF forms.', 'Do it.', ())
    >>> parse(b"Do it.", "pdf")
    Unusable(why='it does not begin with a line ---')
    """
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
    name = unicodedata.normalize("NFKC", folder)
    if not is_name(name, limit=255):
        return Unusable(f"the name of its folder is none of a skill: {NAME_RULE}")
    description = said(matter.fields.get("description"))
    if not description:
        return Unusable("it has no description, by which it could be found")
    warnings = []
    if matter.mended:
        warnings.append("a value with a colon is not in quotes")
    declared = unicodedata.normalize("NFKC", said(matter.fields.get("name")))
    if declared != name:
        warnings.append("its name is not that of its folder, which is taken")
    if len(name) > MAX_NAME:
        warnings.append(f"its name is longer than {MAX_NAME} characters")
    if len(description) > MAX_DESCRIPTION:
        warnings.append(f"its description was cut to {MAX_DESCRIPTION} characters")
    metadata = matter.fields.get("metadata", "")
    return Skill(
        name=name,
        description=description[:MAX_DESCRIPTION],
        body=matter.body.strip("\n"),
        needs=needs_of(metadata),
        always=_is_always(metadata),
        allowed_tools=_tools(matter.fields.get("allowed-tools", "")),
        license=said(matter.fields.get("license"))[:MAX_DESCRIPTION],
        compatibility=said(matter.fields.get("compatibility"))[:MAX_DESCRIPTION],
        warnings=tuple(warnings),
    )


def declared(content: bytes) -> str:
    """Say how a SKILL.md names itself; "" if it does not.

    >>> declared(b"---\\nname: pdf\\n---\\n"), declared(b"no front matter")
    ('pdf', '')
    """
    try:
        matter = read_front_matter(content[:MAX_FILE].decode("utf-8-sig", "replace"))
    except FrontMatterError:
        return ""
    return unicodedata.normalize("NFKC", said(matter.fields.get("name")))


NAME_RULE = f"1 to {MAX_NAME} lower-case letters, digits and single hyphens between them"


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


def _is_always(metadata: FrontMatterValue) -> bool:
    if not isinstance(metadata, Mapping):
        return False
    inner = metadata.get("openclaw", metadata)
    return isinstance(inner, Mapping) and inner.get("always") in ("true", "yes")


def _tools(value: FrontMatterValue) -> tuple[str, ...]:
    """Take the tools apart: blanks or commas between them, unless they stand in brackets."""
    if isinstance(value, str):
        value = tuple(re.findall(r"[^\s,(]+(?:\([^)]*\))?", value))
    return tuple(tool for one in value if (tool := said(one)))


# --- what it needs --------------------------------------------------------------------------------


def needs_of(metadata: FrontMatterValue) -> Needs:
    """Read ``requires`` out of a skill's metadata: ours, a text, or the nested one of OpenClaw.

    >>> needs_of({"requires": "bins: git, gh; env: TOKEN; os: linux"})
    Needs(bins=('git', 'gh'), any_bins=(), env=('TOKEN',), os=('linux',))
    >>> needs_of({"openclaw": {"requires": {"anyBins": ("rg", "grep")}, "os": ("linux",)}})
    Needs(bins=(), any_bins=('rg', 'grep'), env=(), os=('linux',))
    >>> needs_of("")
    Needs(bins=(), any_bins=(), env=(), os=())
    """
    if not isinstance(metadata, Mapping):
        return Needs()
    inner = metadata.get("openclaw", metadata)
    if not isinstance(inner, Mapping):
        return Needs()
    requires = inner.get("requires", "")
    if isinstance(requires, str):
        pairs = (part.partition(":") for part in requires.split(";"))
        requires = {key.strip(): value for key, _, value in pairs}
    found = requires if isinstance(requires, Mapping) else {}
    return Needs(
        _names(found.get("bins", "")),
        _names(found.get("anyBins", found.get("any", ""))),
        _names(found.get("env", "")),
        _names(found.get("os", inner.get("os", ""))),
    )


def missing(needs: Needs, there: There) -> str | None:
    """Say what of *needs* is not *there*, and what to do; None if all is.

    >>> missing(Needs(bins=("git",)), There(frozenset({"git"})))
    >>> missing(Needs(bins=("gh",), os=("darwin",)), There())
    'it is made for macOS, and needs the program gh, which is not installed where commands run'
    >>> missing(Needs(env=("TOKEN",)), There())
    'it needs the variable TOKEN, and Elwood gives commands no variables of yours'
    """
    reasons = []
    if needs.os and there.os not in needs.os:
        systems = " or ".join(_SYSTEMS.get(name, name) for name in needs.os)
        reasons.append(f"is made for {systems}")
    absent = [name for name in needs.bins if name not in there.bins]
    if absent:
        what, which = ("program", "is") if len(absent) == 1 else ("programs", "are")
        names = ", ".join(absent)
        reasons.append(f"needs the {what} {names}, which {which} not installed where commands run")
    if needs.any_bins and not there.bins.intersection(needs.any_bins):
        reasons.append(f"needs one of the programs {', '.join(needs.any_bins)}; none is installed")
    unset = [name for name in needs.env if name not in there.env]
    if unset:
        what = "variable" if len(unset) == 1 else "variables"
        names = ", ".join(unset)
        reasons.append(f"needs the {what} {names}, and Elwood gives commands no variables of yours")
    return f"it {', and '.join(reasons)}" if reasons else None


def _names(value: FrontMatterValue) -> tuple[str, ...]:
    if isinstance(value, str):
        value = tuple(value.replace(",", " ").split())
    if isinstance(value, Mapping):
        return ()
    names = (name for name in value if isinstance(name, str) and _PROGRAM.fullmatch(name))
    return tuple(dict.fromkeys(names))[:MAX_NAMES]


# --- what the model sees --------------------------------------------------------------------------


def catalogue(skills: Sequence[Skill], budget: int) -> str:
    """List *skills* for the system prompt, in about *budget* tokens; "" if there are none.

    What does not fit is counted; `skill_matching` finds it nevertheless.

    >>> skills = [Skill(name="pdf", description="Fill forms.", body="")]
    >>> print(catalogue(skills, 200).splitlines()[-1])
    - pdf: Fill forms.
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


HEAD = (
    "Skills are instructions for kinds of work. Before work that one of these is about, call "
    "activate_skill with its name, and follow what it says."
)


def resident(skills: Sequence[Skill], budget: int) -> tuple[str, list[str]]:
    """Write out the bodies of *skills* for the system prompt; return the names of those too long.

    >>> resident([Skill(name="a", description="", body="Be brief.")], 100)
    ('<skill name="a" version="213c22ed7234">\\nBe brief.\\n</skill>', [])
    """
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
