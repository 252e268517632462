"""How outboxes are asked: once, until it has arrived, and for the owner wherever they read."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import trio

from elwood.agent.channels.messages import (
    Button,
    Edit,
    OutboxMail,
    Post,
    PostResult,
    Sent,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.inbound import Busy, NotNow, Reception, Refused, typing
from elwood.agent.conversation.route import Route
from elwood.foundation.log import event
from elwood.foundation.runtime import ActorCrashed, ActorDown, Address, Request
from elwood.foundation.text.markdown import Rich

log = logging.getLogger("elwood.channels")

M = TypeVar("M")
T = TypeVar("T")

# Seconds for one try to post something, and between two tries: doubling up to the last, which is
# sooner if nothing was sent: a channel that is away is looked after by its outbox, and asking that
# costs nothing.
POST_LIMIT = 60.0
FIRST_PAUSE, LAST_PAUSE, UNSENT_PAUSE = 0.5, 10.0, 4.0
# Seconds for an answer from inside Elwood, and how often an Intake asks.
PATIENCE, TRIES = 10.0, 3
# Chats whose newest notice is stored.  A channel holds at most so many updates at a time, so there
# is room for the chat of each.  A chat whose notice was removed may get it twice.
MAX_NOTICED = 1000
# Seconds between two notices to one chat that too much is waiting.
BUSY_NOTICE = 60.0


async def post_once(
    outbox: Address[OutboxMail] | None, post: Post | Edit, within: float = POST_LIMIT
) -> PostResult:
    """Post, or edit, a message once, and log the result.

    If there is no answer *within* seconds, the message may have arrived.  Without an *outbox* this
    process does not have the channel; another one may.
    """
    outcome: PostResult = Unsure("nobody answered")
    began, channel = trio.current_time(), post.route.channel
    absent = Unsent(f"there is no channel {channel} here")
    with trio.move_on_after(within):
        try:
            outcome = await outbox.ask(post) if outbox else absent
        except ActorDown as error:
            outcome = Unsent(str(error))
        except ActorCrashed as error:
            outcome = Unsure(str(error), crashed=True)
    about = {"channel": channel, "outcome": type(outcome).__name__.lower()}
    if not isinstance(outcome, Sent):
        about["why"] = outcome.why
    took = trio.current_time() - began
    event(log, "channel", about, success=isinstance(outcome, Sent), seconds=took)
    return outcome


async def post_until_delivered(
    outboxes: Mapping[str, Address[OutboxMail]],
    route: Route,
    parts: Sequence[Rich],
    buttons: Sequence[Button] = (),
    *,
    repeat: bool = False,
    wanted: Callable[[], bool] = lambda: True,
) -> Sent | None:
    """Post *parts* in order, with *buttons* under the last one.

    *repeat* marks them as repeats from the first try on.  Goes on until all have arrived,
    one never can, or they are not *wanted* any more; names the last one if all have arrived.
    """
    outbox = outboxes.get(route.channel)
    if outbox is None:
        log.warning("not posted: no such channel here", extra={"channel": route.channel})
        return None
    sent = None
    for number, part in enumerate(parts, 1):
        under = tuple(buttons) if number == len(parts) else ()
        post = partial(Post, route=route, part=part, buttons=under)
        if (sent := await _arrives(outbox, post, repeat, wanted)) is None:
            return None
    return sent


async def edit_until_done(
    outboxes: Mapping[str, Address[OutboxMail]],
    route: Route,
    message: str,
    part: Rich | None = None,
    buttons: Sequence[Button] = (),
    wanted: Callable[[], bool] = lambda: True,
) -> bool:
    """Make an edit until it is made, never can be, or is not *wanted*; False if nobody here can."""
    outbox = outboxes.get(route.channel)
    edit = partial(Edit, route=route, message=message, part=part, buttons=tuple(buttons))
    if outbox is not None:
        await _arrives(outbox, lambda repeat: edit(), False, wanted)
    return outbox is not None


async def _arrives(
    outbox: Address[OutboxMail],
    make: Callable[..., Post | Edit],
    repeat: bool,
    wanted: Callable[[], bool],
) -> Sent | None:
    """Post one message until it has arrived; None if it never can, or is not wanted."""
    pause = FIRST_PAUSE
    while wanted():
        match await post_once(outbox, make(repeat=repeat)):
            case Sent() as sent:
                return sent
            case Undeliverable():
                return None
            case Unsure():
                repeat = True
            case Unsent():
                pause = min(pause, UNSENT_PAUSE)
        await trio.sleep(pause)
        pause = min(LAST_PAUSE, 2 * pause)
    return None


class TellOwner:
    """Tells the owner what nobody asked for, at the first of *owner_routes* when it is sent.

    Where nothing can arrive, as they have blocked us there, the next one counts.  Without any, the
    log has it.  *redact* takes secrets out.
    """

    def __init__(
        self,
        outboxes: Mapping[str, Address[OutboxMail]],
        owner_routes: Callable[[], Sequence[Route]],
        redact: Callable[[str], str],
    ) -> None:
        self._outboxes = outboxes
        self._owner_routes = owner_routes
        self._redact = redact

    async def __call__(self, text: str, buttons: Sequence[str] = (), again: bool = False) -> bool:
        """Post *text*; each of *buttons* types what stands on it.  Tell whether it arrived.

        It is marked as a repeat if *again*, or if it may have arrived where the owner was before.
        """
        text = self._redact(text)
        under = [Button(words, typing(number)) for number, words in enumerate(buttons)]
        lost: list[Route] = []
        while (route := self._best(lost)) is not None:
            stays = partial(self._is_best, route, lost)
            if await post_until_delivered(
                self._outboxes, route, (Rich(text),), under, repeat=again, wanted=stays
            ):
                return True
            if stays():
                lost.append(route)
            else:
                again = True
        log.warning("nowhere to tell", extra={"text": text})
        return not lost

    def _best(self, lost: Sequence[Route]) -> Route | None:
        return next((route for route in self._owner_routes() if route not in lost), None)

    def _is_best(self, route: Route, lost: Sequence[Route]) -> bool:
        return self._best(lost) == route


# --- what an Intake of any channel owes a sender -------------------------------------------------


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
        self._busy_told: dict[str, float] = {}
        self._postponed: dict[str, int | str] = {}  # by chat, the update that had to wait
        # Why an update was not taken; there is no checkpoint from here to its use.
        self.why = ""

    async def settle(self, taken: Reception | None, number: int | str, route: Route) -> bool:
        """Tell the sender in *route* what became of the update *number*, unless it was taken.

        None: nobody answered.  False if it must be kept, and handed on again.
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
                    _note(self._busy_told, route.chat, now)
                return told
            case Refused(why=why):
                return await self.tell(route, f"I could not take this message: {why}")
            case NotNow() | None:
                # It may still be taken, so nobody is asked to send it again.
                why = taken.why if taken else f"no answer within {TRIES * PATIENCE:.0f} s"
                if self._postponed.get(route.chat) != number:
                    _note(self._postponed, route.chat, number)
                    await self.tell(route, f"I cannot take messages now: {why}. I keep trying.")
                self.why = why
                return False
        return True

    async def tell(self, route: Route, text: str) -> bool:
        """Tell the sender something; False if it surely did not arrive."""
        for attempt in range(TRIES):
            sent = await post_once(self._outbox, Post(route=route, part=Rich(text)))
            if not isinstance(sent, Unsent):
                return True
            await trio.sleep(2.0**attempt)
        return False


def _note(notices: dict[str, T], chat: str, notice: T) -> None:
    """Store the newest notice to *chat*; the oldest of too many is removed."""
    notices.pop(chat, None)
    notices[chat] = notice
    if len(notices) > MAX_NOTICED:
        del notices[next(iter(notices))]
