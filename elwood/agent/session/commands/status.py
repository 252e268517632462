"""What /status says of the house."""

from collections.abc import Callable

import trio

from elwood import __version__
from elwood.agent.models.messages import ModelsMail, Spending
from elwood.agent.models.spending import in_words
from elwood.agent.session.turn.inputs import age
from elwood.app.config.settings import Config
from elwood.foundation.runtime import ActorUnavailable, Address, Board

# Seconds to wait for what it has cost, and stuck things that are listed.
PATIENCE, MAX_STUCK = 0.5, 5


class Status:
    """Says how the house does; *sandbox* where commands run, *strip* takes secrets out."""

    def __init__(
        self,
        models: Address[ModelsMail],
        board: Board,
        sandbox: Callable[[], str],
        strip: Callable[[str], str],
        config: Config,
        now: Callable[[], float],
    ) -> None:
        self._models = models
        self._board = board
        self._sandbox = sandbox
        self._strip = strip
        self._config = config
        self._now = now
        self._started = now()

    async def of(self, session: str, owner: bool) -> str:
        """Write the lines, for the *owner* with what *session* has cost and how the house is made.

        What is stuck names other conversations and files, so nobody else is told.
        """
        uptime = age(self._now() - self._started)
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
        lines.append(self._strip(self._sandbox()))
        stuck = self._board.stuck()[:MAX_STUCK]
        lines += [self._strip(one.told) for one in stuck]
        return "\n".join(lines)
