"""Prices, the ledger, limits, warnings, and the list of costs."""

from pathlib import Path

import msgspec
import pytest

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.run import Budget
from elwood.agent.models.ledger import (
    MAX_JOBS,
    MAX_PERIODS,
    MAX_SESSIONS,
    PRICES,
    Account,
    Caller,
    Charged,
    Ledger,
    Tally,
    charge,
    cost,
    spent,
)
from elwood.agent.models.limits import limit_reached, warnings
from elwood.agent.models.settings import Limits
from elwood.agent.models.spending import TOP, in_list
from elwood.foundation.storage.journal import JournalDamaged, digest, replay, write_line
from elwood.foundation.text.markdown import to_entities

NOON = 1_795_262_400.0  # 2026-11-21 12:00 UTC
DAY = 86_400.0
TODAY = "2026-11-21"


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("claude-sonnet-5-5", Usage(1_000_000), 2.0),
        ("claude-sonnet-5-5", Usage(output=1_000_000), 10.0),
        ("claude-sonnet-5-5", Usage(cache_read=1_000_000), 0.10),
        ("claude-sonnet-5-5", Usage(cache_write=1_000_000, cache_write_1h=400_000), 3.1),
        ("claude-haiku-5-5", Usage(100_000, 1_000_000), 0.51),
        ("claude-haiku-5-5", Usage(100_001, 1_000_000), 2.5500005),
        # The tier depends on the whole prompt, cached or not.
        ("claude-haiku-5-5", Usage(1, cache_read=100_000), 0.0050005),
    ],
)
def test_a_call_costs_its_table_price(model: str, usage: Usage, dollars: float) -> None:
    assert cost(PRICES[f"anthropic/{model}"], usage) == pytest.approx(dollars)


def entry(
    session: str = "s", day: str = TODAY, usd: float = 1.0, n: int = 100, job: str = ""
) -> Charged:
    return Charged(session=session, model="anthropic/m", day=day, input=n, usd=usd, job=job)


def make_ledger(*entries: Charged) -> Ledger:
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
        (
            Limits(session_usd=3.0),
            "UTC",
            "To continue this one, raise limits.session_usd in config.toml",
        ),
        (Limits(month_tokens=501, month_usd=5.01), "UTC", None),
        (
            Limits(month_tokens=500),
            "UTC",
            "limit of 500 tokens is used up. It resets at 2026-12-01",
        ),
        (Limits(month_usd=5.0), "Europe/Berlin", "monthly limit of $5.00 is used up. It resets at"),
        (
            Limits(day_tokens=400),
            "UTC",
            "It resets at 2026-11-22 00:00 UTC. To go on before that, raise limits.day_tokens",
        ),
        (Limits(day_usd=4.0), "Europe/Berlin", "It resets at 2026-11-22 00:00 Europe/Berlin"),
        (Limits(day_usd=0.0), "Pacific/Auckland", "It resets at 2026-11-23 00:00"),
    ],
)
def test_limits_are_hard_and_name_their_reset(limits: Limits, zone: str, why: str | None) -> None:
    """LLM-42: 200 tokens of this session, 400 of the day, 500 of the month."""
    others = (entry("other"), entry("other"))
    ledger = make_ledger(entry(), entry(), entry(day="2026-11-20"), *others)
    verdict = limit_reached(limits, ledger, Caller("s"), NOON, zone)
    assert (verdict is None) == (why is None)
    assert (why or "") in (verdict or "")


def test_spending_is_summed_by_each_key() -> None:
    ledger = make_ledger(
        entry(day="2026-10-31", job="old"),
        entry(day="2026-11-20"),
        entry(day="2026-11-20", job="news"),
        entry("other", job="news", usd=2.0),
        charge(
            Caller("s"), "local/qwen", None, Usage(output=5, estimated=True), now=NOON, zone="UTC"
        ),
    )
    total = spent(ledger, "s", NOON)
    assert total.session == Tally(105, 1.0, 5, estimated=True)
    assert total.day == Tally(105, 2.0, 5, estimated=True)
    assert total.month == Tally(305, 4.0, 5, estimated=True)
    assert total.models == (
        ("anthropic/m", Tally(300, 4.0)),
        ("local/qwen", Tally(5, 0.0, 5, estimated=True)),
    )
    assert total.jobs == (("news", Tally(100, 2.0)),)


def test_a_dollar_budget_bounds_an_unpriced_model() -> None:
    ledger = make_ledger(Charged("one", "openai/m", TODAY, input=100, job="news"))
    few = Limits(job_tokens=100)
    assert limit_reached(few, ledger, Caller("one", "news", Budget(usd=5)), NOON) is not None
    assert limit_reached(few, ledger, Caller("one", "news", Budget(101)), NOON) is None


def test_a_clock_set_back_keeps_the_budget() -> None:
    ledger = make_ledger(entry(job="news"), entry(day="2026-11-22", job="news"), entry(job="news"))
    assert ledger.tally(Account("job", TODAY, "news")).tokens == 200
    assert ledger.tally(Account("job", "2026-11-22", "news")).tokens == 100


