"""Tasks in words: what one is to do and when, for the person, for the model, and for buttons."""

from collections.abc import Sequence

from elwood.agent.session.reading.receipts import one_line
from elwood.features.tasks import timezones as wall
from elwood.features.tasks.bounds import in_words
from elwood.features.tasks.file_words import write_hours
from elwood.features.tasks.task import Seen, Task
from elwood.features.tasks.timing_text import say, say_time
from elwood.features.tasks.timing_words import DAYS, MONTHS, zone_name
from elwood.features.tasks.when import (
    Cadence,
    Once,
    next_active,
    next_at,
)

# Runs that are named before a task is allowed.
SHOWN_RUNS = 3
# Planned times in a row that may fall outside of its hours: those of more than a year, if there is
# one a day.  Looking on until 2200 would take seconds.
TRIED = 400
# Characters of a title, of what a task does in a list, and of what came of a run.
MAX_TITLE, MAX_GLIMPSE, MAX_WORDS = 60, 120, 200
# Buttons below a list: as many as fit a telephone's screen.
MAX_BUTTONS = 8
# Tasks that are named where there is none of a name.
MAX_NAMED = 10


def moment(at: float, zone: str, now: float) -> str:
    """Say a moment so that nobody takes the day for another.

    >>> moment(118800, "UTC", 0), moment(10 * 86400, "UTC", 0)
    ('tomorrow at 09:00 UTC, Fri 2 Jan', 'Sun 11 Jan at 00:00 UTC')
    """
    said = say_time(at, zone, now)
    then = wall.local(at, zone)
    day = f"{DAYS[then.weekday()][:3]} {then.day} {MONTHS[then.month - 1][:3]}"
    return said if said.startswith((day, "today")) else f"{said}, {day}"


def clock(now: float, zone: str) -> str:
    """Say what the clocks show.

    >>> clock(0, "Europe/Paris")
    'Thursday 1970-01-01 01:00 CET'
    """
    return f"{wall.local(now, zone):%A %Y-%m-%d %H:%M} {zone_name(now, zone)}"


def runs(task: Task, now: float, most: int = SHOWN_RUNS) -> list[float]:
    """List when *task* runs next, as far as its id is known.

    >>> from elwood.features.tasks.when import Cron
    >>> runs(Task("a", "A", Cron("0 9 * * *"), ends=3 * 86400.0), 0.0)
    [32400.0, 118800.0, 205200.0]
    """
    if isinstance(task.when, Cadence) and not task.id:
        return []  # its time of day hangs on the id
    found: list[float] = []
    at, asleep = now, 0
    while len(found) < most and asleep < TRIED:
        planned = next_at(task.when, at, task.zone, task.id)
        if planned is None or (task.ends is not None and planned > task.ends):
            break
        if next_active(task.hours, planned, task.zone) == planned:
            found.append(planned)
            at, asleep = planned, 0
        elif isinstance(task.when, Once):
            break
        else:
            # What is planned while it sleeps is left out.
            at = next_active(task.hours, planned, task.zone) - 1.0
            asleep += 1
    return found


def cadence(task: Task, zone: str) -> str:
    """Say when *task* runs, for who lives in *zone*.

    >>> from elwood.features.tasks.when import Cron, Hours
    >>> task = Task("a", "A", Cron("0 9 * * 1"), "Asia/Tokyo", hours=Hours("08:00", "20:00"))
    >>> cadence(task, "UTC")
    'every Monday at 09:00 (Asia/Tokyo), only 08:00-20:00'
    """
    said = say(task.when, zone if isinstance(task.when, Once) else task.zone)
    if task.zone != zone and not isinstance(task.when, Once):
        said += f" ({task.zone})"
    if task.hours is not None:
        said += f", only {write_hours(task.hours)}"
    if task.ends is not None:
        said += f", until {wall.local(task.ends, zone):%Y-%m-%d %H:%M}"
    return said


def deed(task: Task) -> str:
    """Say in one word and its text what *task* does.

    >>> from elwood.features.tasks.when import Once
    >>> deed(Task("a", "A", Once(0.0), message="Call mum!"))
    'reminds: Call mum!'
    """
    if task.chore:
        return f"house: {task.chore}"
    return f"reminds: {task.message}" if task.message else f"does: {task.prompt}"


def state(seen: Seen, zone: str, now: float) -> str:
    """Say what becomes of a task and what became of it.

    >>> from elwood.features.tasks.when import Once
    >>> seen = Seen(Task("a", "A", Once(32400.0)), next=32400.0, last=60.0, result="failed")
    >>> state(seen, "UTC", 0.0)
    'next today at 09:00 UTC; last today at 00:01 UTC: failed'
    """
    parts = []
    if seen.running is not None:
        parts.append(f"running since {say_time(seen.running, zone, now)}")
    if seen.paused:
        why = one_line(seen.paused, MAX_WORDS)
        parts.append(why if why.startswith("paused") else f"paused: {why}")
    elif seen.next is not None:
        parts.append(f"next {say_time(seen.next, zone, now)}")
    elif seen.running is None:
        parts.append("no further run")
    if seen.last is not None:
        parts.append(f"last {say_time(seen.last, zone, now)}: {seen.result or 'unknown'}")
    if seen.failures > 1:
        parts.append(f"failed {seen.failures} times in a row")
    return "; ".join(parts)


