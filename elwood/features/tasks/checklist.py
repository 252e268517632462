"""What stands in HEARTBEAT.md: a plain checklist, and entries with keys; not yet what it means.

An entry is a section under a ``##`` heading that has a line ``Cadence:`` or ``Prompt:``; everything
else belongs to the plain checklist.  Comments (``<!-- -->``) count for nothing, and within code
blocks there are neither headings nor keys.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

import attrs

KEYS = ("Cadence", "Prompt", "Hours", "Watch", "Model", "Silent")
_MAKES_AN_ENTRY = ("Cadence", "Prompt")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
# A line without any words, its white space squeezed: a heading, an empty bullet or box, a rule.
_RULE = re.compile(r"([-*_])(?: ?\1){2,}")
_EMPTY = re.compile(rf"|#{{1,6}}(?: .*)?|(?:[-*+]|\d{{1,9}}[.)])?(?: ?\[[ xX]?\])?|{_RULE.pattern}")
_WORD = r"(\*\*|__)?([A-Za-z]{2,20})(?:\*\*|__)?:(?:\*\*|__)?(?=[ \t]|$)"
_KEY, _BULLET_KEY = re.compile(_WORD), re.compile(rf"[-*+][ \t]+{_WORD}")
_WATCH = re.compile(r"[ \t]*(?:\*\*|__)?[Ww]atch:(?:\*\*|__)?(?=[ \t]|$)")
# How near to a key a word in a prompt must be to be taken for a slip (difflib's ratio).
_NEAR = 0.8


@attrs.frozen
class Line:
    """A line of the file; *number* counts from 1, *code* says that it is in a code block."""

    number: int
    text: str
    code: bool = False


@attrs.frozen
class Entry:
    """A section with keys, begun at the line *number*; *watch* are the patterns it names."""

    title: str
    number: int
    values: Mapping[str, str]
    watch: tuple[str, ...] | None = None


@attrs.frozen
class Malformed:
    """Something to correct at the line *number*, in the entry *title* if it is in one."""

    number: int
    title: str
    why: str


@attrs.frozen
class Page:
    """The whole file: *plain* is the text of the checklist, empty if there is nothing in it.

    *watch* are the patterns that it names, at the line *watched_at* first.
    """

    plain: str
    watch: tuple[str, ...]
    watched_at: int
    entries: tuple[Entry | Malformed, ...]
    problems: tuple[Malformed, ...]


def parse(text: str) -> Page:
    r"""Take the file apart.

    >>> page = parse("- Oven off?\nWatch: home/*.md\n## News\nCadence: daily\nPrompt: Say it.")
    >>> page.plain, page.watch, page.entries[0].values
    ('- Oven off?', ('home/*.md',), {'Cadence': 'daily', 'Prompt': 'Say it.'})
    >>> parse("- Oven off?\n  Watch: home/*.md").watch
    ('home/*.md',)
    >>> parse("# Heartbeat\n\n- \n<!-- - an example -->").plain
    ''
    """
    lines, problems = _lines(text)
    plain: list[Line] = []
    entries: list[Entry | Malformed] = []
    for title, section in _sections(lines):
        if title and any(_key(line) in _MAKES_AN_ENTRY for line in section[1:]):
            entries.append(_entry(title, section))
        else:
            plain += section
    watch: list[str] = []
    watched_at = 0
    kept: list[str] = []
    for line in plain:
        found = None if line.code else _KEY.match(line.text)
        key = found[2].capitalize() if found is not None else ""
        if key in _MAKES_AN_ENTRY:
            why = f"{key} stands in no entry: write a heading above, like ## News"
            problems.append(Malformed(line.number, "", why))
        # Beneath the point that it is for it is meant as well; "- Watch: the birds" is a point.
        named = None if line.code else _WATCH.match(line.text)
        if named is not None:
            watch += patterns(line.text[named.end() :])
            watched_at = watched_at or line.number
        else:
            kept.append(line.text)
    nothing = all(_EMPTY.fullmatch(" ".join(line.split())) for line in kept)
    body = "" if nothing else "\n".join(kept).strip()
    return Page(body, tuple(watch), watched_at, tuple(entries), tuple(problems))


def patterns(text: str) -> tuple[str, ...]:
    """Take apart what stands behind ``Watch:``.

    >>> patterns(" inbox/*.md, `my notes.md` ")
    ('inbox/*.md', 'my notes.md')
    """
    parts = (part.strip().strip("`").strip() for part in text.split(","))
    return tuple(part for part in parts if part)


def _lines(text: str) -> tuple[list[Line], list[Malformed]]:
    lines: list[Line] = []
    fence, fenced, commented = "", 0, 0
    whole = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for number, raw in enumerate(whole.split("\n"), 1):
        if fence:
            lines.append(Line(number, raw, code=True))
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
        lines.append(Line(number, line, code=found is not None))
    problems = []
    if commented:
        problems.append(Malformed(commented, "", "the comment is not closed: write --> behind it"))
    if fence:
        why = f"the code block is not closed: write {fence} behind it"
        problems.append(Malformed(fenced, "", why))
    return lines, problems


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


def _sections(lines: Iterable[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Cut before each heading of the first two levels; only the second one's are titles."""
    title, section = "", list[Line]()
    for line in lines:
        found = None if line.code else _HEADING.match(line.text)
        if found is not None and len(found[1]) <= 2:
            yield title, section
            # An entry's title may be missing; that is for it to say.
            title = (_title(line.text[found.end() :]) or " ") if len(found[1]) == 2 else ""
            section = []
        section.append(line)
    yield title, section


