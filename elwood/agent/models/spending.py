"""What models cost: the entries of the usage journal, their sums, the limits, and the table."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Literal, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.task_run import Purse
from elwood.agent.models.settings import Limits
from elwood.foundation.text.lines import clip, one_line, width

# What the ledger keeps: enough for limits and for people's questions, however long it runs.
MAX_SESSIONS = 10_000
MAX_MODELS = 100
# Jobs that are told apart in a day or in a month.  The one whose last call is the oldest goes, and
# its purse is as good as new: more than anybody has.
MAX_JOBS = 500
# Days and months that are kept: a clock that is set back finds its day again.
MAX_PERIODS = 5
# Warnings that are not given again: those of all sessions, and a year of all others.
MAX_WARNED = 30_000

Unit = Literal["tokens", "usd"]
V = TypeVar("V")


class Caller(msgspec.Struct, frozen=True):
    """For whom a model is asked: a conversation and, if it is one, a *job* with its *purse*."""

    session: str
    job: str = ""
    purse: Purse | None = None


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

    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    estimated: bool = False

    def add(self, entry: Charged) -> None:
        tokens = entry.input + entry.output + entry.cache_read + entry.cache_write
        self.tokens += tokens
        self.usd += entry.usd or 0.0
        self.unpriced += tokens if entry.usd is None else 0
        self.estimated |= entry.estimated

    def amount(self, unit: Unit) -> float:
        return self.tokens if unit == "tokens" else self.usd


class Ledger(msgspec.Struct):
    """The fold of the usage journal, within bounds: the oldest days go, and idle sessions."""

    sessions: dict[str, Tally] = {}
    periods: dict[str, Tally] = {}  # by date, and by month
    jobs: dict[str, dict[str, Tally]] = {}  # by period, then by job
    models: dict[str, Tally] = {}  # of the newest month
    month: str = ""
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
        match account.scope:
            case "session":
                found = self.sessions.get(account.of)
            case "day" | "month":
                found = self.periods.get(account.of)
            case "job":
                found = self.jobs.get(account.of, {}).get(account.job)
        return found or Tally()

    def has_warned(self, account: Account, unit: Unit, most: float) -> bool:
        """Tell whether the owner was told already; a limit of another height is another one."""
        return _name(account, unit, most) in self.warned

    def _charge(self, entry: Charged) -> None:
        month = entry.day[:7]
        if month > self.month:
            self.month = month
            self.models.clear()
        _add(self.models, entry.model, entry, MAX_MODELS)
        if entry.session and not entry.job:
            _add(self.sessions, entry.session, entry, MAX_SESSIONS)
        for period in (entry.day, month):
            _add(self.periods, period, entry, MAX_PERIODS)
            if entry.job:
                jobs = self.jobs.pop(period, {})
                _add(jobs, entry.job, entry, MAX_JOBS)
                _keep(self.jobs, period, jobs, MAX_PERIODS)


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


def day_of(now: float, zone: str) -> str:
    """Return the date of *now* (Unix seconds) in *zone*.

    >>> day_of(0.0, "UTC"), day_of(0.0, "America/New_York")
    ('1970-01-01', '1969-12-31')
    """
    return datetime.fromtimestamp(now, ZoneInfo(zone)).date().isoformat()


def charge(caller: Caller, model: str, usage: Usage, *, now: float, zone: str) -> Charged:
    """Make the entry for one call of *model*; without a price if our table has none.

    >>> charge(Caller("s"), "anthropic/claude-opus-5", Usage(1000), now=0, zone="UTC").usd
    0.005
    """
    price = PRICES.get(model)
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


# --- limits --------------------------------------------------------------------------------------


class Bill(msgspec.Struct, frozen=True):
    """One call, and what its job may spend."""

    entry: Charged
    purse: Purse | None = None


def accounts(session: str, day: str, job: str) -> tuple[Account, ...]:
    """List what a call counts into: a conversation, or the job in whose run it is made, if any.

    >>> [account.scope for account in accounts("s", "2026-11-21", "heartbeat")]
    ['job', 'day', 'month']
    """
    periods = Account("day", day), Account("month", day[:7])
    if not (job or session):
        return periods
    return Account("job", day, job) if job else Account("session", session), *periods


def limit_reached(
    limits: Limits, ledger: Ledger, caller: Caller, now: float, zone: str = "UTC"
) -> str | None:
    """Say before a call which limit forbids it (LLM-42); *zone* says when a day begins.

    What runs at this moment is not counted yet: a limit may be overshot by the calls in flight.
    The limits of a conversation do not hold for a job in it.

    >>> print(limit_reached(Limits(day_tokens=0), Ledger(), Caller("s"), 0.0))
    The limit of 0 tokens a day is reached. It resets at 1970-01-02 00:00 UTC; to go on before \
