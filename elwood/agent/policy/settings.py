"""The owner's settings for tools."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import ClassVar, Literal

import attrs

from elwood.foundation.settings import BadSetting, Section, between, setting
from elwood.foundation.text.regex import BadRegex, compile_regex

Word = Literal["allow", "ask", "deny"]


def is_pattern(text: str) -> None:
    """Check for a regular expression that RE2 can compile."""
    try:
        compile_regex(text)
    except BadRegex as error:
        raise BadSetting(f"RE2 cannot use this regular expression: {error}", _RE2) from error


_RE2 = (
    "write it in the syntax of RE2 (github.com/google/re2/wiki/Syntax), which has no look-around "
    r"such as (?=…) and no back-references such as \1"
)


@attrs.frozen(kw_only=True)
class PolicySettings:
    """Tools that are allowed, asked about or denied, by name or by a pattern of the id (``web.*``).

    For commands: programs, optionally with their first words, and regular expressions.
    """

    SECTION: ClassVar = Section(
        "policy",
        "Your rules for tools, by name or by a pattern of the id, such as `web.*`. "
        "`allow` permits calls that Elwood would otherwise ask about, except calls "
        "that strangers' words may have caused.",
    )

    allow: tuple[str, ...] = setting(
        (),
        help="tools that run without asking you",
        example='["run_command"]',
        names="tool pattern",
    )
    ask: tuple[str, ...] = setting(
        (),
        help="tools that ask you before each call",
        example='["write_file"]',
        names="tool pattern",
    )
    deny: tuple[str, ...] = setting(
        (), help="tools that are never run", example='["web_request"]', names="tool pattern"
    )
    safe_commands: tuple[str, ...] = setting(
        (),
        help="commands that run without asking you, in conversations without strangers' "
        "words: a program, optionally with its first arguments",
        example='["make", "git push"]',
    )
    ask_commands: tuple[str, ...] = setting(
        (), help="commands that ask you each time", example='["git log"]'
    )
    dangerous_patterns: tuple[str, ...] = setting(
        (),
        help="regular expressions (RE2); Elwood asks you about each command that one of "
        "them matches",
        check=is_pattern,
        example="['--force', 'prod']",
    )
    blocked_patterns: tuple[str, ...] = setting(
        (),
        help="regular expressions (RE2); Elwood never runs a command that one of them matches",
        check=is_pattern,
        example="['rm -rf']",
    )
    timeout: Mapping[str, float] = setting(
        {},
        help="seconds that a call may take, by the tool's name; at most turn.tool_deadline",
        check=between(1, 86_400),
        example="{ run_command = 120 }",
        names="tool",
        named_by_key=True,
    )

    def words(self) -> Iterator[tuple[Word, str]]:
        """Yield each word with the name or pattern of its tools, the strictest first."""
        yield from (("deny", name) for name in self.deny)
        yield from (("ask", name) for name in self.ask)
        yield from (("allow", name) for name in self.allow)

    def word(self, name: str, id: str) -> Word | None:
        """Return the word about a tool, or None."""
        return next((word for word, about in self.words() if is_about(about, name, id)), None)


def is_about(pattern: str, name: str, id: str) -> bool:
    """Return True if *pattern* of the settings is the tool's *name*, or matches its *id*."""
    return pattern == name or fnmatchcase(id, pattern)
