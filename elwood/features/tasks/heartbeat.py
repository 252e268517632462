"""The tasks that the owner writes into HEARTBEAT.md.

A section under a ``##`` heading that has a line ``Cadence:`` or ``Prompt:`` is an entry, a task of
its own; everything else is one checklist, gone through at intervals.  Comments (``<!-- -->``) count
for nothing.
"""

import re
from collections.abc import Collection, Iterator
from hashlib import sha256

import msgspec

from elwood.agent.conversation.settings import Hours, Owner, read_hours
from elwood.agent.conversation.task_run import QUIET, Purse
from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import models_in_use
from elwood.features.tasks.settings import HeartbeatSettings
from elwood.features.tasks.task import HEARTBEAT, MAX_PATTERNS, Task, bad_pattern
from elwood.features.tasks.when import Cron, Every, Once, When, cron_fields, read_when
from elwood.foundation.settings import Config
from elwood.foundation.text.words import slug

FILE = "HEARTBEAT.md"
KEYS = ("Cadence", "Prompt", "Hours", "Watch", "Model", "Silent")
# Each entry is a task with runs and a purse of its own.
MAX_ENTRIES = 50
# Characters: both texts are sent with each run, a title is shown in lists.
MAX_CHECKLIST, MAX_PROMPT, MAX_TITLE = 20_000, 8_000, 80
# Characters of an id behind that of the checklist.
_MAX_SLUG = 50
_CHECKLIST = (
    "Go through this checklist of the owner's, point by point. Tell the owner only what needs "
    f"attention now, in few words; if nothing does, answer {QUIET} and nothing else."
)
_MAKES_AN_ENTRY = re.compile(r"^(?:[-*+] )?(?:\*\*)?(?:Cadence|Prompt):", re.IGNORECASE | re.M)
# Lines are not lost, for they are counted.
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING, _ENTRY_HEADING = re.compile(r"##?(?:[ \t]|$)"), re.compile(r"##(?:[ \t]|$)")
# A line without any words, its white space squeezed: a heading, an empty bullet or box, a rule.
_EMPTY = re.compile(r"|#{1,6}(?: .*)?|(?:[-*+]|\d{1,9}[.)])?(?: ?\[[ xX]?\])?|([-*_])(?: ?\1){2,}")
_KEY = re.compile(r"([-*+] )?(?:\*\*)?([A-Za-z]{2,20}):(?:\*\*)?(?=[ \t]|$)")
_WATCH = re.compile(r"[ \t]*(?:\*\*)?Watch:(?:\*\*)?(?=[ \t]|$)", re.IGNORECASE)


class Checklist(msgspec.Struct, frozen=True):
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
    reader = _Reader(settings, zone, hours, providers)
    reader.read(text)
    return Checklist(tuple(reader.tasks.values()), tuple(reader.problems))


def read_checklist(config: Config, text: str) -> Checklist:
    """Make the tasks of the *text* of HEARTBEAT.md, as *config* has it."""
    owner = config.of(Owner)
    # Others have no client.
    providers = {split_name(model)[0] for model in models_in_use(config)}
    return read(text, config.of(HeartbeatSettings), owner.timezone, owner.hours, providers)


