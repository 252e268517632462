"""What goes along with a message of a person and is none of their words: notes, and days."""

import re

# The tag around what comes back from the days before.
DAYS_TAG = "threads"
# What begins a list of notes that nobody asked for.
OFFERED = "[notes that may help:"


def without_days(text: str) -> str:
    r"""Return what a turn's text says without what came back from the days before.

    >>> without_days('<threads day="1970-01-02">\nx\n</threads>\n[now]\nhi')
    '[now]\nhi'
    """
    return text[len(days_of(text)) :]


def days_of(text: str) -> str:
    """Return the part of a turn's text that came back from the days before; empty if none did."""
    head, end, _ = text.partition(f"\n</{DAYS_TAG}>\n")
    return head + end if end and text.startswith(f"<{DAYS_TAG} day=") else ""


def are_days_private(text: str) -> bool:
    """Tell whether a turn's text brings private data with it: a reflection, made of anything."""
    return re.match(rf'<{DAYS_TAG} day="[^"]*" label="private">', text) is not None