that, raise limits.day_tokens in config.toml.
    >>> print(limit_reached(Limits(), Ledger(), Caller("s", "news", Purse(usd=0)), 0.0))
    The limit of $0.00 a day for the job news is reached. It resets at 1970-01-02 00:00 UTC; to go \
on before that, have it planned anew with a higher budget, of at most $1.00 (limits.job_usd in \
config.toml).
    """
    for account in accounts(caller.session, day_of(now, zone), caller.job):
        tally = ledger.tally(account)
        for unit, most in _bounds(limits, caller.purse, account):
            if tally.amount(unit) >= most:
                limit = _limit(account, unit, most)
                way_out = _way_out(account, unit, zone, limits, caller.purse)
                return f"The limit of {limit} is reached. {way_out}"
    return None


def warnings(limits: Limits, ledger: Ledger, bills: Sequence[Bill]) -> tuple[Warned, ...]:
    """Decide what the owner is told when *bills* come to *ledger*, which has not seen them yet."""
    if not limits.warn:
        return ()
    added: dict[Account, Tally] = {}
    bounds: dict[tuple[Account, Unit, float], None] = {}
    for bill in bills:
        entry = bill.entry
        for account in accounts(entry.session, entry.day, entry.job):
            added.setdefault(account, Tally()).add(entry)
            bounds |= {(account, *bound): None for bound in _bounds(limits, bill.purse, account)}
    found = []
    for account, unit, most in bounds:
        used = ledger.tally(account).amount(unit) + added[account].amount(unit)
        if used >= limits.warn * most and not ledger.has_warned(account, unit, most):
            found.append(Warned(account, unit, float(most), float(used)))
    return tuple(found)


def in_warning(warned: Warned, zone: str, limits: Limits, purse: Purse | None = None) -> str:
    """Tell the owner that a limit is near, or reached; *purse* is that of the job, if it is one's.

    >>> print(in_warning(Warned(Account("month", "2026-12"), "usd", 20.0, 16.4), "UTC", Limits()))
    82 % of the limit of $20.00 a month is used. It resets at 2027-01-01 00:00 UTC; to go on \
