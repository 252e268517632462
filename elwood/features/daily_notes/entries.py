"""The entries in a daily note: one for each turn, with its calls beneath it."""

import re
from collections.abc import Iterator, Sequence

from elwood.foundation.text.words import having

# Stands at an entry of a turn that knew strangers' words.
MARKED = "untrusted"
# Stands in place of what an entry said.
FORGOTTEN = "(forgotten)"
# Words from which on an entry that has all of them tells of the note: fewer are in many.
ENOUGH = 3
_ENTRY = re.compile(r"- \d\d:\d\d (?P<id>\S+)(?P<marks>( \[(untrusted|private)\])*): ")
_CALL = "  - "


def id_of(line: str) -> str:
    """Name the turn of the entry that begins with *line*; "" if none does.

    >>> id_of("- 08:00 s/t1 [private]: `hi`"), id_of("- hi")
    ('s/t1', '')
    """
    found = _ENTRY.match(line)
    return found["id"] if found else ""


def entry_marks(line: str) -> frozenset[str] | None:
    """Say how the entry that begins with *line* is marked; None if it is no entry of ours.

    >>> sorted(entry_marks("- 08:00 s/t1 [untrusted] [private]: `hi`")), entry_marks("- hi")
    (['private', 'untrusted'], None)
    """
    found = _ENTRY.match(line)
    return None if found is None else frozenset(re.findall(r"\w+", found["marks"]))


def parts(text: str) -> Iterator[tuple[list[str], frozenset[str] | None]]:
    r"""Cut a note into entries, with their marks, and other lines, with None; all of it.

    >>> list(parts("mine\n- 08:00 s/t1: `a`\n  - ok tool"))
    [(['mine'], None), (['- 08:00 s/t1: `a`', '  - ok tool'], frozenset())]
    """
    lines: list[str] = []
    marks: frozenset[str] | None = None
    for line in text.split("\n"):
        if marks is not None and line.startswith(_CALL):
            lines.append(line)
            continue
        if lines:
            yield lines, marks
        lines, marks = [line], entry_marks(line)
    yield lines, marks


def cleansed(text: str, chosen: Sequence[str], key: str) -> str:
    r"""Blank the entries of a note that tell what was forgotten: the words *chosen*, the *key*.

    Those of the turn that saved it, and those that have all the words, if they are enough.  Lines
    of people stay.

    >>> print(cleansed("- 08:00 s/t1: `my pin is 1`\n  - ✓ save_memory `pin` #c\nmine", (), "pin"))
    - 08:00 s/t1: (forgotten)
    mine
    """
    kept: list[str] = []
    for lines, marks in parts(text):
        whole = "\n".join(lines)
        tells = len(chosen) >= ENOUGH and having(whole, chosen) == len(chosen)
        if marks is not None and (tells or f"save_memory `{key}`" in whole):
            head = _ENTRY.match(lines[0])
            assert head is not None
            kept.append(f"{head[0]}{FORGOTTEN}")
        else:
            kept += lines
    return "\n".join(kept)
