"""Apply the owner's policy lines to a command, and find the line that decides."""

from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from elwood.agent.conversation.calls import RunCommand
from elwood.agent.policy.settings import PolicySettings
from elwood.features.shell.judge import Forbidden, Safe, Unclear, allow_words, judge, parse
from elwood.foundation.text.regex import compile_regex

UNCONFINED = "commands run without a sandbox here"


class CommandRuling(msgspec.Struct, frozen=True):
    """The decision about a command."""

    action: RunCommand
    setting: str = ""  # key of the deciding line, or ""
    line: str = ""  # the deciding line, or ""


def rule(
    command: str, policy: PolicySettings, root: str | None = None, *, confined: bool = True
) -> CommandRuling:
    """Judge *command* by the owner's lines and by its words; the strictest result wins.

    >>> policy = PolicySettings(safe_commands=("git push",), ask_commands=("cat",))
    >>> rule("git push origin", policy).action.judged, rule("git pull", policy).action.judged
    ('listed', 'unclear')
    >>> rule("ls; git push", policy).action.judged, rule("git push; cat a", policy).line
    ('listed', 'cat')
    """
    if (line := _find_pattern(policy.blocked_patterns, command)) is not None:
        action = RunCommand("forbidden", "your settings block such commands")
        return CommandRuling(action, "policy.blocked_patterns", line)
    verdict = judge(command, root)
    if isinstance(verdict, Forbidden):
        return CommandRuling(RunCommand("forbidden", verdict.why))
    if (line := _find_pattern(policy.dangerous_patterns, command)) is not None:
        action = RunCommand("ask", "your settings call such commands dangerous")
        return CommandRuling(action, "policy.dangerous_patterns", line)
    if not confined:
        return CommandRuling(RunCommand("ask", UNCONFINED), "sandbox.kind", "direct")
    parsed = parse(command)
    plain = () if isinstance(parsed, Unclear) else parsed
    commands = [(words, at > 0) for piped in plain for at, words in enumerate(piped.commands)]
    listed: list[str] = []
    others = 0
    for words, piped in commands:
        program, *args = (word.text for word in words)
        if line := _find_line((PurePosixPath(program).name, *args), policy.ask_commands):
            action = RunCommand("ask", f"your settings ask about {line}")
            return CommandRuling(action, "policy.ask_commands", line)
        if line := _find_line((program, *args), policy.safe_commands):
            listed.append(line)
        # A read-only command is judged for a run without a shell; git is harmless only then.
        elif program == "git" or isinstance(allow_words(words, piped, root), Unclear):
            others += 1
    if isinstance(verdict, Safe):
        return CommandRuling(RunCommand("safe"))
    if listed and not others:
        action = RunCommand("listed", f"your settings call {listed[0]} safe")
        return CommandRuling(action, "policy.safe_commands", listed[0])
    return CommandRuling(RunCommand("unclear", verdict.why))


def _find_pattern(patterns: Iterable[str], command: str) -> str | None:
    """Return the first of *patterns* that matches *command*.

    The command is also searched without its final newline, for a pattern that ends in ``$``.
    """
    texts = {text.encode("utf-8", "replace") for text in (command, command.removesuffix("\n"))}
    for pattern in patterns:
        search = compile_regex(pattern)
        if any(search(text) is not None for text in texts):
            return pattern
    return None


def _find_line(argv: tuple[str, ...], lines: Iterable[str]) -> str | None:
    """Return the line that is a prefix of *argv*."""
    split = ((line, tuple(line.split())) for line in lines)
    return next((line for line, words in split if words and argv[: len(words)] == words), None)
