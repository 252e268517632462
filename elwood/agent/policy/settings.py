"""What the owner has said about tools, by name."""

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

    def words(self) -> dict[str, Word]:
        """Give the word for each name and pattern; what comes later, and is stricter, holds."""
        words: dict[str, Word] = {}
        said: dict[Word, tuple[str, ...]] = {
            "allow": self.allow,
            "ask": self.ask,
            "deny": self.deny,
        }
        for word, names in said.items():
            for name in names:
                words.pop(name, None)
                words[name] = word
        return words

    def word(self, name: str, id: str) -> Word | None:
        """Give the word about one tool; None if there is none."""
        words = [word for about, word in self.words().items() if is_about(about, name, id)]
        return words[-1] if words else None


def is_about(pattern: str, name: str, id: str) -> bool:
    """Tell whether *pattern* of the settings names the tool *name*, or fits its *id*."""
    return pattern == name or fnmatchcase(id, pattern)
