"""What has been spent, in a sentence."""

from elwood.core.budget import Spent


def in_words(spent: Spent) -> str:
    """Say what a session and the day have cost, and the limits.

    >>> in_words(Spent(1200, 0.0123, 5000, 0.5, day_usd_limit=2.0))
    'This conversation: 1,200 tokens, $0.01. Today: 5,000 tokens, $0.50 of $2.00.'
    >>> in_words(Spent(0, 0.0, 10, 0.0, unpriced_tokens=10))
    'This conversation: 0 tokens, $0.00. Today: 10 tokens, $0.00 (10 of unknown price).'
    """
    here = _amount(
        spent.session_tokens, spent.session_tokens_limit, spent.session_usd, spent.session_usd_limit
    )
    today = _amount(spent.day_tokens, spent.day_tokens_limit, spent.day_usd, spent.day_usd_limit)
    notes = []
    if spent.unpriced_tokens:
        notes.append(f"{spent.unpriced_tokens:,} of unknown price")
    if spent.estimated:
        notes.append("partly estimated")
    note = f" ({'; '.join(notes)})" if notes else ""
    return f"This conversation: {here}. Today: {today}{note}."


def _amount(tokens: int, most_tokens: int | None, usd: float, most_usd: float | None) -> str:
    of_tokens = "" if most_tokens is None else f" of {most_tokens:,}"
    of_usd = "" if most_usd is None else f" of ${most_usd:.2f}"
    return f"{tokens:,}{of_tokens} tokens, ${usd:.2f}{of_usd}"
