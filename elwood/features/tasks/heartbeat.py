"""Parse the tasks in HEARTBEAT.md.

A section under a ``##`` heading with a line ``Cadence:`` or ``Prompt:`` is an entry, a separate
task; all other text is one checklist, run at intervals.  Comments (``<!-- -->``) are ignored.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import ClassVar

import attrs
import msgspec
from msgspec.structs import replace

from elwood.agent.conversation.run import QUIET
from elwood.agent.conversation.settings import Owner
from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import models_in_use
from elwood.features.tasks.settings import HeartbeatSettings, TaskForm, read_task
from elwood.features.tasks.task import HEARTBEAT, Task
from elwood.features.tasks.when import Cron, Every, Once, When, cron_fields
from elwood.foundation.settings import (
    BadSetting,
    Complaint,
    Config,
    Loaded,
    Section,
    setting,
    yield_fields,
)
from elwood.foundation.text.words import slug

FILE = "HEARTBEAT.md"
KEYS = ("Cadence", "Prompt", "Hours", "Watch", "Model", "Silent")
# Characters of a title in an error, and of an id.
_TITLE, _MAX_SLUG = 80, 50
_CHECKLIST = (
    "Go through the owner's checklist below, point by point. Tell the owner only about things "
    f"that need attention now, in a few words. If there are none, answer {QUIET} and nothing else."
)
_MAKES_AN_ENTRY = re.compile(r"^(?:[-*+] )?(?:\*\*)?(?:Cadence|Prompt):", re.IGNORECASE | re.M)
# Line breaks of comments are kept, for line numbers.
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING, _ENTRY_HEADING = re.compile(r"##?(?:[ \t]|$)"), re.compile(r"##(?:[ \t]|$)")
# A line without words, its white space squeezed: a heading, an empty bullet or box, a rule.
_EMPTY = re.compile(r"|#{1,6}(?: .*)?|(?:[-*+]|\d{1,9}[.)])?(?: ?\[[ xX]?\])?|([-*_])(?: ?\1){2,}")
_KEY = re.compile(r"([-*+] )?(?:\*\*)?([A-Za-z]{2,20}):(?:\*\*)?(?=[ \t]|$)")
# A URL may contain commas, and so may a command, which ends at the end of the line.
_PART = re.compile(r"\s*(?:`?\$ .*|https?://\S*[^\s,]|[^,]+)")
_WATCH = re.compile(r"[ \t]*(?:\*\*)?Watch:(?:\*\*)?(?=[ \t]|$)", re.IGNORECASE)


class Written(msgspec.Struct, frozen=True):
    """The text of HEARTBEAT.md, or ""; *problem* is the reason if it is refused or cut."""

    text: str = ""
    problem: str = ""


class Checklist(msgspec.Struct, frozen=True):
    """The tasks of HEARTBEAT.md; *problems* lists ignored parts with reasons."""

    tasks: tuple[Task, ...] = ()
    problems: tuple[str, ...] = ()


def parse_checklist(config: Config, written: Written) -> Checklist:
    r"""Parse HEARTBEAT.md.

    >>> text = "- Is the oven off?\n## Mail\nCadence: often\nPrompt: Look."
    >>> found = parse_checklist(Config.from_values(), Written(text))
    >>> [(task.id, task.when, task.watch) for task in found.tasks]
    [('heartbeat', Every(seconds=1800.0, start=0.0), None)]
    >>> found.problems[0][:66]
    'HEARTBEAT.md, line 2, "Mail": Cadence: \'often\' is not a valid time'
    """
    reader = _Reader(config)
    settings = config.get(HeartbeatSettings)
    if settings.on and settings.every:
        reader.read(written.text)
    problems = filter(None, (written.problem, *reader.problems))
    return Checklist(tuple(reader.tasks.values()), tuple(problems))


class _Reader:
    """Parse a text into *tasks*, and collect *problems*."""

    def __init__(self, config: Config) -> None:
        self._settings, owner = config.get(HeartbeatSettings), config.get(Owner)
        self.tasks: dict[str, Task] = {}
        self.problems: list[str] = []
        self._zone = owner.timezone
        # Only these have a client.
        self._providers = {split_name(model)[0] for model in models_in_use(config)}
        self._usual = TaskForm(
            when="hourly",
            hours=self._settings.hours or owner.hours,
            model=self._settings.model,
            tokens=self._settings.tokens,
            usd=self._settings.usd,
        )

    def read(self, text: str) -> None:
        plain: list[str] = []
        entries: list[tuple[int, Task]] = []
        whole = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        open_ = whole.rfind("<!--")
        if open_ > whole.rfind("-->"):
            number = whole.count("\n", 0, open_) + 1
            self._add_problem(number, "", "the comment is not closed: write --> at its end")
        for number, lines in _sections(_COMMENT.sub(_line_breaks, whole)):
            title = lines[0].strip(" \t#")
            if not (_ENTRY_HEADING.match(lines[0]) and _MAKES_AN_ENTRY.search("\n".join(lines))):
                plain += lines
                continue
            try:
                entries.append((number, self._entry(title, lines[1:])))
            except BadSetting as wrong:
                self._add_problem(number, title, f"{wrong.what}: {wrong.remedy}")
        self._checklist(plain)
        for number, task in entries:
            if task.id in self.tasks:
                self._add_problem(
                    number, task.title, "another title is too similar: change one of them"
                )
            else:
                self.tasks[task.id] = task

    def _add_problem(self, number: int, title: str, why: str) -> None:
        entry = f', "{title[:_TITLE]}"' if title else ""
        self.problems.append(f"{FILE}, line {number}{entry}: {why}")

    def _checklist(self, lines: list[str]) -> None:
        watch: list[str] = []
        kept: list[str] = []
        for line in lines:
            # Also indented below its item; "- Watch: the birds" is an item itself.
            if named := _WATCH.match(line):
                watch += _patterns(line[named.end() :])
            else:
                kept.append(line)
        if all(_EMPTY.fullmatch(" ".join(line.split())) for line in kept):
            return
        text = "\n".join(kept).strip()
        if _MAKES_AN_ENTRY.search(text):
            why = "Cadence and Prompt need a heading above them: write one, like ## News"
            self._add_problem(1, "", why)
        form = attrs.evolve(
            self._usual,
            title="Heartbeat",
            prompt=f"{_CHECKLIST}\n\n{text}",
            watch=tuple(watch) if watch or self._settings.only_on_change else None,
        )
        try:
            task = self._make(form, HEARTBEAT, Every(self._settings.every))
        except BadSetting as wrong:
            self._add_problem(1, "", f"{wrong.what}: {wrong.remedy}")
            return
        self.tasks[HEARTBEAT] = task

    def _entry(self, title: str, lines: list[str]) -> Task:
        """Parse a section as a task.  Raises BadSetting."""
        if not title:
            raise BadSetting("it has no title", "write one after ##")
        values = _values(lines)
        for key, example in (("Cadence", "every 30 minutes"), ("Prompt", "Check whether …")):
            if key not in values:
                raise BadSetting(f"it has no {key}", f"write a line like {key}: {example}")
        role, silent = values.get("Model", self._settings.model), values.get("Silent", "no").lower()
        if "/" in role and role.partition("/")[0] not in self._providers:
            known = ", ".join(f"{one}/…" for one in sorted(self._providers))
            raise BadSetting(f"Model: {role[:60]!r} has no provider", f"configured are {known}")
        if silent not in ("yes", "no"):
            raise BadSetting("Silent: the value is not valid", "write yes or no")
        form = attrs.evolve(
            self._usual,
            title=title,
            when=values["Cadence"],
            hours=values.get("Hours", self._usual.hours),
            prompt=values["Prompt"],
            watch=_patterns(values["Watch"]) if "Watch" in values else None,
            model=role,
            silent=silent == "yes",
        )
        task = self._make(form, f"{HEARTBEAT}-{_slug(title)}")
        if isinstance(task.when, Once):
            remedy = "for a single time, ask Elwood in a chat to remind you"
            raise BadSetting("Cadence: a single time does not repeat", remedy)
        # The default hours do not apply to an explicit time of day.
        is_time = isinstance(task.when, Cron) and "*" not in cron_fields(task.when.expression)[1]
        return replace(task, hours=None) if is_time and "Hours" not in values else task

    def _make(self, form: TaskForm, id: str, when: When | None = None) -> Task:
        """Check each field of *form* and build its task.  Raises BadSetting."""
        for field, key in yield_fields(TaskForm):
            value = getattr(form, field.name)
            for one in value if isinstance(value, tuple) else (value,):
                try:
                    if key.check is not None and one is not None:
                        key.check(one)
                except BadSetting as wrong:
                    name = {"when": "Cadence"}.get(field.name, field.name.capitalize())
                    raise BadSetting(f"{name}: {wrong.what}", wrong.remedy) from wrong
        return replace(read_task(form, self._zone, "heartbeat", when), id=id)


def _line_breaks(comment: re.Match[str]) -> str:
    return "\n" * comment[0].count("\n")


def _sections(text: str) -> Iterator[tuple[int, list[str]]]:
    """Split before each heading of level 1 or 2; yield the first line's number and the lines."""
    begin, lines = 1, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if _HEADING.match(line) and lines:
            yield begin, lines
            begin, lines = number, []
        lines.append(line)
    yield begin, lines


