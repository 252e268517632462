"""Brings replies to their channel, and shows what is written until there is one.

Each part of a reply is recorded before it is sent and after.  A send has no idempotency key, so
there is one window in which nobody knows; what may have arrived is sent again marked as a repeat,
never silently.
"""

import logging

import trio

from elwood.agent.channels.channel import Channels
from elwood.agent.channels.client import FIRST_PAUSE, LAST_PAUSE, UNSENT_PAUSE
from elwood.agent.channels.messages import (
    Button,
    Draft,
    Post,
    PostResult,
    React,
    Sent,
    Typing,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.inbound import typing
from elwood.agent.conversation.route import Route
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import Delivered, Entry, Posted, Posting, Received, Replied
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.turns import Turn, Undelivered
from elwood.agent.session.settings import WatchdogSettings
from elwood.foundation.runtime import ActorCrashed, ActorDown, waiting
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.text.splitting import parts

log = logging.getLogger("elwood.delivery")

# How much longer to wait if the outbox crashed, perhaps of this very message: its own restart is
# delayed by the same times, and others must have their turn in between.
AFTER_CRASH = 4.0
# Characters of an answer from which work on it might hold up everybody else for a moment.
MUCH = 10_000
# Seconds between two signs of life while a turn shows nothing; Telegram's lasts five.
TYPING_EVERY = 4.0
# Seconds for which a turn shows nothing: an answer that comes as soon needs no announcement.
SILENT = 0.5
# Characters of a draft: twice what the longest message has, so that what is held back at the end
# lies beyond it; more would be looked through for nothing each time the model says a word.
DRAFT = 8192
# Draft ids of one turn: one per model response, so fewer than this.
DRAFTS_PER_TURN = 1000


Place = tuple[str, int, int | None]


def _place(undelivered: Undelivered) -> Place:
    route = undelivered.replied.route
    return route.channel, route.chat, route.topic


class Delivery:
    """Delivers the replies of one session, in their order at each place: none waits for another."""

    def __init__(self, core: Core, log_: SessionLog) -> None:
        self._log = log_
        self._blocking = core.environment.blocking
        self._limit = core.config.of(WatchdogSettings).delivery
        self._channels = core.channels
        self._unsent: set[tuple[str, int]] = set()

    async def accept(self, replied: Replied, *before: Entry) -> None:
        """Record *before* and *replied* as one; from then on the reply is ours, unless quiet."""
        if self._log.state.undelivered or replied.quiet:
            await self._log.keep(*before, replied, last_words=True)
            return
        # Nothing is in front of it: the first part's record can go along, saving a write.
        self._unsent.add((replied.reply, 0))
        posting = Posting(replied.reply, 0, 1)
        await self._log.keep(*before, replied, posting, last_words=True)

    def route(self, answered: Turn | Received) -> Route:
        """Say where what answers *answered* goes, if it is given now."""
        run = answered.errand
        follows = run is not None and run.follows
        owner = self._channels.owner_routes() if follows else ()
        return next(iter(owner), answered.route)

    def seen(self, received: Received) -> None:
        """Show that a message has been seen which waits behind a turn."""
        outbox = self._channels.outboxes.get(received.route.channel)
        if outbox is not None and received.message is not None:
            outbox.offer(React(route=received.route, message=received.message))

    async def run(self) -> None:
        """Deliver for as long as the session lives."""
        busy: set[Place] = set()
        async with trio.open_nursery() as nursery:
            while True:
                for undelivered in self._log.state.undelivered.values():
                    place = _place(undelivered)
                    if place not in busy:
                        busy.add(place)
                        nursery.start_soon(self._deliver_all, place, busy)
                await self._log.wait_change()

    async def _deliver_all(self, place: Place, busy: set[Place]) -> None:
        while undelivered := self._next(place):
            with waiting(f"delivery of {undelivered.replied.reply}", limit=self._limit):
                await self._deliver(undelivered)
        busy.discard(place)

    def _next(self, place: Place) -> Undelivered | None:
        undelivered = self._log.state.undelivered.values()
        return next((one for one in undelivered if _place(one) == place), None)

    async def _deliver(self, undelivered: Undelivered) -> None:
        replied = undelivered.replied
        if len(replied.text) <= MUCH:
            pieces = parts(replied.text, replied.footer)
        else:
            pieces = await self._blocking(lambda: parts(replied.text, replied.footer))
        typed = (
            *(Button(text, typing(number)) for number, text in enumerate(replied.buttons)),
            *(Button(text, typing(command)) for text, command in replied.pages.items()),
        )
        for number, piece in enumerate(pieces):
            if number in undelivered.posted:
                continue
            key = (replied.reply, number)
            attempt = undelivered.attempts.get(number, 0)
            recorded = key in self._unsent
            self._unsent.discard(key)
            repeat = attempt > 0 and not recorded
            delay = FIRST_PAUSE
            while True:
                if not recorded:
                    attempt += 1
                    await self._log.keep(Posting(*key, attempt), last_words=True)
                post = Post(
                    route=replied.route,
                    part=piece,
                    repeat=repeat,
                    buttons=typed if number == len(pieces) - 1 else (),
                    is_reply=True,
                )
                pause = delay
                try:
                    outcome = await self._ask(post)
                except ActorDown as error:
                    outcome = Unsent(str(error))
                except ActorCrashed as error:
                    outcome = Unsure(str(error))
                    pause = AFTER_CRASH * delay
                match outcome:
                    case Sent(message):
                        done = (Delivered(replied.reply),) if number == len(pieces) - 1 else ()
                        await self._log.keep(Posted(*key, message), *done, last_words=True)
                        break
                    case Undeliverable(why):
                        log.warning("reply is undeliverable", extra={"why": why})
                        await self._log.keep(Delivered(replied.reply, why), last_words=True)
                        return
                    case Unsure():
                        repeat, recorded = True, False
                    case Unsent():  # the record still says all that is known
                        recorded, pause = True, min(delay, UNSENT_PAUSE)
                log.info("delivery is tried again", extra={"outcome": repr(outcome)})
                await trio.sleep(pause)
                delay = min(LAST_PAUSE, delay * 2)
        if replied.reply in self._log.state.undelivered:
            # Another version cut it into more parts, and all that we would send have arrived.
            await self._log.keep(Delivered(replied.reply), last_words=True)

    async def _ask(self, post: Post) -> PostResult:
        outbox = self._channels.outboxes.get(post.route.channel)
        if outbox is None:  # a process that runs without it: another one will send it
            return Unsent(f"there is no channel {post.route.channel} here")
        return await outbox.ask(post)


class Showing:
    """Shows the turn number *number* on *route*; make one per start of a turn."""

    def __init__(self, channels: Channels, redactor: Redactor, route: Route, number: int) -> None:
        self._outbox = channels.outboxes.get(route.channel)
        self._redactor = redactor
        self._route = route
        self._draft = number * DRAFTS_PER_TURN
        self._shown = False
        self._loud_at = trio.current_time() + SILENT

    def text(self, response: int, text: str) -> bool:
        """Show the *text* so far of a response, by its number; False if it cannot be shown."""
        if trio.current_time() < self._loud_at or not text.strip():
            return False
        draft = Draft(
            route=self._route,
            draft=self._draft + response,
            unredacted=text[:DRAFT],
            redact=self._redactor.partial,
        )
        self._shown = self._offer(draft)
        return self._shown

    def delayed(self, why: str) -> None:
        """Show *why* there is no text yet."""
        self._offer(Typing(route=self._route, why=self._redactor(why)))

    async def typing(self) -> None:
        """Show that somebody is writing until there is a text."""
        await trio.sleep_until(self._loud_at)
        while not self._shown:
            self._offer(Typing(route=self._route))
            await trio.sleep(TYPING_EVERY)

    def _offer(self, message: Draft | Typing) -> bool:
        return self._outbox is not None and self._outbox.offer(message)
