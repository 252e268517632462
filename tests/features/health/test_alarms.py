"""What the owner is told about stuck things, over any history of them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from elwood.features.health.actor import (
    MAX_LINES,
    OFTEN,
    QUIET,
    Alarm,
    AlarmNews,
    Told,
    after,
    news,
    words,
)

ALARMS = [Alarm(f"k{n}", f"s{n % 3}", f"text {n}") for n in range(8)]
looks = st.lists(st.sets(st.sampled_from(ALARMS)), max_size=40)


@given(looks)
def test_what_is_stuck_is_told_and_taken_back_once(history: list[set[Alarm]]) -> None:
    """No subject is told of more often than allowed, whatever happens."""
    told, begun, over = Told(), list[Alarm](), list[Alarm]()
    for number, present in enumerate([*history, set[Alarm]()]):
        fresh = news(told, present, float(number))
        if fresh is None:
            continue
        begun += fresh.begun
        over += fresh.over
        told = after(told, fresh, float(number))
        again = news(told, present, float(number))
        assert again is None
    assert Counter(alarm.key for alarm in begun) == Counter(alarm.key for alarm in over)
    assert all(n <= OFTEN for n in Counter(alarm.subject for alarm in begun).values())
    assert not told.last


def test_after_the_quiet_time_a_subject_is_news_again() -> None:
    told = Told()
    for number in range(OFTEN):
        alarm = Alarm(str(number), "poll", "poll hangs")
        told = after(told, AlarmNews((alarm,)), float(number))
        told = after(told, AlarmNews((), (alarm,)), float(number))
    again = Alarm("again", "poll", "poll hangs")
    assert news(told, [again], QUIET - 1) is None
    assert news(told, [again], QUIET + OFTEN) == AlarmNews((again,))


@given(st.lists(st.text(max_size=500), max_size=200))
def test_a_message_fits_every_channel(texts: list[str]) -> None:
    text = words(AlarmNews(tuple(Alarm(t, t, t) for t in texts)))
    assert len(text.encode("utf-16-le", "surrogatepass")) // 2 <= 4000
    assert len(text.splitlines()) <= max(1, MAX_LINES) or not texts
