"""Spending for people: in /budget, `elwood budget` and /status."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from elwood.agent.models.ledger import Charged, Spent, Tally, dollars
from elwood.agent.models.settings import Limits
from elwood.foundation.text.lines import literal, one_line
from elwood.foundation.text.tables import Line, Row, Styled, bar, spark, table

# Maximum rows of jobs, of other conversations and of models; one more row sums the rest.
TOP = 6


class SpendingRow(NamedTuple):
    name: str
    tokens: str
    cost: str
    share: Styled
    """A bar: the share of the limit, or of all rows with the same title."""


def spending_rows(
    spent: Spent, limits: Limits, *, here: bool
) -> Mapping[str, Sequence[SpendingRow]]:
    """Return the rows by title; those with a limit come first and have the title "".

    *here* is True in a conversation.
    """
    bounded = [
        _limit_row(f"Today ({spent.today})", spent.day, limits.day_tokens, limits.day_usd),
        _limit_row("This month", spent.month, limits.month_tokens, limits.month_usd),
    ]
    if here:
        most = limits.session_tokens, limits.session_usd
        bounded.append(_limit_row("This conversation", spent.session, *most))
    named = {
        "Jobs, today": spent.jobs,
        "Other conversations": spent.others,
        "Models, this month": spent.models,
    }
    return {"": bounded, **{title: _ranked_rows(ones) for title, ones in named.items() if ones}}


def in_words(spent: Spent, limits: Limits) -> str:
    """Format the rows with a limit as sentences.

    >>> made = Spent(today="2026-11-21", session=Tally(12), day=Tally(50), month=Tally(99))
    >>> print(in_words(made, Limits(day_tokens=0, session_tokens=90)))
    Today (2026-11-21): 50 tokens, $0.00. This month: 99 tokens, $0.00. This conversation: \
12 of 90 tokens, $0.00.
    """
    return " ".join(f"{_format_row(row)}." for row in spending_rows(spent, limits, here=True)[""])


def in_list(spent: Spent, limits: Limits) -> str:
    """Format the spending and the limits as a list in Markdown.

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
    lines = []
    for title, rows in spending_rows(spent, limits, here=True).items():
        lines += ["", f"{title}:", ""] if title else []
        lines += [f"- {_format_row(row)}" for row in rows]
    for remark in _describe_gaps(spent):
        lines += ["", remark]
    return "\n".join(lines)


def in_table(spent: Spent, limits: Limits, days: Row, room: int | None) -> list[Line]:
    """Format the spending for a terminal, with the row of the last *days*."""
    drawn: list[Row] = []
    for title, rows in spending_rows(spent, limits, here=False).items():
        drawn += [[""] * 4, [Styled(title, "dim"), "", "", ""]] if title else []
        drawn += rows if title else [*rows, days]
    lines = table(("", "tokens", "cost", "share"), drawn, room, ("tokens",))
    noted = [[f"{remark}\n"] for remark in _describe_gaps(spent)]
    return lines + (table(("",), noted, room) if noted else [])


def draw_days(entries: Iterable[Charged], today: str, count: int) -> str:
    """Draw the spending of the *count* days up to *today*: dollars, or tokens if all are free.

    >>> spent = [Charged("s", "a/m", "2026-12-01", 9), Charged("s", "a/m", "2026-11-29", 5)]
    >>> draw_days(spent, "2026-12-01", 4)
    '▁▅▁█'
    """
    last = date.fromisoformat(today)
    days = {str(last - timedelta(days=ago)): Tally() for ago in range(count - 1, -1, -1)}
    for entry in entries:
        if entry.day in days:
            days[entry.day] = days[entry.day].add(entry)
    usd = [day.usd for day in days.values()]
    return spark(usd if any(usd) else [day.tokens for day in days.values()])


def _format_row(row: SpendingRow) -> str:
    return f"{literal(row.name)}: {row.tokens} tokens, {row.cost}"


def _limit_row(name: str, used: Tally, tokens: int | None, usd: float | None) -> SpendingRow:
    shares = [used.tokens / tokens] if tokens else []
    shares += [used.usd / usd] if usd else []
    drawn = bar(max(shares, default=0))
    share = Styled(f"{drawn.text} {max(shares):.0%}" if shares else "", drawn.style)
    of_tokens = f" of {tokens:,}" if tokens else ""
    of_usd = "" if usd is None else f" of {dollars(usd)}"
    return SpendingRow(name, f"{used.tokens:,}{of_tokens}", f"{dollars(used.usd)}{of_usd}", share)


def _ranked_rows(named: Sequence[tuple[str, Tally]]) -> list[SpendingRow]:
    whole, rest = _sum(named), named[TOP:]
    shown = [*named[:TOP], *([(f"and {len(rest)} more", _sum(rest))] if rest else [])]
    rows = []
    for name, used in shown:
        share = used.usd / whole.usd if whole.usd else used.tokens / (whole.tokens or 1)
        drawn = Styled(bar(share).text)
        rows.append(SpendingRow(one_line(name), f"{used.tokens:,}", dollars(used.usd), drawn))
    return rows


def _sum(named: Sequence[tuple[str, Tally]]) -> Tally:
    return Tally(sum(one.tokens for _, one in named), sum(one.usd for _, one in named))


def _describe_gaps(spent: Spent) -> Iterator[str]:
    """Describe what the numbers of the month leave out."""
    if spent.month.unpriced:
        tokens = f"{spent.month.unpriced:,} tokens of this month"
        yield f"The price of {tokens} is not known; they count as $0.00."
    if spent.month.estimated:
        why = "a provider did not count them, or a response broke off."
        yield f"Some tokens are estimated: {why}"
