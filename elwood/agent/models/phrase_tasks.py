"""Phrases about what is to be done later: reminders, jobs, and what is planned."""

import re
from typing import Literal

import attrs

from elwood.agent.models.phrase_words import compiled, first, unquoted

# Words of a time, at most: "every 2 weeks".
MAX_WORDS = 3
# Characters of a title: what `schedule` takes.
MAX_TITLE = 60


@attrs.frozen
class Plan:
    """At the times *when* say *remind*, or do *do*, *cheap*ly, for *usd* dollars a day at most.

    *when* is "in 5 minutes", "every 2 hours", or a date and time like 2026-12-24T18:00.
    """

    when: str
    remind: str = ""
    do: str = ""
    cheap: bool = False
    usd: float | None = None

    @property
    def title(self) -> str:
        """A few words for it."""
        return " ".join((self.remind or self.do).split())[:MAX_TITLE].strip()

    @property
    def times(self) -> dict[str, object]:
        """What `schedule` takes for *when*."""
        found = _LENGTH.fullmatch(self.when)
        if found is None:
            return {"at": self.when.removeprefix("at ")}
        count, unit = int(found["n"] or 1), found["unit"].lower()
        if found["kind"].lower() == "in":
            return {"in_minutes": count * _MINUTES[unit]}
        return {"every": {"n": count, "unit": unit}}


@attrs.frozen
class ListPlans:
    """Say what is planned."""


@attrs.frozen
class ChangePlan:
    """Pause, resume or cancel the task *task*."""

    verb: Literal["pause", "resume", "cancel"]
    task: str


AboutTasks = Plan | ListPlans | ChangePlan

_THINGS = r"(?:tasks?|reminders?|jobs?|schedule|plans?)"
_LIST_RULES = compiled(
    rf"(?:list|show(?: me)?|what are|tell me) (?:all )?(?:(?:of )?(?:the|my|our|your) )?{_THINGS}",
    r"what is (?:planned|scheduled)(?: for me)?",
    rf"(?:which|what) {_THINGS} (?:are there|do i have|have i|are planned|are scheduled)",
    rf"(?:my )?{_THINGS}",
)
_CHANGE_RULES = compiled(
    r"(?P<verb>cancel|stop|delete|remove|pause|resume|continue) (?:the |my )?"
    rf"{_THINGS} (?P<task>\S.*)",
    rf"(?P<verb>cancel|pause|resume) (?:the |my )?(?P<task>\S.*?) {_THINGS}",
)
_REMIND = re.compile(r"remind (?:me|us):? +(?P<rest>\S.*)", re.I | re.S)
_THAT = re.compile(r"(?:to|that|of|about)\b:? *|: *", re.I)
_DO = re.compile(r"[:,]? *(?:do\b:? *)?", re.I)
# What may stand behind a job.
_WITHIN = re.compile(
    r"(?:,? {1,3}(?P<cheap>with the cheap model))?"
    r"(?:,? {1,3}for at most \$(?P<usd>\d{1,4}(?:\.\d{1,4})?) (?:a|per) day)?$",
    re.I,
)
_LENGTH = re.compile(
    r"(?P<kind>in|every) (?:(?P<n>[0-9]{1,4}) )?(?P<unit>minute|hour|day|week)s?", re.I
)
_MINUTES = {"minute": 1, "hour": 60, "day": 1440, "week": 10_080}
_MOMENT = re.compile(r"(?:at )?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}", re.I)


def about_tasks(words: str, text: str) -> AboutTasks | None:
    """Find what is to be planned; *text* is the line whole, *words* without its frills.

    >>> about_tasks("remind me in 1 minute to call mum", "")
    Plan(when='in 1 minute', remind='call mum', do='', cheap=False, usd=None)
    >>> about_tasks("remind me to call mum in 2 hours", "").times
    {'in_minutes': 120}
    >>> about_tasks("", "every day list the files, for at most $0.05 a day")
    Plan(when='every day', remind='', do='list the files', cheap=False, usd=0.05)
    >>> about_tasks("cancel task call-mum", "")
    ChangePlan(verb='cancel', task='call-mum')
    """
    if first(_LIST_RULES, words):
        return ListPlans()
    if found := first(_CHANGE_RULES, words):
        match found["verb"].lower():
            case "pause":
                return ChangePlan("pause", unquoted(found["task"]))
            case "resume" | "continue":
                return ChangePlan("resume", unquoted(found["task"]))
            case _:
                return ChangePlan("cancel", unquoted(found["task"]))
    if found := _REMIND.fullmatch(words):
        return _reminder(found["rest"].strip())
    split = _leading(text)
    if split is None:
        return None
    when, rest = split
    do = _DO.sub("", rest, count=1).strip()
    return _planned(when, do) if do else None


def _reminder(rest: str) -> Plan | None:
    """Take apart what stands behind "remind me"; the time is in front or at the end."""
    if split := _leading(rest):
        when, what = split[0], _THAT.sub("", split[1], count=1)
    elif split := _ending(rest):
        what, when = _THAT.sub("", split[0], count=1), split[1]
    else:
        return None
    what = unquoted(what)
    return Plan(when, remind=what) if what else None


def _planned(when: str, do: str) -> Plan | None:
    said = _REMIND.fullmatch(do)
    if said is None:
        within = _WITHIN.search(do)
        assert within is not None, "it fits the end of every text"
        usd = float(within["usd"]) if within["usd"] else None
        return Plan(when, do=do[: within.start()], cheap=bool(within["cheap"]), usd=usd)
    what = unquoted(_THAT.sub("", said["rest"], count=1))
    return Plan(when, remind=what) if what else None


def _leading(text: str) -> tuple[str, str] | None:
    """Split *text* behind the longest time that it begins with."""
    ends = [found.end() for found in re.finditer(r"\S+", text)][:MAX_WORDS]
    for end in reversed(ends):
        head = text[:end].rstrip(",:;.!")
        if end < len(text) and _is_time(head):
            return head, text[end:].strip()
    return None


def _ending(text: str) -> tuple[str, str] | None:
    """Split *text* before the longest time that it ends with."""
    starts = [found.start() for found in re.finditer(r"\S+", text)][-MAX_WORDS:]
    for start in starts:
        tail = text[start:].rstrip(",:;.!?")
        if start and _is_time(tail):
            return text[:start].strip().rstrip(","), tail
    return None


def _is_time(text: str) -> bool:
    return bool(_LENGTH.fullmatch(text) or _MOMENT.fullmatch(text))
