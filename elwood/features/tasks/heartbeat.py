"""The tasks that the owner writes into HEARTBEAT.md.

What is no entry is one checklist, gone through at intervals; each entry is a task of its own
(`core.checklist` says what an entry is).
"""

from collections.abc import Collection
from hashlib import sha256

import attrs

from elwood.agent.conversation.settings import Owner
from elwood.agent.conversation.task_run import QUIET, Purse
from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import models_in_use
from elwood.features.tasks import patterns as watching
from elwood.features.tasks.checklist import (
    Entry,
    Malformed,
    Page,
    parse,
)
from elwood.features.tasks.crontab import ALIASES
from elwood.features.tasks.notation import (
    never,
    placed,
    read_hours,
    read_when,
)
from elwood.features.tasks.settings import HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import (
    Cron,
    Every,
    Hours,
    Once,
    When,
)
from elwood.foundation.settings import Config
from elwood.foundation.text.slugs import slug

FILE = "HEARTBEAT.md"
# The id of the checklist's task; those of entries begin with it.
ID = "heartbeat"
# Each entry is a task with runs and a purse of its own.
MAX_ENTRIES = 50
# Characters: both texts are sent with each run, a title is shown in lists.
MAX_CHECKLIST, MAX_PROMPT, MAX_TITLE = 20_000, 8_000, 80
# Characters of an id behind ID.
_MAX_SLUG = 50
_CHECKLIST = (
    "Go through this checklist of the owner's, point by point. Tell the owner only what needs "
    f"attention now, in few words; if nothing does, answer {QUIET} and nothing else."
)


@attrs.frozen
class Checklist:
    """What HEARTBEAT.md asks for; *problems* say what is left out of it, and why."""

    tasks: tuple[Task, ...] = ()
    problems: tuple[str, ...] = ()


def read(
    text: str,
    settings: HeartbeatSettings,
    zone: str,
    hours: str = "",
    providers: Collection[str] = (),
) -> Checklist:
    r"""Make the tasks of the *text* of HEARTBEAT.md.

    *hours* are the owner's; they and *settings* were checked with the configuration.  Entries may
    name models of *providers*.

    >>> found = read("- Is the oven off?\n## Mail\nCadence: often\nPrompt: Look.",
    ...              HeartbeatSettings(), "UTC")
    >>> [(task.id, task.when, task.watch) for task in found.tasks]
    [('heartbeat', Every(seconds=1800.0, start=0.0), ())]
    >>> found.problems[0][:57]
    'HEARTBEAT.md, line 2, "Mail": Cadence: \'often\' is no time'
    """
    if not settings.on:
        return Checklist()
    page = parse(text)
    reading = _Reading(settings, zone, _usual(settings.hours or hours), providers)
    tasks, problems = reading.checklist(page)
    problems += page.problems
    lines: dict[str, int] = {}
    for entry in page.entries[:MAX_ENTRIES]:
        made = entry if isinstance(entry, Malformed) else reading.entry(entry)
        if isinstance(made, Malformed):
            problems.append(made)
        elif made.id in lines:
            why = f"its title is too like that of line {lines[made.id]}: give it another"
            problems.append(Malformed(entry.number, entry.title, why))
        else:
            lines[made.id] = entry.number
            tasks.append(made)
    for entry in page.entries[MAX_ENTRIES : MAX_ENTRIES + 1]:
        why = f"there are more than {MAX_ENTRIES} entries: this one and all below are left out"
        problems.append(Malformed(entry.number, entry.title, why))
    problems.sort(key=lambda problem: problem.number)
    return Checklist(tuple(tasks), tuple(map(_told, problems)))


def read_checklist(config: Config, text: str) -> Checklist:
    """Make the tasks of the *text* of HEARTBEAT.md, as *config* has it."""
    owner = config.of(Owner)
    # Others have no client.
    providers = {split_name(model)[0] for model in models_in_use(config)}
    return read(text, config.of(HeartbeatSettings), owner.timezone, owner.hours, providers)


