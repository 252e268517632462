"""Which files of the workspace a pattern means."""

import re
from functools import lru_cache

from elwood.foundation.storage.paths import holds_secrets, is_git, refusal

# Patterns of one task; a folder says as much as many files.
MAX_PATTERNS = 20
# Characters of a pattern; names with ** in it, and * in one name: each multiplies the work.
MAX_PATTERN = 500
MAX_DEEP = 3
MAX_STARS = 3
_WILD = re.compile(r"[*?]")


def complaint(pattern: str) -> str:
    """Say what is wrong with *pattern* and what to write instead; "" if it is fine."""
    like = "write a path within it, like inbox/*.md"
    if len(pattern) > MAX_PATTERN:
        return f"a pattern has at most {MAX_PATTERN} characters: {like}"
    names = pattern.split("/")
    if pattern.startswith(("/", "~")) or ".." in names:
        return f"{pattern!r} leads out of the workspace: {like}"
    why = refusal(pattern)
    if why is not None:
        return f"{pattern!r} is no path of the workspace, {why}: {like}"
    if holds_secrets(pattern) or is_git(pattern):
        return f"{pattern!r} is kept from Elwood: {like}"
    if sum("**" in name for name in names) > MAX_DEEP or any(
        _squeezed(name).count("*") > MAX_STARS for name in names
    ):
        return f"{pattern!r} has too many stars: {like}"
    return ""


def start(pattern: str) -> str:
    """Return the folder, or the file, at which a search for *pattern* begins; "." is the top."""
    names: list[str] = []
    for name in _names(pattern):
        if _WILD.search(name):
            break
        names.append(name)
    return "/".join(names) or "."


def matches(pattern: str, path: str) -> bool:
    """Tell whether *pattern* means the file *path*; both from the workspace on.

    ``*`` and ``?`` stand for anything in one name, ``**`` for folders in any number, and neither
    for names that begin with a dot.  Without any of them it is the file, or all in the folder.

    >>> matches("inbox/*.md", "inbox/a.md"), matches("inbox/*.md", "inbox/old/a.md")
    (True, False)
    >>> matches("inbox/**", "inbox/old/a.md"), matches("inbox", "inbox/a.md")
    (True, True)
    >>> matches("inbox/**", "inbox/.a.md.swp"), matches("inbox", "inbox/.hidden/a.md")
    (False, False)
    """
    return _compiled(pattern).fullmatch(path) is not None


_ANY_NAME = r"[^./][^/]*"


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    names = _names(pattern)
    if not any(_WILD.search(name) for name in names):
        fixed = "/".join(map(re.escape, names))
        return re.compile(f"{fixed}(?:/{_ANY_NAME})*" if fixed else f"{_ANY_NAME}(?:/{_ANY_NAME})*")
    parts: list[str] = []
    for place, name in enumerate(names):
        last = place == len(names) - 1
        if name == "**":
            parts.append(f"{_ANY_NAME}(?:/{_ANY_NAME})*" if last else f"(?:{_ANY_NAME}/)*")
        else:
            parts.append(_name(name) + ("" if last else "/"))
    return re.compile("".join(parts))


def _name(name: str) -> str:
    wild = "".join({"*": "[^/]*", "?": "[^/]"}.get(one, re.escape(one)) for one in _squeezed(name))
    return wild if name.startswith(".") else rf"(?!\.){wild}"


def _squeezed(name: str) -> str:
    return re.sub(r"\*+", "*", name)


def _names(pattern: str) -> list[str]:
    return [name for name in pattern.split("/") if name not in ("", ".")]
