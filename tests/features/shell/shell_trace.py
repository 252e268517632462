"""Random commands, and the programs that bash starts for them.

Programs are functions that record how they were called, in order within a pipeline.  In addition
bash traces every command of the outermost level, so that nothing else runs unseen.
"""

import shutil
import subprocess
from pathlib import Path
from random import Random

PROGRAMS = ("ls", "cat", "head", "tail", "date", "whoami", "echo", "pwd", "git")
# The status of a program is odd or even as the number of its words, so that && and || go both ways.
_PRELUDE = r"""
exec 7>>"$TRACE/programs" 8>>"$TRACE/commands"
for name in NAMES; do
    eval "$name() { printf '%s\0' \"\$FUNCNAME\" \"\$@\" \$'\1' >&7; return \$(( \$# % 2 )); }"
done
PS4=$'\1${#FUNCNAME[@]}\2' BASH_XTRACEFD=8
set -x
""".replace("NAMES", " ".join(PROGRAMS))
_OUTERMOST = b"\x010\x02"
# Seconds after which a command counts as hanging.
_PATIENCE = 30


class Surprise(Exception):
    """Bash complained, or ran another program."""


class Bash:
    """Runs commands in an empty folder of its own, where no programs exist."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("bash")
        assert found is not None, "these tests need bash"
        self._bash = found
        self._trace = folder / "trace"
        self.here = folder / "here"
        for path in (self._trace, self.here):
            path.mkdir()
        prelude = folder / "prelude"
        prelude.write_text(_PRELUDE)
        self._environment = {
            "PATH": str(folder / "none"),
            "HOME": str(self.here),
            "LC_ALL": "C.UTF-8",
            "BASH_ENV": str(prelude),
            "TRACE": str(self._trace),
        }

    def run(self, command: str) -> list[tuple[str, ...]]:
        """Return the argv of each program started; raises `Surprise`."""
        done = subprocess.run(
            (self._bash, "--norc", "--noprofile", "-c", command),
            cwd=self.here,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        if done.stderr or done.stdout:
            raise Surprise(command, done.stderr, done.stdout)
        programs, commands = self._trace / "programs", self._trace / "commands"
        calls = [
            tuple(call.decode().split("\0")[:-1])
            for call in programs.read_bytes().split(b"\x01\0")[:-1]
        ]
        ran = commands.read_bytes().count(_OUTERMOST)
        for path in (programs, commands):
            path.unlink()
        if ran != len(calls) or list(self.here.iterdir()):
            raise Surprise(command, ran, calls)
        return calls


def random_command(chance: Random, seeds: list[str]) -> str:
    """Return a command that is nearly plain: plain ones, joined, with a few special characters."""
    if chance.random() < 0.1:
        return "".join(chance.choices(_STRANGE + _PLAIN, k=chance.randrange(12)))
    parts = [chance.choice(seeds) if chance.random() < 0.3 else _simple(chance)]
    while chance.random() < 0.45:
        parts += (chance.choice(_JOINS), _simple(chance))
    command = "".join(parts)
    while chance.random() < 0.5:
        starts = [at for at, char in enumerate(command) if command[at - 1 : at] in _EDGES]
        anywhere = chance.random() < 0.5 or not starts
        at = chance.randrange(len(command) + 1) if anywhere else chance.choice(starts)
        cut = chance.randrange(3) if chance.random() < 0.3 else 0
        put = chance.choice(_STRANGE if chance.random() < 0.7 else _PLAIN)
        command = command[:at] + put + command[at + cut :]
    return command


def _simple(chance: Random) -> str:
    # A misread argument of echo needs no approval.
    words = [chance.choice(_COMMANDS) if chance.random() < 0.5 else "echo"]
    words += (chance.choice(_WORDS) for _ in range(chance.randrange(4)))
    return chance.choice((" ", " ", "  ", "\t")).join(words)


_JOINS = [";", "; ", " && ", "&&", " || ", "||", " | ", "|", "\n", " &&\n", ";\n", "\n\n", " |\n "]
_EDGES = ("", " ", "\t", "\n", ";", "|", "&", "=", ":", "'", '"')
_COMMANDS = [
    "ls", "ls -la", "ls -d", "cat", "cat -n", "head", "head -3", "head -n 2", "tail", "tail -n +2",
    "date", "date -u", "date -d", "whoami", "pwd", "echo", "echo -n", "git status", "git log",
    "git log -p", "git diff", "git diff --stat", "git log --format=%H",
]  # fmt: skip
_WORDS = [
    "a", "b.txt", "src/", "'a b'", '"a b"', "'$x'", '"\\$x"', '"\\\\"', "a\\ b", "it\\'s", "''",
    '""', "a''b", "'a'\"b\"c", "HEAD~1", "HEAD^", "a..b", "--", "-n", "5", "+%F", "*/", "x=1",
    "a~b", "a#b", "%1", "!", "!x", "]", "'*'", "\\*", '"`"', "'`'", "'\n'", "\"'\"", "'\"'",
    "'ä'", '"日本"', "\\\\", '"\\a"', "--grep=x", "-e", "^x^y", ":", "@", ",",
    "~", "~/a", "x=~", "x=a:~", "''~", "\\~", "~x", "*", "a?", "[a-z]*", "{a,b}", "$HOME",
    '"a$HOME"', "a\\\nb",
    "#x", "''#x", '"a\\\nb"', "$'a'",
]  # fmt: skip
_PLAIN = ["a", "ls", " ", "\t", "\n", "-", "=", "/", ".", "0", "echo", "date "]
_STRANGE = [
    *" \t\n!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "''", '""', "\\\n", "\\ ", "$x", "${x}", "$(date)",
    "$((1))", "`date`", "$'a'", '$"a"', "~", "~/", "=~", ":~", "a=b ", "{a,b}", "{1..3}", "*/",
    " */ ", "[a]", "?", " # ", "#", "\r", "\x0b", "\x1b", "\x7f", "\u00a0", "ä", "\u202e", "<<<x ",
    "<<E\nE\n", ">&2", " 2>&1 ", "|&", "&", ";;", "&&", "||", "|", ";", "\n", " ! ", " time ",
    " then ", "{ ", " }", "( ", " )", "if ", "fi", "do ", "touch PWNED", "> PWNED", "cd ..;",
    "eval ", "exec ", "a() ", "[[ ", " ]]", "\\", "\\'", '\\"', "'", '"', "\\$", "\\`",
]  # fmt: skip
