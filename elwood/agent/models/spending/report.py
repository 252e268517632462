"""What has been spent, for people: in a sentence, and as a table."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from elwood.agent.conversation.task_run import Purse
from elwood.agent.models.settings import Limits
from elwood.agent.models.spending.budget import dollars, money, share
from elwood.agent.models.spending.ledger import Account, Ledger, Tally, day_of
from elwood.foundation.text.lines import clip, width

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
    """What the job *name* has used today, of its purse if that is known, and this month."""

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
    in_day = ledger.job_days.get(today, {})
    in_month = ledger.job_months.get(month, {})
    jobs = []
    for name in {**in_month, **in_day, **purses}:
        purse = limits.purse(purses.get(name))
        used_today = _used(in_day.get(name), purse.tokens, purse.usd)
        jobs.append(JobUsed(name, used_today, _used(in_month.get(name))))
    models = ledger.models if ledger.month == month else {}
    of_session = ledger.tally(Account("session", session))
    return Spent(
        today=today,
        session=_used(of_session, limits.session_tokens, limits.session_usd),
        day=_used(ledger.days.get(today), limits.day_tokens, limits.day_usd),
        month=_used(ledger.months.get(month), limits.month_tokens, limits.month_usd),
        jobs=tuple(sorted(jobs, key=lambda job: (*_dearest(job.month), job.name))),
        others=_ranked({name: one for name, one in ledger.sessions.items() if name != session}),
        models=_ranked(models),
    )


def in_words(spent: Spent) -> str:
    """Say what a session and the day have cost, and the limits.

    >>> here, day = Used(1200, 0.0123), Used(5000, 0.5, most_usd=2.0)
    >>> in_words(Spent(today="2026-11-21", session=here, day=day, month=day))
    'This conversation: 1,200 tokens, $0.01. Today: 5,000 tokens, $0.50 of $2.00.'
    >>> in_words(Spent(today="2026-11-21", session=Used(), day=Used(10, unpriced=10), month=Used()))
    'This conversation: 0 tokens, $0.00. Today: 10 tokens, $0.00 (10 of unknown price).'
    """
    notes = []
    if spent.day.unpriced:
        notes.append(f"{spent.day.unpriced:,} of unknown price")
    if spent.session.estimated or spent.day.estimated:
        notes.append("partly estimated")
    note = f" ({'; '.join(notes)})" if notes else ""
    return f"This conversation: {_amount(spent.session)}. Today: {_amount(spent.day)}{note}."


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
    Jobs, today and this month
    heartbeat                 900     <$0.01
      ▓▓▓▓▓▓▓▓▓░  90 % of 1k tokens
      this month              900     <$0.01
    ```
    """
    lines = [f"{spent.today:<{NAME}}{'tokens':>{TOKENS}}{'money':>{MONEY}}"]
    for name, used in (
        ("Today", spent.day),
        ("This month", spent.month),
        ("This conversation", spent.session),
    ):
        lines += [*_row(name, used), *_bars(used)]
    if spent.jobs:
        lines += ["", "Jobs, today and this month"]
        for job in spent.jobs[:TOP_JOBS]:
            lines += [*_row(job.name, job.day), *_bars(job.day), *_row("  this month", job.month)]
        rest = spent.jobs[TOP_JOBS:]
        if rest:
            lines += _row(f"and {len(rest)} more", _sum([job.day for job in rest]))
            lines += _row("  this month", _sum([job.month for job in rest]))
    lines += _top("Other conversations, in all", spent.others, TOP_OTHERS)
    lines += _top("Models, this month", spent.models, TOP_MODELS)
    return "\n".join(["```", *lines, "```", *_notes(spent)])


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


def _used(tally: Tally | None, tokens: int | None = None, usd: float | None = None) -> Used:
    tally = tally or Tally()
    return Used(tally.tokens, tally.usd, tally.unpriced, bool(tally.estimated), tokens, usd)


def _ranked(tallies: Mapping[str, Tally]) -> tuple[tuple[str, Used], ...]:
    found = ((name, _used(tally)) for name, tally in tallies.items())
    return tuple(sorted(found, key=lambda named: (*_dearest(named[1]), named[0])))


def _top(title: str, named: Sequence[tuple[str, Used]], most: int) -> Iterator[str]:
    """Draw the *most* dearest of *named*, and one line for the rest."""
    if not named:
        return
    yield from ("", title)
    for name, used in named[:most]:
        yield from _row(name, used)
    rest = [used for _, used in named[most:]]
    if rest:
        yield from _row(f"and {len(rest)} more", _sum(rest))


def _sum(parts: Sequence[Used]) -> Used:
    return Used(sum(part.tokens for part in parts), sum(part.usd for part in parts))


def _dearest(used: Used) -> tuple[float, int]:
    return -used.usd, -used.tokens


def _row(name: str, used: Used) -> Iterator[str]:
    """Draw one sum; a long *name* has a line of its own.  No name may end the block."""
    name = clip(name.replace("`", "'"), WIDTH)
    if width(name) >= NAME:
        yield name
        name = ""
    yield (
        name
        + " " * (NAME - width(name))
        + f"{count(used.tokens):>{TOKENS}}{_price(used.usd):>{MONEY}}"
    )


def _price(usd: float) -> str:
    return money(usd) if usd < 100_000 else f"${count(round(usd))}"


def _bars(used: Used) -> Iterator[str]:
    if used.most_usd is not None:
        yield _bar(share(used.usd, used.most_usd), dollars(used.most_usd))
    if used.most_tokens is not None:
        yield _bar(share(used.tokens, used.most_tokens), f"{count(used.most_tokens)} tokens")


def _bar(percent: int, most: str) -> str:
    full = min(BAR, percent * BAR // 100)
    return f"  {'▓' * full}{'░' * (BAR - full)} {min(percent, 999):>3} % of {most}"


def _notes(spent: Spent) -> Iterator[str]:
    if spent.month.unpriced:
        yield (
            f"The price of {spent.month.unpriced:,} tokens of this month is not known; "
            "they count as $0.00."
        )
    if any(used.estimated for used in (spent.session, spent.day, spent.month)):
        yield "Some tokens are estimated: a provider did not count them, or a response broke off."


def _amount(used: Used) -> str:
    of_tokens = "" if used.most_tokens is None else f" of {used.most_tokens:,}"
    of_usd = "" if used.most_usd is None else f" of ${used.most_usd:.2f}"
    return f"{used.tokens:,}{of_tokens} tokens, ${used.usd:.2f}{of_usd}"
