"""Renamed keys of config.toml.  The old key is still read, with a hint."""

from collections.abc import Mapping

_DEFAULT = ("models", "roles", "default")
MOVED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("models", "default"): (*_DEFAULT, "model"),
    ("models", "fallbacks"): (*_DEFAULT, "fallbacks"),
    ("models", "max_tokens"): (*_DEFAULT, "max_tokens"),
    # It had the tasks of the roles that now use `cheap`.
    ("models", "summarizer"): ("models", "roles", "cheap", "model"),
    ("learning", "reflections"): ("daily_notes", "reflections"),
}
