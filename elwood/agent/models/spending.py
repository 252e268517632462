"""What models cost: the entries of the usage journal, their sums, the limits, and /budget."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Literal, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.run import Budget
from elwood.agent.models.settings import Limits, PriceSettings
from elwood.foundation.text.lines import literal, one_line
from elwood.foundation.text.tables import Styled, bar, spark

# What the ledger keeps: enough for limits and for people's questions, however long it runs.
MAX_SESSIONS = 10_000
MAX_MODELS = 100
# Jobs that are told apart in a day.  The one whose last call is the oldest goes, and its budget is
# as good as new: more than anybody has.
MAX_JOBS = 500
# Days and months that are kept: a clock that is set back finds its day again.
MAX_PERIODS = 5

Unit = Literal["tokens", "usd"]
V = TypeVar("V")


class Caller(msgspec.Struct, frozen=True):
    """For whom a model is asked: a conversation and, if it is one, a *job* with its *budget*."""

    session: str
    job: str = ""
    budget: Budget | None = None


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


class Warned(msgspec.Struct, frozen=True, tag="warned"):
    """The owner was told of a limit.  Written by earlier versions; the sums say it as well."""


UsageEntry = Charged | Warned


class Account(msgspec.Struct, frozen=True):
    """What is summed up: a conversation, a day, a month, or a *job* in a day.

    *of* is the conversation's id, the date or the month (``2026-11``).
    """

    scope: Literal["session", "day", "month", "job"]
    of: str
    job: str = ""


class Tally(msgspec.Struct, frozen=True):
    """A sum of calls; *unpriced* are the tokens among *tokens* whose price is not known.

    A token read from a cache counts as a tenth: it costs no more, and else a long conversation
    would be over after a few dozen calls that all begin alike.
    """

    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    estimated: bool = False

    def plus(self, entry: Charged) -> "Tally":
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
    """The fold of the usage journal, within bounds: the oldest days go, and idle sessions."""

    sessions: dict[str, Tally] = {}
    periods: dict[str, Tally] = {}  # by date, and by month
    jobs: dict[str, dict[str, Tally]] = {}  # by date, then by job
    models: dict[str, Tally] = {}  # of the newest month
    month: str = ""

    def apply(self, seq: int, at: float, entry: UsageEntry) -> None:
        """Take one entry into account; called by the journal, in order."""
        if isinstance(entry, Warned):
            return
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
        """Look up what *account* adds up to."""
        match account.scope:
            case "session":
                found = self.sessions.get(account.of)
            case "day" | "month":
                found = self.periods.get(account.of)
            case "job":
                found = self.jobs.get(account.of, {}).get(account.job)
        return found or Tally()


def _add(tallies: dict[str, Tally], key: str, entry: Charged, most: int) -> None:
    """Count *entry*; of more than *most* the one goes that was used the longest ago."""
    _keep(tallies, key, tallies.pop(key, Tally()).plus(entry), most)


def _keep(values: dict[str, V], key: str, value: V, most: int) -> None:
    values[key] = value
    if len(values) > most:
        del values[next(iter(values))]


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
    """Look up what *model* costs, first among the owner's *own* prices.

    >>> price_of("ollama/qwen", {"ollama/*": PriceSettings(input=0, output=0)}) == FREE
    True
    """
    given = own.get(model) or own.get(f"{model.partition('/')[0]}/*")
    if given is None:
        return PRICES.get(model)
    cached = given.input if given.cached is None else given.cached
    return _flat(given.input, given.output, cached, given.input)


def cost(price: Price, usage: Usage) -> float:
    """Return what a call costs, in US dollars."""
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


def charge(
    caller: Caller, model: str, price: Price | None, usage: Usage, *, now: float, zone: str
) -> Charged:
    """Make the entry for one call of *model*; without a *price* if none is known."""
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

# Tokens of a response that are worth a call, where a limit leaves less than was wanted.
LEAST = 1_000


def accounts(session: str, day: str, job: str) -> tuple[Account, ...]:
    """List what a call counts into: a conversation, or the job in whose run it is made, if any."""
    periods = Account("day", day), Account("month", day[:7])
    if not (job or session):
        return periods
    return Account("job", day, job) if job else Account("session", session), *periods


class PlannedCall(msgspec.Struct, frozen=True):
    """A call of *model* for *caller*: *prompt* tokens, and a response of *wanted* at most."""

    caller: Caller
    model: str = ""
    price: Price | None = FREE
    prompt: int = 0
    wanted: int = 0

    def at_most(self, output: int) -> Usage:
        """Say the most it can use: no token of a prompt is dearer than one cached for an hour."""
        return Usage(0, output, cache_write=self.prompt, cache_write_1h=self.prompt)


def limit_reached(
    limits: Limits, ledger: Ledger, caller: Caller, now: float, zone: str = "UTC"
) -> str | None:
    """Say which limit forbids any call (LLM-42); *zone* says when a day begins."""
    found = affordable(limits, ledger, (), PlannedCall(caller), now, zone)
    return found if isinstance(found, str) else None


def affordable(
    limits: Limits,
    ledger: Ledger,
    held: Sequence[Charged],
    call: PlannedCall,
    now: float,
    zone: str = "UTC",
) -> int | str:
    """Say how many tokens the response of *call* may have, or which limit forbids the call.

    With so many no limit is passed, though all *held* costs come about, those of calls under way.
    The limits of a conversation do not hold for a job in it.
    """
    caller, most = call.caller, call.wanted
    budget = caller.budget or Budget()
    for account in accounts(caller.session, day_of(now, zone), caller.job):
        if not (bounds := list(_bounds(limits, caller.budget, account))):
            continue  # in a crowd much is held
        tally = ledger.tally(account)
        for entry in held:
            if account in accounts(entry.session, entry.day, entry.job):
                tally = tally.plus(entry)
        for unit, bound in bounds:
            limit = _limit(account, unit, bound)
            way_out = _way_out(account, unit, caller.budget, zone)
            left = bound - tally.amount(unit)
            if left <= 0:
                return f"The limit of {limit} is reached. {way_out}"
            if unit == "tokens":
                fits = left - call.prompt
            elif call.price is not None:
                fits = _output_for(left, call.price, call)
            elif account.scope == "job" and (budget.usd is None or budget.tokens is not None):
                continue  # its limit in tokens holds as well
            else:
                remedy = f"write it into models.prices in config.toml, or take away the {limit}"
                return f"I do not know the price of {call.model}, so I cannot keep to the limit \
of {limit}: {remedy}."
            if fits < min(call.wanted, LEAST):
                return f"The rest of the limit of {limit} is too little for an answer. {way_out}"
            most = min(most, int(fits))
    return most


def _output_for(usd: float, price: Price, call: PlannedCall) -> float:
    """Say how many tokens of output *usd* pays for, behind the prompt; less than 0: not even it."""
    bare, whole = (cost(price, call.at_most(output)) for output in (0, call.wanted))
    if whole <= usd:
        return call.wanted
    return -1 if bare > usd else (usd - bare) / (whole - bare) * call.wanted


def warnings(
    limits: Limits, ledger: Ledger, calls: Sequence[tuple[Charged, Budget | None]], zone: str
) -> tuple[str, ...]:
    """Say what the owner is told when *calls* come to *ledger*, which has not seen them yet.

    Each goes along with what its job may spend.  The owner is told once of a limit in its period,
    as the sum passes the share of it that was set.

    >>> call = Charged("s", "a/m", "2026-12-24", input=90)
    >>> print(*warnings(Limits(month_tokens=100), Ledger(), [(call, None)], "UTC"))
    90 % of the limit of 100 tokens a month is used. It resets at 2027-01-01 00:00 UTC; to go on \
