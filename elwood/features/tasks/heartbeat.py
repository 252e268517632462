"""The tasks that the owner writes into HEARTBEAT.md.

A section under a ``##`` heading that has a line ``Cadence:`` or ``Prompt:`` is an entry, a task of
its own; everything else is one checklist, gone through at intervals.  Comments (``<!-- -->``) count
for nothing, and within code blocks there are neither headings nor keys.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256

import msgspec

from elwood.agent.conversation.settings import Hours, Owner, read_hours
from elwood.agent.conversation.task_run import QUIET, Purse
from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import models_in_use
from elwood.features.tasks import watch as watching
from elwood.features.tasks.notation import never, placed, read_when
from elwood.features.tasks.settings import HeartbeatSettings
from elwood.features.tasks.task import HEARTBEAT, Task
from elwood.features.tasks.when import Cron, Every, Once, When, cron_fields
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
_MAKES_AN_ENTRY = ("Cadence", "Prompt")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
# A line without any words, its white space squeezed: a heading, an empty bullet or box, a rule.
_EMPTY = re.compile(r"|#{1,6}(?: .*)?|(?:[-*+]|\d{1,9}[.)])?(?: ?\[[ xX]?\])?|([-*_])(?: ?\1){2,}")
_KEY = re.compile(r"([-*+][ \t]+)?(?:\*\*|__)?([A-Za-z]{2,20})(?:\*\*|__)?:(?:\*\*|__)?(?=[ \t]|$)")
_WATCH = re.compile(r"[ \t]*(?:\*\*|__)?[Ww]atch:(?:\*\*|__)?(?=[ \t]|$)")


class Line(msgspec.Struct, frozen=True):
    """A line of the file; *number* counts from 1, *code* says that it is in a code block."""

    number: int
    text: str
    code: bool = False


class Malformed(msgspec.Struct, frozen=True):
    """Something to correct at the line *number*, in the entry *title* if it is in one."""

    number: int
    title: str
    why: str


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
    problems = sorted(reader.problems, key=lambda problem: problem.number)
    return Checklist(tuple(reader.tasks.values()), tuple(map(_told, problems)))


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
        self.problems: list[Malformed] = []
        self._settings = settings
        self._zone = zone
        self._hours = usual
        self._providers = providers
        self._purse = Purse(tokens=settings.tokens, usd=settings.usd)

    def read(self, text: str) -> None:
        plain: list[Line] = []
        entries: list[tuple[str, list[Line]]] = []
        for title, section in _sections(self._lines(text)):
            if title and any(_key(line) in _MAKES_AN_ENTRY for line in section[1:]):
                entries.append((title.strip(), section))
            else:
                plain += section
        self._checklist(plain)
        lines: dict[str, int] = {}
        for title, (heading, *body) in entries[:MAX_ENTRIES]:
            task = self._entry(title, heading.number, body)
            if task is None:
                continue
            if task.id in lines:
                why = f"its title is too like that of line {lines[task.id]}: give it another"
                self._complain(heading.number, title, why)
                continue
            lines[task.id] = heading.number
            self.tasks[task.id] = task
        for title, section in entries[MAX_ENTRIES : MAX_ENTRIES + 1]:
            why = f"there are more than {MAX_ENTRIES} entries: this one and all below are left out"
            self._complain(section[0].number, title, why)

    def _complain(self, number: int, title: str, why: str) -> None:
        self.problems.append(Malformed(number, title, why))

    def _lines(self, text: str) -> Iterator[Line]:
        """Leave comments out, and mark what is code."""
        fence, fenced, commented = "", 0, 0
        whole = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        for number, raw in enumerate(whole.split("\n"), 1):
            if fence:
                yield Line(number, raw, code=True)
                closing = raw.strip()
                if closing.startswith(fence) and not closing.strip(fence[0]):
                    fence = ""
                continue
            line, is_open = _uncommented(raw, is_open=commented > 0)
            commented = (commented or number) if is_open else 0
            if line != raw and not line.strip():
                continue
            found = _FENCE.match(line)
            if found is not None:
                fence, fenced = found[1], number
            yield Line(number, line, code=found is not None)
        if commented:
            self._complain(commented, "", "the comment is not closed: write --> behind it")
        if fence:
            self._complain(fenced, "", f"the code block is not closed: write {fence} behind it")

    def _checklist(self, plain: Iterable[Line]) -> None:
        watch: list[str] = []
        kept: list[str] = []
        for line in plain:
            key = None if line.text[:1] in "-*+" else _key(line)
            if key in _MAKES_AN_ENTRY:
                why = f"{key} stands in no entry: write a heading above, like ## News"
                self._complain(line.number, "", why)
            # Beneath the point that it is for it is meant as well; "- Watch: the birds" is a point.
            named = None if line.code else _WATCH.match(line.text)
            if named is None:
                kept.append(line.text)
                continue
            found = _patterns(line.text[named.end() :])
            for why in _unwatchable(found):
                self._complain(line.number, "", why)
            watch += [one for one in found if not watching.complaint(one)]
        text = "\n".join(kept).strip()
        if all(_EMPTY.fullmatch(" ".join(line.split())) for line in kept):
            return
        if len(text) > MAX_CHECKLIST:
            why = f"the checklist is longer than {MAX_CHECKLIST} characters: shorten it"
            self._complain(1, "", why)
            return
        self.tasks[HEARTBEAT] = Task(
            id=HEARTBEAT,
            title="Heartbeat",
            when=placed(Every(self._settings.every), self._hours, self._zone, HEARTBEAT),
            zone=self._zone,
            prompt=f"{_CHECKLIST}\n\n{text}",
            hours=self._hours,
            role=self._settings.model,
            purse=self._purse,
            watch=tuple(watch[: watching.MAX_PATTERNS]),
            origin="heartbeat",
        )

    def _entry(self, title: str, number: int, body: list[Line]) -> Task | None:
        values: dict[str, str] = {}
        prompt: list[str] | None = None
        # In an entry whose keys are no list, a list is part of the prompt.
        listed = next(line for line in body if _key(line)).text[:1] in "-*+"
        for line in body:
            found, key = _KEY.match(line.text), _key(line)
            if found is None or key is None or bool(found[1]) != listed:
                if prompt is not None:
                    prompt.append(line.text.rstrip())
                elif why := _misplaced(line):
                    self._complain(line.number, title, why)
                    return None
                continue
            value = line.text[found.end() :].strip()
            if key == "Watch" and key in values:
                value = f"{values[key]},{value}"
            elif key in values:
                self._complain(line.number, title, f"{key} stands twice: leave one")
                return None
            if prompt is not None:
                values["Prompt"], prompt = "\n".join(prompt).strip(), None
            values[key] = value
            if key == "Prompt":
                prompt = [value]
        if prompt is not None:
            values["Prompt"] = "\n".join(prompt).strip()
        return self._task(title, number, values)

    def _task(self, title: str, number: int, values: dict[str, str]) -> Task | None:
        cadence, prompt = values.get("Cadence", ""), values.get("Prompt", "")
        when = read_when(cadence, self._zone) if cadence else _NO_CADENCE
        hours = read_hours(values["Hours"]) if "Hours" in values else self._usual_hours(when)
        role, silent = values.get("Model", self._settings.model), values.get("Silent", "no").lower()
        watch = _patterns(values["Watch"]) if "Watch" in values else None
        id = f"{HEARTBEAT}-{_slug(title)}"
        problems = _unwatchable(watch or ())
        if watch == ():
            problems.append("Watch: there is nothing behind it: write a path like inbox/*.md")
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
        if not prompt:
            problems.append("it has no Prompt: write a line like Prompt: Look whether …")
        elif len(prompt) > MAX_PROMPT:
            problems.append(f"its Prompt is longer than {MAX_PROMPT} characters: shorten it")
        if role not in ("cheap", "default") and role.partition("/")[0] not in self._providers:
            known = " or ".join(("cheap", "default", *(f"{one}/…" for one in self._providers)))
            problems.append(f"Model: {role[:60]!r} is none that can be asked: write {known}")
        if silent not in ("yes", "no"):
            problems.append("Silent: write yes or no")
        if not (problems or isinstance(when, str) or isinstance(hours, str)):
            when = placed(when, hours, self._zone, id)
            if not never(when, hours, self._zone, id):
                return Task(
                    id=id,
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
            problems.append("its Cadence never falls into its Hours: change one of them")
        self._complain(number, title, "; ".join(problems))
        return None

    def _usual_hours(self, when: When | str) -> Hours | None:
        """Return the usual hours, but none for a time of day: it was meant as it was written."""
        is_time = isinstance(when, Cron) and "*" not in cron_fields(when.expression)[1]
        return None if is_time else self._hours


_NO_CADENCE = "there is none: write a line like Cadence: every 30 minutes"


def _sections(lines: Iterable[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Cut before each heading of the first two levels; only the second one's are titles."""
    title, section = "", list[Line]()
    for line in lines:
        found = None if line.code else _HEADING.match(line.text)
        if found is not None and len(found[1]) <= 2:
            yield title, section
            # An entry's title may be missing; that is for it to say.
            title = (line.text[found.end() :].strip(" \t#") or " ") if len(found[1]) == 2 else ""
            section = []
        section.append(line)
    yield title, section


