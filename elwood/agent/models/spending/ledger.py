"""The book of what models cost: its entries, and what they add up to."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from elwood.agent.conversation.message import Usage

# What the ledger keeps: enough for limits and for people's questions, however long it runs.
MAX_SESSIONS = 10_000
MAX_DAYS = 35
MAX_MONTHS = 13
MAX_MODELS = 100
# Jobs that are told apart in a day or in a month.  The one whose last call is the oldest goes, and
# its purse is as good as new: more than anybody has.
MAX_JOBS = 500
# Days and months in which jobs are told apart: a clock that is set back finds its day again.
MAX_JOB_DAYS, MAX_JOB_MONTHS = 3, 2
# Warnings that are not given again: those of all sessions, and a year of all others.
MAX_WARNED = 30_000

Unit = Literal["tokens", "usd"]


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


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is summed up: a conversation, a day, a month, or a *job* in a day.

    *of* is the conversation's id, the date or the month (``2026-11``).
    """

    scope: Literal["session", "day", "month", "job"]
    of: str
    job: str = ""


class Warned(msgspec.Struct, frozen=True, tag="warned"):
    """The owner is to be told that much of the limit *most* is *used*; written before the telling.

    It is written once per limit and period, in one line with the call that made it so.
    """

    account: Account
    unit: Unit
    most: float
    used: float


UsageEntry = Charged | Warned


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

    def amount(self, unit: Unit) -> float:
        """Return the tokens or the dollars."""
        return self.tokens if unit == "tokens" else self.usd


class Ledger(msgspec.Struct):
    """The fold of the usage journal, within bounds: the oldest days go, and idle sessions."""

    sessions: dict[str, Tally] = {}
    days: dict[str, Tally] = {}
    months: dict[str, Tally] = {}
    models: dict[str, Tally] = {}  # of the newest month
    month: str = ""
    job_days: dict[str, dict[str, Tally]] = {}  # by date, then by job
    job_months: dict[str, dict[str, Tally]] = {}
    warned: dict[str, float] = {}  # when each warning was written

    def apply(self, seq: int, at: float, entry: UsageEntry) -> None:
        """Take one entry into account; called by the journal, in order."""
        match entry:
            case Charged():
                self._charge(entry)
            case Warned(account, unit, most):
                _keep(self.warned, _name(account, unit, most), at, MAX_WARNED)

    def tally(self, account: Account) -> Tally:
        """Look up what *account* adds up to."""
        found: Tally | None
        match account.scope:
            case "session":
                found = self.sessions.get(account.of)
            case "day":
                found = self.days.get(account.of)
            case "month":
                found = self.months.get(account.of)
            case "job":
                found = self.job_days.get(account.of, {}).get(account.job)
        return found or Tally()

    def has_warned(self, account: Account, unit: Unit, most: float) -> bool:
        """Tell whether the owner was told already; a limit of another height is another one."""
        return _name(account, unit, most) in self.warned

    def _charge(self, entry: Charged) -> None:
        month = entry.day[:7]
        if month > self.month:
            self.month = month
            self.models.clear()
        if entry.session and not entry.job:
            _add(self.sessions, entry.session, entry, MAX_SESSIONS)
        _add(self.days, entry.day, entry, MAX_DAYS)
        _add(self.months, month, entry, MAX_MONTHS)
        _add(self.models, entry.model, entry, MAX_MODELS)
        if entry.job:
            for periods, period, most in (
                (self.job_days, entry.day, MAX_JOB_DAYS),
                (self.job_months, month, MAX_JOB_MONTHS),
            ):
                jobs = periods.pop(period, {})
                _add(jobs, entry.job, entry, MAX_JOBS)
                _keep(periods, period, jobs, most)


def accounts(session: str, day: str, job: str = "") -> tuple[Account, ...]:
    """List what a call counts into: a conversation, or the job in whose run it is made, if any.

    >>> [account.scope for account in accounts("s", "2026-11-21", "heartbeat")]
    ['job', 'day', 'month']
    """
    periods = Account("day", day), Account("month", day[:7])
    if not (job or session):
        return periods
    return Account("job", day, job) if job else Account("session", session), *periods


def day_of(now: float, zone: str) -> str:
    """Return the date of *now* (Unix seconds) in *zone*.

    >>> day_of(0.0, "UTC"), day_of(0.0, "America/New_York")
    ('1970-01-01', '1969-12-31')
    """
    return datetime.fromtimestamp(now, ZoneInfo(zone)).date().isoformat()


def charge(
    session: str, model: str, usage: Usage, *, now: float, zone: str, job: str = ""
) -> Charged:
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
        job=job,
    )


V = TypeVar("V")


def _add(tallies: dict[str, Tally], key: str, entry: Charged, most: int) -> None:
    """Count *entry*; of more than *most* the one goes that was used the longest ago."""
    tally = tallies.pop(key, None) or Tally()
    tally.add(entry)
    _keep(tallies, key, tally, most)


def _keep(values: dict[str, V], key: str, value: V, most: int) -> None:
    values[key] = value
    if len(values) > most:
        del values[next(iter(values))]


def _name(account: Account, unit: Unit, most: float) -> str:
    return f"{account.scope} {unit} {float(most)!r} {account.of} {account.job}"


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
