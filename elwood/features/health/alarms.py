"""What the owner is told about stuck things: each once, and that it is over, not without end."""

from collections.abc import Iterable, Mapping

import msgspec

# Times that the owner is told of the same subject within QUIET seconds: something that gets stuck
# again and again is no news after that.
OFTEN = 3
QUIET = 3600.0
# Lines of one message, and characters of one line: together less than a message of any channel.
MAX_LINES = 10
MAX_LINE = 180


class Alarm(msgspec.Struct, frozen=True):
    """Something stuck.

    *key* is the same while it lasts, *subject* when the like of it comes back; *text* says what
    it is.
    """

    key: str
    subject: str
    text: str


class AlarmNews(msgspec.Struct, frozen=True):
    """What the owner does not know yet."""

    begun: tuple[Alarm, ...] = ()
    over: tuple[Alarm, ...] = ()


class Told(msgspec.Struct, frozen=True):
    """What the owner knows: the alarms that *last*, by key, and when each subject was told of."""

    last: Mapping[str, Alarm] = {}
    times: Mapping[str, tuple[float, ...]] = {}


def news(told: Told, present: Iterable[Alarm], now: float) -> AlarmNews | None:
    """Compare what is stuck with what the owner knows; None if there is nothing to tell.

    >>> poll = Alarm("k1", "telegram: the poll", "Stuck: telegram: the poll has taken 71 s")
    >>> first = news(Told(), [poll], 0.0)
    >>> [alarm.text for alarm in first.begun], first.over
    (['Stuck: telegram: the poll has taken 71 s'], ())
    >>> knows = after(Told(), first, 0.0)
    >>> news(knows, [poll], 1.0) is None
    True
    >>> [alarm.key for alarm in news(knows, [], 2.0).over]
    ['k1']
    """
    by_key = {alarm.key: alarm for alarm in present}
    begun: list[Alarm] = []
    counted: dict[str, int] = {}
    for key, alarm in by_key.items():
        if key in told.last:
            continue
        times = counted.get(alarm.subject)
        if times is None:
            times = sum(now - at < QUIET for at in told.times.get(alarm.subject, ()))
        if times < OFTEN:
            begun.append(alarm)
            counted[alarm.subject] = times + 1
    over = tuple(alarm for key, alarm in told.last.items() if key not in by_key)
    return AlarmNews(tuple(begun), over) if begun or over else None


def after(told: Told, news: AlarmNews, now: float) -> Told:
    """Note that the owner has been told *news* at time *now*.

    >>> alarm = Alarm("k", "s", "t")
    >>> after(after(Told(), AlarmNews(begun=(alarm,)), 5.0), AlarmNews(over=(alarm,)), 6.0)
    Told(last={}, times={'s': (5.0,)})
    """
    gone = {alarm.key for alarm in news.over}
    last = {key: alarm for key, alarm in told.last.items() if key not in gone}
    last |= {alarm.key: alarm for alarm in news.begun}
    times = {
        subject: recent
        for subject, all_times in told.times.items()
        if (recent := tuple(at for at in all_times if now - at < QUIET))
    }
    for alarm in news.begun:
        times[alarm.subject] = (*times.get(alarm.subject, ()), now)
    return Told(last, times)


def words(news: AlarmNews) -> str:
    """Say *news* to the owner, as plain text of bounded length.

    >>> begun = Alarm("k", "s", "Stuck: outbox: has not moved")
    >>> print(words(AlarmNews((begun,), (Alarm("l", "a: b", "c"),))))
    ⚠ Stuck: outbox: has not moved
    ✓ Over: a: b
    """
    lines = [f"⚠ {_line(alarm.text)}" for alarm in news.begun]
    lines += [f"✓ Over: {_line(alarm.subject)}" for alarm in news.over]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES - 1 :] = [f"… and {len(lines) - MAX_LINES + 1} more: elwood inspect"]
    return "\n".join(lines)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
