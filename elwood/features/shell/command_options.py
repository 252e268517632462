"""What may stand after a command: options that are listed, and paths inside the workspace."""

import re
from collections.abc import Sequence

import attrs

from elwood.features.shell.shell_words import Unclear
from elwood.foundation.storage.paths import holds_secrets, refusal


@attrs.frozen
class Options:
    """The options of a command; what is not listed, abbreviations too, is asked about.

    *alone* is one word, its value included; each of *taking* takes the next word, which must match.
    """

    alone: re.Pattern[str]
    taking: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = ()


@attrs.frozen
class Operands:
    """What is not an option; *after* the word ``--`` apart."""

    before: tuple[str, ...]
    after: tuple[str, ...]


def options(*alone: str, taking: dict[str, str] | None = None) -> Options:
    """Write options as regular expressions of whole words.

    >>> options("-[qv]+", taking={"-n": "[0-9]+"}).alone.pattern
    '-[qv]+'
    """
    return Options(
        re.compile("|".join(alone), re.ASCII | re.DOTALL),
        tuple(
            (re.compile(name), re.compile(value, re.ASCII | re.DOTALL))
            for name, value in (taking or {}).items()
        ),
    )


def operands(args: Sequence[str], listed: Options) -> Operands | Unclear:
    """Take the options out of *args*; like GNU programs, they may stand anywhere before ``--``.

    >>> operands(["a", "-q", "-n", "5", "--", "-b"], options("-[qv]+", taking={"-n": "[0-9]+"}))
    Operands(before=('a',), after=('-b',))
    >>> operands(["-f"], options("-[qv]+"))
    Unclear(why='the option -f is not on the list')
    """
    before: list[str] = []
    left = iter(args)
    for word in left:
        if word == "--":
            break
        if not word.startswith("-"):
            before.append(word)
        elif not listed.alone.fullmatch(word):
            values = [value for name, value in listed.taking if name.fullmatch(word)]
            given = next(left, None)
            if not values or given is None or not values[0].fullmatch(given):
                return Unclear(f"the option {word} is not on the list")
    return Operands(tuple(before), tuple(left))


def outside(path: str, root: str | None) -> Unclear | None:
    """Say why *path* may not be read unasked; *root* is where the workspace stands, if anywhere.

    ``..`` is refused wherever it stands: after a link it does not lead back.  That no link leads
    out of the workspace cannot be seen here; the sandbox and the check before running see to it.

    >>> outside("src/a.txt", None) is outside("/workspace/a.txt", "/workspace") is None
    True
    >>> outside("/etc/passwd", "/workspace")
    Unclear(why='/etc/passwd is outside the workspace')
    >>> outside("sub/.env", None)
    Unclear(why='sub/.env is a name that secrets are kept under')
    """
    if why := refusal(path):
        return Unclear(why)
    if holds_secrets(path):
        return Unclear(f"{path} is a name that secrets are kept under")
    below = path.startswith("/") and root and f"{path}/".startswith(f"{root.rstrip('/')}/")
    if path.startswith(("~", "-")) or ".." in path.split("/"):
        return Unclear(f"{path} may lead out of the workspace")
    if path.startswith("/") and not below:
        return Unclear(f"{path} is outside the workspace")
    return None