@attrs.frozen
class _Reading:
    """What holds for all tasks of the file; *hours* unless an entry has its own."""

    settings: HeartbeatSettings
    zone: str
    hours: Hours | None
    providers: Collection[str]

    def checklist(self, page: Page) -> tuple[list[Task], list[Malformed]]:
        if not page.plain:
            return [], []
        if len(page.plain) > MAX_CHECKLIST:
            why = f"the checklist is longer than {MAX_CHECKLIST} characters: shorten it"
            return [], [Malformed(1, "", why)]
        watch = page.watch or ()
        task = Task(
            id=ID,
            title="Heartbeat",
            when=placed(Every(self.settings.every), self.hours, self.zone, ID),
            zone=self.zone,
            prompt=f"{_CHECKLIST}\n\n{page.plain}",
            hours=self.hours,
            role=self.settings.model,
            purse=self._purse,
            watch=tuple(one for one in watch if not watching.complaint(one))[:_MOST],
            origin="heartbeat",
        )
        return [task], [Malformed(page.watched_at, "", why) for why in _unwatchable(watch)]

    def entry(self, entry: Entry) -> Task | Malformed:
        values, title = entry.values, entry.title
        problems = _unwatchable(entry.watch or ())
        if entry.watch == ():
            problems.append("Watch: there is nothing behind it: write a path like inbox/*.md")
        when = read_when(values["Cadence"], self.zone) if values.get("Cadence") else _NO_CADENCE
        hours = read_hours(values["Hours"]) if "Hours" in values else self._hours(when)
        role = values.get("Model", self.settings.model)
        id = f"{ID}-{_slug(title)}"
        if isinstance(when, Once):
            when = "a single time is no cadence: ask Elwood in a chat to remind you"
        if not title:
            problems.append("it has no title: write one behind ##")
        if len(title) > MAX_TITLE:
            problems.append(f"its title is longer than {MAX_TITLE} characters: shorten it")
        if isinstance(when, str):
            problems.append(f"Cadence: {when}")
        if isinstance(hours, str):
            problems.append(f"Hours: {hours}")
        if not values.get("Prompt"):
            problems.append("it has no Prompt: write a line like Prompt: Look whether …")
        elif len(values["Prompt"]) > MAX_PROMPT:
            problems.append(f"its Prompt is longer than {MAX_PROMPT} characters: shorten it")
        if role not in ("cheap", "default") and role.partition("/")[0] not in self.providers:
            known = " or ".join(("cheap", "default", *(f"{one}/…" for one in self.providers)))
            problems.append(f"Model: {role[:60]!r} is none that can be asked: write {known}")
        if values.get("Silent", "no").lower() not in ("yes", "no"):
            problems.append("Silent: write yes or no")
        if problems or isinstance(when, str) or isinstance(hours, str):
            return Malformed(entry.number, title, "; ".join(problems))
        when = placed(when, hours, self.zone, id)
        if never(when, hours, self.zone, id):
            why = "its Cadence never falls into its Hours: change one of them"
            return Malformed(entry.number, title, why)
        return Task(
            id=id,
            title=title,
            when=when,
            zone=self.zone,
            prompt=values["Prompt"],
            hours=hours,
            silent=values.get("Silent", "no").lower() == "yes",
            role=role,
            purse=self._purse,
            watch=entry.watch,
            origin="heartbeat",
        )

    @property
    def _purse(self) -> Purse:
        return Purse(tokens=self.settings.tokens, usd=self.settings.usd)

    def _hours(self, when: When | str) -> Hours | None:
        """Return the usual hours, but none for a time of day: it was meant as it was written."""
        if isinstance(when, Cron):
            expression = ALIASES.get(when.expression.strip().lower(), when.expression)
            if "*" not in expression.split()[1]:
                return None
        return self.hours


_NO_CADENCE = "there is none: write a line like Cadence: every 30 minutes"
_MOST = watching.MAX_PATTERNS


def _usual(hours: str) -> Hours | None:
    found = read_hours(hours)
    if isinstance(found, str):
        raise ValueError(found)  # the configuration is checked when it is read
    return found


def _unwatchable(patterns: tuple[str, ...]) -> list[str]:
    problems = [f"Watch: {why}" for one in patterns if (why := watching.complaint(one))]
    if len(patterns) > _MOST:
        problems.append(f"Watch: more than {_MOST} patterns: name folders instead")
    return problems


def _slug(title: str) -> str:
    """Make the part of the id; a title without Latin letters gets one of its hash.

    >>> _slug("Check the mail!"), _slug("今天")
    ('check-the-mail', 'd5f5a7a0')
    """
    name = slug(title)[:_MAX_SLUG].strip("-")
    return name or sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _told(problem: Malformed) -> str:
    entry = f', "{problem.title[:MAX_TITLE]}"' if problem.title else ""
    return f"{FILE}, line {problem.number}{entry}: {problem.why}"