def table(tasks: Sequence[Seen], zone: str, now: float) -> str:
    """List tasks for the model: a line each, which nothing in it can break.

    >>> from elwood.features.tasks.when import Every
    >>> print(table([Seen(Task("mail", "Mail", Every(3600.0), prompt="Look."))], "UTC", 0.0))
    mail | Mail | every hour | no further run | does: Look.
    """
    return "\n".join(
        " | ".join(
            one_line(cell, limit).replace("|", "/")
            for cell, limit in (
                (seen.task.id, MAX_TITLE),
                (seen.task.title, MAX_TITLE),
                (", ".join([cadence(seen.task, zone), *in_words(seen.task)]), MAX_WORDS),
                (state(seen, zone, now), 2 * MAX_WORDS),
                (deed(seen.task), MAX_GLIMPSE),
            )
        )
        for seen in tasks
    )


def whole(seen: Seen, zone: str, now: float) -> str:
    """Show all of one task, for the model.

    >>> from elwood.features.tasks.when import Every
    >>> print(whole(Seen(Task("mail", "Mail", Every(3600.0), prompt="Look.")), "UTC", 0.0))
    mail: Mail
    every hour
    no further run
    does: Look.
    """
    task = seen.task
    flags = [*(["silent"] if task.silent else []), *(["in a conversation"] if task.session else [])]
    lines = [
        f"{task.id}: {one_line(task.title, MAX_TITLE)}",
        ", ".join([cadence(task, zone), *flags, *in_words(task)]),
        state(seen, zone, now),
        deed(task),
    ]
    return "\n".join(lines)


def listing(tasks: Sequence[Seen], zone: str, now: float) -> str:
    """List tasks for the person.

    >>> from elwood.features.tasks.when import Every
    >>> seen = Seen(Task("mail", "Look for mail", Every(3600.0)), next=3600.0, spent=0.125)
    >>> print(listing([seen], "UTC", 0.0).split("\\n\\n")[0])
    mail: Look for mail
      every hour
      next today at 01:00 UTC
      $0.12 this month
    >>> print(listing([], "UTC", 0.0))
    There are no tasks. Say what shall be done and when: “remind me tomorrow at nine to call mum”.
    """
    if not tasks:
        return (
            "There are no tasks. Say what shall be done and when: “remind me tomorrow at nine to "
            "call mum”."
        )
    parts = []
    for seen in tasks:
        title = one_line(seen.task.title, MAX_TITLE)
        lines = [f"{seen.task.id}: {title}" if title != seen.task.id else title]
        lines.append(f"  {cadence(seen.task, zone)}")
        if bounds := in_words(seen.task):
            lines.append(f"  {one_line(', '.join(bounds), MAX_WORDS)}")
        lines.append(f"  {state(seen, zone, now)}")
        if seen.words and seen.result in ("failed", "waiting", "missed"):
            lines.append(f"  {one_line(seen.words, MAX_WORDS)}")
        if seen.spent:
            lines.append(f"  ${seen.spent:.2f} this month")
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, USAGE])


USAGE = (
    "/tasks pause ID, /tasks resume ID, /tasks cancel ID, /tasks run ID (now), /tasks stop ID (the "
    "run under way); /tasks all lists what the house does by itself, too."
)


def buttons(tasks: Sequence[Seen]) -> tuple[str, ...]:
    """Offer for the first of *tasks* what can be pressed: to stop, to pause, or to resume it.

    >>> from elwood.features.tasks.when import Every
    >>> mail = Task("mail", "Mail", Every(3600.0))
    >>> buttons([Seen(mail, paused="by you"), Seen(mail, next=5.0), Seen(mail)])
    ('/tasks resume mail', '/tasks pause mail')
    >>> buttons([Seen(mail, running=1.0)])
    ('/tasks stop mail',)
    """
    offered = []
    for seen in tasks:
        if seen.running is not None and not seen.task.session:
            offered.append(f"/tasks stop {seen.task.id}")
        if seen.paused or seen.next is not None:
            offered.append(f"/tasks {'resume' if seen.paused else 'pause'} {seen.task.id}")
    return tuple(offered[:MAX_BUTTONS])


def find(wanted: str, tasks: Sequence[Seen]) -> Seen | str:
    """Find the task that is called *wanted*, by its id or its title, or say why there is none.

    >>> from elwood.features.tasks.when import Every
    >>> seen = [Seen(Task("mail", "Look for mail", Every(3600.0)))]
    >>> find("look for Mail", seen) == seen[0]
    True
    >>> find("tea", seen)
    'there is no task tea; there are: mail'
    """
    name = " ".join(wanted.split()).casefold()
    found = [seen for seen in tasks if seen.task.id == name]
    found = found or [
        seen for seen in tasks if " ".join(seen.task.title.split()).casefold() == name
    ]
    if len(found) == 1:
        return found[0]
    ids = [seen.task.id for seen in (found or tasks)]
    named = ", ".join(ids[:MAX_NAMED]) + (" …" if len(ids) > MAX_NAMED else "")
    if found:
        return f"{wanted} may be one of several tasks: {named}"
    return f"there is no task {wanted}; " + (f"there are: {named}" if ids else "there are none")