def _values(lines: list[str]) -> dict[str, str]:
    """Parse the keys of an entry; a prompt may have several lines.  Raises BadSetting."""
    values: dict[str, str] = {}
    last, in_list = "", None
    for line in lines:
        found = _KEY.match(line)
        key = found[2].capitalize() if found else ""
        # If the keys are not list items, list items are part of the prompt.
        in_list = bool(found[1]) if found and in_list is None else in_list
        if found is not None and key in KEYS and bool(found[1]) == in_list:
            if key in values:
                raise BadSetting(f"{key} appears twice", "remove one of them")
            values[key] = line[found.end() :].strip()
            last = key
        elif last == "Prompt":
            values[last] += f"\n{line.rstrip()}"
        elif not _EMPTY.fullmatch(text := " ".join(line.split())):
            remedy = f"start the line with one of {', '.join(KEYS)}"
            raise BadSetting(f"{text[:40]!r} belongs to no key", remedy)
    for key, value in values.items():
        if not value.strip():
            raise BadSetting(f"{key} is empty", "write its value after the colon")
    return {key: value.strip() for key, value in values.items()}


def _patterns(text: str) -> tuple[str, ...]:
    parts = (part.strip().strip("`").strip() for part in _PART.findall(text))
    return tuple(part for part in parts if part)


def _slug(title: str) -> str:
    """Build the id suffix of a title; its hash if it has no Latin letters."""
    made = slug(title)[:_MAX_SLUG].strip("-")
    return made or sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:8]


# --- [heartbeat] of agent.toml --------------------------------------------------------------------


def _is_understood(loaded: Loaded) -> Iterator[Complaint]:
    text = loaded.config.get(OwnHeartbeat).checklist
    for problem in parse_checklist(loaded.config, Written(text)).problems:
        where, _, what = problem.removeprefix(f"{FILE}, ").partition(": ")
        yield ("heartbeat", "checklist"), f"{where}: {what}", "correct it"


@attrs.frozen(kw_only=True)
class OwnHeartbeat:
    """Additions of the assistant to the checklist."""

    SECTION: ClassVar = Section("heartbeat", "Additions to HEARTBEAT.md.", verify=_is_understood)

    checklist: str = setting("", help="items and entries, in the format of HEARTBEAT.md")