class _Reader:
    """Makes tasks of a text; what is wrong is collected in *problems*."""

    def __init__(
        self, settings: HeartbeatSettings, zone: str, hours: str, providers: Collection[str]
    ) -> None:
        usual = read_hours(settings.hours or hours)
        if isinstance(usual, str):
            raise ValueError(usual)  # the configuration is checked when it is read
        self.tasks: dict[str, Task] = {}
        self.problems: list[str] = []
        self._settings = settings
        self._zone = zone
        self._hours = usual
        self._providers = providers
        self._purse = Purse(tokens=settings.tokens, usd=settings.usd)

    def read(self, text: str) -> None:
        plain: list[str] = []
        entries: list[tuple[int, str, list[str]]] = []
        whole = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        open_ = whole.rfind("<!--")
        if open_ > whole.rfind("-->"):
            number = whole.count("\n", 0, open_) + 1
            self._complain(number, "", "the comment is not closed: write --> behind it")
        for number, lines in _sections(_COMMENT.sub(_line_breaks, whole)):
            title = lines[0].strip(" \t#")
            if _ENTRY_HEADING.match(lines[0]) and _MAKES_AN_ENTRY.search("\n".join(lines)):
                entries.append((number, title, lines[1:]))
            else:
                plain += lines
        self._checklist(plain)
        for number, title, lines in entries[:MAX_ENTRIES]:
            problems, task = self._entry(title, lines)
            if task is None:
                self._complain(number, title, "; ".join(problems))
            elif task.id in self.tasks:
                self._complain(number, title, "another title is too like it: change one")
            else:
                self.tasks[task.id] = task
        for number, title, _ in entries[MAX_ENTRIES : MAX_ENTRIES + 1]:
            why = f"there are more than {MAX_ENTRIES} entries: this one and all below are left out"
            self._complain(number, title, why)

    def _complain(self, number: int, title: str, why: str) -> None:
        entry = f', "{title[:MAX_TITLE]}"' if title else ""
        self.problems.append(f"{FILE}, line {number}{entry}: {why}")

    def _checklist(self, lines: list[str]) -> None:
        watch: list[str] = []
        kept: list[str] = []
        for line in lines:
            # Beneath the point that it is for it is meant as well; "- Watch: the birds" is a point.
            if named := _WATCH.match(line):
                watch += _patterns(line[named.end() :])
            else:
                kept.append(line)
        if all(_EMPTY.fullmatch(" ".join(line.split())) for line in kept):
            return
        text = "\n".join(kept).strip()
        if _MAKES_AN_ENTRY.search(text):
            why = "Cadence and Prompt stand in no entry: write a heading above, like ## News"
            self._complain(1, "", why)
        for why in _unwatchable(watch):
            self._complain(1, "", why)
        if len(text) > MAX_CHECKLIST:
            why = f"the checklist is longer than {MAX_CHECKLIST} characters: shorten it"
            self._complain(1, "", why)
            return
        sound = [one for one in watch if not bad_pattern(one)]
        self.tasks[HEARTBEAT] = Task(
            id=HEARTBEAT,
            title="Heartbeat",
            when=Every(self._settings.every),
            zone=self._zone,
            prompt=f"{_CHECKLIST}\n\n{text}",
            hours=self._hours,
            role=self._settings.model,
            purse=self._purse,
            watch=tuple(sound[:MAX_PATTERNS]),
            origin="heartbeat",
        )

    def _entry(self, title: str, lines: list[str]) -> tuple[list[str], Task | None]:
        values, problems = _values(lines)
        prompt = values.get("Prompt", "")
        when = read_when(values["Cadence"], self._zone) if "Cadence" in values else _NO_CADENCE
        hours = read_hours(values["Hours"]) if "Hours" in values else self._usual_hours(when)
        role, silent = values.get("Model", self._settings.model), values.get("Silent", "no").lower()
        watch = _patterns(values["Watch"]) if "Watch" in values else None
        problems += _unwatchable(watch or ())
        if watch == ():
            problems.append("Watch: there is nothing behind it: write a path like inbox/*.md")
        if isinstance(when, Once):
            when = "a single time is no cadence: ask Elwood in a chat to remind you"
        if not title:
            problems.append("it has no title: write one behind ##")
        if len(title) > MAX_TITLE:
            problems.append(f"its title is longer than {MAX_TITLE} characters: shorten it")
        if not prompt:
            problems.append("it has no Prompt: write a line like Prompt: Look whether …")
        elif len(prompt) > MAX_PROMPT:
            problems.append(f"its Prompt is longer than {MAX_PROMPT} characters: shorten it")
        if role not in ("cheap", "default") and role.partition("/")[0] not in self._providers:
            known = " or ".join(("cheap", "default", *(f"{one}/…" for one in self._providers)))
            problems.append(f"Model: {role[:60]!r} is none that can be asked: write {known}")
        if silent not in ("yes", "no"):
            problems.append("Silent: write yes or no")
        if isinstance(when, str):
            return [f"Cadence: {when}", *problems], None
        if isinstance(hours, str):
            return [f"Hours: {hours}", *problems], None
        if problems:
            return problems, None
        return [], Task(
            id=f"{HEARTBEAT}-{_slug(title)}",
            title=title,
            when=when,
            zone=self._zone,
            prompt=prompt,
            hours=hours,
            silent=silent == "yes",
            role=role,
            purse=self._purse,
            watch=watch,
            origin="heartbeat",
        )

    def _usual_hours(self, when: When | str) -> Hours | None:
        """Return the usual hours, but none for a time of day: it was meant as it was written."""
        is_time = isinstance(when, Cron) and "*" not in cron_fields(when.expression)[1]
        return None if is_time else self._hours


_NO_CADENCE = "there is none: write a line like Cadence: every 30 minutes"


def _line_breaks(comment: re.Match[str]) -> str:
    return "\n" * comment[0].count("\n")


def _sections(text: str) -> Iterator[tuple[int, list[str]]]:
    """Cut before each heading of the first two levels; return each part and its line's number."""
    begin, lines = 1, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if _HEADING.match(line) and lines:
            yield begin, lines
            begin, lines = number, []
        lines.append(line)
    yield begin, lines


def _values(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Read the keys of an entry, and say what stands where none should; prompts have many lines."""
    values: dict[str, str] = {}
    problems: list[str] = []
    last, in_list = "", None
    for line in lines:
        found = _KEY.match(line)
        key = found[2].capitalize() if found else ""
        # In an entry whose keys are no list, a list is part of the prompt.
        in_list = bool(found[1]) if found and in_list is None else in_list
        if found is None or key not in KEYS or bool(found[1]) != in_list:
            if last == "Prompt":
                values[last] += f"\n{line.rstrip()}"
            elif found is not None:
                problems.append(f"there is no key {found[2]}: there are {', '.join(KEYS)}")
            elif not _EMPTY.fullmatch(text := " ".join(line.split())):
                where = "write it behind Prompt:, or make it a comment"
                problems.append(f"{text[:40]!r} stands behind no key: {where}")
            continue
        value = line[found.end() :].strip()
        if key in values and key != "Watch":
            problems.append(f"{key} stands twice: leave one")
        values[key] = f"{values[key]},{value}" if key in values else value
        last = key
    return {key: value.strip() for key, value in values.items()}, problems


def _patterns(text: str) -> tuple[str, ...]:
    parts = (part.strip().strip("`").strip() for part in text.split(","))
    return tuple(part for part in parts if part)


def _unwatchable(patterns: Collection[str]) -> list[str]:
    problems = [f"Watch: {why}" for one in patterns if (why := bad_pattern(one))]
    if len(patterns) > MAX_PATTERNS:
        problems.append(f"Watch: more than {MAX_PATTERNS} patterns: name folders instead")
    return problems


def _slug(title: str) -> str:
    """Make the part of the id; a title without Latin letters gets one of its hash."""
    made = slug(title)[:_MAX_SLUG].strip("-")
    return made or sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:8]
