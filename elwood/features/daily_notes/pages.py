"""Daily notes and reflections as a search sees them: by their days, and line by line.

Nobody is shown a page unasked: what comes back by itself is the matter of `notes.recall`.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

import msgspec

from elwood.agent.conversation.labels import Label
from elwood.agent.tools.tool import SearchResult
from elwood.features.daily_notes.notes import MARKED, parts
from elwood.foundation.text.words import having

# Where pages lie in the workspace, and how each kind is named.
FOLDERS = {
    "threads/daily": re.compile(r"(\d{4})-(\d\d)-(\d\d)\.md"),
    "threads/weekly": re.compile(r"(\d{4})-W(\d\d)\.md"),
    "threads/monthly": re.compile(r"(\d{4})-(\d\d)\.md"),
}
# Passages of one page that a search shows, and characters of all of them.
MAX_PASSAGES, MAX_EXCERPT = 5, 4000
# By which people ask for a day, in the languages that questions are read in (`words`).
_MONTHS = (
    ("january", "januar"), ("february", "februar"), ("march", "märz"), ("april",),
    ("may", "mai"), ("june", "juni"), ("july", "juli"), ("august",), ("september",),
    ("october", "oktober"), ("november",), ("december", "dezember"),
)  # fmt: skip
_DAYS = (
    ("monday", "montag"), ("tuesday", "dienstag"), ("wednesday", "mittwoch"),
    ("thursday", "donnerstag"), ("friday", "freitag"), ("saturday", "samstag"),
    ("sunday", "sonntag"),
)  # fmt: skip


class Page(msgspec.Struct, frozen=True):
    """The file *path*, about days of which *last* (ISO date) is the last; *names* are theirs."""

    path: str
    text: str
    names: tuple[str, ...]
    last: str
    untrusted: bool


class Passage(msgspec.Struct, frozen=True):
    """An entry of a daily note with its calls, or any other line; *untrusted* as it is marked."""

    text: str
    untrusted: bool


def page(path: str, text: str, *, untrusted: bool) -> Page | None:
    """Make of the file *path* what a search looks at; None if that is none of ours.

    *untrusted* says that the file is marked as written after strangers' words had been read.

    >>> found = page("threads/daily/2026-03-14.md", "- fixed the boiler", untrusted=False)
    >>> found.names, found.last
    (('saturday', 'samstag', 'march', 'märz'), '2026-03-14')
    >>> page("threads/daily/2026-02-31.md", "", untrusted=False)
    """
    days = _days(path)
    if days is None:
        return None
    first, last = days
    names = [*_DAYS[first.weekday()]] if first == last else []
    names += [*_MONTHS[first.month - 1], *_MONTHS[last.month - 1]]
    return Page(path, text, tuple(dict.fromkeys(names)), last.isoformat(), untrusted)


def excerpt(found: Page, chosen: Sequence[str]) -> SearchResult | None:
    r"""Take of a page those passages that have the most of the words *chosen*, in their order.

    Of one that has all of them in its date the first passages are taken; of one that has only some
    of them there, and no others, none: the words were about something.  The label is that of the
    page and of all that is taken.

    >>> text = "# Saturday 2026-03-14\n\n- 08:00 s/t1: `the boiler`\n- 09:00 s/t2: `tea`\n"
    >>> day = page("threads/daily/2026-03-14.md", text, untrusted=False)
    >>> excerpt(day, ["boiler", "march"]).text
    '- 08:00 s/t1: `the boiler`'
    >>> excerpt(day, ["coffee"])
    """
    there = list(passages(found.text))
    counts = [having(one.text, chosen) for one in there]
    most = max(counts, default=0)
    by_name = f"{found.path} {' '.join(found.names)}"
    if most == 0 and having(by_name, chosen) < len(chosen):
        return None
    best = [one for one, count in zip(there, counts, strict=True) if count == most]
    taken: list[str] = []
    untrusted = found.untrusted
    room = MAX_EXCERPT
    for one in best[:MAX_PASSAGES]:
        if room > 0:
            taken.append(one.text[:room])
            untrusted = untrusted or one.untrusted
            room -= len(one.text) + 1
    text = "\n".join(taken)
    return SearchResult(
        text=text,
        origin=found.path,
        label=Label(untrusted=untrusted, private=True),
        updated=found.last,
        words=having(f"{by_name} {text}", chosen),
    )


def passages(text: str) -> Iterator[Passage]:
    r"""Take the text of a page apart: entries with their calls, and every other line but headings.

    >>> for one in passages("# x\n- 08:00 s/t1 [untrusted]: `a`\n  - ok tool\nmine"):
    ...     print(one)
    Passage(text='- 08:00 s/t1 [untrusted]: `a`\n  - ok tool', untrusted=True)
    Passage(text='mine', untrusted=False)
    """
    for lines, marks in parts(text):
        if lines[0].strip() and not lines[0].startswith("#"):
            yield Passage("\n".join(lines), MARKED in (marks or ()))


def _days(path: str) -> tuple[date, date] | None:
    """Say which days a page is about, the first and the last."""
    folder, _, name = path.rpartition("/")
    named = FOLDERS[folder].fullmatch(name) if folder in FOLDERS else None
    if named is None:
        return None
    numbers = [int(number) for number in named.groups()]
    try:
        match folder.rpartition("/")[2], numbers:
            case "weekly", [year, week]:
                first = date.fromisocalendar(year, week, 1)
                return first, first + timedelta(days=6)
            case "monthly", [year, month]:
                first = date(year, month, 1)
                return first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
            case _:
                first = date(*numbers)
                return first, first
    except (ValueError, OverflowError):
        return None  # there is no such day
