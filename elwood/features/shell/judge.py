"""Decide whether a shell command runs without asking, needs approval, or is refused.

Commands run without asking only if they read, and only inside the workspace.  Each such command is
listed here with its options; any other needs approval.  It is not given to a shell again: the
parsed plan itself is run.

A repository may be hostile: its configuration names programs that git runs even for ``status``,
``log`` and ``diff``.  Each is disabled by an option, by the environment, or by `overrides`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType

import msgspec

from elwood.features.shell.danger import find_danger
from elwood.foundation.storage.paths import holds_secrets, refusal

# --- shell syntax: words, quotes, lists, pipes ----------------------------------------------------

# Other shell syntax (expansion, redirection, globs, braces, groups, comments) is not parsed on
# purpose; a command that has any needs approval.

# Characters of a command: as much as a person can read before approving it.
MAX_COMMAND = 2_000


class Unclear(msgspec.Struct, frozen=True):
    """The command is not known to be harmless: ask the owner."""

    why: str  # the reason, for the owner


class Word(msgspec.Struct, frozen=True):
    """A word as the program receives it."""

    text: str
    bare: bool = True  # written literally, without quotes


class Piped(msgspec.Struct, frozen=True):
    """Commands joined by ``|``."""

    joined: str  # operator before them: ";", "&&" or "||"
    commands: tuple[tuple[Word, ...], ...]


_BLANKS = re.compile(r"[ \t]+")
_OPERATOR = re.compile(r";(?!;)|&&|\|\|(?!\|)|\|(?![|&])|\n")
# "~" only where it cannot be a home folder: HEAD~1, not ~, a=~ or a:~.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_%+,\-./:=@^!\]]|(?<=[A-Za-z0-9_^~])~)+")
_HASH = re.compile(r"#+")
_ESCAPED = re.compile(r"\\([!-~ ])")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\$`]|\\[^\n])*)"')
_DOUBLE_ESCAPED = re.compile(r'\\(["\\$`])')
# Quoted text may use other writing systems, but not control or bidirectional characters.
_UNSHOWABLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def parse(command: str) -> tuple[Piped, ...] | Unclear:
    """Parse *command* into a list of pipelines, or return why it is not plain.

    >>> parse("ls -l 'a b'; date")  # doctest: +NORMALIZE_WHITESPACE
    (Piped(joined=';', commands=((Word(text='ls', bare=True), Word(text='-l', bare=True),
      Word(text='a b', bare=False)),)),
     Piped(joined=';', commands=((Word(text='date', bare=True),),)))
    >>> parse("ls $(date)")
    Unclear(why='it uses a shell variable or another command ($)')
    >>> parse("ls |")
    Unclear(why='a command is missing')
    """
    if len(command) > MAX_COMMAND:
        return Unclear(f"it is longer than {MAX_COMMAND} characters")
    read: list[Word | str] = []
    at = 0
    while at < len(command):
        if blanks := _BLANKS.match(command, at):
            at = blanks.end()
        elif operator := _OPERATOR.match(command, at):
            at = operator.end()
            read.append(operator[0])
        else:
            word = _parse_word(command, at)
            if isinstance(word, Unclear):
                return word
            at, parsed = word
            read.append(parsed)
    return _assemble(read)


def _parse_word(command: str, start: int) -> tuple[int, Word] | Unclear:
    """Parse the word at *start*; return its end and the word."""
    at, parts, bare = start, list[str](), True
    while at < len(command):
        if plain := _PLAIN.match(command, at) or (at > start and _HASH.match(command, at)):
            parts.append(plain[0])
            at = plain.end()
            continue
        if single := _SINGLE.match(command, at):
            quoted, part = single, single[1]
        elif double := _DOUBLE.match(command, at):
            quoted, part = double, _DOUBLE_ESCAPED.sub(r"\1", double[1])
        elif escaped := _ESCAPED.match(command, at):
            quoted, part = escaped, escaped[1]
        else:
            break
        if _UNSHOWABLE.search(part):
            return Unclear("it has control characters or invisible characters")
        parts.append(part)
        at, bare = quoted.end(), False
    if at < len(command) and not _BLANKS.match(command, at) and not _OPERATOR.match(command, at):
        return Unclear(_describe_char(command[at]))
    return at, Word("".join(parts), bare)


# The meaning of characters for a shell, for the owner.
_SYNTAX = {
    **dict.fromkeys("*?[", "a wildcard"),
    **dict.fromkeys("$`", "a shell variable or another command"),
    **dict.fromkeys("<>", "a redirection"),
    **dict.fromkeys("(){}", "shell brackets"),
    "~": "a home folder",
    "#": "a comment",
}


def _describe_char(char: str) -> str:
    if char in "'\"":
        return f"a quote ({char}) is not closed, or contains a shell variable or another command"
    if not char.isascii():
        return "it has special characters outside quotes"
    if not char.isprintable():
        return "it has a control character"
    return f"it uses {_SYNTAX.get(char, 'special shell syntax')} ({char})"


def _assemble(read: list[Word | str]) -> tuple[Piped, ...] | Unclear:
    """Join the words as the shell does: a line may end after an operator, not begin with it."""
    lists: list[Piped] = []
    joined = ";"
    pipeline: list[tuple[Word, ...]] = []
    words: list[Word] = []
    owed = False  # an operator that needs a command after it
    for token in [*read, "\n"]:
        if isinstance(token, Word):
            words.append(token)
            continue
        if not words:
            if token == "\n":
                continue  # an empty line, or a continued one
            return Unclear("a command is missing")
        pipeline.append(tuple(words))
        words = []
        if token != "|":
            lists.append(Piped(joined, tuple(pipeline)))
            pipeline = []
            joined = ";" if token == "\n" else token
        owed = token in ("|", "&&", "||")
    if owed:
        return Unclear("a command is missing")
    return tuple(lists) or Unclear("there is nothing to run")


# --- commands that run without asking -------------------------------------------------------------


class Options(msgspec.Struct, frozen=True):
    """The options of a command; unlisted ones, and abbreviations, need approval.

    The expressions match whole words.
    """

    alone: str  # one word, with its value if any
    taking: tuple[tuple[str, str], ...] = ()  # option, and pattern of its value, the next word


def options(*alone: str, taking: dict[str, str] | None = None) -> Options:
    """Combine options into regular expressions of whole words."""
    return Options("|".join(alone), tuple((taking or {}).items()))


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile at the first use: there are hundreds, and a start needs none."""
    return re.compile(pattern, re.ASCII | re.DOTALL)


