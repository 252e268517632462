"""Tells the owner what went wrong with tasks."""

import logging
from collections.abc import Callable, Sequence

from elwood.agent.posting import Posting
from elwood.core.choices import typing
from elwood.core.markdown import Rich
from elwood.core.session import Route

log = logging.getLogger(__name__)


class TellOwner:
    """Posts to the first of the owner's *places*; without any, the log has it.

    *strip* takes secrets out.
    """

    def __init__(
        self,
        post: Posting,
        places: Callable[[], Sequence[Route]],
        strip: Callable[[str], str],
    ) -> None:
        self._post = post
        self._places = places
        self._strip = strip

    async def __call__(self, text: str, buttons: tuple[str, ...], again: bool) -> bool:
        """Post *text*; each of *buttons* types what stands on it.  Tell whether it arrived."""
        text, place = self._strip(text), next(iter(self._places()), None)
        if place is None:
            log.warning("nowhere to tell", extra={"text": text})
            return True
        under = [(words, typing(number)) for number, words in enumerate(buttons)]
        return await self._post(place, (Rich(text),), under, repeat=again)
