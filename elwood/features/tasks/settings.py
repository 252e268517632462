"""What can be set about tasks: ``[heartbeat]`` and ``[[tasks]]`` of config.toml; and agent.toml."""

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

import attrs

from elwood.agent.conversation.settings import Owner, read_hours, write_hours
from elwood.agent.conversation.task_run import Purse
from elwood.agent.models.settings import is_role
from elwood.features.tasks import watch as patterns
from elwood.features.tasks.notation import (
    advice,
    never,
    placed,
    read_moment,
    read_route,
    read_when,
    write_moment,
    write_route,
    write_when,
)
from elwood.features.tasks.task import CATCH_UP, CATCH_UP_ONCE, Origin, Task, bad_id
from elwood.features.tasks.watch import MAX_PATTERNS
from elwood.features.tasks.when import Cadence, Cron, Every, Once, When
from elwood.foundation.settings import (
    BadSetting,
    Check,
    Complaint,
    Config,
    Loaded,
    Report,
    Section,
    Tables,
    at_least,
    between,
    is_timezone,
    required,
    setting,
)
from elwood.foundation.text.words import slug

# Characters: a prompt is sent with each run, a title is shown in lists.
MAX_PROMPT, MAX_TITLE = 20_000, 200
# More are no longer written by people.
MAX_TASKS = 200
# What a session may be called; it becomes the name of a file.
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Characters of a title that is made of what is asked or said.
_TITLE = 60
# What is wrong with the key *0*, and the remedy.
Fault = tuple[str, str, str]


def is_hours(text: str) -> None:
    """Check for hours of the day, maybe of some days only."""
    hours = read_hours(text)
    if isinstance(hours, str):
        raise BadSetting(*advice(hours))


def _owner_has_hours(loaded: Loaded) -> Iterator[Complaint]:
    try:
        is_hours(loaded.config.of(Owner).hours)
    except BadSetting as error:
        yield ("owner", "hours"), error.what, error.remedy


@attrs.frozen(kw_only=True)
class HeartbeatSettings:
    """How HEARTBEAT.md is gone through: each *every* seconds, within *hours*, by *model*.

    *hours* "" are the owner's.  *tokens* and *usd* bound the checklist, and each entry, in a day.
    """

    SECTION: ClassVar = Section(
        "heartbeat",
        "HEARTBEAT.md of the workspace: a checklist that is gone through at intervals, and tasks. "
        "Nothing in it, or nothing that changed, costs nothing. See docs/operating.md.",
        verify=_owner_has_hours,
    )

    on: bool = setting(True, help="whether it is looked at")
    every: float = setting(
        1800.0,
        help="seconds between two looks at the checklist",
        check=between(60, 366 * 86_400),
    )
    hours: str = setting(
        "", help="hours in which that is done", check=is_hours, default="owner.hours"
    )
    model: str = setting(
        "cheap",
        help="`cheap` (models.summarizer), `default`, or provider/name",
        check=is_role,
    )
    tokens: int = setting(
        500_000, help="most tokens a day, of the checklist and of each entry", check=at_least(1)
    )
    usd: float = setting(
        0.50, help="most US dollars a day, of the checklist and of each entry", check=at_least(0)
    )

    def roles(self) -> tuple[str, ...]:
        """Name what the checklist is gone through with."""
        return (self.model,)


def _is_id(text: str) -> None:
    _need((text and bad_id(text)) or None)


def _is_when(text: str) -> None:
    """Check for a time that means the same whenever it is read."""
    _need(read_when(text, "UTC"))


def _is_moment(text: str) -> None:
    _need(read_moment(text, "UTC") if text else None)


def _is_route(text: str) -> None:
    _need(read_route(text) if text else None)


def _is_zone(text: str) -> None:
    if text:
        is_timezone(text)


def _is_session(text: str) -> None:
    if text and not _SESSION.fullmatch(text):
        raise BadSetting("not a name for a conversation", "use letters, digits, dots, - and _")


def _is_watched(text: str) -> None:
    _need(patterns.complaint(text) or None)


def _shorter(most: int) -> Check:
    def check(text: str) -> None:
        if len(text) > most:
            raise BadSetting(f"longer than {most} characters", "shorten it")

    return check


