"""What /status and /budget say of Elwood."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import trio

from elwood import __version__
from elwood.agent.models.messages import ModelsMail, Spending
from elwood.agent.models.spending.report import in_table, in_words
from elwood.foundation.runtime import ActorTable, ActorUnavailable, Address
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.text.lines import duration

# Seconds to wait for what it has cost: beside other things, and alone; stuck things listed.
PATIENCE, BUDGET_LIMIT, MAX_STUCK = 0.5, 5.0, 5


class Status:
    """Says how Elwood does; *model* is the one that thinks, *more* are lines of features."""

    def __init__(
        self,
        models: Address[ModelsMail],
        table: ActorTable,
        model: str,
        more: Sequence[Callable[[], str]],
        redactor: Redactor,
        now: Callable[[], float],
    ) -> None:
        self._models = models
        self._table = table
        self._model = model
        self._more = more
        self._redactor = redactor
        self._now = now
        self._started = now()

    async def lines(self, session: str, *, owner: bool) -> str:
        """Write the lines, for the *owner* with what *session* has cost and how Elwood is made.

        What is stuck names other conversations and files, so nobody else is told.
        """
        uptime = duration(self._now() - self._started)
        lines = [f"Elwood {__version__}, up for {uptime}, thinking with {self._model}."]
        if not owner:
            return lines[0]
        try:
            with trio.fail_after(PATIENCE):
                spent = await self._models.ask(Spending(session=session))
        except (ActorUnavailable, trio.TooSlowError):
            lines.append("What it has cost cannot be said now.")
        else:
            lines.append(in_words(spent))
        lines += [self._redactor(line()) for line in self._more]
        lines += [self._redactor(one.told) for one in self._table.stuck()[:MAX_STUCK]]
        return "\n".join(lines)

    async def budget(self, session: str) -> str:
        """Write the table of what was spent, for the owner."""
        with trio.move_on_after(BUDGET_LIMIT), suppress(ActorUnavailable):
            return in_table(await self._models.ask(Spending(session=session)))
        return "What it has cost cannot be said now. Try again in a minute."
