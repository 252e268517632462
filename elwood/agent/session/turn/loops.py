"""Notices a model that makes the same call over and over with the same result."""

from collections.abc import Sequence

from elwood.agent.session.log.turns import OpenCall

# Equal calls with equal results in one turn after which the model is told.
REPEATS = 3


class Loops:
    """Counts the calls of one turn; forgotten with it."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}

    def notice(self, calls: Sequence[OpenCall]) -> str | None:
        """Count *calls*, which have ended; say what to tell the model if it goes in circles."""
        looping = []
        for open_call in calls:
            ended = open_call.ended
            if ended is None:
                continue
            key = (open_call.call.name, open_call.call.arguments, ended.text)
            self._counts[key] = self._counts.get(key, 0) + 1
            if self._counts[key] >= REPEATS:
                looping.append(open_call.call.name)
        if not looping:
            return None
        names = ", ".join(sorted(set(looping)))
        return (
            f"You have made the same call of {names} {REPEATS} times or more with the same result. "
            "Do something else, or answer with what you know."
        )