def operands(args: Sequence[str], listed: Options) -> tuple[str, ...] | Unclear:
    """Return *args* without options; as in GNU programs, options may be anywhere before ``--``.

    >>> operands(["a", "-q", "-n", "5", "--", "-b"], options("-[qv]+", taking={"-n": "[0-9]+"}))
    ('a', '-b')
    >>> operands(["-f"], options("-[qv]+"))
    Unclear(why='the option -f is not on the list of safe options')
    """
    parted = _split(args, listed)
    if isinstance(parted, Unclear):
        return parted
    groups, behind = parted
    return (*(first for first, *_ in groups if not first.startswith("-")), *(behind or ()))


def _split(
    args: Sequence[str], listed: Options
) -> tuple[list[tuple[str, ...]], tuple[str, ...] | None] | Unclear:
    """Split *args* into options (with values), operands, and the words after ``--``."""
    groups: list[tuple[str, ...]] = []
    left = iter(args)
    for word in left:
        if word == "--":
            return groups, tuple(left)
        group: tuple[str, ...] = (word,)
        if word.startswith("-") and not _compile(listed.alone).fullmatch(word):
            values = [value for name, value in listed.taking if _compile(name).fullmatch(word)]
            given = next(left, None)
            if not values or given is None or not _compile(values[0]).fullmatch(given):
                return Unclear(f"the option {word} is not on the list of safe options")
            group = (word, given)
        groups.append(group)
    return groups, None


def outside(path: str, root: str | None) -> Unclear | None:
    """Return why *path* needs approval; *root* is the path of the workspace for commands, if any.

    ``..`` is refused anywhere: after a link it does not lead back.  Links out of the workspace
    cannot be seen here; the sandbox and the check before the run prevent them.

    >>> outside("src/a.txt", None) is outside("/workspace/a.txt", "/workspace") is None
    True
    >>> outside("/etc/passwd", "/workspace")
    Unclear(why='/etc/passwd is outside the workspace')
    >>> outside("sub/.env", None)
    Unclear(why='sub/.env may contain secrets')
    """
    if why := refusal(path):
        return Unclear(why)
    if holds_secrets(path):
        return Unclear(f"{path} may contain secrets")
    below = path.startswith("/") and root and f"{path}/".startswith(f"{root.rstrip('/')}/")
    if path.startswith(("~", "-")) or ".." in path.split("/"):
        return Unclear(f"{path} may lead out of the workspace")
    if path.startswith("/") and not below:
        return Unclear(f"{path} is outside the workspace")
    return None