def test_the_ledger_is_bounded() -> None:
    ledger = make_ledger(*(entry(f"s{n}") for n in range(MAX_SESSIONS)), entry("s0"), entry("new"))
    assert len(ledger.sessions) == MAX_SESSIONS
    assert "s1" not in ledger.sessions
    assert ledger.sessions["s0"].tokens == 200
    ledger = make_ledger(
        *(entry(job=f"j{n}") for n in range(MAX_JOBS)), entry(job="j0"), entry(job="x")
    )
    jobs = ledger.jobs[TODAY]
    assert (len(jobs), "j1" in jobs, jobs["j0"].tokens) == (MAX_JOBS, False, 200)
    days = [f"2027-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    for day in days:
        ledger.apply(0, 0.0, entry(day=day, job="j"))
    kept = {*days[-MAX_PERIODS + 1 :], "2027-12"}
    assert set(ledger.periods) == kept
    assert set(ledger.jobs) == set(days[-MAX_PERIODS:])
    assert ledger.models["anthropic/m"].tokens == 2800


def test_an_old_entry_is_read_unchanged() -> None:
    old = b'{"type":"charged","session":"s","model":"a/m","day":"2026-11-21","input":7,"usd":1.0}'
    read = msgspec.json.decode(old, type=Charged)
    assert read == Charged("s", "a/m", TODAY, input=7, usd=1.0)


def test_an_unknown_entry_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    first = write_line(1, "", 0.0, (entry(),))
    path.write_bytes(first + write_line(2, digest(first), 0.0, ({"type": "warned"},)))
    why = r"line 2 contains an entry that this version of Elwood does not know .*'warned'"
    with pytest.raises(JournalDamaged, match=why):
        replay(path, Charged, Ledger)


@pytest.mark.parametrize(
    ("share", "before", "more", "told"),
    [
        (0.8, 0, 79, 0), (0.8, 0, 80, 1), (0.8, 0, 500, 1), (0.8, 79, 1, 1), (0.8, 80, 20, 0),
        (0.0, 0, 500, 0), (1.0, 0, 99, 0), (1.0, 99, 1, 1),
    ],
)  # fmt: skip
def test_a_warning_is_sent_once_at_its_threshold(
    share: float, before: int, more: int, told: int
) -> None:
    limits, ledger = Limits(day_tokens=100, warn=share), make_ledger(entry(n=before))
    assert len(warnings(limits, ledger, [(entry(n=more), None)], "UTC")) == told


def test_calls_written_together_count_together() -> None:
    calls = [(entry(n=40), None), (entry("other", n=40), None)]
    [told] = warnings(Limits(day_tokens=100, session_tokens=100), Ledger(), calls, "UTC")
    assert told.startswith("80 % of the daily limit of 100 tokens is used")


@pytest.mark.parametrize(
    ("limits", "job", "budget", "words"),
    [
        (
            Limits(session_usd=1.0), "", None,
            "90 % of the limit of $1.00 for the conversation s is used. Start",
        ),
        (
            Limits(day_usd=0.5), "", None,
            "180 % of the daily limit of $0.50 is used. It resets at 2026-11-22 00:00",
        ),
        (
            Limits(job_usd=1.0), "a\nb", None,
            "limit of $1.00 for the job a b is used. It resets at 2026-11-22 00:00 Europe/Berlin. "
            "To go on before that, raise limits.job_usd in config.toml. /budget",
        ),
        (
            Limits(), "news", Budget(usd=1.0),
            "To go on before that, raise its own usd of [heartbeat] or of its [[tasks]] in "
            "config.toml, or plan it again.",
        ),
        (
            Limits(day_usd=1.0), "news", Budget(usd=5.0),
            "To go on before that, raise limits.day_usd in config.toml.",
        ),
        (
            Limits(job_tokens=100), "news", Budget(usd=2.0),
            "To go on before that, raise limits.job_tokens in config.toml.",
        ),
    ],
)  # fmt: skip
def test_a_warning_names_limit_scope_reset_and_setting(
    limits: Limits, job: str, budget: Budget | None, words: str
) -> None:
    calls = [(entry(usd=0.9, job=job), budget)]
    [told] = warnings(limits, Ledger(), calls, "Europe/Berlin")
    assert words in told


def test_a_conversation_limit_does_not_stop_a_job() -> None:
    limits, ledger = Limits(session_tokens=10, warn=0.5), Ledger()
    made = Charged("task-news", "a/m", "1970-01-01", input=20, job="news")
    assert warnings(limits, ledger, [(made, None)], "UTC") == ()
    ledger.apply(1, 0.0, made)
    assert limit_reached(limits, ledger, Caller("task-news", "news"), 0.0) is None
    ledger.apply(2, 0.0, Charged("task-news", "a/m", "1970-01-01", input=20))
    assert limit_reached(limits, ledger, Caller("task-news"), 0.0) is not None


# --- the list ------------------------------------------------------------------------------------


def test_small_costs_share_one_line() -> None:
    sums = (Charged(f"tg-{n}", "a/m", TODAY, input=1, usd=n * 1.0) for n in range(TOP + 3))
    listed = in_list(spent(make_ledger(*sums), "tg-0", NOON), Limits())
    assert f"- tg-{TOP + 2}: 1 tokens, ${TOP + 2}.00" in listed
    assert "tg-2:" not in listed
    assert "- and 2 more: 2 tokens, $3.00" in listed


def test_unknown_prices_are_shown() -> None:
    known = make_ledger(entry())
    assert "known" not in in_list(spent(known, "s", NOON), Limits())
    ledger = make_ledger(Charged("s", "a/m", TODAY, input=4000, estimated=True))
    listed = in_list(spent(ledger, "s", NOON), Limits())
    assert "The price of 4,000 tokens of this month is not known" in listed
    assert "estimated" in listed


def test_a_name_formats_nothing() -> None:
    ledger = make_ledger(entry(job="*a*\n# `b`"))
    rich = to_entities(in_list(spent(ledger, "s", NOON), Limits()))
    assert "*a* # `b`: 100 tokens" in rich.text
    assert not rich.entities