before that, raise limits.month_tokens in config.toml. /budget shows where it went.
    """
    added: dict[Account, Tally] = {}
    budgets: dict[Account, Budget | None] = {}
    for entry, budget in calls:
        for account in accounts(entry.session, entry.day, entry.job):
            added[account] = added.get(account, ledger.tally(account)).plus(entry)
            budgets[account] = budget
    told = []
    for account, tally in added.items():
        for unit, most in _bounds(limits, budgets[account], account):
            share, used = limits.warn * most, tally.amount(unit)
            if ledger.tally(account).amount(unit) < share <= used:
                limit = _limit(account, unit, most, f"the conversation {one_line(account.of)}")
                so_far = f"{100 * used / most:.0f} % of the limit of {limit} is used"
                way_out = _way_out(account, unit, budgets[account], zone)
                told.append(f"{so_far}. {way_out} /budget shows where it went.")
    return tuple(told)


def dollars(usd: float) -> str:
    """Write an amount; a small one with as many digits as it has.

    >>> dollars(1234.5), dollars(0.015), dollars(0.00001), dollars(0)
    ('$1,234.50', '$0.015', '<$0.0001', '$0.00')
    """
    if not 0 < usd < 0.1:
        return f"${usd:,.2f}"
    return f"${usd:.2g}" if usd >= 0.0001 else "<$0.0001"


def _bounds(
    limits: Limits, budget: Budget | None, account: Account
) -> Iterator[tuple[Unit, float]]:
    tokens: float | None
    match account.scope:
        case "session":
            tokens, usd = limits.session_tokens or None, limits.session_usd
        case "day":
            tokens, usd = limits.day_tokens or None, limits.day_usd
        case "month":
            tokens, usd = limits.month_tokens, limits.month_usd
        case "job":
            whole = limits.budget(budget)
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


def _way_out(account: Account, unit: Unit, budget: Budget | None, zone: str) -> str:
    setting = f"limits.{account.scope}_{unit} in config.toml"
    if account.scope == "session":
        return f"/new begins another one; only a higher {setting} lets this one go on."
    if account.scope == "month":
        first = date.fromisoformat(f"{account.of}-01")
        reset = (first + timedelta(days=31)).replace(day=1)
    else:
        reset = date.fromisoformat(account.of) + timedelta(days=1)
    remedy = f"raise {setting}"
    own = None if budget is None else (budget.tokens if unit == "tokens" else budget.usd)
    if account.scope == "job" and own is not None:
        where = "of [heartbeat] or of its [[tasks]] in config.toml"
        remedy = f"raise its own {unit} {where}, or have it planned anew"
    return f"It resets at {reset} 00:00 {zone}; to go on before that, {remedy}."


# --- for people ----------------------------------------------------------------------------------

# Lines of jobs, of other conversations and of models in a list; the rest is one line.
TOP = 6


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What has been used: by a conversation, on the day *today*, and in its month.

    *jobs* of the day, *models* of the month, and all *others*, the other conversations from their
    beginning on, stand with the dearest first.
    """

    today: str
    session: Tally
    day: Tally
    month: Tally
    jobs: tuple[tuple[str, Tally], ...] = ()
    others: tuple[tuple[str, Tally], ...] = ()
    models: tuple[tuple[str, Tally], ...] = ()


