"""Prices, the ledger, limits and warnings."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.task_run import Purse
from elwood.agent.models.settings import Limits
from elwood.agent.models.spending.budget import Bill, in_warning, limit_reached, warnings
from elwood.agent.models.spending.ledger import (
    MAX_DAYS,
    MAX_JOB_DAYS,
    MAX_JOBS,
    MAX_SESSIONS,
    PRICES,
    Account,
    Charged,
    Ledger,
    UsageEntry,
    Warned,
    charge,
    cost,
)
from elwood.agent.models.spending.report import Used, spent

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
    assert total.day == Used(1_000_000, 0.0, 1_000_000)


TODAY = "2026-11-21"


def entry(
    session: str = "s", day: str = TODAY, usd: float = 1.0, n: int = 100, job: str = ""
) -> Charged:
    return Charged(session=session, model="anthropic/m", day=day, input=n, usd=usd, job=job)


def folded(*entries: UsageEntry) -> Ledger:
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
        (Limits(session_usd=3.0), "UTC", "Only a higher limits.session_usd in config.toml"),
        (Limits(month_tokens=501, month_usd=5.01), "UTC", None),
        (Limits(month_tokens=500), "UTC", "500 tokens a month is reached. It resets at 2026-12-01"),
        (Limits(month_usd=5.0), "Europe/Berlin", "$5.00 a month is reached. It resets at 2026-12"),
        (
            Limits(day_tokens=400),
            "UTC",
            "It resets at 2026-11-22 00:00 UTC; to go on before that, raise limits.day_tokens",
        ),
        (Limits(day_usd=4.0), "UTC", "$4.00 a day is reached. It resets at 2026-11-22 00:00 UTC"),
        (Limits(day_usd=4.0), "Europe/Berlin", "It resets at 2026-11-22 00:00 CET"),
        (Limits(day_usd=0.0), "Pacific/Auckland", "It resets at 2026-11-23 00:00 NZDT"),
    ],
)
def test_limits_are_hard_and_say_when_they_reset(
    limits: Limits, zone: str, why: str | None
) -> None:
    """LLM-42: 200 tokens of ours today, 400 of the day, 500 of the month."""
    others = (entry("other"), entry("other"))
    ledger = folded(entry(), entry(), entry(day="2026-11-20"), *others)
    verdict = limit_reached(limits, ledger, "s", NOON, zone)
    if why is None:
        assert verdict is None
    else:
        assert verdict is not None
        assert why in verdict


def test_a_new_day_resets_the_day_but_not_the_session() -> None:
    ledger = folded(entry())
    assert limit_reached(Limits(day_tokens=100), ledger, "s", NOON) is not None
    assert limit_reached(Limits(day_tokens=100), ledger, "s", NOON + DAY / 2 - 1) is not None
    assert limit_reached(Limits(day_tokens=100), ledger, "s", NOON + DAY / 2) is None
    assert limit_reached(Limits(session_tokens=100), ledger, "s", NOON + DAY) is not None


def test_spending_is_summed_by_session_day_month_and_model() -> None:
    ledger = folded(
        entry(day="2026-10-31"),
        entry(day="2026-11-20"),
        entry("other"),
        Charged(session="s", model="b/n", day="2026-11-21", output=5, estimated=True),
    )
    total = spent(Limits(day_usd=9.0, month_tokens=7), ledger, "s", NOON)
    assert total.session == Used(205, 2.0, 5, estimated=True)
    assert total.day == Used(105, 1.0, 5, estimated=True, most_usd=9.0)
    assert total.month == Used(205, 2.0, 5, estimated=True, most_tokens=7)
    assert total.models == (
        ("anthropic/m", Used(200, 2.0)),
        ("b/n", Used(5, 0.0, 5, estimated=True)),
    )


def test_a_purse_bounds_a_job_over_all_its_conversations_and_nobody_else() -> None:
    ledger = folded(
        entry("one", job="news"), entry("two", job="news"), entry("one", job="mail"), entry("two")
    )
    assert limit_reached(Limits(), ledger, "three", NOON, job="news", purse=Purse(usd=2.01)) is None
    verdict = limit_reached(Limits(), ledger, "three", NOON, job="news", purse=Purse(200, 2.01))
    assert verdict is not None
    assert "200 tokens a day for the job news" in verdict
    assert "2026-11-22 00:00 UTC; to go on before that, raise the task's tokens" in verdict
    assert (
        limit_reached(Limits(), ledger, "three", NOON, job="mail", purse=Purse(200, 1.01)) is None
    )
    assert limit_reached(Limits(), ledger, "one", NOON, purse=Purse(1)) is None  # of no job
    tomorrow = limit_reached(Limits(), ledger, "three", NOON + DAY, job="news", purse=Purse(200))
    assert tomorrow is None


def test_a_purse_of_dollars_bounds_a_job_whose_model_has_no_known_price() -> None:
    ledger = folded(Charged("one", "openai/m", TODAY, input=100, job="news"))
    few = Limits(job_tokens=100)
    assert limit_reached(few, ledger, "one", NOON, job="news", purse=Purse(usd=5)) is not None
    assert limit_reached(few, ledger, "one", NOON, job="news", purse=Purse(101)) is None


def test_jobs_are_summed_by_day_and_month() -> None:
    ledger = folded(
        entry(day="2026-10-31", job="old"),
        entry(day="2026-11-20", job="news"),
        entry(job="news", usd=2.0),
        entry(),
    )
    total = spent(Limits(), ledger, "s", NOON, purses={"news": Purse(usd=9), "idle": Purse(7)})
    assert [job.name for job in total.jobs] == ["news", "idle"]
    assert total.jobs[0].day == Used(100, 2.0, most_tokens=2_000_000, most_usd=9)
    assert total.jobs[0].month == Used(200, 3.0)
    assert total.jobs[1].day == Used(most_tokens=7, most_usd=1.0)


def test_a_clock_that_is_set_back_finds_the_purse_as_it_was() -> None:
    ledger = folded(entry(job="news"), entry(day="2026-11-22", job="news"), entry(job="news"))
    assert ledger.tally(Account("job", TODAY, "news")).tokens == 200
    assert ledger.tally(Account("job", "2026-11-22", "news")).tokens == 100


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


def test_jobs_are_bounded_and_the_one_that_was_quiet_longest_goes() -> None:
    ledger = folded(*(entry(job=f"j{n}") for n in range(MAX_JOBS)))
    ledger.apply(0, 0.0, entry(job="j0"))
    ledger.apply(0, 0.0, entry(job="new"))
    jobs = ledger.job_days[TODAY]
    assert len(jobs) == MAX_JOBS
    assert "j1" not in jobs
    assert jobs["j0"].calls == 2
    for day in range(1, 20):
        ledger.apply(0, 0.0, entry(day=f"2027-01-{day:02}", job="j"))
    assert list(ledger.job_days) == [f"2027-01-{day:02}" for day in (17, 18, 19)][-MAX_JOB_DAYS:]


def test_a_snapshot_of_the_ledger_reads_back_equal() -> None:
    ledger = folded(entry(), entry("b", "2026-11-22"))
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger) == ledger


def test_entries_from_before_there_were_jobs_read_as_ever() -> None:
    old = b'{"type":"charged","session":"s","model":"a/m","day":"2026-11-21","input":7,"usd":1.0}'
    read = msgspec.json.decode(old, type=Charged | Warned)
    assert read == Charged("s", "a/m", TODAY, input=7, usd=1.0)
    assert msgspec.json.encode(read) == old
    assert folded(read).job_days == {}


@pytest.mark.parametrize(
    ("share", "before", "told"),
    [
        (0.8, 79, False),
        (0.8, 80, True),
        (0.8, 500, True),
        (0.0, 500, False),
        (1.0, 99, False),
        (1.0, 100, True),
    ],
)
def test_warnings_are_given_at_the_share_that_was_set(
    share: float, before: int, told: bool
) -> None:
    limits = Limits(day_tokens=100, warn=share)
    assert bool(warnings(limits, Ledger(), [Bill(entry(n=before))])) == told


def test_calls_that_are_written_together_count_together() -> None:
    bills = [Bill(entry(n=40), None), Bill(entry("other", n=40), None)]
    limits = Limits(day_tokens=100, session_tokens=100)
    [warned] = warnings(limits, Ledger(), bills)
    assert warned == Warned(Account("day", TODAY), "tokens", 100.0, 80.0)


def test_a_higher_limit_is_another_one() -> None:
    bill = Bill(entry(n=85))
    ledger = folded(*warnings(Limits(day_tokens=100), Ledger(), [bill]), bill.entry)
    assert warnings(Limits(day_tokens=100), ledger, [bill]) == ()
    assert len(warnings(Limits(day_tokens=200), ledger, [bill])) == 1
    tomorrow = Bill(entry(day="2026-11-22", n=85))
    assert len(warnings(Limits(day_tokens=100), ledger, [tomorrow])) == 1


@pytest.mark.parametrize(
    ("warned", "words"),
    [
        (
            Warned(Account("session", "tg-1"), "usd", 5, 4.25),
            "85 % of the limit of $5.00 for the conversation tg-1 is used. Only a higher",
        ),
        (
            Warned(Account("day", TODAY), "tokens", 1000, 1200),
            "The limit of 1,000 tokens a day is reached. It resets at 2026-11-22 00:00 CET",
        ),
        (
            Warned(Account("job", "2026-12-31", "a\nb"), "usd", 0.015, 0.014),
            "93 % of the limit of $0.015 a day for the job a b is used. "
            "It resets at 2027-01-01 00:00 CET; to go on before that, raise the task's usd, or "
            "limits.job_usd, in config.toml, or have it planned anew.",
        ),
    ],
)
def test_a_warning_says_what_of_and_until_when(warned: Warned, words: str) -> None:
    assert words in in_warning(warned, "Europe/Berlin")


# --- whatever happens ---------------------------------------------------------------------------

BILLS = st.builds(
    lambda session, day, job, n, usd, purse: Bill(
        Charged(session, "a/m", f"2026-{day}", input=n, usd=usd, job=job), purse if job else None
    ),
    session=st.sampled_from("stu"),
    day=st.sampled_from(["11-29", "11-30", "12-01", "12-02"]),
    job=st.sampled_from(["", "news", "mail"]),
    n=st.integers(0, 60),
    usd=st.none() | st.integers(0, 16).map(lambda eighths: eighths / 8),  # sums are exact
    purse=st.sampled_from([None, Purse(50), Purse(usd=1.5), Purse(50, 1.5)]),
)


@given(st.lists(BILLS, max_size=40))
def test_jobs_never_add_up_to_more_than_the_day_or_the_month(bills: list[Bill]) -> None:
    ledger = folded(*(bill.entry for bill in bills))
    for periods, totals in ((ledger.job_days, ledger.days), (ledger.job_months, ledger.months)):
        for period, jobs in periods.items():
            assert sum(job.tokens for job in jobs.values()) <= totals[period].tokens
            assert sum(job.usd for job in jobs.values()) <= totals[period].usd + 1e-9
            assert sum(job.calls for job in jobs.values()) <= totals[period].calls


@given(st.lists(BILLS, max_size=40))
def test_no_job_gets_a_call_when_its_purse_is_empty(bills: list[Bill]) -> None:
    """Counted by hand, call by call, as if each were asked for in its turn, at growing times."""
    limits = Limits(day_tokens=200, month_usd=9.0, job_tokens=150, job_usd=2.0)
    ledger = Ledger()
    made: list[Charged] = []
    bills.sort(key=lambda bill: bill.entry.day)
    days = {"2026-11-29": 8, "2026-11-30": 9, "2026-12-01": 10, "2026-12-02": 11}
    for bill in bills:
        one, purse = bill.entry, limits.purse(bill.purse)
        now = NOON + days[one.day] * DAY
        verdict = limit_reached(limits, ledger, one.session, now, job=one.job, purse=bill.purse)
        today = [other for other in made if other.day == one.day]
        month = [other for other in made if other.day[:7] == one.day[:7]]
        mine = [other for other in today if one.job and other.job == one.job]
        full = (
            sum(other.input for other in today) >= 200
            or sum(other.usd or 0 for other in month) >= 9.0
            or (purse.tokens is not None and sum(other.input for other in mine) >= purse.tokens)
            or (purse.usd is not None and sum(other.usd or 0 for other in mine) >= purse.usd)
        )
        assert (verdict is not None) == full
        if not full:
            made.append(one)
            ledger.apply(0, 0.0, one)


@given(st.lists(BILLS, max_size=60), st.lists(st.integers(1, 5), min_size=60, max_size=60))
def test_each_limit_is_warned_of_once_in_its_period(bills: list[Bill], sizes: list[int]) -> None:
    """However the calls come together, and whenever Elwood starts anew."""
    limits = Limits(session_tokens=200, day_usd=3.0, month_tokens=400)
    log: list[UsageEntry] = []
    for size in sizes:
        batch, bills = bills[:size], bills[size:]
        ledger = folded(*log)
        log += [bill.entry for bill in batch]
        log += warnings(limits, ledger, batch)
    told = [(e.account, e.unit, e.most) for e in log if isinstance(e, Warned)]
    assert len(told) == len(set(told))
    end = folded(*log)
    warned = {account for account, unit, _ in told if account.scope != "job"}
    near = {Account("session", s) for s, t in end.sessions.items() if t.tokens >= 160}
    near |= {Account("day", day) for day, tally in end.days.items() if tally.usd >= 0.8 * 3.0}
    near |= {Account("month", m) for m, tally in end.months.items() if tally.tokens >= 320}
    assert warned == near


def test_a_job_is_not_stopped_for_good_by_the_limit_of_a_conversation() -> None:
    limits, ledger = Limits(session_tokens=10, warn=0.5), Ledger()
    entry = Charged("task-news", "a/m", "1970-01-01", input=20, job="news")
    assert warnings(limits, ledger, [Bill(entry)]) == ()
    ledger.apply(1, 0.0, entry)
    assert limit_reached(limits, ledger, "task-news", 0.0, job="news") is None
    ledger.apply(2, 0.0, Charged("task-news", "a/m", "1970-01-01", input=20))
    assert limit_reached(limits, ledger, "task-news", 0.0) is not None
