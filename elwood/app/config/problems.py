"""Knows how to tell the operator what is wrong in the configuration, and where."""

from pathlib import Path

import attrs

# Where a value stands in the tree: names of tables and keys, and indexes of lists.
Where = tuple[str | int, ...]


class Wrong(ValueError):
    """A value is not what its key wants: *what* is wrong, and the *remedy*."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


@attrs.frozen(kw_only=True)
class Problem:
    """One thing to correct.  It stands in *variable* or else in the file, at *line* if known.

    >>> print(Problem(file=Path("c.toml"), line=3, key="turn.dedline", what="no such key",
    ...       remedy="did you mean turn.deadline?"))
    c.toml:3: turn.dedline: no such key; did you mean turn.deadline?
    """

    file: Path
    key: str = ""
    what: str
    remedy: str
    line: int | None = None
    variable: str | None = None

    def __str__(self) -> str:
        return f"{self.complaint}; {self.remedy}"

    @property
    def complaint(self) -> str:
        """Where and what, without the remedy."""
        place = self.variable or f"{self.file}{f':{self.line}' if self.line else ''}"
        key = f"{self.key}: " if self.key else ""
        return f"{place}: {key}{self.what}"


class ConfigErrors(Exception):
    """The configuration cannot be used; *problems* are all that is wrong with it, in file order.

    The operator's fault.  Holds no secret.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def dotted(where: Where) -> str:
    """Write *where* as people do.

    >>> dotted(("telegram", "owners", 0))
    'telegram.owners[0]'
    """
    text = ""
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")