def spent(ledger: Ledger, session: str, now: float, zone: str = "UTC") -> Spent:
    """Sum up for people."""
    today = day_of(now, zone)
    month = today[:7]
    others = {name: tally for name, tally in ledger.sessions.items() if name != session}
    return Spent(
        today=today,
        session=ledger.tally(Account("session", session)),
        day=ledger.tally(Account("day", today)),
        month=ledger.tally(Account("month", month)),
        jobs=_ranked(ledger.jobs.get(today, {})),
        others=_ranked(others),
        models=_ranked(ledger.models if ledger.month == month else {}),
    )


def _ranked(tallies: Mapping[str, Tally]) -> tuple[tuple[str, Tally], ...]:
    return tuple(sorted(tallies.items(), key=lambda one: (-one[1].usd, -one[1].tokens, one[0])))


def in_words(spent: Spent, limits: Limits) -> str:
    """Say what a session and the day have cost, and the limits.

    >>> here, day = Tally(1200, 0.0123), Tally(5000, 0.5)
    >>> in_words(Spent(today="2026-11-21", session=here, day=day, month=day), Limits(day_usd=2.0))
    'This conversation: 1,200 of 500,000 tokens, $0.012. Today: 5,000 of 5,000,000 tokens, \
$0.50 of $2.00.'
    """
    here = _amount(spent.session, limits.session_tokens, limits.session_usd)
    today = _amount(spent.day, limits.day_tokens, limits.day_usd)
    return f"This conversation: {here}. Today: {today}."


def _amount(used: Tally, most_tokens: int | None = None, most_usd: float | None = None) -> str:
    return " tokens, ".join(_amounts(used, most_tokens, most_usd))


def _amounts(used: Tally, most_tokens: int | None, most_usd: float | None) -> tuple[str, str]:
    of_tokens = f" of {most_tokens:,}" if most_tokens else ""
    of_usd = "" if most_usd is None else f" of {dollars(most_usd)}"
    return f"{used.tokens:,}{of_tokens}", f"{dollars(used.usd)}{of_usd}"


