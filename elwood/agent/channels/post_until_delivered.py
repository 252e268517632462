"""Brings messages to people that belong to no conversation: posts until they have arrived."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import trio

from elwood.agent.channels.messages import (
    Button,
    OutboxMail,
    Post,
    PostResult,
    Sent,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import ActorCrashed, ActorDown, Address
from elwood.foundation.text.markdown import Rich

log = logging.getLogger(__name__)

# Seconds for one try to post something, and between two tries, doubling up to the last.
POST_LIMIT = 60.0
FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0


class PostUntilDelivered:
    """Posts by the outbox that a route names."""

    def __init__(self, outboxes: Mapping[str, Address[OutboxMail]]) -> None:
        self._outboxes = outboxes

    async def __call__(
        self,
        route: Route,
        parts: Sequence[Rich],
        buttons: Sequence[tuple[str, str]] = (),
        *,
        repeat: bool = False,
        wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Post *parts* in order, with *buttons* (words and data) under the last one.

        *repeat* marks them as repeats from the first try on.  Goes on until all have arrived,
        one never can, or they are not *wanted* any more; tells whether all have arrived.
        """
        outbox = self._outboxes.get(route.channel)
        if outbox is None:
            log.warning("not posted: no such channel here", extra={"channel": route.channel})
            return False
        for number, part in enumerate(parts, 1):
            under = tuple(Button(*b) for b in buttons) if number == len(parts) else ()
            post = partial(Post, route=route, part=part, buttons=under)
            if not await _arrives(outbox, post, repeat, wanted):
                return False
        return True


async def post_once(
    outbox: Address[OutboxMail], post: Post, within: float = POST_LIMIT
) -> PostResult:
    """Post one message once; what nobody answers *within* seconds may have arrived."""
    with trio.move_on_after(within):
        try:
            return await outbox.ask(post)
        except ActorDown as error:
            return Unsent(str(error))
        except ActorCrashed as error:
            return Unsure(str(error))
    return Unsure("nobody answered")


async def _arrives(
    outbox: Address[OutboxMail],
    post: "partial[Post]",
    repeat: bool,
    wanted: Callable[[], bool],
) -> bool:
    """Post one message until it has arrived; False if it never can, or is not wanted."""
    pause = FIRST_PAUSE
    while wanted():
        match await post_once(outbox, post(repeat=repeat)):
            case Sent():
                return True
            case Undeliverable(why):
                log.warning("not deliverable", extra={"to": outbox.name, "why": why})
                return False
            case Unsure():
                repeat = True
            case Unsent():
                pass
        await trio.sleep(pause)
        pause = min(LAST_PAUSE, 2 * pause)
    return False
