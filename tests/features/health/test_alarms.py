"""What the owner is told about stuck things, over any history of them."""

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
def test_whatever_was_told_is_taken_back_once(history: list[set[Alarm]]) -> None:
    told, begun, over = Told(), list[str](), list[str]()
    for number, present in enumerate([*history, set[Alarm]()]):
        fresh = news(told, present, float(number))
        if fresh is None:
            continue
        begun += [alarm.key for alarm in fresh.begun]
        over += [alarm.key for alarm in fresh.over]
        told = after(told, fresh, float(number))
        assert news(told, present, float(number)) is None, "it is told once"
    assert sorted(begun) == sorted(over)
    assert not told.last


@given(looks)
def test_no_subject_is_told_more_often_than_allowed(history: list[set[Alarm]]) -> None:
    told, times = Told(), dict[str, int]()
    for number, present in enumerate(history):
        fresh = news(told, present, float(number))
        if fresh is None:
            continue
        told = after(told, fresh, float(number))
        for alarm in fresh.begun:
            times[alarm.subject] = times.get(alarm.subject, 0) + 1
    assert all(count <= OFTEN for count in times.values())


def test_after_the_quiet_time_a_subject_is_news_again() -> None:
    told = Told()
    for number in range(OFTEN):
        alarm = Alarm(str(number), "poll", "poll hangs")
        told = after(told, AlarmNews((alarm,)), float(number))
        told = after(told, AlarmNews((), (alarm,)), float(number))
    again = Alarm("again", "poll", "poll hangs")
    assert news(told, [again], QUIET - 1) is None
    assert news(told, [again], QUIET + OFTEN) == AlarmNews((again,))


def test_the_memory_of_times_is_bounded() -> None:
    told = Told()
    for number in range(1000):
        alarm = Alarm(str(number), f"session {number}", "hangs")
        told = after(told, AlarmNews((alarm,)), number * 100.0)
        told = after(told, AlarmNews((), (alarm,)), number * 100.0)
    assert len(told.times) <= QUIET / 100 + 1
    assert not told.last


@given(st.lists(st.text(max_size=500), max_size=200))
def test_a_message_fits_every_channel(texts: list[str]) -> None:
    text = words(AlarmNews(tuple(Alarm(t, t, t) for t in texts)))
    assert len(text.encode("utf-16-le", "surrogatepass")) // 2 <= 4000
    assert len(text.splitlines()) <= max(1, MAX_LINES) or not texts
