"""What may be spent, and when the owner is told that little of it is left."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from elwood.agent.conversation.task_run import Purse
from elwood.agent.models.settings import Limits
from elwood.agent.models.spending.ledger import (
    Account,
    Charged,
    Ledger,
    Tally,
    Unit,
    Warned,
    accounts,
    day_of,
)
from elwood.foundation.text.lines import one_line

# Times that a limit can be shown to be used: more says nothing more.
MOST_SHARE = 1_000_000


class Bill(msgspec.Struct, frozen=True):
    """One call, and what its job may spend."""

    entry: Charged
    purse: Purse | None = None


class _Bound(msgspec.Struct, frozen=True):
    """Of *account* no more than *most* may be spent."""

    account: Account
    unit: Unit
    most: float


def limit_reached(
    limits: Limits,
    ledger: Ledger,
    session: str,
    now: float,
    zone: str = "UTC",
    *,
    job: str = "",
    purse: Purse | None = None,
) -> str | None:
    """Say before a call which limit forbids it (LLM-42); *zone* says when a day begins.

    What runs at this moment is not counted yet: a limit may be overshot by the calls in flight.
    The limits of a conversation do not hold for a job in it.

    >>> print(limit_reached(Limits(day_tokens=0), Ledger(), "s", 0.0))
    The limit of 0 tokens a day is reached. It resets at 1970-01-02 00:00 UTC; to go on before \
that, raise limits.day_tokens in config.toml.
    >>> print(limit_reached(Limits(), Ledger(), "s", 0.0, job="news", purse=Purse(usd=0)))
    The limit of $0.00 a day for the job news is reached. It resets at 1970-01-02 00:00 UTC; to go \
on before that, raise the task's usd, or limits.job_usd, in config.toml, or have it planned anew.
    """
    for account in accounts(session, day_of(now, zone), job):
        tally = ledger.tally(account)
        for bound in _bounds(limits, purse, account):
            if tally.amount(bound.unit) >= bound.most:
                limit = _limit(account, bound.unit, bound.most)
                way_out = _way_out(account, bound.unit, zone)
                return f"The limit of {limit} is reached. {way_out}"
    return None


def warnings(limits: Limits, ledger: Ledger, bills: Sequence[Bill]) -> tuple[Warned, ...]:
    """Decide what the owner is told when *bills* come to *ledger*, which has not seen them yet."""
    if not limits.warn:
        return ()
    added: dict[Account, Tally] = {}
    bounds: dict[_Bound, None] = {}
    for bill in bills:
        entry = bill.entry
        for account in accounts(entry.session, entry.day, entry.job):
            added.setdefault(account, Tally()).add(entry)
            bounds |= dict.fromkeys(_bounds(limits, bill.purse, account))
    found = []
    for bound in bounds:
        account, unit, most = bound.account, bound.unit, bound.most
        used = ledger.tally(account).amount(unit) + added[account].amount(unit)
        if used >= limits.warn * most and not ledger.has_warned(account, unit, most):
            found.append(Warned(account, unit, float(most), float(used)))
    return tuple(found)


def in_warning(warned: Warned, zone: str) -> str:
    """Tell the owner that a limit is near, or reached.

    >>> print(in_warning(Warned(Account("month", "2026-12"), "usd", 20.0, 16.4), "UTC"))
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
    return f"{so_far}. {_way_out(account, unit, zone)} /budget shows where it went."


def share(used: float, most: float) -> int:
    """Return how many percent of *most* are used, in whole ones that are full.

    >>> share(99.99, 100), share(0.29, 1), share(3, 2), share(0, 0)
    (99, 29, 150, 100)
    """
    return int(min(used / most, MOST_SHARE) * 100 + 1e-9) if most else 100


def money(usd: float) -> str:
    """Write dollars; little is not nothing.

    >>> money(1234.5), money(0.004), money(0)
    ('$1,234.50', '<$0.01', '$0.00')
    """
    return "<$0.01" if 0 < usd < 0.005 else f"${usd:,.2f}"


def dollars(limit: float) -> str:
    """Write a limit; a small one with as many digits as it has.

    >>> dollars(20), dollars(0.015), dollars(0)
    ('$20.00', '$0.015', '$0.00')
    """
    return f"${limit:,.2f}" if not 0 < limit < 0.1 else f"${limit:.2g}"


def _bounds(limits: Limits, purse: Purse | None, account: Account) -> Iterator[_Bound]:
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
        yield _Bound(account, "tokens", tokens)
    if usd is not None:
        yield _Bound(account, "usd", usd)


def _limit(account: Account, unit: Unit, most: float, here: str = "this conversation") -> str:
    amount = f"{most:,.0f} tokens" if unit == "tokens" else dollars(most)
    match account.scope:
        case "session":
            return f"{amount} for {here}"
        case "day" | "month":
            return f"{amount} a {account.scope}"
        case "job":
            return f"{amount} a day for the job {one_line(account.job)}"


def _way_out(account: Account, unit: Unit, zone: str) -> str:
    setting = f"limits.{account.scope}_{unit} in config.toml"
    if account.scope == "session":
        return f"Only a higher {setting} lets it go on."
    if account.scope == "job":
        # One that was made in a conversation stands nowhere else.
        setting = (
            f"the task's {unit}, or limits.job_{unit}, in config.toml, or have it planned anew"
        )
    more = f"raise {setting}"
    return f"It resets at {_reset(account, zone)}; to go on before that, {more}."


def _reset(account: Account, zone: str) -> str:
    if account.scope == "month":
        first = date.fromisoformat(f"{account.of}-01")
        day = (first + timedelta(days=31)).replace(day=1)
    else:
        day = date.fromisoformat(account.of) + timedelta(days=1)
    midnight = datetime.combine(day, datetime.min.time(), ZoneInfo(zone))
    return f"{midnight:%Y-%m-%d %H:%M %Z}"
