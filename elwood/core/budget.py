"""Tokens and money: what was spent, what may still be."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

import attrs
import msgspec

from elwood.core.conversation import Usage

# What the ledger keeps: enough for limits and for people's questions, however long it runs.
MAX_SESSIONS = 10_000
MAX_DAYS = 35
MAX_MONTHS = 13
MAX_MODELS = 100


class Spent(msgspec.Struct, frozen=True):
    """What has been used, for people: tokens and US dollars; a limit of None means none.

    *unpriced_tokens* are those of the day whose price is not known: they cost nothing here.
    *estimated* says that a provider left out counts, so that the numbers are partly guesses.
    """

    session_tokens: int
    session_usd: float
    day_tokens: int
    day_usd: float
    session_usd_limit: float | None = None
    day_usd_limit: float | None = None
    session_tokens_limit: int | None = None
    day_tokens_limit: int | None = None
    month_tokens: int = 0
    month_usd: float = 0.0
    unpriced_tokens: int = 0
    estimated: bool = False
    models: tuple[tuple[str, int, float], ...] = ()


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


class Purse(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job may spend in a day of the owner's zone; None means no limit.

    It bounds the job in all its runs and conversations together; *usd* are US dollars.
    """

    tokens: int | None = None
    usd: float | None = None


class Charged(msgspec.Struct, frozen=True, tag="charged", omit_defaults=True):
    """A model was used.  *day* is the date in the owner's zone, *usd* None if unknown.

    *estimated* counts are ours, because the provider gave none or the response broke off.
    *job* is the scheduled job that it was done for, if it was.
    """

    session: str
    model: str
    day: str
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    usd: float | None = None
    estimated: bool = False
    job: str = ""


UsageEntry = Charged


class Tally(msgspec.Struct):
    """A sum of calls; *unpriced* are the tokens among *tokens* whose price is not known."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    estimated: int = 0

    def add(self, entry: Charged) -> None:
        """Count one call."""
        tokens = entry.input + entry.output + entry.cache_read + entry.cache_write
        self.calls += 1
        self.tokens += tokens
        self.usd += entry.usd or 0.0
        self.unpriced += tokens if entry.usd is None else 0
        self.estimated += entry.estimated


class Ledger(msgspec.Struct):
    """The fold of the usage journal, within bounds: the oldest days go, and idle sessions."""

    sessions: dict[str, Tally] = {}
    days: dict[str, Tally] = {}
    months: dict[str, Tally] = {}
    models: dict[str, Tally] = {}  # of the newest month
    month: str = ""

    def apply(self, seq: int, at: float, entry: UsageEntry) -> None:
        """Take one entry into account; called by the journal, in order."""
        month = entry.day[:7]
        if month > self.month:
            self.month = month
            self.models.clear()
        session = self.sessions.pop(entry.session, None) or Tally()
        session.add(entry)
        _keep(self.sessions, entry.session, session, MAX_SESSIONS)
        for tallies, key, most in (
            (self.days, entry.day, MAX_DAYS),
            (self.months, month, MAX_MONTHS),
            (self.models, entry.model, MAX_MODELS),
        ):
            tally = tallies.get(key)
            if tally is None:
                tally = Tally()
                _keep(tallies, key, tally, most)
            tally.add(entry)


V = TypeVar("V")


def _keep(values: dict[str, V], key: str, value: V, most: int) -> None:
    values[key] = value
    if len(values) > most:
        del values[next(iter(values))]


@attrs.frozen(kw_only=True)
class Limits:
    """Hard limits of what may be spent; None means none."""

    session_tokens: int | None = None
    session_usd: float | None = None
    day_tokens: int | None = None
    day_usd: float | None = None


@attrs.frozen
class Yes:
    """The call may be made."""


@attrs.frozen
class No:
    """A limit is reached; *why* names it and says when it resets."""

    why: str


def day_of(now: float, zone: str) -> str:
    """Return the date of *now* (Unix seconds) in *zone*.

    >>> day_of(0.0, "UTC"), day_of(0.0, "America/New_York")
    ('1970-01-01', '1969-12-31')
    """
    return datetime.fromtimestamp(now, ZoneInfo(zone)).date().isoformat()


def charge(session: str, model: str, usage: Usage, *, now: float, zone: str) -> Charged:
    """Make the entry for one call of *model*; without a price if our table has none.

    >>> charge("s", "anthropic/claude-opus-5", Usage(1000), now=0, zone="UTC").usd
    0.005
    """
    price = PRICES.get(model)
    return Charged(
        session=session,
        model=model,
        day=day_of(now, zone),
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        usd=None if price is None else cost(price, usage),
        estimated=usage.estimated,
    )


def allowed(
    limits: Limits, ledger: Ledger, session: str, now: float, zone: str = "UTC"
) -> Yes | No:
    """Decide before a call whether it may be made (LLM-42); *zone* says when a day begins.

    What runs at this moment is not counted yet: a limit may be overshot by the calls in flight.

    >>> allowed(Limits(day_tokens=0), Ledger(), "s", 0.0).why
    'the limit of 0 tokens a day is reached; it resets at 1970-01-02 00:00 UTC'
    """
    its = ledger.sessions.get(session) or _NOTHING
    day = ledger.days.get(day_of(now, zone)) or _NOTHING
    never = "for this conversation is reached; only a higher limit in the configuration ends it"
    resets = "a day is reached; it resets at {}"
    for limit, used, words in (
        (limits.session_tokens, its.tokens, "{} tokens " + never),
        (limits.session_usd, its.usd, "${:.2f} " + never),
        (limits.day_tokens, day.tokens, "{} tokens " + resets),
        (limits.day_usd, day.usd, "${:.2f} " + resets),
    ):
        if limit is not None and used >= limit:
            words = "the limit of " + words
            return No(words.format(limit, _tomorrow(now, zone)))
    return Yes()


def spent(limits: Limits, ledger: Ledger, session: str, now: float, zone: str = "UTC") -> Spent:
    """Sum up for people."""
    today = day_of(now, zone)
    its = ledger.sessions.get(session) or _NOTHING
    day = ledger.days.get(today) or _NOTHING
    month = ledger.months.get(today[:7]) or _NOTHING
    models = ledger.models if ledger.month == today[:7] else {}
    return Spent(
        session_tokens=its.tokens,
        session_usd=its.usd,
        day_tokens=day.tokens,
        day_usd=day.usd,
        session_usd_limit=limits.session_usd,
        day_usd_limit=limits.day_usd,
        session_tokens_limit=limits.session_tokens,
        day_tokens_limit=limits.day_tokens,
        month_tokens=month.tokens,
        month_usd=month.usd,
        unpriced_tokens=day.unpriced,
        estimated=bool(its.estimated or day.estimated or month.estimated),
        models=tuple((name, tally.tokens, tally.usd) for name, tally in models.items()),
    )


_NOTHING = Tally()


def _tomorrow(now: float, zone: str) -> str:
    here = datetime.fromtimestamp(now, ZoneInfo(zone))
    midnight = datetime.combine(here.date() + timedelta(days=1), datetime.min.time(), here.tzinfo)
    return f"{midnight:%Y-%m-%d %H:%M %Z}"
