"""What /status says of the house."""

from collections.abc import Callable

import trio

from elwood import __version__
from elwood.agent.models.messages import ModelsMail, Spending
from elwood.agent.models.spending.report import in_words
from elwood.app.config.settings import Config
from elwood.foundation.runtime import ActorTable, ActorUnavailable, Address
from elwood.foundation.text.lines import duration

# Seconds to wait for what it has cost, and stuck things that are listed.
PATIENCE, MAX_STUCK = 0.5, 5


class Status:
    """Says how the house does; *sandbox* where commands run, *redact* takes secrets out."""

    def __init__(
        self,
        models: Address[ModelsMail],
        actor_table: ActorTable,
        sandbox: Callable[[], str],
        redact: Callable[[str], str],
        config: Config,
        now: Callable[[], float],
    ) -> None:
        self._models = models
        self._actor_table = actor_table
        self._sandbox = sandbox
        self._redact = redact
        self._config = config
        self._now = now
        self._started = now()

    async def of(self, session: str, owner: bool) -> str:
        """Write the lines, for the *owner* with what *session* has cost and how the house is made.

        What is stuck names other conversations and files, so nobody else is told.
        """
        uptime = duration(self._now() - self._started)
        model = self._config.models.default
        lines = [f"Elwood {__version__}, up for {uptime}, thinking with {model}."]
        if not owner:
            return lines[0]
        try:
            with trio.fail_after(PATIENCE):
                spent = await self._models.ask(Spending(session=session))
        except (ActorUnavailable, trio.TooSlowError):
            lines.append("What it has cost cannot be said now.")
        else:
            lines.append(in_words(spent))
        lines.append(self._redact(self._sandbox()))
        stuck = self._actor_table.stuck()[:MAX_STUCK]
        lines += [self._redact(one.told) for one in stuck]
        return "\n".join(lines)
