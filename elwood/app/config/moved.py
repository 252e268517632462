"""Keys of config.toml that have a new name.  The old one is still read, with a hint."""

from collections.abc import Mapping

_DEFAULT = ("models", "roles", "default")
MOVED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("models", "default"): (*_DEFAULT, "model"),
    ("models", "fallbacks"): (*_DEFAULT, "fallbacks"),
    ("models", "max_tokens"): (*_DEFAULT, "max_tokens"),
    # It was asked for all that the roles behind `cheap` do now.
    ("models", "summarizer"): ("models", "roles", "cheap", "model"),
    ("learning", "reflections"): ("daily_notes", "reflections"),
}