def _need(made: object) -> None:
    if isinstance(made, str):
        raise BadSetting(*advice(made))


@attrs.frozen(kw_only=True)
class TaskForm:
    """The keys of a task as people write them; `Task` says what they mean.

    *deliver* is the route, *start* that of an interval; *zone* "" is the owner's.
    """

    title: str = setting(
        "",
        help="what it is called",
        check=_shorter(MAX_TITLE),
        default="made of what is to be done",
    )
    id: str = setting(
        "", help="small letters, digits, dashes", check=_is_id, default="made of the title"
    )
    when: str = required(help="when it runs", check=_is_when)
    start: str = setting(
        "", help="since when an interval is counted, as date and time", check=_is_moment
    )
    ends: str = setting(
        "", help="the date, or date and time, after which it runs no more", check=_is_moment
    )
    zone: str = setting(
        "", help="the time zone of its times", check=_is_zone, default="owner.timezone"
    )
    hours: str = setting(
        "",
        help="when it may run: `08:00-22:00`, `mon-fri 8-18`; else always",
        check=is_hours,
    )
    prompt: str = setting("", help="what is to be done, for the model", check=_shorter(MAX_PROMPT))
    message: str = setting(
        "",
        help="or a text that is said as it stands, without a model",
        check=_shorter(MAX_PROMPT),
    )
    watch: tuple[str, ...] | None = setting(
        None,
        help="run only if one of these files of the workspace, or the prompt, has changed; "
        "folders, `*` and `**` are understood",
        check=_is_watched,
    )
    deliver: str = setting(
        "",
        help="where the answer goes: a channel, or channel:chat as in `telegram:-1001234567890`",
        check=_is_route,
        default="where you were heard last",
    )
    silent: bool = setting(False, help="post no answer")
    session: str = setting(
        "", help="the conversation it runs in", check=_is_session, default="an empty one"
    )
    model: str = setting(
        "default",
        help="`default`, `cheap` (models.summarizer), or provider/name",
        check=is_role,
    )
    tools: tuple[str, ...] | None = setting(None, help="tools it may use", default="all")
    tokens: int | None = setting(None, help="most tokens a day", check=at_least(1))
    usd: float | None = setting(None, help="most US dollars a day", check=at_least(0))
    catch_up: float | None = setting(
        None,
        help="seconds that it may come late, as after the machine was off",
        check=between(60, 366 * 86_400),
        default="12 hours; a week for a single message",
    )
    untrusted: bool = setting(
        False, help="strangers' words may be in it; agent.toml says so of some"
    )


def read_task(form: TaskForm, zone: str, origin: Origin) -> Task | list[Fault]:
    """Make the task that *form* describes, or say what is wrong; *zone* is the owner's."""
    zone = form.zone or zone
    title = form.title or " ".join((form.prompt or form.message).split())[:_TITLE]
    id = form.id or slug(title)
    when = _placed(form, zone, id)
    ends = read_moment(form.ends, zone, end=True) if form.ends else None
    hours = read_hours(form.hours)
    route = read_route(form.deliver) if form.deliver else None
    wrong_id = (bad_id(id) or None) if id or title else None
    read = {"when": when, "ends": ends, "hours": hours, "deliver": route, "id": wrong_id}
    faults = [(key, *advice(made)) for key, made in read.items() if isinstance(made, str)]
    if form.start and isinstance(when, Cron | Once | Cadence):
        faults.append(("start", "only intervals are counted from a time", "take it away"))
    if not form.prompt and not form.message:
        remedy = "write what is to be done as prompt, or what is to be said as message"
        faults.append(("prompt", "is missing", remedy))
    if form.prompt and form.message:
        faults.append(("message", "there is a prompt, too", "write one of the two"))
    if form.watch is not None and len(form.watch) > MAX_PATTERNS:
        faults.append(("watch", f"more than {MAX_PATTERNS} patterns", "name folders instead"))
    if faults or isinstance(when, str) or isinstance(ends, str):
        return faults
    if isinstance(hours, str) or isinstance(route, str):
        return faults
    if never(when, hours, zone, id):
        return [("hours", "no time of when is ever within them", "change one of the two")]
    once = isinstance(when, Once) and bool(form.message)
    late = CATCH_UP_ONCE if once else CATCH_UP
    is_bounded = form.tokens is not None or form.usd is not None
    return Task(
        id=id,
        title=title,
        when=when,
        zone=zone,
        prompt=form.prompt,
        message=form.message,
        hours=hours,
        session=form.session,
        route=route,
        silent=form.silent,
        role=form.model,
        tools=form.tools,
        purse=Purse(form.tokens, form.usd) if is_bounded else None,
        catch_up=late if form.catch_up is None else form.catch_up,
        watch=form.watch,
        ends=ends,
        untrusted=form.untrusted,
        origin=origin,
    )


