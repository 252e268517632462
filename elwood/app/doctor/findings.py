"""What the doctor has found, and how it is shown."""

import textwrap
from collections.abc import Iterable
from typing import Literal

import attrs

Level = Literal["ok", "warning", "problem"]
_LABELS: dict[Level, str] = {"ok": "ok", "warning": "warning", "problem": "PROBLEM"}


@attrs.frozen
class Finding:
    """*what* is so with *subject*; a *remedy* says what the operator can do.

    A *problem* keeps Elwood, or a part of it, from working; a *warning* may do so later.
    """

    level: Level
    subject: str
    what: str
    remedy: str = ""


def table(findings: Iterable[Finding], width: int) -> str:
    """Draw *findings* as lines of at most *width* characters, where words allow it.

    >>> print(table([Finding("ok", "disk", "12 GB are free"),
    ...              Finding("problem", "clock", "is 9 min behind", "switch NTP on")], 40))
    ok       disk   12 GB are free
    PROBLEM  clock  is 9 min behind
                    → switch NTP on
    """
    rows = list(findings)
    wide = max((len(row.subject) for row in rows), default=0)
    lines = []
    for row in rows:
        head = f"{_LABELS[row.level]:7}  {row.subject:{wide}}  "
        indent = " " * len(head)
        lines += _wrapped(row.what, head, indent, width)
        if row.remedy:
            lines += _wrapped(row.remedy, f"{indent}→ ", f"{indent}  ", width)
    return "\n".join(lines)


def _wrapped(text: str, head: str, indent: str, width: int) -> list[str]:
    # Commands and paths must stay whole, so that they can be copied.
    return textwrap.wrap(
        text,
        max(width, len(head) + 20),
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
