"""A skill that somebody offers: whether its files may be placed, and what the owner must see of it.

What can act is shown whole, or by its hash where it is too long to be read; what only instructs is
shown as far as there is room.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from elwood.features.skills.skill import Skill, Unusable, parse
from elwood.foundation.storage.paths import holds_secrets, is_git, refusal
from elwood.foundation.text.lines import escape_name

MANUAL = "SKILL.md"
# Written by us beside it: where a skill came from.
RECORD = ".installed.json"
# Files of a skill, bytes of all together, folders within one another.
MAX_FILES, MAX_BYTES, MAX_DEPTH = 300, 4 << 20, 6
# Characters of SKILL.md, of one script, and of all scripts, that a question shows: all of it has
# to stay below what can be asked (`prompt_text.MAX_SHOWN`), with what escaping adds.
SHOW_MANUAL, SHOW_ONE, SHOW_ALL = 10_000, 4_000, 12_000
# Files that can be run, each of which is shown; others that are listed by name.
MAX_SCRIPTS, MAX_LISTED = 60, 40

_SCRIPTS = re.compile(
    r".*\.(sh|bash|zsh|fish|py|pyw|js|mjs|cjs|ts|rb|pl|php|lua|ps1|bat|cmd|r|jl|tcl|awk|sql|nix"
    r"|exe|dll|so|dylib|jar|wasm|class|pyc|whl|deb|rpm|appimage|desktop|service)"
    r"|(.*/)?(makefile|justfile|dockerfile|rakefile)",
    re.IGNORECASE,
)
# What may stand before a fence: it can be in a list, or quoted.
_BEFORE = " \t>*+-0123456789.)"
_FENCE = re.compile(r"`{3,}|~{3,}")
# A line that is code, or has some in it.
_CODE = re.compile(r"^( {4}|[> ]*\t|>[> ]* {5})|`|<(pre|code)\b", re.IGNORECASE)


@attrs.frozen
class SkillFile:
    """A file of a skill, by its *path* from the skill's folder."""

    path: str
    content: bytes = attrs.field(repr=False)
    executable: bool = False

    @property
    def digest(self) -> str:
        """The hash of what is in it."""
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
    files: Iterable[SkillFile], source: str = "", commit: str = ""
) -> Candidate | Unusable:
    r"""Judge the files of a skill; git's own and our record are left out.

    >>> manual = SkillFile("SKILL.md", b"---\nname: pdf\ndescription: Forms.\n---\n")
    >>> made = candidate([manual, SkillFile(".git/config", b"")])
    >>> made.skill.name, [file.path for file in made.files]
    ('pdf', ['SKILL.md'])
    >>> candidate([SkillFile("../x", b"")])
    Unusable(why='../x: the path leads out of the folder')
    """
    kept = sorted(
        (file for file in files if not is_git(file.path) and file.path != RECORD),
        key=lambda file: file.path,
    )
    for file in kept:
        why = unfit(file.path)
        if why is not None:
            return Unusable(f"{escape_name(file.path)}: {why}")
    if len(kept) > MAX_FILES:
        return Unusable(f"it has more than {MAX_FILES} files")
    if sum(len(file.content) for file in kept) > MAX_BYTES:
        return Unusable(f"it has more than {MAX_BYTES:,} bytes")
    if len({file.path.casefold() for file in kept}) < len(kept):
        return Unusable("two of its files have one name")
    manual = next((file for file in kept if file.path == MANUAL), None)
    if manual is None:
        return Unusable("there is no SKILL.md at its top")
    skill = parse(manual.content)
    if isinstance(skill, Unusable):
        return skill
    if sum(map(is_executable, kept)) > MAX_SCRIPTS or len(_shown(skill)) > SHOW_MANUAL:
        return Unusable("it has more that can be run than a question can show")
    return Candidate(skill, tuple(kept), digest(kept), source, commit)


def unfit(path: str) -> str | None:
    """Say why a file of this *path* may not be part of a skill; None if it may.

    >>> unfit("scripts/a.sh"), unfit("/etc/x"), unfit(".env")
    (None, 'the path leads out of the folder', 'it has a name that secrets are kept under')
    """
    why = refusal(path)
    if why is not None:
        return why
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "the path leads out of the folder"
    if len(parts) > MAX_DEPTH:
        return f"it is more than {MAX_DEPTH} folders deep"
    if holds_secrets(path):
        return "it has a name that secrets are kept under"
    return None


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
    """Write what the owner is shown before a skill is installed.

    *hidden* is where a skill of this name lies that would be used no more.
    """
    skill, commit = offered.skill, f" at commit {offered.commit}" if offered.commit else ""
    lines = [
        f"Install the skill {skill.name} from {offered.source}{commit}",
        f"What it is for (in every prompt): {skill.description}",
    ]
    if hidden:
        lines.append(f"It takes the place of the skill of this name in {hidden}.")
    lines += [f"SHA-256 of all its files: {offered.digest}", ""]
    part = _shown(skill)
    if part == skill.body:
        lines.append("--- instructions ---")
    else:
        size = f"{len(skill.body):,}"
        lines.append(f"--- the code in the instructions, which have {size} characters ---")
    scripts = [file for file in offered.files if is_executable(file)]
    lines += [part or "(none)", "", *_scripts(scripts)]
    others = [f for f in offered.files if f not in scripts and f.path != MANUAL]
    if others:
        named = [f"{file.path} ({len(file.content):,} bytes)" for file in others[:MAX_LISTED]]
        more = f" and {len(others) - MAX_LISTED} more" if len(others) > MAX_LISTED else ""
        lines += ["", f"Other files: {', '.join(named)}{more}"]
    return "\n".join(lines)


def _shown(skill: Skill) -> str:
    """Take what is shown of the instructions: all, or the lines that have code in them."""
    if len(skill.body) <= SHOW_MANUAL:
        return skill.body
    code: list[str] = []
    fence = ""
    for line in skill.body.splitlines():
        inner = line.lstrip(_BEFORE)
        if fence:
            code.append(line)
            fence = "" if inner.startswith(fence) else fence
        elif found := _FENCE.match(inner):
            code.append(line)
            fence = found[0]
        elif _CODE.search(line):
            code.append(line)
    return "\n".join(code)


def _scripts(files: Sequence[SkillFile]) -> Iterator[str]:
    if not files:
        yield "It has no files that can be run."
    room = SHOW_ALL
    for file in files:
        try:
            text = file.content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" not in text and len(text) <= min(SHOW_ONE, room):
            room -= len(text)
            yield f"--- can be run: {file.path} ---\n{text}"
        else:
            size = f"{len(file.content):,} bytes"
            yield f"--- can be run, not shown: {file.path}, {size}, SHA-256 {file.digest}"