before that, raise limits.month_usd in config.toml. /budget shows where it went.
    """
    account, unit = warned.account, warned.unit
    limit = _limit(account, unit, warned.most, f"the conversation {one_line(account.of)}")
    percent = share(warned.used, warned.most)
    so_far = (
        f"{percent} % of the limit of {limit} is used"
        if percent < 100
        else f"The limit of {limit} is reached"
    )
    way_out = _way_out(account, unit, zone, limits, purse)
    return f"{so_far}. {way_out} /budget shows where it went."


def share(used: float, most: float) -> int:
    """Return how many percent of *most* are used, in whole ones that are full.

    >>> share(99.99, 100), share(0.29, 1), share(3, 2), share(0, 0), share(1e9, 1e-9)
    (99, 29, 150, 100, 999)
    """
    return int(min(used / most, 9.99) * 100 + 1e-9) if most else 100


def dollars(usd: float) -> str:
    """Write an amount; a small one with as many digits as it has.

    >>> dollars(1234.5), dollars(0.015), dollars(0.00001), dollars(0)
    ('$1,234.50', '$0.015', '<$0.0001', '$0.00')
    """
    if not 0 < usd < 0.1:
        return f"${usd:,.2f}"
    return f"${usd:.2g}" if usd >= 0.0001 else "<$0.0001"


def _bounds(limits: Limits, purse: Purse | None, account: Account) -> Iterator[tuple[Unit, float]]:
    tokens: float | None
    match account.scope:
        case "session":
            tokens, usd = limits.session_tokens, limits.session_usd
        case "day":
            tokens, usd = limits.day_tokens, limits.day_usd
        case "month":
            tokens, usd = limits.month_tokens, limits.month_usd
        case "job":
            whole = limits.purse(purse)
            tokens, usd = whole.tokens, whole.usd
    if tokens is not None:
        yield "tokens", tokens
    if usd is not None:
        yield "usd", usd


def _limit(account: Account, unit: Unit, most: float, here: str = "this conversation") -> str:
    amount = f"{most:,.0f} tokens" if unit == "tokens" else dollars(most)
    match account.scope:
        case "session":
            return f"{amount} for {here}"
        case "day" | "month":
            return f"{amount} a {account.scope}"
        case "job":
            return f"{amount} a day for the job {one_line(account.job)}"


def _way_out(account: Account, unit: Unit, zone: str, limits: Limits, purse: Purse | None) -> str:
    setting = f"limits.{account.scope}_{unit} in config.toml"
    remedy = f"raise {setting}"
    if account.scope == "session":
        return f"/new begins another one; only a higher {setting} lets this one go on."
    own = None if purse is None else (purse.tokens if unit == "tokens" else purse.usd)
    if purse is not None and own is not None:
        remedy = _own_remedy(purse, unit, own, limits.job_usd)
    if account.scope == "month":
        first = date.fromisoformat(f"{account.of}-01")
        day = (first + timedelta(days=31)).replace(day=1)
    else:
        day = date.fromisoformat(account.of) + timedelta(days=1)
    reset = datetime.combine(day, datetime.min.time(), ZoneInfo(zone))
    return f"It resets at {reset:%Y-%m-%d %H:%M %Z}; to go on before that, {remedy}."


def _own_remedy(purse: Purse, unit: Unit, own: float, most: float | None) -> str:
    """Say how the *own* limit of a job is raised; one that was made in a chat has *most* at most.

    >>> _own_remedy(Purse(usd=0.5, section="heartbeat"), "usd", 0.5, 1.0)
    'raise heartbeat.usd in config.toml'
    """
    if purse.section:
        return f"raise {purse.section}.{unit} in config.toml"
    if unit == "tokens":
        return "write the task into config.toml, as one of [[tasks]]"
    anew = "have it planned anew with a higher budget"
    if most is None:
        return anew
    if own >= most:
        return f"raise limits.job_usd in config.toml, and {anew}"
    return f"{anew}, of at most {dollars(most)} (limits.job_usd in config.toml)"


# --- for people ----------------------------------------------------------------------------------

# Lines of jobs, of other conversations and of models in the table; the rest is one line.
TOP_JOBS, TOP_OTHERS, TOP_MODELS = 8, 4, 6
# Columns of the table, for a telephone in portrait: a name, tokens, money.
NAME, TOKENS, MONEY = 20, 9, 11
WIDTH = NAME + TOKENS + MONEY
# Characters of a bar.
BAR = 10


class Used(msgspec.Struct, frozen=True):
    """A sum, and its limits; *unpriced* are the tokens among *tokens* that cost nothing here.

    *estimated* says that a provider left out counts, so that the numbers are partly guesses.
    """

    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    estimated: bool = False
    most_tokens: int | None = None
    most_usd: float | None = None


class JobUsed(msgspec.Struct, frozen=True):
    """What the job *name* has used today, of its purse, and this month."""

    name: str
    day: Used
    month: Used


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What has been used: by a conversation, on the day *today*, and in its month.

    *jobs* and *models*, of the month, and *others*, all other conversations from their beginning
    on, stand with the dearest first.
    """

    today: str
    session: Used
    day: Used
    month: Used
    jobs: tuple[JobUsed, ...] = ()
    others: tuple[tuple[str, Used], ...] = ()
    models: tuple[tuple[str, Used], ...] = ()


def spent(
    limits: Limits,
    ledger: Ledger,
    session: str,
    now: float,
    zone: str = "UTC",
    purses: Mapping[str, Purse] | None = None,
) -> Spent:
    """Sum up for people; *purses* are those of the jobs that are known to have one.

    >>> spent(Limits(day_usd=2.0), Ledger(), "s", 0.0).day
    Used(tokens=0, usd=0.0, unpriced=0, estimated=False, most_tokens=None, most_usd=2.0)
    """
    today = day_of(now, zone)
    month = today[:7]
    purses = purses or {}
    in_day, in_month = ledger.jobs.get(today, {}), ledger.jobs.get(month, {})
    jobs = []
    for name in {**in_month, **purses}:
        purse = limits.purse(purses.get(name))
        of_day = _used(in_day.get(name), purse.tokens, purse.usd)
        jobs.append(JobUsed(name, of_day, _used(in_month.get(name))))
    others = {name: tally for name, tally in ledger.sessions.items() if name != session}
    day, this_month = ledger.periods.get(today), ledger.periods.get(month)
    return Spent(
        today=today,
        session=_used(ledger.sessions.get(session), limits.session_tokens, limits.session_usd),
        day=_used(day, limits.day_tokens, limits.day_usd),
        month=_used(this_month, limits.month_tokens, limits.month_usd),
        jobs=tuple(sorted(jobs, key=lambda job: (*_dearest(job.month), job.name))),
        others=_ranked(others),
        models=_ranked(ledger.models if ledger.month == month else {}),
    )


def _used(tally: Tally | None, tokens: int | None = None, usd: float | None = None) -> Used:
    tally = tally or Tally()
    return Used(tally.tokens, tally.usd, tally.unpriced, tally.estimated, tokens, usd)


