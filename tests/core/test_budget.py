"""Prices, the ledger, and limits."""

import msgspec
import pytest

from elwood.core.budget import (
    MAX_DAYS,
    MAX_SESSIONS,
    PRICES,
    Charged,
    Ledger,
    Limits,
    No,
    Yes,
    allowed,
    charge,
    cost,
    spent,
)
from elwood.core.conversation import Usage

HAIKU = PRICES["anthropic/claude-haiku-5-5"]
SONNET = PRICES["anthropic/claude-sonnet-5-5"]
NOON = 1_795_262_400.0  # 2026-11-21 12:00 UTC
DAY = 86_400.0


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("claude-sonnet-5-5", Usage(1_000_000), 2.0),
        ("claude-sonnet-5-5", Usage(output=1_000_000), 10.0),
        ("claude-sonnet-5-5", Usage(cache_read=1_000_000), 0.10),
        ("claude-sonnet-5-5", Usage(cache_write=1_000_000), 2.50),
        ("claude-sonnet-5-5", Usage(cache_write=1_000_000, cache_write_1h=1_000_000), 4.0),
        ("claude-sonnet-5-5", Usage(cache_write=1_000_000, cache_write_1h=400_000), 3.1),
        ("claude-haiku-5-5", Usage(100_000, 1_000_000), 0.51),
        ("claude-haiku-5-5", Usage(100_001, 1_000_000), 2.5500005),
        # The tier goes by the whole prompt, from the cache or not.
        ("claude-haiku-5-5", Usage(1, cache_read=100_000), 0.0050005),
        ("claude-fable-5-2", Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000), 58.2),
    ],
)
def test_a_call_costs_what_the_table_says(model: str, usage: Usage, dollars: float) -> None:
    assert cost(PRICES[f"anthropic/{model}"], usage) == pytest.approx(dollars)


def test_unknown_models_cost_tokens_only() -> None:
    usage = Usage(1_000_000)
    unknown = charge("s", "local/qwen", usage, now=NOON, zone="UTC")
    assert unknown.usd is None
    ledger = folded(unknown)
    total = spent(Limits(), ledger, "s", NOON)
    assert (total.day_tokens, total.day_usd, total.unpriced_tokens) == (1_000_000, 0.0, 1_000_000)


def entry(session: str = "s", day: str = "2026-11-21", usd: float = 1.0, n: int = 100) -> Charged:
    return Charged(session=session, model="anthropic/m", day=day, input=n, usd=usd)


def folded(*entries: Charged) -> Ledger:
    ledger = Ledger()
    for seq, each in enumerate(entries, 1):
        ledger.apply(seq, 0.0, each)
    return ledger


@pytest.mark.parametrize(
    ("limits", "zone", "why"),
    [
        (Limits(), "UTC", None),
        (Limits(session_tokens=301, day_tokens=401, session_usd=3.01, day_usd=4.01), "UTC", None),
        (Limits(session_tokens=300), "UTC", "300 tokens for this conversation"),
        (Limits(session_usd=3.0), "UTC", "$3.00 for this conversation"),
        (
            Limits(day_tokens=400),
            "UTC",
            "it resets at 2026-11-22 00:00 UTC",
        ),
        (Limits(day_usd=4.0), "UTC", "$4.00 a day is reached; it resets at 2026-11-22 00:00 UTC"),
        (Limits(day_usd=4.0), "Europe/Berlin", "it resets at 2026-11-22 00:00 CET"),
        (Limits(day_usd=0.0), "Pacific/Auckland", "it resets at 2026-11-23 00:00 NZDT"),
    ],
)
def test_limits_are_hard_and_say_when_they_reset(
    limits: Limits, zone: str, why: str | None
) -> None:
    """LLM-42: 300 tokens of ours, 400 of the day."""
    others = (entry("other"), entry("other"))
    ledger = folded(entry(), entry(), entry(day="2026-11-20"), *others)
    verdict = allowed(limits, ledger, "s", NOON, zone)
    if why is None:
        assert verdict == Yes()
    else:
        assert isinstance(verdict, No)
        assert why in verdict.why


def test_a_new_day_resets_the_day_but_not_the_session() -> None:
    ledger = folded(entry())
    assert isinstance(allowed(Limits(day_tokens=100), ledger, "s", NOON), No)
    assert allowed(Limits(day_tokens=100), ledger, "s", NOON + DAY / 2 - 1) != Yes()
    assert allowed(Limits(day_tokens=100), ledger, "s", NOON + DAY / 2) == Yes()
    assert isinstance(allowed(Limits(session_tokens=100), ledger, "s", NOON + DAY), No)


def test_spending_is_summed_by_session_day_month_and_model() -> None:
    ledger = folded(
        entry(day="2026-10-31"),
        entry(day="2026-11-20"),
        entry("other"),
        Charged(session="s", model="b/n", day="2026-11-21", output=5, estimated=True),
    )
    total = spent(Limits(day_usd=9.0), ledger, "s", NOON)
    assert (total.session_tokens, total.session_usd) == (205, 2.0)
    assert (total.day_tokens, total.day_usd, total.day_usd_limit) == (105, 1.0, 9.0)
    assert (total.month_tokens, total.month_usd) == (205, 2.0)
    assert (total.unpriced_tokens, total.estimated) == (5, True)
    assert total.models == (("anthropic/m", 200, 2.0), ("b/n", 5, 0.0))


def test_the_ledger_stays_bounded_and_keeps_what_is_in_use() -> None:
    ledger = folded(*(entry(f"s{n}", "2026-11-21") for n in range(MAX_SESSIONS)))
    ledger.apply(0, 0.0, entry("s0"))
    ledger.apply(0, 0.0, entry("new"))
    assert len(ledger.sessions) == MAX_SESSIONS
    assert "s1" not in ledger.sessions
    assert ledger.sessions["s0"].calls == 2
    for month in range(1, 13):
        for day in range(1, 29):
            ledger.apply(0, 0.0, entry(day=f"2027-{month:02}-{day:02}"))
    assert len(ledger.days) == MAX_DAYS
    assert ledger.models["anthropic/m"].calls == 28


def test_a_snapshot_of_the_ledger_reads_back_equal() -> None:
    ledger = folded(entry(), entry("b", "2026-11-22"))
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger) == ledger
