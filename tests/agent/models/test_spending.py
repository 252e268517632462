"""The table of what was spent."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.models.settings import Limits
from elwood.agent.models.spending.ledger import Charged, Ledger
from elwood.agent.models.spending.report import (
    TOP_JOBS,
    TOP_MODELS,
    WIDTH,
    JobUsed,
    Spent,
    Used,
    count,
    in_table,
    spent,
)
from elwood.foundation.text.lines import width
from elwood.foundation.text.markdown import as_terminal, to_entities

NOTHING = Spent(today="2026-11-21", session=Used(), day=Used(), month=Used())


def block(table: str) -> list[str]:
    lines = table.split("\n")
    assert lines[0] == "```"
    return lines[1 : lines.index("```", 1)]


def test_what_is_beyond_the_top_is_one_line_and_nothing_is_lost() -> None:
    jobs = tuple(JobUsed(f"job{n}", Used(10, 0.5), Used(100, 1.0)) for n in range(TOP_JOBS + 12))
    models = tuple((f"a/m{n}", Used(1000, 2.0)) for n in range(TOP_MODELS + 3))
    lines = block(in_table(msgspec.structs.replace(NOTHING, jobs=jobs, models=models)))
    at = lines.index("and 12 more               120      $6.00")
    assert lines[at + 1] == "  this month             1.2k     $12.00"
    assert lines[at - 2].startswith(f"job{TOP_JOBS - 1} ")
    assert lines[-1] == "and 3 more                 3k      $6.00"


@pytest.mark.parametrize(
    ("used", "most", "bar"),
    [
        (0.0, 2.0, "░░░░░░░░░░   0 % of $2.00"),
        (1.999, 2.0, "▓▓▓▓▓▓▓▓▓░  99 % of $2.00"),
        (2.0, 2.0, "▓▓▓▓▓▓▓▓▓▓ 100 % of $2.00"),
        (3.0, 2.0, "▓▓▓▓▓▓▓▓▓▓ 150 % of $2.00"),
        (1e9, 0.001, "▓▓▓▓▓▓▓▓▓▓ 999 % of $0.001"),
        (0.0, 0.0, "▓▓▓▓▓▓▓▓▓▓ 100 % of $0.00"),
    ],
)
def test_a_bar_is_full_only_when_the_limit_is_reached(used: float, most: float, bar: str) -> None:
    day = Used(1, used, most_usd=most)
    assert f"  {bar}" in block(in_table(msgspec.structs.replace(NOTHING, day=day)))


def test_what_is_not_known_is_said() -> None:
    assert in_table(NOTHING).endswith("```")
    month = Used(5000, 0.0, unpriced=4000, estimated=True)
    notes = in_table(msgspec.structs.replace(NOTHING, month=month)).split("```")[-1]
    assert "The price of 4,000 tokens of this month is not known" in notes
    assert "estimated" in notes


AMOUNTS = st.builds(
    Used,
    tokens=st.integers(0, 10**14),
    usd=st.floats(0, 1e7),
    most_tokens=st.none() | st.integers(0, 10**14),
    most_usd=st.none() | st.floats(0, 1e7),
)
NAMES = st.text(max_size=60) | st.sampled_from(
    ["anthropic/claude-sonnet-5-5", "`" * 25, "日本語の仕事" * 5]
)


@given(AMOUNTS, st.lists(st.tuples(NAMES, AMOUNTS), max_size=12))
def test_the_table_fits_a_telephone_and_is_one_block_whatever_the_names(
    used: Used, named: list[tuple[str, Used]]
) -> None:
    jobs = tuple(JobUsed(name, amount, amount) for name, amount in named)
    table = in_table(
        Spent(
            today="2026-11-21",
            session=used,
            day=used,
            month=used,
            jobs=jobs,
            others=tuple(named),
            models=tuple(named),
        )
    )
    lines = block(table)
    assert max(map(width, lines)) <= WIDTH
    rich = to_entities(table)
    [pre] = [entity for entity in rich.entities if entity.type == "pre"]
    shown = rich.text.encode("utf-16-le")[2 * pre.offset : 2 * (pre.offset + pre.length)]
    assert shown.decode("utf-16-le").split("\n") == lines
    assert as_terminal(table).split("\n")[: len(lines)] == lines


@given(st.integers(0, 10**14))
def test_a_count_is_short_and_near(tokens: int) -> None:
    text = count(tokens)
    assert len(text) <= 6
    digits = text.rstrip("kMBT")
    scale = {"": 1, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[text[len(digits) :]]
    assert abs(float(digits) * scale - tokens) <= 0.05 * scale + 1


def test_the_dearest_of_the_other_conversations_are_shown() -> None:
    ledger = Ledger()
    for number in range(7):
        ledger.apply(
            number, 0.0, Charged(f"tg-{number}", "a/m", "2026-11-21", input=1, usd=number * 1.0)
        )
    shown = spent(Limits(), ledger, "tg-6", 0.0)
    assert [name for name, _ in shown.others] == ["tg-5", "tg-4", "tg-3", "tg-2", "tg-1", "tg-0"]
    table = in_table(shown)
    assert "tg-2" in table
    assert "tg-1" not in table
    assert "and 2 more" in table