def _ranked(tallies: Mapping[str, Tally]) -> tuple[tuple[str, Used], ...]:
    found = ((name, _used(tally)) for name, tally in tallies.items())
    return tuple(sorted(found, key=lambda named: (*_dearest(named[1]), named[0])))


def _dearest(used: Used) -> tuple[float, int]:
    return -used.usd, -used.tokens


def in_words(spent: Spent) -> str:
    """Say what a session and the day have cost, and the limits.

    >>> here, day = Used(1200, 0.0123), Used(5000, 0.5, most_usd=2.0)
    >>> in_words(Spent(today="2026-11-21", session=here, day=day, month=day))
    'This conversation: 1,200 tokens, $0.012. Today: 5,000 tokens, $0.50 of $2.00.'
    """
    return f"This conversation: {_amount(spent.session)}. Today: {_amount(spent.day)}."


def _amount(used: Used) -> str:
    of_tokens = "" if used.most_tokens is None else f" of {used.most_tokens:,}"
    of_usd = "" if used.most_usd is None else f" of {dollars(used.most_usd)}"
    return f"{used.tokens:,}{of_tokens} tokens, {dollars(used.usd)}{of_usd}"


def in_table(spent: Spent) -> str:
    """Draw what was spent and how near the limits are: Markdown, with a block of 40 columns.

    >>> day = Used(16_400, 1.04, most_usd=2.0)
    >>> job = JobUsed("heartbeat", Used(900, 0.001, most_tokens=1000), Used(900, 0.001))
    >>> print(in_table(Spent(today="2026-11-21", session=Used(), day=day, month=day, jobs=(job,))))
    ```
    2026-11-21             tokens      money
    Today                   16.4k      $1.04
      ▓▓▓▓▓░░░░░  52 % of $2.00
    This month              16.4k      $1.04
      ▓▓▓▓▓░░░░░  52 % of $2.00
    This conversation           0      $0.00
    <BLANKLINE>
    Jobs, today
    heartbeat                 900     $0.001
      ▓▓▓▓▓▓▓▓▓░  90 % of 1k tokens
    ```
    """
    sums = (("Today", spent.day), ("This month", spent.month), ("This conversation", spent.session))
    lines = [
        f"{spent.today:<{NAME}}{'tokens':>{TOKENS}}{'money':>{MONEY}}",
        *_rows(sums),
        *_top("Jobs, today", [(job.name, job.day) for job in spent.jobs], TOP_JOBS),
        *_top("Other conversations, in all", spent.others, TOP_OTHERS),
        *_top("Models, this month", spent.models, TOP_MODELS),
    ]
    notes = []
    if spent.month.unpriced:
        notes.append(
            f"The price of {spent.month.unpriced:,} tokens of this month is not known; "
            "they count as $0.00."
        )
    if any(used.estimated for _, used in sums):
        notes.append(
            "Some tokens are estimated: a provider did not count them, or a response broke off."
        )
    return "\n".join(["```", *lines, "```", *notes])


def count(tokens: int) -> str:
    """Write a number in at most six characters.

    >>> [count(n) for n in (999, 1000, 16_449, 999_949, 999_950, 2_500_000_000)]
    ['999', '1k', '16.4k', '999.9k', '1M', '2.5B']
    """
    if tokens < 1000:
        return str(tokens)
    amount, unit = tokens / 1000, "k"
    for larger in "MBT":
        if amount < 999.95:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f}".removesuffix(".0") + unit


def _top(title: str, named: Sequence[tuple[str, Used]], most: int) -> Iterator[str]:
    """Draw the *most* dearest of *named*, and one line for the rest."""
    if named:
        yield from ("", title, *_rows(named[:most]))
    if rest := [used for _, used in named[most:]]:
        tokens, usd = sum(used.tokens for used in rest), sum(used.usd for used in rest)
        yield from _rows([(f"and {len(rest)} more", Used(tokens, usd))])


def _rows(named: Sequence[tuple[str, Used]]) -> Iterator[str]:
    """Draw sums and their bars; a long name has a line of its own.  No name may end the block."""
    for name, used in named:
        name = clip(name.replace("`", "'"), WIDTH)
        if width(name) >= NAME:
            yield name
            name = ""
        padded = name + " " * (NAME - width(name))
        yield f"{padded}{count(used.tokens):>{TOKENS}}{dollars(used.usd):>{MONEY}}"
        if used.most_usd is not None:
            yield _bar(share(used.usd, used.most_usd), dollars(used.most_usd))
        if used.most_tokens is not None:
            yield _bar(share(used.tokens, used.most_tokens), f"{count(used.most_tokens)} tokens")


def _bar(percent: int, most: str) -> str:
    full = min(BAR, percent * BAR // 100)
    return f"  {'▓' * full}{'░' * (BAR - full)} {percent:>3} % of {most}"
