"""Looking at a repository that may be hostile: what of git runs unasked, and in which words.

A repository's own configuration names programs that git runs even for ``status``, ``log`` and
``diff``.  Each is switched off by an option, by the environment, or by `overrides`.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from elwood.features.shell.command_options import (
    Options,
    operands,
    options,
    outside,
)
from elwood.features.shell.shell_words import Unclear

# What git must be run with, and nothing else of ours: no configuration but the repository's, and no
# fetching of objects that are missing, which runs what the repository names as its server.
ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }
)
# To be run before each git command of a plan; its lines are for `overrides`.  Status 1: no lines.
READ_CONFIGURATION = (
    "git", "--no-pager", "config", "--name-only", "--get-regexp",
    r"^(filter|include|includeif|hook)\.|^core\.worktree$|^extensions\.partialclone$"
    r"|^remote\..*\.(promisor|partialclonefilter)$",
)  # fmt: skip
_HARDENED = (
    "--no-pager", "--no-optional-locks",
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    # Either makes `log` run gpg.program, which the repository may name.
    "-c", "log.showSignature=false", "-c", "format.pretty=medium",
    "-c", "diff.submodule=short",
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


def looking(args: Sequence[str], root: str | None) -> tuple[str, ...] | Unclear:
    """Give what to run for ``git`` *args* if that only looks at the repository here.

    >>> looking(["status", "-s"], None)  # doctest: +NORMALIZE_WHITESPACE
    ('git', '--no-pager', '--no-optional-locks', '-c', 'core.fsmonitor=false',
     '-c', 'core.hooksPath=/dev/null', '-c', 'log.showSignature=false',
     '-c', 'format.pretty=medium', '-c', 'diff.submodule=short',
     'status', '--ignore-submodules=all', '-s')
    >>> looking(["push"], None)
    Unclear(why='git push is not on the list')
    """
    verb = args[0] if args else ""
    if verb not in _LISTED:
        return Unclear(f"git {verb} is not on the list")
    harmless, listed = _LISTED[verb]
    given = operands(args[1:], listed)
    if isinstance(given, Unclear):
        return given
    for operand in (*given.before, *given.after):
        # Globs and ":(...)" are for git, quoted or not; "main:.env" is a file.
        if any(char in operand for char in ":*?[\\"):
            return Unclear(f"git may take {operand} for more than one name")
        if found := outside(operand, root):
            return found
    return ("git", *_HARDENED, verb, *harmless, *args[1:])


def overrides(names: Iterable[str]) -> tuple[str, ...] | Unclear:
    """Give the ``-c`` words that switch off what `READ_CONFIGURATION` found.

    >>> overrides(["filter.lfs.clean", "filter.lfs.required"])
    ('-c', 'filter.lfs.clean=', '-c', 'filter.lfs.required=')
    >>> overrides(["include.path"])
    Unclear(why="the repository's configuration sets include.path")
    """
    words: list[str] = []
    for name in names:
        # "-c a=b" ends the name at the first "=", so such a name cannot be switched off.
        if not name.startswith("filter.") or "=" in name:
            return Unclear(f"the repository's configuration sets {name}")
        words += ("-c", f"{name}=")
    return tuple(words)


def overridden(argv: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """Put *words* of `overrides` into a git command of a plan; other commands stay as they are.

    >>> overridden(("git", "status"), ("-c", "filter.x.clean="))
    ('git', '-c', 'filter.x.clean=', 'status')
    >>> overridden(("ls",), ("-c", "filter.x.clean="))
    ('ls',)
    """
    return (*argv[:1], *words, *argv[1:]) if argv[:1] == ("git",) else argv