def _uncommented(line: str, *, is_open: bool) -> tuple[str, bool]:
    """Leave comments out; *is_open* tells whether one goes on, from the line before or after."""
    kept = ""
    while True:
        if not is_open:
            text, mark, line = line.partition("<!--")
            kept += text
            if not mark:
                return kept, False
        _, mark, line = line.partition("-->")
        is_open = not mark
        if is_open:
            return kept, True


def _key(line: Line) -> str | None:
    """Return the key that *line* begins with, spelled as ours are; None if there is none."""
    found = None if line.code else _KEY.match(line.text)
    word = found[2].capitalize() if found else ""
    return word if word in KEYS else None


def _misplaced(line: Line) -> str:
    """Say what is wrong with a line before the prompt that has no key; "" if it may stand there."""
    text = " ".join(line.text.split())
    if _EMPTY.fullmatch(text):
        return ""
    if found := _KEY.match(line.text):
        return f"there is no key {found[2]}: there are {', '.join(KEYS)}"
    return f"{text[:40]!r} stands behind no key: write it behind Prompt:, or make it a comment"


def _patterns(text: str) -> tuple[str, ...]:
    parts = (part.strip().strip("`").strip() for part in text.split(","))
    return tuple(part for part in parts if part)


def _unwatchable(patterns: tuple[str, ...]) -> list[str]:
    problems = [f"Watch: {why}" for one in patterns if (why := watching.complaint(one))]
    if len(patterns) > watching.MAX_PATTERNS:
        problems.append(f"Watch: more than {watching.MAX_PATTERNS} patterns: name folders instead")
    return problems


def _slug(title: str) -> str:
    """Make the part of the id; a title without Latin letters gets one of its hash."""
    made = slug(title)[:_MAX_SLUG].strip("-")
    return made or sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _told(problem: Malformed) -> str:
    entry = f', "{problem.title[:MAX_TITLE]}"' if problem.title else ""
    return f"{FILE}, line {problem.number}{entry}: {problem.why}"
