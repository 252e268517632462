"""Tells the owner what nobody asked for: what went wrong with tasks, and what nears its limit."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from elwood.agent.channels.post_until_delivered import PostUntilDelivered
from elwood.agent.conversation.inbound import typing
from elwood.agent.conversation.route import Route
from elwood.foundation.text.markdown import Rich

log = logging.getLogger(__name__)


class TellOwner:
    """Posts to the first of *owner_routes* as they are when it is sent.

    Without any, the log has it.  *redact* takes secrets out.
    """

    def __init__(
        self,
        post: PostUntilDelivered,
        owner_routes: Callable[[], Sequence[Route]],
        redact: Callable[[str], str],
    ) -> None:
        self._post = post
        self._owner_routes = owner_routes
        self._redact = redact

    async def __call__(self, text: str, buttons: Sequence[str] = (), again: bool = False) -> bool:
        """Post *text*; each of *buttons* types what stands on it.  Tell whether it arrived.

        It is marked as a repeat if *again*, or if it may have arrived where the owner was before.
        """
        text = self._redact(text)
        under = [(words, typing(number)) for number, words in enumerate(buttons)]
        while (route := self._best()) is not None:
            stays = partial(self._is_best, route)
            if await self._post(route, (Rich(text),), under, repeat=again, wanted=stays):
                return True
            if stays():
                return False
            again = True
        log.warning("nowhere to tell", extra={"text": text})
        return True

    def _best(self) -> Route | None:
        return next(iter(self._owner_routes()), None)

    def _is_best(self, route: Route) -> bool:
        return self._best() == route
