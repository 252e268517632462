"""Quoting in Markdown what may contain Markdown."""

import re

# Characters of a tool's result that are shown: about a screen, and one message of any channel.
MAX_SHOWN = 3_000
# Characters of a person's own words that are quoted back.
MAX_QUOTED = 500


def cut(text: str, limit: int) -> str:
    """Shorten *text* to *limit* characters and an ellipsis."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def one_line(text: str) -> str:
    """Quote *text* in one short line."""
    return literal(cut(" ".join(text.split()), MAX_QUOTED))


def in_quotes(text: str) -> str:
    """Quote the words of others in one short line; nothing in it ends the quotes.

    >>> print(in_quotes("a “b” `c`"))
    “a "b" 'c'”
    """
    return f"“{one_line(text.translate(_IN_QUOTES))}”"


_IN_QUOTES = str.maketrans("“”„«»`", '"""""\'')


def fenced(text: str) -> str:
    """Show *text* as it is, whatever marks it contains."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    shown = text.rstrip("\n")
    more = ""
    if len(shown) > MAX_SHOWN:
        more = f"\n\nThese are the first {MAX_SHOWN} of {len(shown)} characters."
        shown = shown[:MAX_SHOWN]
    return f"{fence}\n{shown}\n{fence}{more}"


def code(path: str) -> str:
    """Show a path as code, if it can be."""
    return literal(path) if "`" in path else f"`{path}`"


def literal(text: str) -> str:
    """Take from *text* the power to format, so that Markdown shows it as it was said."""
    return re.sub(r"([\\`*_~\[\]<>|#&])", r"\\\1", text)