def _title(text: str) -> str:
    text = text.strip()
    bare = text.rstrip("#")  # headings may be closed, by any number of these behind a space
    return bare.strip() if bare[-1:] in ("", " ", "\t") else text


def _key(line: Line, *, bullets: bool = True) -> str | None:
    """Return the key that *line* begins with, spelled as ours are; None if there is none."""
    found = _match(line, bullets=bullets)
    name = found[2].capitalize() if found else ""
    return name if name in KEYS else None


def _match(line: Line, *, bullets: bool) -> re.Match[str] | None:
    if line.code:
        return None
    return _KEY.match(line.text) or (_BULLET_KEY.match(line.text) if bullets else None)


def _entry(title: str, section: list[Line]) -> Entry | Malformed:
    heading, *body = section
    title = title.strip()
    first = next(line for line in body if _key(line))
    # In an entry whose keys are no list, a list is part of the prompt.
    bullets = _KEY.match(first.text) is None
    values: dict[str, str] = {}
    watch: list[str] | None = None
    prompt: list[str] | None = None
    for line in body:
        found, key = _match(line, bullets=bullets), _key(line, bullets=bullets)
        if found is None or key is None:
            why = _misplaced(line, found, within_prompt=prompt is not None)
            if why:
                return Malformed(line.number, title, why)
            if prompt is not None:
                prompt.append(line.text)
            continue
        if prompt is not None:
            values["Prompt"], prompt = _joined(prompt), None
        value = line.text[found.end() :].strip()
        if key == "Watch":
            watch = [*(watch or ()), *patterns(value)]
        elif key in values:
            return Malformed(line.number, title, f"{key} stands twice: leave one")
        elif key == "Prompt":
            values[key], prompt = "", [value]
        else:
            values[key] = value
    if prompt is not None:
        values["Prompt"] = _joined(prompt)
    return Entry(title, heading.number, values, None if watch is None else tuple(watch))


def _joined(prompt: list[str]) -> str:
    return "\n".join(line.rstrip() for line in prompt).strip()


def _misplaced(line: Line, found: re.Match[str] | None, *, within_prompt: bool) -> str:
    """Say what is wrong with a line that has none of our keys; "" if it may stand there."""
    name = found[2].capitalize() if found else ""
    near = difflib.get_close_matches(name, KEYS, n=1, cutoff=_NEAR) if name else []
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
    if within_prompt:
        hint = f"{meant} If it belongs to the prompt, put a space before it"
        return f"there is no key {name}: {hint}" if near else ""
    if name:
        return f"there is no key {name}: {meant}"
    text = " ".join(line.text.split())
    if not text or _RULE.fullmatch(text):
        return ""
    return f"{text[:40]!r} stands behind no key: write it behind Prompt:, or make it a comment"
