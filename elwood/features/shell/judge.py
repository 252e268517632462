"""Whether a shell command runs unasked, is asked about, or is refused (security.md §1.3).

What runs unasked is not given to a shell again: the plan that was read is the plan that is run.
"""

import attrs

from elwood.features.shell.danger import danger
from elwood.features.shell.safe_commands import FOLDERS_SCRIPT, safe
from elwood.features.shell.shell_words import (
    MAX_COMMAND,
    Join,
    Unclear,
    parse,
)


@attrs.frozen(kw_only=True)
class CommandRules:
    """*root* is where commands find the workspace: absolute paths below it are inside.

    *forbidden* are names of programs that are refused besides those that always are.
    """

    root: str | None = None
    forbidden: frozenset[str] = frozenset()


@attrs.frozen
class Step:
    """Programs that start together, each reading the one before; *pipeline* is their argv.

    The status is that of the last.  After ``&&`` the step runs only if the status so far is 0,
    after ``||`` only if it is not; a step that does not run leaves the status as it is.
    """

    joined: Join
    pipeline: tuple[tuple[str, ...], ...]


@attrs.frozen
class Plan:
    """What to run, in this order, without a shell; the first program reads nothing.

    Git needs `git_commands.ENVIRONMENT`, and `git_commands.overrides` looked up first.
    """

    steps: tuple[Step, ...]


@attrs.frozen
class Safe:
    """This only looks, at what is inside the workspace: run *plan* without asking."""

    plan: Plan


@attrs.frozen
class Forbidden:
    """This is not run, and nobody is asked; *why* is for the model."""

    why: str


_DEFAULT = CommandRules()


def judge(command: str, rules: CommandRules = _DEFAULT) -> Safe | Unclear | Forbidden:
    """Decide about *command* by its text alone; whatever is not understood is `Unclear`.

    >>> judge("ls -l | head -3")
    Safe(plan=Plan(steps=(Step(joined=';', pipeline=(('ls', '-l'), ('head', '-3'))),)))
    >>> judge("ls; make")
    Unclear(why='make is not on the list of safe commands')
    >>> judge("rm -rf /")
    Forbidden(why='rm would go through everything below /')
    """
    if len(command) <= MAX_COMMAND and (why := danger(command, rules.forbidden)):
        return Forbidden(why)
    parsed = parse(command)
    if isinstance(parsed, Unclear):
        return parsed
    steps: list[Step] = []
    for piped in parsed:
        pipeline: list[tuple[str, ...]] = []
        for words in piped.commands:
            argv = safe(words, bool(pipeline), rules.root)
            if isinstance(argv, Unclear):
                return argv
            pipeline.append(argv)
        steps.append(Step(piped.joined, tuple(pipeline)))
    return Safe(Plan(tuple(steps)))


def programs(plan: Plan) -> tuple[str, ...]:
    """Name the programs that *plan* starts if every step runs, in order.

    >>> verdict = judge("ls -d */ && date | cat")
    >>> programs(verdict.plan) if isinstance(verdict, Safe) else ()
    ('ls', 'date', 'cat')
    """
    return tuple(
        "ls" if argv[: len(FOLDERS_SCRIPT)] == FOLDERS_SCRIPT else argv[0]
        for step in plan.steps
        for argv in step.pipeline
    )