def _placed(form: TaskForm, zone: str, id: str) -> When | str:
    when, hours = read_when(form.when, zone), read_hours(form.hours)
    if isinstance(when, str) or isinstance(hours, str):
        return when
    if not form.start or not isinstance(when, Every):
        return placed(when, hours, zone, id)
    start = read_moment(form.start, zone)
    return start if isinstance(start, str) else Every(when.seconds, start=start)


def write_task(task: Task) -> dict[str, object]:
    """Return the keys of *task* in TOML, those that say something; `read_task` reads them.

    Moments are written by the second; chores are not for people to write.
    """
    purse = task.purse or Purse()
    start = task.when.start if isinstance(task.when, Every) else 0.0
    form = TaskForm(
        title=task.title,
        id=task.id,
        when=write_when(task.when, task.zone),
        # An interval that was not counted from 1970 may have been placed in the hours.
        start=write_moment(start, task.zone)
        if isinstance(task.when, Every) and (start or task.hours)
        else "",
        ends="" if task.ends is None else write_moment(task.ends, task.zone),
        zone=task.zone,
        hours="" if task.hours is None else write_hours(task.hours),
        prompt=task.prompt,
        message=task.message,
        watch=task.watch,
        deliver="" if task.route is None else write_route(task.route),
        silent=task.silent,
        session=task.session,
        model=task.role,
        tools=task.tools,
        tokens=purse.tokens,
        usd=purse.usd,
        catch_up=task.catch_up,
        untrusted=task.untrusted,
    )
    usual = TaskForm(when="")
    written = attrs.asdict(form, recurse=False)
    return {key: value for key, value in written.items() if value != getattr(usual, key)}


# --- [[tasks]] of config.toml ---------------------------------------------------------------------


def _collect(forms: Mapping[int, TaskForm], config: Config, report: Report) -> "ConfiguredTasks":
    """Make the tasks of the *forms*, and report what does not go together."""
    tasks: dict[str, Task] = {}
    for index, form in forms.items():
        if index == MAX_TASKS:
            report(("tasks",), f"more than {MAX_TASKS} tasks", "take some away")
            break
        task = read_task(form, config.of(Owner).timezone, "config")
        if isinstance(task, list):
            for key, what, remedy in task:
                report(("tasks", index, key), what, remedy)
        elif task.id in tasks:
            where = ("tasks", index, "id")
            report(where, f"there is another {task.id}", "write another id")
        else:
            tasks[task.id] = task
    return ConfiguredTasks(tuple(tasks.values()))


@attrs.frozen
class ConfiguredTasks:
    """The tasks of config.toml."""

    SECTION: ClassVar = Section(
        "tasks",
        "What is done at times, one table each. `when` is `every 30 minutes`, `hourly`, `daily`, "
        "`weekly`, `biweekly`, `monthly`, `2026-12-24 18:00`, or a cron expression such as "
        "`30 7 * * 1-5`. See docs/operating.md.",
        tables=Tables(
            item=TaskForm,
            keyed=False,
            collect=_collect,
            example="""\
#[[tasks]]
#title = "Inbox"
#when = "0 8 * * 1"
#prompt = "Summarise what is new in the folder inbox."
#hours = "mon-fri 08:00-18:00"
#watch = ["inbox/*.md"]
#usd = 0.5
""",
        ),
    )

    tasks: tuple[Task, ...] = ()

    def roles(self) -> tuple[str, ...]:
        """Name what the tasks think with."""
        return tuple(task.role for task in self.tasks)
