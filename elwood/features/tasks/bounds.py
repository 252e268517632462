"""What bounds the runs of a task that is made in a conversation: less than whoever makes it has."""

import math
from collections.abc import Sequence
from typing import TypeVar

import attrs

from elwood.agent.conversation.task_run import Purse, TaskRun
from elwood.agent.models.spending import dollars

N = TypeVar("N", int, float)


@attrs.frozen
class Reach:
    """What a conversation has, and so can hand on to a task at most.

    *tools* are all there are, by name; *usual* is what a job may spend that has no purse of its
    own.  In the run of a task *errand* is what bounds that.
    """

    tools: tuple[str, ...] = ()
    usual: Purse = attrs.field(factory=Purse)
    errand: TaskRun | None = None

    @property
    def usable(self) -> tuple[str, ...]:
        """The tools that this conversation may use itself."""
        only = self.errand.tools if self.errand is not None else None
        return tuple(name for name in self.tools if only is None or name in only)

    @property
    def purse(self) -> Purse:
        """What a task of this conversation may spend in a day at most."""
        own = self.errand.purse if self.errand is not None else None
        if own is None:
            return self.usual
        usual = self.usual
        return Purse(_least(own.tokens, usual.tokens), _least(own.usd, usual.usd))


@attrs.frozen
class Bounds:
    """What a task gets; None is what every task has."""

    tools: tuple[str, ...] | None = None
    purse: Purse | None = None


def bounded(
    reach: Reach, *, tools: Sequence[str] | None, usd: float | None, tokens: int | None
) -> Bounds | str:
    """Bound a task as it is wanted, or say what is wrong; what is None was left open.

    What is left open in the run of a task is as it is for that run, else as it is for all.
    """
    known, most = reach.usable, reach.purse
    if unknown := [name for name in tools or () if name not in known]:
        there = f"there are: {', '.join(known)}" if known else "there are none"
        return f"tools: there is no {', '.join(unknown)} here; {there}"
    if usd is not None and not (usd > 0 and math.isfinite(usd)):
        return "budget_usd: write US dollars a day, more than 0, or leave it out"
    if tokens is not None and tokens < 1:
        return "budget_tokens: write tokens a day, more than 0, or leave it out"
    if usd is not None and most.usd is not None and usd > most.usd:
        return _too_much("usd", dollars(most.usd))
    if tokens is not None and most.tokens is not None and tokens > most.tokens:
        return _too_much("tokens", f"{most.tokens:,} tokens")
    errand = reach.errand or TaskRun("")
    own = errand.purse or Purse()
    purse = Purse(
        most.tokens if tokens is None and own.tokens is not None else tokens,
        most.usd if usd is None and own.usd is not None else usd,
    )
    names = tuple(dict.fromkeys(tools)) if tools is not None else errand.tools
    return Bounds(names, None if purse == Purse() else purse)


def _least(one: N | None, other: N | None) -> N | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _too_much(unit: str, most: str) -> str:
    return (
        f"budget_{unit}: more than {most} a day is not for a task that is made in a conversation; "
        f"the owner can raise limits.job_{unit} in config.toml, or write the task there"
    )
