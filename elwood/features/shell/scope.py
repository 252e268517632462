"""The scope of "always" for a command: plain programs, word for word, and the code that they would
run; other files that they name may change.
"""

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from elwood.agent.conversation.calls import ApprovalScope
from elwood.features.shell.judge import Unclear, parse
from elwood.foundation.storage.paths import protection
from elwood.foundation.text.lines import escape_names

# Suffix of a file's fact if the file is untrusted: such a file is always bound.
UNTRUSTED = " untrusted"
# Files that these programs run although no word names them.
IMPLIED: Mapping[str, tuple[str, ...]] = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile",),
    **dict.fromkeys(("npm", "pnpm", "yarn"), ("package.json",)),
}

# Options that select another file or folder, which is not seen here.
_ELSEWHERE = re.compile(r"-\w*[Cdf]|--(cw|d|f|j|m|pre|w)")
# These run the file named by their first word.
_INTERPRETER = re.compile(r"((ba|da|z|k)?sh|python|pypy|perl|ruby|node|php|lua|Rscript)[0-9.]*")
# None of these runs any part of its input files, with any options: not find, sed, sort, tar, or
# programs that run other programs (AP-13).
_READERS = re.compile(
    r"base64|cat|cksum|cmp|column|comm|cp|cut|diff|du|[ef]?grep|expand|file|fold|gunzip|gzip|head"
    r"|hexdump|join|jq|ls|md5sum|mkdir|mv|nl|od|paste|pdf(info|totext)|rev|rm|rmdir"
    r"|sha(1|256|512)sum|stat|tac|tail|touch|tr|uniq|wc|xxd|zcat"
)
# Those that can write a file, which a later program of the same command could run.
_WRITERS = re.compile(r"cp|gunzip|gzip|mkdir|mv|pdftotext|rm|rmdir|touch|uniq|xxd|git")
# Git commands that mean the same after later commits; the others are bound to one commit (AP-10).
_GIT = ("add", "commit", "diff", "log", "show", "status")


def scope_of(command: str, facts: Mapping[str, str]) -> ApprovalScope | None:
    """Return what "always" may permit for *command*; None if only this exact command.

    *facts* are those of its plan.  Files that it may run, or that are untrusted, stay bound.

    >>> facts = {"sandbox": "bubblewrap", "file a.py": "1", "file b.csv": "2"}
    >>> scope_of("wc -l a.py b.csv", facts).covers
    'run this exact command, even if the files it names have changed'
    >>> scope_of("python3 a.py b.csv", facts).covers
    'run this exact command, as long as nothing changes in a.py; other files it names may change'
    >>> scope_of("python3 a.py b.csv && wc b.csv", facts).note
    ' (same code)'
    >>> scope_of("python3 -c 'print(1)'", facts), scope_of("cp b.csv c && python3 a.py", facts)
    (None, None)
    """
    parsed = parse(command)
    if isinstance(parsed, Unclear):
        return None
    files = [fact for fact in facts if fact.startswith("file ")]
    code: set[str] = set()
    steps = [
        (one.joined, [[word.text for word in argv] for argv in one.commands]) for one in parsed
    ]
    writes = False
    for _, pipeline in steps:
        writes = writes or any(_WRITERS.fullmatch(argv[0]) for argv in pipeline)
        for program, *args in pipeline:
            runs = _list_code(program, args, files)
            if runs is None or (runs and writes):
                return None
            code.update(runs)
    bound = {one: facts[one] for one in files if one in code or facts[one].endswith(UNTRUSTED)}
    covers = "even if the files it names have changed"
    if bound:
        names = escape_names([one.removeprefix("file ") for one in bound], 3)
        covers = f"as long as nothing changes in {names}; other files it names may change"
    note = " (same code)" if code else " (same files)" if bound else ""
    _, first = steps[0]
    words = first[0] if len(steps) == len(first) == 1 else steps
    key = json.dumps([words, facts["sandbox"], bound], sort_keys=True)
    return ApprovalScope((key,), command, f"run this exact command, {covers}", note)


def _list_code(program: str, args: list[str], files: list[str]) -> list[str] | None:
    """List those of *files* that the program may run; None if that is unknown."""
    if "=" in program:  # a variable assignment; the program is the next word
        return None
    name = PurePosixPath(program).name
    runs_first = _INTERPRETER.fullmatch(name) is not None
    if runs_first or "/" in program:
        script = PurePosixPath(args[0] if runs_first and args else program)
        if f"file {script}" not in files or str(script).startswith("-"):
            return None
        # It may run other files in the same language.
        named = (f"file {script}", f"file {PurePosixPath(program)}")
        return [one for one in files if one in named or one.endswith(script.suffix or "file ")]
    if name in IMPLIED and not any(map(_ELSEWHERE.match, args)):
        return files
    is_git = name == "git" and args and args[0] in _GIT
    is_reader = _READERS.fullmatch(name) and not any(map(protection, args))
    return [] if is_git or is_reader else None
