"""Costs of models: the entries of the usage journal, their sums, and prices."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.run import Budget
from elwood.agent.models.settings import PriceSettings

# Maximum sizes of the ledger: enough for the limits and for people's questions.
MAX_SESSIONS = 10_000
MAX_MODELS = 100
# Maximum of jobs in a day.  A new one replaces the one whose last call is the oldest, whose budget
# then starts again: more jobs than anyone has.
MAX_JOBS = 500
# Days and months that are kept, so that a clock that is set back finds its day again.
MAX_PERIODS = 5

Unit = Literal["tokens", "usd"]
V = TypeVar("V")


class Caller(msgspec.Struct, frozen=True):
    """The requester: a conversation and, if it is one, a *job* with its *budget*."""

    session: str
    job: str = ""
    budget: Budget | None = None


class Charged(msgspec.Struct, frozen=True, tag="charged", omit_defaults=True):
    """A model was used.  *day* is the date in the owner's zone, *usd* None if unknown.

    *estimated*: the counts are ours, because the provider gave none or the response was cut.
    *job* is the scheduled job of the call, if any.
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


class Account(msgspec.Struct, frozen=True):
    """The scope of a sum: a conversation, a day, a month, or a *job* in a day.

    *of* is the conversation's id, the date or the month (``2026-11``).
    """

    scope: Literal["session", "day", "month", "job"]
    of: str
    job: str = ""


class Tally(msgspec.Struct, frozen=True):
    """A sum of calls; *unpriced* is the part of *tokens* whose price is unknown.

    A token read from a cache counts as a tenth: it costs no more, and otherwise a long
    conversation would reach its limit after a few dozen calls with the same prefix.
    """

    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    estimated: bool = False

    def add(self, entry: Charged) -> "Tally":
        tokens = entry.input + entry.output + entry.cache_read // 10 + entry.cache_write
        return Tally(
            self.tokens + tokens,
            self.usd + (entry.usd or 0.0),
            self.unpriced + (tokens if entry.usd is None else 0),
            self.estimated or entry.estimated,
        )

    def amount(self, unit: Unit) -> float:
        return self.tokens if unit == "tokens" else self.usd


class Ledger(msgspec.Struct):
    """The fold of the usage journal, with bounds: the oldest days and idle sessions are removed."""

    sessions: dict[str, Tally] = {}
    periods: dict[str, Tally] = {}  # by date, and by month
    jobs: dict[str, dict[str, Tally]] = {}  # by date, then by job
    models: dict[str, Tally] = {}  # of the newest month
    month: str = ""

    def apply(self, seq: int, at: float, entry: Charged) -> None:
        """Apply one entry; called by the journal, in order."""
        month = entry.day[:7]
        if month > self.month:
            self.month = month
            self.models.clear()
        _add(self.models, entry.model, entry, MAX_MODELS)
        for period in (entry.day, month):
            _add(self.periods, period, entry, MAX_PERIODS)
        if entry.job:
            jobs = self.jobs.pop(entry.day, {})
            _add(jobs, entry.job, entry, MAX_JOBS)
            _keep(self.jobs, entry.day, jobs, MAX_PERIODS)
        elif entry.session:
            _add(self.sessions, entry.session, entry, MAX_SESSIONS)

    def tally(self, account: Account) -> Tally:
        """Return the sum of *account*."""
        match account.scope:
            case "session":
                found = self.sessions.get(account.of)
            case "day" | "month":
                found = self.periods.get(account.of)
            case "job":
                found = self.jobs.get(account.of, {}).get(account.job)
        return found or Tally()


def _add(tallies: dict[str, Tally], key: str, entry: Charged, most: int) -> None:
    """Count *entry*; if there are more than *most*, remove the least recently used one."""
    _keep(tallies, key, tallies.pop(key, Tally()).add(entry), most)


def _keep(values: dict[str, V], key: str, value: V, most: int) -> None:
    values[key] = value
    if len(values) > most:
        del values[next(iter(values))]


# --- sums for people ------------------------------------------------------------------------------


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a conversation, of the day *today*, and of its month.

    *jobs* of the day, *models* of the month, and all *others* (conversations, since their start)
    are sorted by cost, the highest first.
    """

    today: str
    session: Tally
    day: Tally
    month: Tally
    jobs: tuple[tuple[str, Tally], ...] = ()
    others: tuple[tuple[str, Tally], ...] = ()
    models: tuple[tuple[str, Tally], ...] = ()


def spent(ledger: Ledger, session: str, now: float, zone: str = "UTC") -> Spent:
    today = day_of(now, zone)
    month = today[:7]
    others = {name: tally for name, tally in ledger.sessions.items() if name != session}
    return Spent(
        today=today,
        session=ledger.tally(Account("session", session)),
        day=ledger.tally(Account("day", today)),
        month=ledger.tally(Account("month", month)),
        jobs=_rank(ledger.jobs.get(today, {})),
        others=_rank(others),
        models=_rank(ledger.models if ledger.month == month else {}),
    )


def _rank(tallies: Mapping[str, Tally]) -> tuple[tuple[str, Tally], ...]:
    return tuple(sorted(tallies.items(), key=lambda one: (-one[1].usd, -one[1].tokens, one[0])))


# --- prices --------------------------------------------------------------------------------------


class Rate(msgspec.Struct, frozen=True, kw_only=True):
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


# As the vendor's page had them on 2026-11-21.  A cache entry for an hour costs twice the input.
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
FREE = PRICES["offline/rules"]


def price_of(model: str, own: Mapping[str, PriceSettings]) -> Price | None:
    """Return the price of *model*, first from the owner's *own* prices.

    >>> price_of("ollama/qwen", {"ollama/*": PriceSettings(input=0, output=0)}) == FREE
    True
    """
    given = own.get(model) or own.get(f"{model.partition('/')[0]}/*")
    if given is None:
        return PRICES.get(model)
    cached = given.input if given.cached is None else given.cached
    return _flat(given.input, given.output, cached, given.input)


def cost(price: Price, usage: Usage) -> float:
    """Return the cost of a call in US dollars."""
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


def dollars(usd: float) -> str:
    """Format an amount; a small one with two significant digits.

    >>> dollars(1234.5), dollars(0.015), dollars(0.00001), dollars(0)
    ('$1,234.50', '$0.015', '<$0.0001', '$0.00')
    """
    if not 0 < usd < 0.1:
        return f"${usd:,.2f}"
    return f"${usd:.2g}" if usd >= 0.0001 else "<$0.0001"


def day_of(now: float, zone: str) -> str:
    """Return the date of *now* (Unix seconds) in *zone*.

    >>> day_of(0.0, "UTC"), day_of(0.0, "America/New_York")
    ('1970-01-01', '1969-12-31')
    """
    return datetime.fromtimestamp(now, ZoneInfo(zone)).date().isoformat()


def charge(
    caller: Caller, model: str, price: Price | None, usage: Usage, *, now: float, zone: str
) -> Charged:
    """Build the entry for one call of *model*; *price* is None if unknown."""
    return Charged(
        session=caller.session,
        model=model,
        day=day_of(now, zone),
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        usd=None if price is None else cost(price, usage),
        estimated=usage.estimated,
        job=caller.job,
    )
