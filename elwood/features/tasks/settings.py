"""Settings of tasks: ``[heartbeat]`` and ``[[tasks]]`` of config.toml and agent.toml."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import attrs

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import Budget
from elwood.agent.conversation.settings import Owner, is_hours, read_hours
from elwood.agent.models.settings import is_role
from elwood.features.tasks.task import (
    CATCH_UP,
    CATCH_UP_ONCE,
    MAX_PATTERNS,
    MAX_TASKS,
    Origin,
    Task,
    check_id,
    check_pattern,
)
from elwood.features.tasks.when import Every, Once, When, read_moment, read_when
from elwood.foundation.settings import (
    BadSetting,
    Check,
    Config,
    Report,
    Section,
    Tables,
    at_least,
    between,
    is_timezone,
    none_or,
    required,
    setting,
)
from elwood.foundation.text.words import slug

# Characters: a prompt is sent with each run, a title is shown in lists.
MAX_PROMPT, MAX_TITLE = 20_000, 200
# A session name, which is also a file name.
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# A channel, an id of a chat, an id of a thread.
_ROUTE = re.compile(r"([a-z][a-z0-9_-]{0,31})(?::([^:\s]{1,64})(?::([^:\s]{1,64}))?)?")
# Characters of a title that is made from the prompt or message.
_TITLE = 60


def _readable(read: Callable[[str], object]) -> Check:
    """Return a check that *read* can parse a text, if it is not empty."""

    def check(text: str) -> None:
        if text:
            read(text)

    return check


@attrs.frozen(kw_only=True)
class HeartbeatSettings:
    """Settings of HEARTBEAT.md; *hours*, *model* and the limits are also defaults of entries."""

    SECTION: ClassVar = Section(
        "heartbeat",
        "HEARTBEAT.md in the workspace: a checklist that Elwood works through at "
        "intervals, and tasks. An empty file costs nothing. See "
        "docs/guides/tasks.md.",
    )

    on: bool = setting(True, help="false: Elwood ignores HEARTBEAT.md")
    every: float = setting(
        1800.0,
        help="seconds between two runs of the checklist; 0: Elwood ignores HEARTBEAT.md",
        check=none_or(60, 366 * 86_400),
    )
    only_on_change: bool = setting(
        False,
        help="run a checklist without `Watch:` only after it was edited, not at each interval",
    )
    hours: str = setting(
        "", help="hours in which the checklist may run", check=is_hours, default="owner.hours"
    )
    model: str = setting(
        "heartbeat", help="a role of models.roles, or provider/name", check=is_role
    )
    tokens: int = setting(
        500_000,
        help="maximum tokens per day for the checklist, and for each entry",
        check=at_least(1),
    )
    usd: float = setting(
        0.50,
        help="maximum US dollars per day for the checklist, and for each entry",
        check=at_least(0),
    )


def _is_session(text: str) -> None:
    if text and not _SESSION.fullmatch(text):
        raise BadSetting("not a valid conversation name", "use letters, digits, dots, - and _")


def _shorter(most: int) -> Check:
    def check(text: str) -> None:
        if len(text) > most:
            raise BadSetting(f"longer than {most} characters", "shorten it")

    return check


def read_route(text: str) -> Route:
    """Parse a route: channel[:chat[:thread]].  Raises BadSetting.

    Without a chat, `Route.chat` is empty: the owner's chat.  `Channel.set_privacy` adds whether the
    chat is private.
    """
    found = _ROUTE.fullmatch(text)
    if found is None:
        what = f"{text[:_TITLE]!r} is not a valid destination"
        raise BadSetting(what, "write telegram, or telegram:123456789")
    channel, chat, thread = found.groups()
    return Route(channel, chat or "", thread or "")


# The check needs no real zone: only the value of a moment depends on it.
_is_when = _readable(partial(read_when, zone="UTC"))
_is_moment = _readable(partial(read_moment, zone="UTC"))


@attrs.frozen(kw_only=True)
class TaskForm:
    """The keys of a task in a file; see `Task`.

    *deliver* is the route, *start* belongs to an interval; *zone* "" is the owner's.
    """

    title: str = setting(
        "", help="its name", check=_shorter(MAX_TITLE), default="derived from the prompt or message"
    )
    id: str = setting(
        "",
        help="lower-case letters, digits, dashes",
        check=_readable(check_id),
        default="derived from the title",
    )
    when: str = required(help="when it runs", check=_is_when)
    start: str = setting("", help="date and time from which intervals count", check=_is_moment)
    ends: str = setting("", help="date, or date and time, of its end", check=_is_moment)
    zone: str = setting(
        "",
        help="the time zone of its times",
        check=_readable(is_timezone),
        default="owner.timezone",
    )
    hours: str = setting(
        "",
        help="hours in which it may run: `08:00-22:00`, `mon-fri 8-18`; default: always",
        check=is_hours,
    )
    prompt: str = setting("", help="the instruction for the model", check=_shorter(MAX_PROMPT))
    message: str = setting(
        "",
        help="instead of prompt: a text that Elwood sends unchanged, without a model",
        check=_shorter(MAX_PROMPT),
    )
    tool: str = setting(
        "",
        help="instead of prompt: a tool that Elwood calls without a model; its result "
        "is the answer",
        names="tool",
    )
    arguments: Mapping[str, Any] = setting(
        {}, help="arguments of the tool; see docs/reference/tools.md"
    )
    on_success: str = setting(
        "",
        help="prompt for the model after a successful run, in the same conversation",
        check=_shorter(MAX_PROMPT),
    )
    on_failure: str = setting(
        "",
        help="prompt for the model after the first try of a run has failed",
        check=_shorter(MAX_PROMPT),
    )
    watch: tuple[str, ...] | None = setting(
        None,
        help="run only if one of these, or the prompt, has changed: files in the "
        "workspace (folders, `*` and `**` work), pages (`https://…`), the output "
        "of commands (`$ git log -1`)",
        check=_readable(check_pattern),
    )
    deliver: str = setting(
        "",
        help="recipient of the answer: a channel, or channel:chat such as "
        "`telegram:-1001234567890`",
        check=_readable(read_route),
        default="the chat of your last message",
        names="channel",
    )
    silent: bool = setting(False, help="do not send the answer")
    notify: bool = setting(True, help="notify you when it fails, is missed or is paused")
    session: str = setting(
        "",
        help="its conversation: a name, or `current` for the recipient's conversation",
        check=_is_session,
        default="a new one for each run",
    )
    model: str = setting(
        "default",
        help="`default`, `cheap`, another role of models.roles, or provider/name",
        check=is_role,
    )
    tools: tuple[str, ...] | None = setting(
        None, help="the only tools that it may use", default="all", names="tool"
    )
    tokens: int | None = setting(None, help="maximum tokens per day", check=at_least(1))
    usd: float | None = setting(None, help="maximum US dollars per day", check=at_least(0))
    catch_up: float | None = setting(
        None,
        help="seconds that a missed run may start late, for example after a power cut",
        check=between(60, 366 * 86_400),
        default="12 hours; one week for a single message",
    )
    untrusted: bool = setting(False, help="the prompt may contain strangers' words")
    enabled: bool = setting(True, help="false: Elwood ignores this table")


def read_task(form: TaskForm, zone: str, origin: Origin, when: When | None = None) -> Task:
    """Build the task of *form*, whose fields were checked before; *zone* is the owner's.

    *when* replaces that of the form.  Raises BadSetting if fields contradict each other.
    """
    zone = form.zone or zone
    kinds = [kind for kind in (form.prompt, form.message, form.tool) if kind]
    if len(kinds) != 1:
        remedy = "write the job as prompt, or the text to send as message"
        raise BadSetting("it needs exactly one of prompt, message and tool", remedy)
    title = form.title or " ".join(kinds[0].split())[:_TITLE]
    if form.arguments and not form.tool:
        raise BadSetting("arguments need a tool", "name it as tool")
    if form.message and (form.on_success or form.on_failure):
        raise BadSetting("on_success and on_failure do not work with message", "use prompt")
    if form.watch is not None and len(form.watch) > MAX_PATTERNS:
        raise BadSetting(f"watch has more than {MAX_PATTERNS} patterns", "use folders instead")
    when, id = when or read_when(form.when, zone), form.id or slug(title)
    if origin not in ("heartbeat", "talk"):  # these build ids in another way
        check_id(id)
    if isinstance(when, Every) and form.start:
        when = Every(when.seconds, start=read_moment(form.start, zone))
    elif form.start:
        raise BadSetting("start works only with intervals", "remove it, or write every 2 weeks")
    late = CATCH_UP_ONCE if isinstance(when, Once) and form.message else CATCH_UP
    is_bounded = form.tokens is not None or form.usd is not None
    return Task(
        id=id,
        title=title,
        when=when,
        zone=zone,
        prompt=form.prompt,
        message=form.message,
        hours=read_hours(form.hours),
        session=form.session,
        route=read_route(form.deliver) if form.deliver else None,
        silent=form.silent,
        role=form.model,
        tools=form.tools,
        budget=Budget(form.tokens, form.usd) if is_bounded else None,
        catch_up=late if form.catch_up is None else form.catch_up,
        watch=form.watch,
        ends=read_moment(form.ends, zone, end=True) if form.ends else None,
        untrusted=form.untrusted,
        origin=origin,
        tool=form.tool,
        arguments=json.dumps(form.arguments, default=str) if form.tool else "",
        on_success=form.on_success,
        on_failure=form.on_failure,
        notify=form.notify,
    )


# --- [[tasks]] of config.toml ---------------------------------------------------------------------


def _collect(
    forms: Mapping[int, TaskForm], config: Config, report: Report, origin: Origin = "config"
) -> "ConfiguredTasks":
    """Build the tasks of *forms*, and report conflicts."""
    tasks: dict[str, Task] = {}
    for index, form in forms.items():
        if index == MAX_TASKS:
            report(("tasks",), f"more than {MAX_TASKS} tasks", "remove some")
            break
        try:
            task = read_task(form, config.get(Owner).timezone, origin)
        except BadSetting as error:
            report(("tasks", index), error.what, error.remedy)
            continue
        where = ("tasks", index, "id")
        if task.id in config.chores:
            report(where, f"the id {task.id!r} belongs to Elwood itself", "choose another id")
        elif task.id in tasks:
            report(where, f"another task has the id {task.id!r}", "choose another id")
        elif form.enabled:
            tasks[task.id] = task
    return ConfiguredTasks(tuple(tasks.values()))


@attrs.frozen
class ConfiguredTasks:
    """The tasks of config.toml."""

    SECTION: ClassVar = Section(
        "tasks",
        "Scheduled tasks, one table each. `when` is `every 30 minutes`, `hourly`, "
        "`daily`, `weekly`, `biweekly`, `monthly`, `2026-12-24 18:00`, or a cron "
        "expression such as `30 7 * * 1-5`. See docs/guides/tasks.md.",
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
        """List the model roles of the tasks."""
        return tuple(task.role for task in self.tasks)


# --- [[tasks]] of agent.toml ----------------------------------------------------------------------

# Only the owner may set keys that reach others, spend more, or change trust.
_FOR_THE_OWNER = ("deliver", "session", "tool", "arguments", "tools", "tokens", "usd", "untrusted")


def _collect_own(forms: Mapping[int, TaskForm], config: Config, report: Report) -> "OwnTasks":
    usual, take_out = TaskForm(when=""), "remove it, or ask your owner to set it there"
    for index, form in forms.items():
        for key in _FOR_THE_OWNER:
            if getattr(form, key) != getattr(usual, key):
                report(("tasks", index, key), "is allowed only in config.toml", take_out)
        if "/" in form.model:
            report(
                ("tasks", index, "model"),
                "may name a model only in config.toml",
                "write default or cheap",
            )
    return OwnTasks(_collect(forms, config, report, "own").tasks)


@attrs.frozen
class OwnTasks:
    """The tasks that the assistant set for itself; `limits` bound their cost."""

    SECTION: ClassVar = Section(
        "tasks",
        "As in config.toml, without " + ", ".join(_FOR_THE_OWNER) + ".",
        tables=Tables(item=TaskForm, keyed=False, collect=_collect_own, example=""),
    )

    tasks: tuple[Task, ...] = ()
