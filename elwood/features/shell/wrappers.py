"""Commands that run other commands: a permission for one of them would be one for everything."""

import re
from collections.abc import Sequence

from elwood.features.shell.shell_words import Unclear, parse

SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "pwsh"}
)
# Names without their versions: python for python3.11.
INTERPRETERS = frozenset(
    {
        "python", "pypy", "ipython", "perl", "ruby", "irb", "node", "nodejs", "deno", "bun", "php",
        "lua", "luajit", "tclsh", "wish", "expect", "Rscript", "R", "julia", "guile", "osascript",
        "ghci", "runghc", "erl", "elixir", "iex", "jshell", "groovy", "scala",
    }
)  # fmt: skip
# What hands the words after it on, unchanged; options, numbers and assignments may stand between.
PLAIN_CARRIERS = frozenset(
    {
        "env", "command", "builtin", "exec", "nohup", "nice", "ionice", "chrt", "setsid", "stdbuf",
        "unbuffer", "time", "timeout", "xargs", "busybox", "toybox",
    }
)  # fmt: skip
_OTHERS = frozenset(
    {
        "eval", "source", ".", "trap", "coproc", "mapfile", "readarray", "complete", "compgen",
        "sudo", "su", "doas", "pkexec", "runuser", "setpriv", "chroot", "unshare", "nsenter",
        "bwrap", "firejail", "systemd-run", "taskset", "parallel", "script", "watch", "flock",
        "entr", "strace", "ltrace", "gdb", "at", "batch", "crontab", "tmux", "screen", "ssh",
        "sshpass", "mosh", "rsync", "socat", "nc", "ncat", "netcat", "docker", "podman", "kubectl",
        "nix", "nix-shell", "npx", "npm", "pnpm", "yarn", "bunx", "uv", "uvx", "pipx", "pipenv",
        "poetry", "hatch", "tox", "nox", "make", "gmake", "ninja", "just", "rake", "ant", "gradle",
        "mvn", "cargo", "go", "awk", "gawk", "mawk", "nawk", "sed", "gsed", "tar", "ed", "ex", "vi",
        "vim", "nvim", "emacs", "less", "more", "man", "sqlite", "psql", "mysql", "openssl",
    }
)  # fmt: skip
_NAMES = SHELLS | INTERPRETERS | PLAIN_CARRIERS | _OTHERS
_VERSION = re.compile(r"-?[0-9][0-9.]*\Z")
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_GIT_RUNS = frozenset(
    {
        "bisect", "config", "difftool", "filter-branch", "grep", "mergetool", "rebase",
        "send-email", "submodule",
    }
)  # fmt: skip


def program(word: str) -> str:
    """Give the name a program goes by, without folder and version.

    >>> program("/usr/bin/python3.11"), program("ls"), program("7z")
    ('python', 'ls', '7z')
    """
    name = word.rpartition("/")[2]
    return _VERSION.sub("", name) or name


def wrapper(command: str) -> bool:
    """Tell whether *command* starts anything that runs other commands, or might (AP-13).

    A yes to it can be remembered for exactly these characters, for nothing more.

    >>> wrapper("pytest -q && env FOO=1 rm x"), wrapper("$EDITOR x"), wrapper("pytest -q")
    (True, True, False)
    """
    parsed = parse(command)
    if isinstance(parsed, Unclear):
        return True
    return any(
        is_wrapper([word.text for word in words]) for piped in parsed for words in piped.commands
    )


def is_wrapper(argv: Sequence[str]) -> bool:
    """Tell whether *argv* runs what its arguments, a file in the workspace or its input say.

    >>> is_wrapper(["git", "-c", "alias.x=!sh", "x"]), is_wrapper(["git", "commit"])
    (True, False)
    >>> is_wrapper(["find", ".", "-exec", "rm"]), is_wrapper(["find", "."]), is_wrapper(["./x.sh"])
    (True, False, True)
    """
    if not argv or "=" in argv[0]:
        return True
    if "/" in argv[0] and not argv[0].startswith("/"):
        return True  # a file of the workspace, which can be written anew
    match program(argv[0]):
        case "git":
            return len(argv) > 1 and (argv[1].startswith("-") or argv[1] in _GIT_RUNS)
        case "find":
            return not _FIND_RUNS.isdisjoint(argv)
        case name:
            return name in _NAMES