# Run before each git command of a plan; its output is for `overrides`.  Status 1: no output.
READ_CONFIGURATION = (
    "git", "--no-pager", "config", "--name-only", "--get-regexp",
    r"^(filter|include|includeif|hook)\.|^core\.worktree$|^extensions\.partialclone$"
    r"|^remote\..*\.(promisor|partialclonefilter)$",
)  # fmt: skip
_HARDENED = (
    "--no-pager", "--no-optional-locks",
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    # Either makes `log` run gpg.program, which the repository may set.
    "-c", "log.showSignature=false", "-c", "format.pretty=medium",
    "-c", "diff.submodule=short",
    # Files that the sandbox hides keep only size and time, so git must not compare more.
    "-c", "core.checkStat=minimal", "-c", "core.trustctime=false",
)  # fmt: skip
_NO_SUBMODULES = "--ignore-submodules=all"
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv", _NO_SUBMODULES)

_NUMBER = "[0-9]{1,9}"
_ANY = ".*"
_COLOR = "--no-color|--color(=(auto|always|never))?"
# Placeholders that neither run a program (%G, %(describe)) nor pad (%<, %>, %w).
_FORMAT = (
    r"([^%]|%[-+ ]?([HhTtPpsfbBeNdDSmn%]|[ac][nNeElLdDrtiIsh]|x[0-9A-Fa-f]{2}"
    r"|C(red|green|blue|reset)|C\([a-z0-9 ,]*\)))*"
)
_NAMED_FORMAT = "oneline|short|medium|full|fuller|reference|email|raw"
_PATCH = (
    "-[puwbsMCRaz]", "-U[0-9]{1,4}", "--unified=[0-9]{1,4}", _COLOR,
    "--(no-)?patch", "--stat(=[0-9]{1,4}(,[0-9]{1,4}){0,2})?", "--(short|num)stat", "--raw",
    "--(compact-)?summary", "--patch-with-stat", "--name-(only|status)", "--(no-)?renames",
    "--find-(renames|copies)(=[0-9]{1,3}%?)?", "--diff-filter=[A-Za-z]+", "--check", "--full-index",
    "--(ignore-all-space|ignore-space-change|ignore-space-at-eol|ignore-blank-lines)",
    "--word-diff(=(plain|color|porcelain|none))?", "--(minimal|patience|histogram)", "--text",
    "--pickaxe-(all|regex)", "-[SG].+", "--function-context", "-W", "--abbrev(=[0-9]{1,2})?",
)  # fmt: skip
_DATES = "since|until|after|before|author|committer|grep"
_LISTED: Mapping[str, tuple[tuple[str, ...], Options]] = MappingProxyType(
    {
        "status": (
            (_NO_SUBMODULES,),
            options(
                "-[sbz]+", "-u(no|normal|all)?", "--(short|branch|long|show-stash|ignored|null)",
                "--porcelain(=(v1|v2|1|2))?", "--untracked-files(=(no|normal|all))?",
                "--(no-)?ahead-behind", "--(no-)?renames", "--no-column",
            ),
        ),
        "log": (
            _NO_PROGRAMS,
            options(
                *_PATCH, f"-{_NUMBER}", f"-n{_NUMBER}", f"--(max-count|skip)={_NUMBER}",
                f"--({_DATES})={_ANY}", "-[iEF]", "--regexp-ignore-case", "--extended-regexp",
                "--fixed-strings", "--all-match", "--invert-grep",
                "--(all|branches|tags|remotes)", "--(oneline|graph|reverse|follow|full-history)",
                "--(no-)?(merges|abbrev-commit)", "--first-parent", "--left-right",
                "--(topo|date|author-date)-order", "--no-decorate",
                "--decorate(=(short|full|auto|no))?", "--relative-date", "--no-notes",
                "--date=(relative|local|iso|iso8601|iso-strict|rfc|rfc2822|short|raw|unix|human"
                "|default)",
                f"--(pretty|format)=({_NAMED_FORMAT}|t?format:{_FORMAT}|(?=.*%){_FORMAT})",
                taking={
                    "-n|--max-count|--skip": _NUMBER, f"--({_DATES})": _ANY, "-[SG]": ".+",
                },
            ),
        ),
        "diff": (
            _NO_PROGRAMS,
            options(
                *_PATCH, "--(cached|staged|merge-base|quiet|exit-code)", taking={"-[SG]": ".+"},
            ),
        ),
    }
)  # fmt: skip