def in_list(spent: Spent, limits: Limits) -> str:
    """List what was spent and how near the limits are, as Markdown.

    >>> day = Tally(16_400, 1.04)
    >>> jobs = (("tea", day),)
    >>> made = Spent(today="2026-11-21", session=Tally(), day=day, month=day, jobs=jobs)
    >>> print(in_list(made, Limits(day_usd=2.0)))
    - Today (2026-11-21): 16,400 of 5,000,000 tokens, $1.04 of $2.00
    - This month: 16,400 tokens, $1.04
    - This conversation: 0 of 500,000 tokens, $0.00
    <BLANKLINE>
    Jobs, today:
    <BLANKLINE>
    - tea: 16,400 tokens, $1.04
    """
    most = limits.session_tokens, limits.session_usd
    here = _limit_row("This conversation", spent.session, *most)
    lines = []
    for name, tokens, cost, _ in (*period_rows(spent, limits), here, *ranked_rows(spent)):
        line = f"- {literal(name)}: {tokens} tokens, {cost}"
        lines += [line] if tokens else ["", f"{name}:", ""]
    for remark in remarks(spent):
        lines += ["", remark]
    return "\n".join(lines)


def remarks(spent: Spent) -> Iterator[str]:
    """Say what the numbers of the month leave out."""
    if spent.month.unpriced:
        tokens = f"{spent.month.unpriced:,} tokens of this month"
        yield f"The price of {tokens} is not known; they count as $0.00."
    if spent.month.estimated:
        why = "a provider did not count them, or a response broke off."
        yield f"Some tokens are estimated: {why}"


def course(entries: Iterable[UsageEntry], today: str, count: int) -> str:
    """Draw how the *count* days up to *today* went: their money, or tokens if nothing costs any.

    >>> spent = [Charged("s", "a/m", "2026-12-01", 9), Charged("s", "a/m", "2026-11-29", 5)]
    >>> course(spent, "2026-12-01", 4)
    '▁▅▁█'
    """
    last = date.fromisoformat(today)
    days = {str(last - timedelta(days=ago)): Tally() for ago in range(count - 1, -1, -1)}
    for entry in entries:
        if isinstance(entry, Charged) and entry.day in days:
            days[entry.day] = days[entry.day].plus(entry)
    usd = [day.usd for day in days.values()]
    return spark(usd if any(usd) else [day.tokens for day in days.values()])


# Name, tokens, cost, and a bar.
SpendingRow = tuple[str, str, str, Styled]


def period_rows(spent: Spent, limits: Limits) -> Iterator[SpendingRow]:
    """Yield the rows of the day and the month; the bar is the share of the limit."""
    today = f"Today ({spent.today})"
    yield _limit_row(today, spent.day, limits.day_tokens, limits.day_usd)
    yield _limit_row("This month", spent.month, limits.month_tokens, limits.month_usd)


def _limit_row(name: str, used: Tally, tokens: int | None, usd: float | None) -> SpendingRow:
    shares = [used.tokens / tokens] if tokens else []
    shares += [used.usd / usd] if usd else []
    drawn = bar(max(shares, default=0))
    told = f"{drawn.text} {max(shares):.0%}" if shares else ""
    return name, *_amounts(used, tokens, usd), Styled(told, drawn.style)


def ranked_rows(spent: Spent) -> Iterator[SpendingRow]:
    """Yield the rows of jobs, conversations and models; the bar is the share of all of its kind.

    A title has no tokens.
    """
    for title, named in (
        ("Jobs, today", spent.jobs),
        ("Other conversations", spent.others),
        ("Models, this month", spent.models),
    ):
        whole = _sum(named)
        if named:
            yield title, "", "", Styled("")
        rest = [(f"and {len(named[TOP:])} more", _sum(named[TOP:]))] if named[TOP:] else []
        for name, used in (*named[:TOP], *rest):
            share = used.usd / whole.usd if whole.usd else used.tokens / (whole.tokens or 1)
            yield one_line(name), *_amounts(used, None, None), Styled(bar(share).text)


def _sum(named: Sequence[tuple[str, Tally]]) -> Tally:
    return Tally(sum(one.tokens for _, one in named), sum(one.usd for _, one in named))
