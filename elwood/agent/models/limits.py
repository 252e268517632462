"""Limits of spending: whether a call fits, and warnings for the owner."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

import msgspec

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.run import Budget
from elwood.agent.models.ledger import (
    FREE,
    Account,
    Caller,
    Charged,
    Ledger,
    Price,
    Tally,
    Unit,
    cost,
    day_of,
    dollars,
)
from elwood.agent.models.settings import Limits
from elwood.foundation.text.lines import one_line

# Minimum tokens of a response that are worth a call, if a limit leaves fewer than requested.
LEAST = 1_000


def accounts(session: str, day: str, job: str) -> tuple[Account, ...]:
    """Return the accounts of a call: its job or conversation, if any, the day and the month."""
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
        """Return the maximum usage: no token of a prompt costs more than one cached for an hour."""
        return Usage(0, output, cache_write=self.prompt, cache_write_1h=self.prompt)


def limit_reached(
    limits: Limits, ledger: Ledger, caller: Caller, now: float, zone: str = "UTC"
) -> str | None:
    """Return which limit forbids any call (LLM-42), or None; a day begins at midnight in *zone*."""
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
    """Return the tokens that the response of *call* may have, or which limit forbids the call.

    No limit is exceeded then, even if all *held* costs of running calls occur.  The limits of a
    conversation do not apply to a job in it.
    """
    caller, most = call.caller, call.wanted
    budget = caller.budget or Budget()
    for account in accounts(caller.session, day_of(now, zone), caller.job):
        if not (bounds := list(_bounds(limits, caller.budget, account))):
            continue  # with many calls *held* is long
        tally = ledger.tally(account)
        for entry in held:
            if account in accounts(entry.session, entry.day, entry.job):
                tally = tally.add(entry)
        for unit, bound in bounds:
            limit = _limit(account, unit, bound)
            way_out = _way_out(account, unit, caller.budget, zone)
            left = bound - tally.amount(unit)
            if left <= 0:
                return f"The {limit} is used up. {way_out}"
            if unit == "tokens":
                fits = left - call.prompt
            elif call.price is not None:
                fits = _output_for(left, call.price, call)
            elif account.scope == "job" and (budget.usd is None or budget.tokens is not None):
                continue  # its limit in tokens also applies
            else:
                remedy = "Write the price into models.prices in config.toml, or remove the limit"
                return f"I do not know the price of {call.model}, so I cannot keep to the {limit}. \
{remedy}."
            if fits < min(call.wanted, LEAST):
                return f"The {limit} has too little left for an answer. {way_out}"
            most = min(most, int(fits))
    return most


def _output_for(usd: float, price: Price, call: PlannedCall) -> float:
    """Return the tokens of output that *usd* pays for after the prompt; -1: not even the prompt."""
    bare, whole = (cost(price, call.at_most(output)) for output in (0, call.wanted))
    if whole <= usd:
        return call.wanted
    return -1 if bare > usd else (usd - bare) / (whole - bare) * call.wanted


def warnings(
    limits: Limits, ledger: Ledger, calls: Sequence[tuple[Charged, Budget | None]], zone: str
) -> tuple[str, ...]:
    """Return warnings for the owner about *calls* that *ledger* does not include yet.

    Each call comes with the budget of its job.  A limit causes one warning in its period, when
    the sum exceeds the configured share of it.
    >>> call = Charged("s", "a/m", "2026-12-24", input=90)
    >>> print(*warnings(Limits(month_tokens=100), Ledger(), [(call, None)], "UTC"))
    90 % of the monthly limit of 100 tokens is used. It resets at 2027-01-01 00:00 UTC. To go on \
before that, raise limits.month_tokens in config.toml. /budget shows the details.
    """
    added: dict[Account, Tally] = {}
    budgets: dict[Account, Budget | None] = {}
    for entry, budget in calls:
        for account in accounts(entry.session, entry.day, entry.job):
            added[account] = added.get(account, ledger.tally(account)).add(entry)
            budgets[account] = budget
    texts = []
    for account, tally in added.items():
        for unit, most in _bounds(limits, budgets[account], account):
            share, used = limits.warn * most, tally.amount(unit)
            if ledger.tally(account).amount(unit) < share <= used:
                limit = _limit(account, unit, most, f"the conversation {one_line(account.of)}")
                so_far = f"{100 * used / most:.0f} % of the {limit} is used"
                way_out = _way_out(account, unit, budgets[account], zone)
                texts.append(f"{so_far}. {way_out} /budget shows the details.")
    return tuple(texts)


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
            return f"limit of {amount} for {here}"
        case "day":
            return f"daily limit of {amount}"
        case "month":
            return f"monthly limit of {amount}"
        case "job":
            return f"daily limit of {amount} for the job {one_line(account.job)}"


def _way_out(account: Account, unit: Unit, budget: Budget | None, zone: str) -> str:
    setting = f"limits.{account.scope}_{unit} in config.toml"
    if account.scope == "session":
        return f"Start a new conversation with /new. To continue this one, raise {setting}."
    if account.scope == "month":
        first = date.fromisoformat(f"{account.of}-01")
        reset = (first + timedelta(days=31)).replace(day=1)
    else:
        reset = date.fromisoformat(account.of) + timedelta(days=1)
    remedy = f"raise {setting}"
    own = None if budget is None else (budget.tokens if unit == "tokens" else budget.usd)
    if account.scope == "job" and own is not None:
        where = "of [heartbeat] or of its [[tasks]] in config.toml"
        remedy = f"raise its own {unit} {where}, or plan it again"
    return f"It resets at {reset} 00:00 {zone}. To go on before that, {remedy}."
