"""What an Intake of any channel owes a sender: to ask for long enough, and to say what happened."""

from collections.abc import Callable
from typing import TypeVar

import trio

from elwood.agent.channels.messages import OutboxMail, Post, Unsent
from elwood.agent.channels.post_until_delivered import post_once
from elwood.agent.conversation.inbound import Busy, NotNow, Reception, Refused
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Address, Request
from elwood.foundation.text.markdown import Rich

M = TypeVar("M")
T = TypeVar("T")

# Seconds for an answer from inside Elwood, and how often to ask.
PATIENCE, TRIES = 10.0, 3
# Seconds between two notices to one chat that too much is waiting.
BUSY_NOTICE = 60.0


async def ask(address: Address[M], make: Callable[[], Request[T]]) -> T | None:
    """Ask until there is an answer, at most for three times ten seconds."""
    for _ in range(TRIES):
        with trio.move_on_after(PATIENCE):
            return await address.insist(make)
    return None


class IntakeReplies:
    """Tells senders by *outbox* what became of their messages."""

    def __init__(self, outbox: Address[OutboxMail]) -> None:
        self._outbox = outbox
        self._busy_told: dict[int, float] = {}
        self._postponed: dict[int, int] = {}  # by chat, the update that had to wait
        # Why an update was not taken; there is no checkpoint from here to its use.
        self.why = ""

    async def settle(self, taken: Reception | None, number: int, route: Route) -> bool:
        """Tell the sender in *route* what became of the update *number*, unless it was taken.

        False if it must be kept, and handed on again.
        """
        match taken:
            case Busy(waiting=count):
                now = trio.current_time()
                if now - self._busy_told.get(route.chat, float("-inf")) < BUSY_NOTICE:
                    return True
                told = await self.tell(
                    route,
                    f"{count} of your messages are waiting already, so I did not take this one, "
                    "nor those you send before I have answered. Please send them again later.",
                )
                if told:
                    self._busy_told[route.chat] = now
                return told
            case Refused(why=why):
                return await self.tell(route, f"I could not take this message: {why}")
            case NotNow(why=why):
                if self._postponed.get(route.chat) != number:
                    self._postponed[route.chat] = number
                    await self.tell(route, f"I cannot take messages now: {why}. I keep trying.")
                self.why = why
                return False
            case None:
                return await self.tell(
                    route, "I could not take this message. Please send it again in a minute."
                )
        return True

    async def tell(self, route: Route, text: str) -> bool:
        """Tell the sender something; False if it surely did not arrive."""
        for attempt in range(TRIES):
            sent = await post_once(self._outbox, Post(route=route, part=Rich(text)))
            if not isinstance(sent, Unsent):
                return True
            await trio.sleep(2.0**attempt)
        return False