def allow_git(args: Sequence[str], root: str | None) -> tuple[str, ...] | Unclear:
    """Return the argv to run for ``git`` *args* if it only reads the repository here."""
    verb = args[0] if args else ""
    if verb not in _LISTED:
        return Unclear(f"git {verb} is not on the list of safe commands")
    harmless, listed = _LISTED[verb]
    given = operands(args[1:], listed)
    if isinstance(given, Unclear):
        return given
    for operand in given:
        # Globs and ":(...)" are expanded by git, quoted or not; "main:.env" is a file.
        if any(char in operand for char in ":*?[\\"):
            return Unclear(f"git may read {operand} as more than one name")
        if reason := outside(operand, root):
            return reason
    return ("git", *_HARDENED, verb, *harmless, *args[1:])


# Prints the type of each object that it reads on stdin, one a line.
READ_KINDS = ("git", "--no-pager", "cat-file", "--batch-check=%(objecttype)")
# With these a diff prints only names and numbers.
_NAMES_ONLY = (
    "-s|--no-patch|--stat.*|--(short|num)stat|--raw|--(compact-)?summary|--name-(only|status)"
)
_SHOWS = f"(?!({_NAMES_ONLY})$)({'|'.join(_PATCH)}|-[SG])"
# Options dropped from a list of names: other formats, and those that hide a name.
_NOT_LISTED = (
    "-[sSGMCBz].*|--(name-status|check|quiet|exit-code|no-patch|oneline|graph|renames)"
    "|--(find-|diff-filter=|pickaxe-|pretty=|format=).*"
)


class _GitCommand(msgspec.Struct, frozen=True):
    """The parts of a command returned by `allow_git`."""

    verb: str
    harmless: tuple[str, ...]
    groups: list[tuple[str, ...]]
    behind: tuple[str, ...] | None


def _split_git(argv: tuple[str, ...]) -> _GitCommand | None:
    at = 1 + len(_HARDENED)
    if argv[:1] != ("git",) or argv[at] == "status":
        return None
    harmless, listed = _LISTED[argv[at]]
    parted = _split(argv[at + 1 + len(harmless) :], listed)
    return None if isinstance(parted, Unclear) else _GitCommand(argv[at], harmless, *parted)


def revisions(argv: tuple[str, ...]) -> tuple[str, ...]:
    """List the words that a git command may resolve to objects, for `READ_KINDS`.

    A file named by its hash has no name that hints at its content.
    """
    parts = _split_git(argv)
    if parts is None or parts.verb != "diff":
        return ()
    given = [first for first, *_ in parts.groups if not first.startswith("-")]
    return tuple(
        f"{part}^{{}}" for one in given for part in re.split(r"\.{2,3}", one.lstrip("^")) if part
    )


