"""Alarms for the owner, over any history of stuck things."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from elwood.features.health.actor import (
    MAX_LINES,
    Alarm,
    AlarmNews,
    apply_news,
    find_news,
    format_news,
)

ALARMS = [Alarm(f"s{n % 3}", f"text {n}") for n in range(8)]
histories = st.lists(st.sets(st.sampled_from(ALARMS)), max_size=40)


@given(histories)
def test_each_alarm_is_reported_and_cleared_once(history: list[set[Alarm]]) -> None:
    """No subject is reported again before it is over."""
    known, begun, over = dict[str, Alarm](), list[Alarm](), list[Alarm]()
    for present in [*history, set[Alarm]()]:
        fresh = find_news(known, present)
        if fresh is None:
            continue
        assert not {alarm.subject for alarm in fresh.begun} & known.keys()
        begun += fresh.begun
        over += fresh.over
        known = apply_news(known, fresh)
        assert known.keys() == {alarm.subject for alarm in present}
        assert find_news(known, present) is None
    assert Counter(alarm.subject for alarm in begun) == Counter(alarm.subject for alarm in over)
    assert not known


@given(st.lists(st.text(max_size=500), max_size=200))
def test_a_message_fits_every_channel(texts: list[str]) -> None:
    text = format_news(AlarmNews(tuple(Alarm(t, t) for t in texts)))
    assert len(text.encode("utf-16-le", "surrogatepass")) // 2 <= 4000
    assert len(text.splitlines()) <= max(1, MAX_LINES) or not texts
