"""What the owner is told about stuck things, over any history of them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from elwood.features.health.actor import MAX_LINES, Alarm, AlarmNews, after, news, words

ALARMS = [Alarm(f"s{n % 3}", f"text {n}") for n in range(8)]
looks = st.lists(st.sets(st.sampled_from(ALARMS)), max_size=40)


@given(looks)
def test_what_is_stuck_is_told_and_taken_back_once(history: list[set[Alarm]]) -> None:
    """No subject is told of again before it is over, whatever happens."""
    told, begun, over = dict[str, Alarm](), list[Alarm](), list[Alarm]()
    for present in [*history, set[Alarm]()]:
        fresh = news(told, present)
        if fresh is None:
            continue
        assert not {alarm.subject for alarm in fresh.begun} & told.keys()
        begun += fresh.begun
        over += fresh.over
        told = after(told, fresh)
        assert told.keys() == {alarm.subject for alarm in present}
        assert news(told, present) is None
    assert Counter(alarm.subject for alarm in begun) == Counter(alarm.subject for alarm in over)
    assert not told


@given(st.lists(st.text(max_size=500), max_size=200))
def test_a_message_fits_every_channel(texts: list[str]) -> None:
    text = words(AlarmNews(tuple(Alarm(t, t) for t in texts)))
    assert len(text.encode("utf-16-le", "surrogatepass")) // 2 <= 4000
    assert len(text.splitlines()) <= max(1, MAX_LINES) or not texts
