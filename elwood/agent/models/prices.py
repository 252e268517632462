"""What calls of models cost."""

from collections.abc import Mapping

import attrs

from elwood.agent.conversation.message import Usage


@attrs.frozen(kw_only=True)
class Rate:
    """US dollars per million tokens, for prompts of at most *upto* tokens (None: of any size)."""

    input: float
    output: float
    cache_read: float = 0.0
    cache_write: float = 0.0
    upto: int | None = None


Price = tuple[Rate, ...]
"""The rates of a model, by growing size of prompt."""


def _flat(input: float, output: float, cache_read: float, cache_write: float) -> Price:
    return (Rate(input=input, output=output, cache_read=cache_read, cache_write=cache_write),)


# protocols/anthropic.md §2, as of 2026-11-21.  A cache entry for an hour costs twice the input.
PRICES: Mapping[str, Price] = {
    "anthropic/claude-fable-5-2": _flat(8, 40, 0.20, 10),
    "anthropic/claude-fable-5-1": _flat(10, 50, 0.25, 12.50),
    "anthropic/claude-opus-5-5": _flat(4, 20, 0.20, 5),
    "anthropic/claude-opus-5": _flat(5, 25, 0.50, 6.25),
    "anthropic/claude-sonnet-5-5": _flat(2, 10, 0.10, 2.50),
    "anthropic/claude-sonnet-5": _flat(2, 10, 0.20, 2.50),
    "anthropic/claude-haiku-5-5": (
        Rate(input=0.10, output=0.50, cache_read=0.01, cache_write=0.125, upto=100_000),
        Rate(input=0.50, output=2.50, cache_read=0.05, cache_write=0.625),
    ),
    "anthropic/claude-haiku-4-5-20251001": _flat(1, 5, 0.10, 1.25),
    "anthropic/claude-sonnet-4-6": _flat(3, 15, 0.30, 3.75),
    "anthropic/claude-sonnet-4-5-20250929": _flat(3, 15, 0.30, 3.75),
    "offline/rules": _flat(0, 0, 0, 0),
}


def cost(price: Price, usage: Usage) -> float:
    """Return what a call costs, in US dollars.

    >>> cost(PRICES["anthropic/claude-haiku-5-5"], Usage(input=100_001))
    0.0500005
    """
    prompt = usage.input + usage.cache_read + usage.cache_write
    rate = next((r for r in price if r.upto is None or prompt <= r.upto), price[-1])
    short = usage.cache_write - usage.cache_write_1h
    dollars = (
        usage.input * rate.input
        + usage.output * rate.output
        + usage.cache_read * rate.cache_read
        + short * rate.cache_write
        + usage.cache_write_1h * 2 * rate.input
    )
    return dollars / 1e6
