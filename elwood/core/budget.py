"""Tokens and money: what was spent, what may still be."""

import msgspec


class Spent(msgspec.Struct, frozen=True):
    """What has been used, for people: tokens and US dollars; a limit of None means none."""

    session_tokens: int
    session_usd: float
    day_tokens: int
    day_usd: float
    session_usd_limit: float | None = None
    day_usd_limit: float | None = None
