"""The commands that run without asking: they only look, and only at what is inside the workspace.

Each stands here with its options; what is not listed is asked about (security.md §1.3 rule 2).
"""

import re
from collections.abc import Sequence

from elwood.features.shell.command_options import (
    Operands,
    Options,
    operands,
    options,
    outside,
)
from elwood.features.shell.git_commands import looking
from elwood.features.shell.shell_words import FOLDERS, Unclear, Word

# Of lines and bytes; without a unit, so that nobody writes 50G.
_COUNT = "[0-9]{1,9}"
# Not -R, which has no end in sight; not -L and -H, which look behind links.
_LS = options(
    "-[aAbBcCdfFgGhiklmnNopqQrsStuUvxX1]+",
    "--(all|almost-all|author|classify|directory|escape|file-type|full-time|group-directories-first"
    "|human-readable|ignore-backups|inode|kibibytes|literal|no-group|numeric-uid-gid|quote-name"
    "|reverse|show-control-chars|si|size|zero)",
    "--color(=(always|auto|never))?",
    "--sort=(none|size|time|version|extension|width)",
    "--time=(atime|access|use|ctime|status|birth|creation)",
    "--time-style=(full-iso|long-iso|iso|locale)",
    "--indicator-style=(none|slash|file-type|classify)",
    "--format=(across|commas|horizontal|long|single-column|verbose|vertical)",
)
_CAT = options(
    "-[AbeEnstTuv]+",
    "--(show-all|number-nonblank|show-ends|number|squeeze-blank|show-tabs|show-nonprinting)",
)
_ENDS = "--(quiet|silent|verbose|zero-terminated)"
_HEAD = options(
    f"-[qvz]+|{_ENDS}|-{_COUNT}|-[qvz]*[nc]-?{_COUNT}|--(lines|bytes)=-?{_COUNT}",
    taking={"-[qvz]*[nc]|--lines|--bytes": f"-?{_COUNT}"},
)
# Not -f, -F and --retry, which wait for ever.
_TAIL = options(
    f"-[qvz]+|{_ENDS}|-{_COUNT}|-[qvz]*[nc][-+]?{_COUNT}|--(lines|bytes)=[-+]?{_COUNT}",
    taking={"-[qvz]*[nc]|--lines|--bytes": f"[-+]?{_COUNT}"},
)
# Not -f and -r, which read files, nor -s, which sets the clock.  A zone can name a file.
_MOMENT = "(?!.*TZ=).*"
_DATE = options(
    "-[uR]+|--(utc|universal|rfc-email)",
    "(-I|--iso-8601=)(date|hours|minutes|seconds|ns)|-I|--iso-8601",
    "--rfc-3339=(date|seconds|ns)",
    f"-[uR]*d(?=.){_MOMENT}|--date={_MOMENT}",
    taking={"-[uR]*d|--date": _MOMENT},
)
# "%0999999999Y" would write a thousand million blanks.
_WIDE = re.compile(r"%[-_0^#+:]*[0-9]{3}")
_DIRECTORY = re.compile("-[A-Za-z1]*d[A-Za-z1]*|--directory")
# What is run for `ls -d */`: nothing of what was asked for stands in the script.
FOLDERS_SCRIPT = ("sh", "-c", 'exec ls "$@" -- */', "sh")
_PWD = options("-[LP]")
_NOTHING = options("(?!)")


def safe(words: Sequence[Word], piped: bool, root: str | None) -> tuple[str, ...] | Unclear:
    """Give what to run for *words*, which get another command's output if *piped*; or say why not.

    >>> safe([Word("head"), Word("-n"), Word("5"), Word("a b", bare=False)], False, None)
    ('head', '-n', '5', 'a b')
    >>> safe([Word("cat"), Word("/etc/passwd")], False, None)
    Unclear(why='/etc/passwd is outside the workspace')
    >>> safe([Word("make")], False, None)
    Unclear(why='make is not on the list of safe commands')
    """
    name, args = words[0], [word.text for word in words[1:]]
    if FOLDERS in words:
        return _folders(words)
    if name.bare:
        match name.text:
            case "echo":
                return ("echo", *args)
            case "pwd":
                return _bare(name.text, args, _PWD)
            case "whoami":
                return _bare(name.text, args, _NOTHING)
            case "date":
                return _date(args)
            case "ls":
                return _reading(name.text, args, _LS, root)
            case "cat":
                return _reading(name.text, args, _CAT, root, needs_one=not piped)
            case "head":
                return _reading(name.text, args, _HEAD, root, needs_one=not piped)
            case "tail":
                return _reading(name.text, args, _TAIL, root, needs_one=not piped)
            case "git" if len(words) < 2 or words[1].bare:
                return looking(args, root)
    return Unclear(f"{name.text} is not on the list of safe commands")


def _bare(name: str, args: list[str], listed: Options) -> tuple[str, ...] | Unclear:
    given = operands(args, listed)
    if isinstance(given, Unclear):
        return given
    if given.before or given.after:
        return Unclear(f"{name} is on the list without arguments only")
    return (name, *args)


def _date(args: list[str]) -> tuple[str, ...] | Unclear:
    given = operands(args, _DATE)
    if isinstance(given, Unclear):
        return given
    for operand in (*given.before, *given.after):
        if not operand.startswith("+") or _WIDE.search(operand):
            return Unclear(f"date {operand} is more than a format")
    return ("date", *args)


def _reading(
    name: str, args: list[str], listed: Options, root: str | None, needs_one: bool = False
) -> tuple[str, ...] | Unclear:
    given = operands(args, listed)
    if isinstance(given, Unclear):
        return given
    paths = (*given.before, *given.after)
    if needs_one and not paths:
        return Unclear(f"{name} has no file to read")
    for path in paths:
        if found := outside(path, root):
            return found
    return (name, *args)


def _folders(words: Sequence[Word]) -> tuple[str, ...] | Unclear:
    """Let the shell, with a script of ours, put the names in; ``--``: a name may begin with "-"."""
    args = [word.text for word in words[1:] if word != FOLDERS]
    given = operands(args, _LS)
    if (
        words[0] != Word("ls")
        or words.count(FOLDERS) != 1
        or given != Operands((), ())
        or not any(_DIRECTORY.fullmatch(arg) for arg in args)
    ):
        return Unclear("the glob */ is on the list for ls -d only")
    return (*FOLDERS_SCRIPT, *(arg for arg in args if arg != "--"))
