"""Prices, the ledger, limits, warnings, and the table of what was spent."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.task_run import Purse
from elwood.agent.models.settings import Limits
from elwood.agent.models.spending import (
    MAX_JOBS,
    MAX_PERIODS,
    MAX_SESSIONS,
    PRICES,
    TOP_JOBS,
    TOP_MODELS,
    WIDTH,
    Account,
    Bill,
    Caller,
    Charged,
    JobUsed,
    Ledger,
    Spent,
    UsageEntry,
    Used,
    Warned,
    charge,
    cost,
    count,
    in_table,
    in_warning,
    limit_reached,
    spent,
    warnings,
)
from elwood.foundation.text.lines import width
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
        # The tier goes by the whole prompt, from the cache or not.
        ("claude-haiku-5-5", Usage(1, cache_read=100_000), 0.0050005),
    ],
)
def test_a_call_costs_what_the_table_says(model: str, usage: Usage, dollars: float) -> None:
    assert cost(PRICES[f"anthropic/{model}"], usage) == pytest.approx(dollars)


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
        (Limits(session_usd=3.0), "UTC", "only a higher limits.session_usd in config.toml"),
        (Limits(month_tokens=501, month_usd=5.01), "UTC", None),
        (Limits(month_tokens=500), "UTC", "500 tokens a month is reached. It resets at 2026-12-01"),
        (Limits(month_usd=5.0), "Europe/Berlin", "$5.00 a month is reached. It resets at 2026-12"),
        (
            Limits(day_tokens=400),
            "UTC",
            "It resets at 2026-11-22 00:00 UTC; to go on before that, raise limits.day_tokens",
        ),
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
    verdict = limit_reached(limits, ledger, Caller("s"), NOON, zone)
    assert (verdict is None) == (why is None)
    assert (why or "") in (verdict or "")


def test_a_new_day_resets_the_day_but_not_the_session() -> None:
    ledger = folded(entry())
    day, here = Limits(day_tokens=100), Limits(session_tokens=100)
    assert limit_reached(day, ledger, Caller("s"), NOON + DAY / 2 - 1) is not None
    assert limit_reached(day, ledger, Caller("s"), NOON + DAY / 2) is None
    assert limit_reached(here, ledger, Caller("s"), NOON + DAY) is not None


def test_spending_is_summed_by_session_day_month_job_and_model() -> None:
    ledger = folded(
        entry(day="2026-10-31", job="old"),
        entry(day="2026-11-20"),
        entry(day="2026-11-20", job="news"),
        entry("other", job="news", usd=2.0),
        charge(Caller("s"), "local/qwen", Usage(output=5, estimated=True), now=NOON, zone="UTC"),
    )
    purses = {"news": Purse(usd=9), "idle": Purse(7)}
    total = spent(Limits(day_usd=9.0, month_tokens=7), ledger, "s", NOON, purses=purses)
    assert total.session == Used(105, 1.0, 5, estimated=True)
    assert total.day == Used(105, 2.0, 5, estimated=True, most_usd=9.0)
    assert total.month == Used(305, 4.0, 5, estimated=True, most_tokens=7)
    assert total.models == (
        ("anthropic/m", Used(300, 4.0)),
        ("local/qwen", Used(5, 0.0, 5, estimated=True)),
    )
    news = JobUsed("news", Used(100, 2.0, most_tokens=2_000_000, most_usd=9), Used(200, 3.0))
    assert total.jobs == (news, JobUsed("idle", Used(most_tokens=7, most_usd=1.0), Used()))


def test_a_purse_of_dollars_bounds_a_job_whose_model_has_no_known_price() -> None:
    ledger = folded(Charged("one", "openai/m", TODAY, input=100, job="news"))
    few = Limits(job_tokens=100)
    assert limit_reached(few, ledger, Caller("one", "news", Purse(usd=5)), NOON) is not None
    assert limit_reached(few, ledger, Caller("one", "news", Purse(101)), NOON) is None


def test_a_clock_that_is_set_back_finds_the_purse_as_it_was() -> None:
    ledger = folded(entry(job="news"), entry(day="2026-11-22", job="news"), entry(job="news"))
    assert ledger.tally(Account("job", TODAY, "news")).tokens == 200
    assert ledger.tally(Account("job", "2026-11-22", "news")).tokens == 100


def test_the_ledger_stays_bounded_and_keeps_what_is_in_use() -> None:
    ledger = folded(*(entry(f"s{n}") for n in range(MAX_SESSIONS)), entry("s0"), entry("new"))
    assert len(ledger.sessions) == MAX_SESSIONS
    assert "s1" not in ledger.sessions
    assert ledger.sessions["s0"].tokens == 200
    ledger = folded(*(entry(job=f"j{n}") for n in range(MAX_JOBS)), entry(job="j0"), entry(job="x"))
    jobs = ledger.jobs[TODAY]
    assert (len(jobs), "j1" in jobs, jobs["j0"].tokens) == (MAX_JOBS, False, 200)
    days = [f"2027-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    for day in days:
        ledger.apply(0, 0.0, entry(day=day, job="j"))
    kept = {*days[-MAX_PERIODS + 1 :], "2027-12"}
    assert set(ledger.periods) == set(ledger.jobs) == kept
    assert ledger.models["anthropic/m"].tokens == 2800


def test_a_snapshot_of_the_ledger_reads_back_equal() -> None:
    ledger = folded(entry(), entry("b", "2026-11-22", job="news"))
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger) == ledger


def test_entries_from_before_there_were_jobs_read_as_ever() -> None:
    old = b'{"type":"charged","session":"s","model":"a/m","day":"2026-11-21","input":7,"usd":1.0}'
    read = msgspec.json.decode(old, type=Charged | Warned)
    assert read == Charged("s", "a/m", TODAY, input=7, usd=1.0)
    assert msgspec.json.encode(read) == old


@pytest.mark.parametrize(
    ("share", "before", "told"),
    [(0.8, 79, 0), (0.8, 80, 1), (0.8, 500, 1), (0.0, 500, 0), (1.0, 99, 0), (1.0, 100, 1)],
)
def test_warnings_are_given_at_the_share_that_was_set(share: float, before: int, told: int) -> None:
    limits = Limits(day_tokens=100, warn=share)
    assert len(warnings(limits, Ledger(), [Bill(entry(n=before))])) == told


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
    ("warned", "purse", "words"),
    [
        (
            Warned(Account("session", "tg-1"), "usd", 5, 4.25),
            None,
            "85 % of the limit of $5.00 for the conversation tg-1 is used. /new begins",
        ),
        (
            Warned(Account("day", TODAY), "tokens", 1000, 1200),
            None,
            "The limit of 1,000 tokens a day is reached. It resets at 2026-11-22 00:00 CET",
        ),
        (
            Warned(Account("job", "2026-12-31", "a\nb"), "usd", 0.015, 0.014),
            None,
            "93 % of the limit of $0.015 a day for the job a b is used. "
            "It resets at 2027-01-01 00:00 CET; to go on before that, raise limits.job_usd in",
        ),
        (
            Warned(Account("job", TODAY, "heartbeat"), "usd", 0.5, 0.5),
            Purse(usd=0.5, section="heartbeat"),
            "to go on before that, raise heartbeat.usd in config.toml.",
        ),
        (
            Warned(Account("job", TODAY, "news"), "tokens", 9, 9),
            Purse(9, section="tasks"),
            "to go on before that, raise tasks.tokens in config.toml.",
        ),
        (
            Warned(Account("job", TODAY, "news"), "tokens", 9, 9),
            Purse(usd=2.0, section="tasks"),
            "to go on before that, raise limits.job_tokens in config.toml.",
        ),
        (
            Warned(Account("job", TODAY, "news"), "usd", 1.0, 1.0),
            Purse(usd=1.0),
            "raise limits.job_usd in config.toml, and have it planned anew with a higher budget.",
        ),
    ],
)
def test_a_warning_says_what_of_until_when_and_which_setting_counts(
    warned: Warned, purse: Purse | None, words: str
) -> None:
    assert words in in_warning(warned, "Europe/Berlin", Limits(), purse)


def test_a_job_is_not_stopped_for_good_by_the_limit_of_a_conversation() -> None:
    limits, ledger = Limits(session_tokens=10, warn=0.5), Ledger()
    made = Charged("task-news", "a/m", "1970-01-01", input=20, job="news")
    assert warnings(limits, ledger, [Bill(made)]) == ()
    ledger.apply(1, 0.0, made)
    assert limit_reached(limits, ledger, Caller("task-news", "news"), 0.0) is None
    ledger.apply(2, 0.0, Charged("task-news", "a/m", "1970-01-01", input=20))
    assert limit_reached(limits, ledger, Caller("task-news"), 0.0) is not None


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
def test_no_job_gets_a_call_when_its_purse_is_empty(bills: list[Bill]) -> None:
    """Counted by hand, call by call, as if each were asked for in its turn, at growing times."""
    limits = Limits(day_tokens=200, month_usd=9.0, job_tokens=150, job_usd=2.0)
    ledger = Ledger()
    made: list[Charged] = []
    bills.sort(key=lambda bill: bill.entry.day)
    days = {"2026-11-29": 8, "2026-11-30": 9, "2026-12-01": 10, "2026-12-02": 11}
    for bill in bills:
        one, purse = bill.entry, limits.purse(bill.purse)
        caller = Caller(one.session, one.job, bill.purse)
        verdict = limit_reached(limits, ledger, caller, NOON + days[one.day] * DAY)
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


# --- the table -----------------------------------------------------------------------------------

NOTHING = Spent(today=TODAY, session=Used(), day=Used(), month=Used())


def block(table: str) -> list[str]:
    lines = table.split("\n")
    assert lines[0] == "```"
    return lines[1 : lines.index("```", 1)]


def test_what_is_beyond_the_top_is_one_line_and_nothing_is_lost() -> None:
    jobs = tuple(JobUsed(f"job{n}", Used(10, 0.5), Used(100, 1.0)) for n in range(TOP_JOBS + 12))
    models = tuple((f"a/m{n}", Used(1000, 2.0)) for n in range(TOP_MODELS + 3))
    lines = block(in_table(msgspec.structs.replace(NOTHING, jobs=jobs, models=models)))
    at = lines.index("and 12 more               120      $6.00")
    assert lines[at - 1].startswith(f"job{TOP_JOBS - 1} ")
    assert lines[-1] == "and 3 more                 3k      $6.00"


@pytest.mark.parametrize(
    ("used", "most", "bar"),
    [
        (1.999, 2.0, "▓▓▓▓▓▓▓▓▓░  99 % of $2.00"),
        (2.0, 2.0, "▓▓▓▓▓▓▓▓▓▓ 100 % of $2.00"),
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


AMOUNTS = st.builds(Used, tokens=st.integers(0, 10**14), usd=st.just(0.0) | st.floats(0, 1e5))
NAMES = st.text(max_size=60) | st.sampled_from(
    ["anthropic/claude-sonnet-5-5", "`" * 25, "日本語の仕事" * 5]
)


@given(AMOUNTS, st.lists(st.tuples(NAMES, AMOUNTS), max_size=12))
def test_the_table_fits_a_telephone_and_is_one_block_whatever_the_names(
    used: Used, named: list[tuple[str, Used]]
) -> None:
    jobs = tuple(JobUsed(name, amount, amount) for name, amount in named)
    many = tuple(named)
    table = in_table(
        Spent(today=TODAY, session=used, day=used, month=used, jobs=jobs, others=many, models=many)
    )
    lines = block(table)
    assert max(map(width, lines)) <= WIDTH
    rich = to_entities(table)
    [pre] = [entity for entity in rich.entities if entity.type == "pre"]
    shown = rich.text.encode("utf-16-le")[2 * pre.offset : 2 * (pre.offset + pre.length)]
    assert shown.decode("utf-16-le").split("\n") == lines
    assert rich.text.split("\n")[: len(lines)] == lines


@given(st.integers(0, 10**14))
def test_a_count_is_short_and_near(tokens: int) -> None:
    text = count(tokens)
    assert len(text) <= 6
    digits = text.rstrip("kMBT")
    scale = {"": 1, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[text[len(digits) :]]
    assert abs(float(digits) * scale - tokens) <= 0.05 * scale + 1


def test_the_dearest_of_the_other_conversations_are_shown() -> None:
    ledger = folded(*(Charged(f"tg-{n}", "a/m", TODAY, input=1, usd=n * 1.0) for n in range(7)))
    table = in_table(spent(Limits(), ledger, "tg-6", NOON))
    assert "tg-2" in table
    assert "tg-1" not in table
    assert "and 2 more" in table
