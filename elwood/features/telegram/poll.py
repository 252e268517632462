"""The long poll: from where to ask, how often, and how long to stay away after a failure."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

import trio

from elwood.agent.channels.pacing import Budget, Window
from elwood.features.telegram.bot_api import TelegramUser, UnreadableUpdate, Update
from elwood.features.telegram.client import POLL_MARGIN, Bot
from elwood.features.telegram.errors import FAILURES, Failure, TelegramError, explain
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.runtime import clear_error, report_error, waiting

T = TypeVar("T")
log = logging.getLogger(__name__)

POLL = "polling Telegram"
# Least seconds between two polls of which the first brought nothing new (TG-35), and between
# polls while updates are still being taken: the server throttles equal offsets.
PAUSE = 0.5
PENDING_PAUSE = 1.0
# Seconds for the last call: the channel is given one to stop.
LAST_WORD = 0.7
# Long polls that return early with nothing: so many are a fault of the network (TG-35).
IDLE_POLLS = (Window(60, 60.0),)
# Seconds to stay away after a failure: doubling between these.
FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0
# Seconds to stay away, and how often, when somebody else polls: a restart of ours may be the
# reason, whose old poll dies soon (TG-01).
CONFLICT_PAUSE = 5.0
CONFLICTS = 3
# Seconds between two tries when a person has to act: a revoked token, a second poller, a webhook.
SLOW = 300.0
# Seconds after which that shows as stuck, so that the owner hears of it within a minute.
ALARM = 30.0


class Poll:
    """Delivers updates until each is settled; what is not comes again, also after a restart.

    *random* gives numbers from 0 to 1 for jitter.  After *silence* seconds without an answered
    poll the channel is stuck.
    """

    def __init__(
        self, bot: Bot, settings: TelegramSettings, random: Callable[[], float], silence: float
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._random = random
        self._silence = silence
        self._line = Unconfirmed()
        self._told: int | None = None  # the offset that Telegram knows
        self._settled = trio.Event()
        self._failures = 0
        self._conflicts = 0
        self._idle = Budget(IDLE_POLLS)
        self._not_before = float("-inf")
        self._began = float("-inf")

    async def introduce(self) -> TelegramUser:
        """Wait until Telegram says who we are."""
        while (me := await self._tried("the bot's name", 0, self._bot.get_me)) is None:
            pass
        return me

    async def fetch(self) -> list[Update | UnreadableUpdate]:
        """Wait for updates not delivered yet; never raises for a fault of the world.

        While some are not settled it asks again every second without confirming them: one slow
        chat must not keep the others from being heard.
        """
        while True:
            with waiting("Telegram to answer a poll", limit=self._silence):
                while (updates := await self._once()) is None:
                    pass
            fresh = [update for update in updates if self._line.add(update.update_id)]
            if fresh:
                return fresh  # the next poll follows at once: somebody is talking
            self._not_before = self._began + PAUSE

    async def _once(self) -> list[Update | UnreadableUpdate] | None:
        """Ask once, when it is time for it; None after a failure."""
        await self._pause()
        self._began = trio.current_time()
        wait = 0 if self._line.pending else self._settings.poll
        self._told = self._line.offset
        call = partial(self._bot.get_updates, self._told, wait=wait)
        updates = await self._tried("the next update", wait, call)
        if updates is None:
            return None
        if not updates and trio.current_time() - self._began < wait / 2:
            self._note_idle()
        else:
            clear_error(POLL)
        return updates

    def settle(self, number: int) -> None:
        """Let the update *number* be confirmed: somebody answers for it now."""
        self._line.settle(number)
        self._settled.set()
        self._settled = trio.Event()

    async def confirm(self) -> None:
        """Tell Telegram at the end what is settled: else it comes again with the next start.

        That would be harmless, unless a backup is restored meanwhile.  What fails is let be.
        """
        self._line.advance()
        if self._line.offset != self._told:
            with trio.move_on_after(LAST_WORD), suppress(*FAILURES):
                await self._bot.get_updates(self._line.offset, wait=0)

    async def _pause(self) -> None:
        with trio.move_on_after(PENDING_PAUSE):
            while self._line.pending:
                await self._settled.wait()
        self._line.advance()
        await trio.sleep_until(max(self._not_before, trio.current_time()))

    def _note_idle(self) -> None:
        now = trio.current_time()
        self._idle = self._idle.spend(now)
        if self._idle.delay(now) > 0:
            report_error(
                POLL, "long polls return at once with nothing: is there a proxy in between?"
            )

    async def _tried(self, what: str, wait: float, call: Callable[[], Awaitable[T]]) -> T | None:
        """Return what *call* does, or None after a failure and the pause that it asks for."""
        try:
            with waiting(f"{what} from Telegram", limit=wait + 2 * POLL_MARGIN):
                result = await call()
        except FAILURES as error:
            self._told = None
            await self._stay_away(error)
            return None
        self._failures = self._conflicts = 0
        return result

    async def _stay_away(self, error: Failure) -> None:
        why = explain(error)
        report_error(POLL, why)
        log.warning("poll failed", extra={"why": why})
        match error:
            case TelegramError(code=401 | 404):
                await self._need_a_person(why)
            case TelegramError(code=409) if error.says("webhook"):
                await self._settle_webhook()
            case TelegramError(code=409):
                self._conflicts += 1
                if self._conflicts > CONFLICTS:
                    await self._need_a_person(
                        "another program polls with this token: stop it, or ask @BotFather for a "
                        "new token"
                    )
                else:
                    await trio.sleep(CONFLICT_PAUSE * (1 + self._random()))
            case TelegramError(retry_after=float() | int() as seconds):
                await trio.sleep(seconds + self._random())
            case _:
                pause = min(LAST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 16))
                self._failures += 1
                await trio.sleep(pause * (1 - self._random() / 4))

    async def _settle_webhook(self) -> None:
        """Find out whose webhook it is; remove it only if the configuration says so (TG-02)."""
        try:
            info = await self._bot.get_webhook_info()
            if self._settings.delete_webhook:
                await self._bot.delete_webhook()
                return
        except FAILURES:
            await trio.sleep(CONFLICT_PAUSE)
            return
        host = urlsplit(info.url).hostname or "an unknown host"
        await self._need_a_person(
            f"a webhook at {host} gets this bot's messages: if you did not set it, somebody has "
            "the token and you should revoke it; if you did, set telegram.delete_webhook"
        )

    async def _need_a_person(self, why: str) -> None:
        """Stop the channel, not Elwood, and look again now and then."""
        log.error("telegram stopped", extra={"why": why, "again_in": SLOW})
        with waiting(f"a person, as {why}", limit=ALARM):
            await trio.sleep(SLOW)


class Unconfirmed:
    """Updates in the order in which they were delivered, until each is settled.

    Asking the Bot API for *offset* confirms everything before it, so the offset moves over
    settled updates only.  Ids are never compared by size: after a week of silence the sequence
    begins anew anywhere (TG-19).

    >>> line = Unconfirmed()
    >>> [line.add(7), line.add(3), line.add(7)]
    [True, True, False]
    >>> line.settle(3); line.advance(); line.offset
    >>> line.settle(7); line.advance(); line.offset
    4
    """

    def __init__(self) -> None:
        self.offset: int | None = None
        self._settled: dict[int, bool] = {}

    @property
    def pending(self) -> bool:
        """Whether something delivered is not settled yet."""
        return not all(self._settled.values())

    def add(self, number: int) -> bool:
        """Note that *number* was delivered; False if it had been before."""
        if number in self._settled:
            return False
        self._settled[number] = False
        return True

    def settle(self, number: int) -> None:
        """Note that *number* is taken, answered or ignored: it need not come again."""
        self._settled[number] = True

    def advance(self) -> None:
        """Move the offset up to the first update that is not settled.

        To be called between two polls only: what a poll under way brings again must be known.
        """
        while self._settled:
            first = next(iter(self._settled))
            if not self._settled[first]:
                return
            del self._settled[first]
            self.offset = first + 1
