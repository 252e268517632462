"""What is said about tasks: to the owner when something went wrong, to the model with each run."""

import attrs

from elwood.agent.conversation.identity import flatten
from elwood.agent.conversation.task_run import QUIET
from elwood.features.tasks import timezones as wall
from elwood.features.tasks.state import Timetable
from elwood.features.tasks.task import Task

# Characters of a title, and of a reason, in a line.
MAX_TITLE, MAX_WORDS = 80, 300
# Characters of news in one message; channels take some 4,000.
MAX_TELL = 3_000
# Seconds that a run may be late without a word: the scheduler looks once a minute.
ON_TIME = 120.0
ACTED = " It may have done something already, so I do not try it again."
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"))


@attrs.frozen
class Telling:
    """News for the owner, which stand in the timetable up to its entry *upto*.

    They may have been told before if *again*.  *buttons* type what stands on them.
    """

    text: str
    upto: int
    buttons: tuple[str, ...] = ()
    again: bool = False


def telling(table: Timetable) -> Telling | None:
    """Say what the owner must be told next, as much as one message holds.

    >>> from elwood.features.tasks.state import News
    >>> telling(Timetable(news=[News(7, "It failed.")]))
    Telling(text='It failed.', upto=7, buttons=(), again=False)
    """
    lines, buttons, upto, size = [], [], 0, 0
    again = bool(table.news) and table.news[0].seq <= table.shown
    if table.lost:
        lines.append(f"({table.lost} older lines found no room; /tasks shows how things stand.)")
    for news in table.news:
        size += len(news.text)
        if (news.seq <= table.shown) != again or (upto and size > MAX_TELL):
            break
        lines.append(news.text)
        upto = news.seq
        if news.button:
            buttons.append(news.button)
    return Telling("\n".join(lines), upto, tuple(buttons), again) if upto else None


def clock(at: float, zone: str) -> str:
    """Say when *at* is, as people in *zone* do.

    >>> clock(0.0, "Asia/Tokyo")
    'Thu 1970-01-01 09:00'
    """
    here = wall.local(at, zone)
    return f"{_DAYS[here.weekday()]} {here:%Y-%m-%d %H:%M}"


