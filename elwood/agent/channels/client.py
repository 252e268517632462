"""Send messages by outboxes: once, until delivered, or to the owner on any channel."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import attrs
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
from elwood.agent.conversation.inbound import Busy, NotNow, Reception, Refused, encode_command
from elwood.agent.conversation.route import Route
from elwood.foundation.log import event
from elwood.foundation.runtime import ActorCrashed, ActorDown, Address, Request
from elwood.foundation.text.markdown import Rich

log = logging.getLogger("elwood.channels")

M = TypeVar("M")
T = TypeVar("T")

# Seconds for one attempt to post, and between attempts: doubled up to LAST_PAUSE, or to
# UNSENT_PAUSE if nothing was sent: the outbox retries the connection itself, and such attempts
# cost nothing.
POST_LIMIT = 60.0
FIRST_PAUSE, LAST_PAUSE, UNSENT_PAUSE = 0.5, 10.0, 4.0
# Seconds for an answer inside Elwood, and the number of attempts of an Intake.
PATIENCE, TRIES = 10.0, 3
# Maximum of chats whose newest notice is stored.  A channel holds at most so many updates at a
# time, so each has room.  A chat whose notice was removed may get it twice.
MAX_NOTICED = 1000
# Seconds between two notices to a chat that too many messages wait.
BUSY_NOTICE = 60.0


async def post_once(
    outbox: Address[OutboxMail] | None, post: Post | Edit, within: float = POST_LIMIT
) -> PostResult:
    """Post or edit a message once, and log the result.

    Without an answer *within* seconds, the message may have arrived.  Without an *outbox* this
    process does not have the channel; another one may.
    """
    outcome: PostResult = Unsure("no one answered")
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
    """Post *parts* in order, with *buttons* below the last one.

    *repeat* marks them as repeats from the first attempt on.  Stops when all were delivered, one is
    undeliverable, or they are not *wanted*.  Return the last result if all were delivered.
    """
    outbox = outboxes.get(route.channel)
    if outbox is None:
        log.warning("not posted: no such channel here", extra={"channel": route.channel})
        return None
    sent = None
    for number, part in enumerate(parts, 1):
        under = tuple(buttons) if number == len(parts) else ()
        post = partial(Post, route=route, part=part, buttons=under)
        if (sent := await _post_until_done(outbox, post, repeat, wanted)) is None:
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
    """Retry an edit until it is done, impossible or not *wanted*; False without an outbox."""
    outbox = outboxes.get(route.channel)
    edit = partial(Edit, route=route, message=message, part=part, buttons=tuple(buttons))
    if outbox is not None:
        await _post_until_done(outbox, lambda repeat: edit(), False, wanted)
    return outbox is not None


async def _post_until_done(
    outbox: Address[OutboxMail],
    make: Callable[..., Post | Edit],
    repeat: bool,
    wanted: Callable[[], bool],
) -> Sent | None:
    """Post one message until it is delivered; None if it is undeliverable or not wanted."""
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


@attrs.define(eq=False)
class TellOwner:
    """Sends notices to the owner, at the first of *owner_routes* at that time.

    If it is undeliverable there, such as after a block, the next route is tried.  If there is none,
    the notice is logged.  *redact* removes secrets.
    """

    _outboxes: Mapping[str, Address[OutboxMail]]
    _owner_routes: Callable[[], Sequence[Route]]
    _redact: Callable[[str], str]

    async def __call__(
        self, text: str, buttons: Sequence[str] | Mapping[str, str] = (), again: bool = False
    ) -> bool:
        """Post *text*; each of *buttons* types its label, or the command that it is mapped to.

        Return True if it was delivered.

        It is marked as a repeat if *again*, or if it may have arrived at an earlier route.
        """
        text = self._redact(text)
        typed: Mapping[str, int | str]
        typed = (
            {**buttons} if isinstance(buttons, Mapping) else {w: n for n, w in enumerate(buttons)}
        )
        under = [Button(label, encode_command(command)) for label, command in typed.items()]
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
        log.warning("no route for a notice", extra={"text": text})
        return not lost

    def _best(self, lost: Sequence[Route]) -> Route | None:
        return next((route for route in self._owner_routes() if route not in lost), None)

    def _is_best(self, route: Route, lost: Sequence[Route]) -> bool:
        return self._best(lost) == route


# --- replies to a sender, for an Intake of any channel --------------------------------------------


async def ask(address: Address[M], make: Callable[[], Request[T]]) -> T | None:
    """Repeat a request until there is an answer, at most three times ten seconds."""
    for _ in range(TRIES):
        with trio.move_on_after(PATIENCE):
            return await address.insist(make)
    return None


class IntakeReplies:
    """Informs senders by *outbox* of messages that were not taken."""

    def __init__(self, outbox: Address[OutboxMail]) -> None:
        self._outbox = outbox
        self._busy_notices: dict[str, float] = {}
        self._postponed: dict[str, int | str] = {}  # the postponed update, by chat
        # Why an update was not taken; there is no checkpoint between setting and using it.
        self.why = ""

    async def report_refusal(
        self, taken: Reception | None, number: int | str, route: Route
    ) -> bool:
        """Inform the sender in *route* if the update *number* was not taken.

        *taken* is None if there was no answer.  Return False if the update must be retried.
        """
        match taken:
            case Busy(waiting=count):
                now = trio.current_time()
                if now - self._busy_notices.get(route.chat, float("-inf")) < BUSY_NOTICE:
                    return True
                is_sent = await self.send_text(
                    route,
                    f"{count} of your messages are already waiting. I did not accept this one, and "
                    "accept no more until I have answered. Please send them again later.",
                )
                if is_sent:
                    _note(self._busy_notices, route.chat, now)
                return is_sent
            case Refused(why=why):
                return await self.send_text(route, f"I could not take this message: {why}")
            case NotNow() | None:
                # It may still be taken, so the sender is not asked to repeat it.
                why = taken.why if taken else f"no answer within {TRIES * PATIENCE:.0f} s"
                if self._postponed.get(route.chat) != number:
                    _note(self._postponed, route.chat, number)
                    await self.send_text(
                        route, f"I cannot take messages now: {why}. I keep trying."
                    )
                self.why = why
                return False
        return True

    async def send_text(self, route: Route, text: str) -> bool:
        """Send a text to the sender; return False if it surely did not arrive."""
        for attempt in range(TRIES):
            sent = await post_once(self._outbox, Post(route=route, part=Rich(text)))
            if not isinstance(sent, Unsent):
                return True
            await trio.sleep(2.0**attempt)
        return False


def _note(notices: dict[str, T], chat: str, notice: T) -> None:
    """Store the newest notice to *chat*; if there are too many, remove the oldest."""
    notices.pop(chat, None)
    notices[chat] = notice
    if len(notices) > MAX_NOTICED:
        del notices[next(iter(notices))]
