"""What the owner has said about tools, by name."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import ClassVar, Literal

import attrs

from elwood.foundation.settings import Section, setting

Word = Literal["allow", "ask", "deny"]


@attrs.frozen(kw_only=True)
class PolicySettings:
    """Tools that are allowed, asked about or denied, by name or a pattern of the id (``web.*``)."""

    SECTION: ClassVar = Section(
        "policy",
        "Your own word about tools, by name or by a pattern of the id, such as `web.*`. What would "
        "be asked is allowed by `allow`, but nothing that strangers' words may have caused.",
    )

    allow: tuple[str, ...] = setting(
        (), help="tools that need no question", example='["run_command"]'
    )
    ask: tuple[str, ...] = setting(
        (), help="tools whose every call is asked about", example='["write_file"]'
    )
    deny: tuple[str, ...] = setting((), help="tools that are never run", example='["web_request"]')

    def words(self) -> Iterator[tuple[Word, str]]:
        """Give each word with the name or pattern that it is about, the strictest first."""
        yield from (("deny", name) for name in self.deny)
        yield from (("ask", name) for name in self.ask)
        yield from (("allow", name) for name in self.allow)

    def word(self, name: str, id: str) -> Word | None:
        """Give the word about one tool; None if there is none."""
        return next((word for word, about in self.words() if is_about(about, name, id)), None)


def is_about(pattern: str, name: str, id: str) -> bool:
    """Tell whether *pattern* of the settings names the tool *name*, or fits its *id*."""
    return pattern == name or fnmatchcase(id, pattern)