def span(seconds: float) -> str:
    """Say how long *seconds* are, roughly.

    >>> span(7300), span(59), span(86_400)
    ('2 hours', '1 minute', '1 day')
    """
    for size, name in _UNITS:
        if (count := int(seconds // size)) > 0:
            return f"{count} {name}{'s' if count > 1 else ''}"
    return "1 minute"


def brief(words: str, most: int = MAX_WORDS) -> str:
    r"""Put *words* into one short line without a full stop.

    >>> brief("It broke:\n no route.")
    'It broke: no route'
    """
    return flatten(words, most).removesuffix(".")


def name(task: Task) -> str:
    """Name *task* for people.

    >>> from elwood.features.tasks.when import Once
    >>> name(Task("tea", "Make\u202e tea", Once(0.0)))
    '"Make tea"'
    """
    return f'"{flatten(task.title, MAX_TITLE) or task.id}"'


def missed(task: Task, first: float, last: float, count: int, why: str, zone: str) -> str:
    """Tell the owner that planned times have passed.

    >>> from elwood.features.tasks.when import Once
    >>> missed(Task("t", "Tea", Once(0.0)), 0.0, 0.0, 1, "I was off", "UTC")
    'Missed: "Tea", planned for Thu 1970-01-01 00:00: I was off.'
    """
    if count == 1:
        return f"Missed: {name(task)}, planned for {clock(first, zone)}: {why}."
    times = f"{count} times, from {clock(first, zone)} to {clock(last, zone)}"
    return f"Missed: {name(task)}, {times}: {why}."


def set_back(before: float, now: float, zone: str) -> str:
    """Tell the owner that the clock was put back far: it has shown *before* already.

    >>> set_back(86_400.0 * 365, 0.0, "UTC").partition(":")[0]
    'My clock was put back'
    """
    return (
        f"My clock was put back: it has shown {clock(before, zone)} already, and shows "
        f"{clock(now, zone)} now. What I told you as missed after that runs when its time really "
        "comes; what has run does not run again. If it is wrong now, please set it right."
    )


def failed(
    task: Task, count: int, words: str, again: float | None, zone: str, *, acted: bool = False
) -> str:
    """Tell the owner that a task failed, the *count*-th time in a row.

    >>> from elwood.features.tasks.when import Once
    >>> failed(Task("t", "Tea", Once(0.0)), 2, "no net", 300.0, "UTC")
    'Failed twice in a row: "Tea": no net. I try it again at Thu 1970-01-01 00:05.'
    """
    times = "" if count == 1 else " twice in a row" if count == 2 else f" {count} times in a row"
    then = "" if again is None else f" I try it again at {clock(again, zone)}."
    then = ACTED if acted else then
    return f"Failed{times}: {name(task)}: {brief(words)}.{then}"


def not_done(task: Task, words: str, *, acted: bool = False) -> str:
    """Tell the owner that a task was not done, or not to its end: no model may be asked for it."""
    return f"Not done: {name(task)}: {brief(words)}.{ACTED if acted else ''}"


def paused(task: Task, count: int, words: str) -> str:
    """Tell the owner that a task was paused after *count* failures in a row.

    >>> from elwood.features.tasks.when import Once
    >>> paused(Task("t", "Tea", Once(0.0)), 5, "no net")
    'Paused: "Tea" failed 5 times in a row, the last time: no net.'
    """
    return f"Paused: {name(task)} failed {count} times in a row, the last time: {brief(words)}."


def framed(task: Task, text: str, *, due: float, now: float, trouble: str, zone: str) -> str:
    """Put *text* into the frame of a run that was planned for *due* and begins at *now*.

    *trouble* is why the try before failed, if there was one.

    >>> from elwood.features.tasks.when import Once
    >>> tea = Task("t", "Tea", Once(0.0), silent=True)
    >>> print(framed(tea, "Boil.", due=0.0, now=9.0, trouble="", zone="UTC")[-53:])
    Your answer is kept, and not sent to anybody.]
    <BLANKLINE>
    Boil.
    """
    lines = [
        f"[A run of the task {name(task)} ({task.id}), planned for {clock(due, zone)} ({zone}). "
        "Nobody is waiting, and nobody can be asked."
    ]
    if task.silent:
        lines.append("Your answer is kept, and not sent to anybody.")
    else:
        # A group has other readers; nobody else is told what is the owner's by a slip.
        group = task.route is not None and not task.route.private
        whom = "a group, where others read it, too" if group else "the owner"
        lines.append(
            f"Your answer is sent to {whom}; if there is nothing to tell, answer exactly {QUIET}."
        )
    if now - due > ON_TIME:
        late = span(now - due)
        lines.append(f"It comes {late} late: it is {clock(now, zone)} now; mind what is over.")
    if trouble:
        lines.append(
            f"An earlier try failed: {brief(trouble)}. Look first at what it may have done already."
        )
    return f"{' '.join(lines)}]\n\n{text}"


def said(task: Task, *, due: float, now: float, zone: str) -> str:
    r"""Say a plain reminder, and that it is late if it is.

    >>> from elwood.features.tasks.when import Once
    >>> tea = Task("tea", "Tea", Once(0.0), message="Time for tea!")
    >>> said(tea, due=0.0, now=7200.0, zone="UTC")
    '⏰ Time for tea!\n\n(This was planned for Thu 1970-01-01 00:00, 2 hours ago.)'
    """
    text = f"⏰ {task.message}"
    if now - due <= ON_TIME:
        return text
    when = f"(This was planned for {clock(due, zone)}, {span(now - due)} ago.)"
    return f"{text}\n\n{when}"
