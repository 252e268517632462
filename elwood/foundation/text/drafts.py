"""The frames of a draft: what may be shown after what, in UTF-16 units as Telegram counts."""

# UTF-16 units of one message, and of a frame (protocols/telegram.md §3).
LIMIT = 4096


def frame(text: str, before: str | None = None) -> str | None:
    """Return the frame that shows *text* after the frame *before*; None if there is none.

    Clients animate only what is added at the end, so a frame must grow; one that says the same
    again would be spent for nothing.

    >>> frame("ab", "a"), frame("a", "a"), frame("b", "a"), frame("", None)
    ('ab', None, None, '')
    """
    shown = clipped(text)
    if before is None:
        return shown
    return shown if shown != before and shown.startswith(before) else None


def clipped(text: str, limit: int = LIMIT) -> str:
    """Return the longest beginning of *text* that fits into *limit* units.

    >>> clipped("a😀b", 2), clipped("a😀b", 3)
    ('a', 'a😀')
    """
    if 2 * len(text) <= limit:
        return text
    return text.encode("utf-16-le", "replace")[: 2 * limit].decode("utf-16-le", "ignore")