def list_files_argv(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the command that lists the files whose content a git command shows, or None.

    Each name ends with a zero byte.
    """
    parts = _split_git(argv)
    if parts is None:
        return None
    shows = any(_compile(_SHOWS).fullmatch(first) for first, *_ in parts.groups)
    if parts.verb == "log" and not shows:
        return None
    allowed = (group for group in parts.groups if not _compile(_NOT_LISTED).fullmatch(group[0]))
    return (
        *("git", *_HARDENED, parts.verb, *parts.harmless, "--no-renames", "--name-only", "-z"),
        *(("--format=",) if parts.verb == "log" else ()),
        *(word for group in allowed for word in group),
        *(() if parts.behind is None else ("--", *parts.behind)),
    )


def overrides(names: Iterable[str]) -> tuple[str, ...] | Unclear:
    """Return the ``-c`` words that disable the programs found by `READ_CONFIGURATION`.

    >>> overrides(["filter.lfs.clean", "filter.lfs.required"])
    ('-c', 'filter.lfs.clean=', '-c', 'filter.lfs.required=')
    >>> overrides(["include.path"])
    Unclear(why="the repository's configuration sets include.path: git could run other programs")
    """
    words: list[str] = []
    for name in names:
        # "-c a=b" ends the name at the first "=", so such a name cannot be overridden.
        if not name.startswith("filter.") or "=" in name:
            why = f"the repository's configuration sets {name}: git could run other programs"
            return Unclear(why)
        words += ("-c", f"{name}=")
    return tuple(words)


def apply_overrides(argv: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """Insert *words* of `overrides` into a git command; other commands are returned unchanged."""
    return (*argv[:1], *words, *argv[1:]) if argv[:1] == ("git",) else argv


# Lines or bytes; without a unit, so that 50G is not possible.
_COUNT = "[0-9]{1,9}"
_ENDS = "--(quiet|silent|verbose|zero-terminated)"
# Not -R, which has no bound; not -L and -H, which follow links.
_READING = {
    "ls": options(
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
    ),
    "cat": options(
        "-[AbeEnstTuv]+",
        "--(show-all|number-nonblank|show-ends|number|squeeze-blank|show-tabs|show-nonprinting)",
    ),
    "head": options(
        f"-[qvz]+|{_ENDS}|-{_COUNT}|-[qvz]*[nc]-?{_COUNT}|--(lines|bytes)=-?{_COUNT}",
        taking={"-[qvz]*[nc]|--lines|--bytes": f"-?{_COUNT}"},
    ),
    # Not -f, -F and --retry, which wait forever.
    "tail": options(
        f"-[qvz]+|{_ENDS}|-{_COUNT}|-[qvz]*[nc][-+]?{_COUNT}|--(lines|bytes)=[-+]?{_COUNT}",
        taking={"-[qvz]*[nc]|--lines|--bytes": f"[-+]?{_COUNT}"},
    ),
}
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
_PWD = options("-[LP]")
_NOTHING = options("(?!)")


def allow_words(words: Sequence[Word], piped: bool, root: str | None) -> tuple[str, ...] | Unclear:
    """Return the argv for *words*, or the reason to ask; *piped*: they read another's output."""
    name, args = words[0], [word.text for word in words[1:]]
    if name.bare:
        match name.text:
            case "echo":
                return ("echo", *args)
            case "pwd":
                return _allow_without_operands(name.text, args, _PWD)
            case "whoami":
                return _allow_without_operands(name.text, args, _NOTHING)
            case "date":
                return _allow_date(args)
            case "ls" | "cat" | "head" | "tail":
                return _allow_reading(name.text, args, root, piped)
            case "git" if len(words) < 2 or words[1].bare:
                return allow_git(args, root)
    return Unclear(f"{name.text} is not on the list of safe commands")


def _allow_without_operands(
    name: str, args: list[str], listed: Options
) -> tuple[str, ...] | Unclear:
    given = operands(args, listed)
    if isinstance(given, Unclear):
        return given
    if given:
        return Unclear(f"{name} is on the list of safe commands only without arguments")
    return (name, *args)


def _allow_date(args: list[str]) -> tuple[str, ...] | Unclear:
    given = operands(args, _DATE)
    if isinstance(given, Unclear):
        return given
    for operand in given:
        if not operand.startswith("+") or _WIDE.search(operand):
            return Unclear(f"date {operand} does more than show the date")
    return ("date", *args)


def _allow_reading(
    name: str, args: list[str], root: str | None, piped: bool
) -> tuple[str, ...] | Unclear:
    paths = operands(args, _READING[name])
    if isinstance(paths, Unclear):
        return paths
    if not (paths or piped or name == "ls"):
        return Unclear(f"{name} has no file to read")
    for path in paths:
        if reason := outside(path, root):
            return reason
    return (name, *args)


class CommandStep(msgspec.Struct, frozen=True):
    """Programs of a pipeline, each reading the output of the one before.

    The status is that of the last program.  A skipped step leaves the status unchanged.
    """

    joined: str  # "&&": run if the status is 0; "||": if it is not
    pipeline: tuple[tuple[str, ...], ...]  # argv of each


class Safe(msgspec.Struct, frozen=True):
    """The command only reads inside the workspace: run *steps* without asking.

    They run in this order, without a shell; the first program has no input.  Git needs
    `command.GIT_ENVIRONMENT`, and the result of `overrides`.
    """

    steps: tuple[CommandStep, ...]


class Forbidden(msgspec.Struct, frozen=True):
    """The command is refused without asking."""

    why: str  # the reason, for the model


def judge(command: str, root: str | None = None) -> Safe | Unclear | Forbidden:
    """Judge *command* by its text alone; anything not recognized is `Unclear`.

    *root* is the path of the workspace for commands: absolute paths below it are inside.

    >>> judge("ls -l | head -3").steps
    (CommandStep(joined=';', pipeline=(('ls', '-l'), ('head', '-3'))),)
    >>> judge("ls; make")
    Unclear(why='make is not on the list of safe commands')
    >>> judge("reboot")
    Forbidden(why='it stops the machine')
    """
    if len(command) <= MAX_COMMAND and (why := find_danger(command)):
        return Forbidden(why)
    parsed = parse(command)
    if isinstance(parsed, Unclear):
        return parsed
    steps: list[CommandStep] = []
    for piped in parsed:
        pipeline: list[tuple[str, ...]] = []
        for words in piped.commands:
            argv = allow_words(words, bool(pipeline), root)
            if isinstance(argv, Unclear):
                return argv
            pipeline.append(argv)
        steps.append(CommandStep(piped.joined, tuple(pipeline)))
    return Safe(tuple(steps))
