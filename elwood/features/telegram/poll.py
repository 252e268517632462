"""Receive updates by long poll or webhook; confirm each one when it is settled."""

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

import trio

from elwood.features.telegram.bot_api import TelegramUser, UnreadableUpdate, Update, read_updates
from elwood.features.telegram.client import (
    FAILURES,
    POLL_MARGIN,
    Bot,
    Failure,
    TelegramError,
    explain,
)
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.log import event
from elwood.foundation.net.http_server import serve
from elwood.foundation.runtime import Signal, report_done, report_error, show_wait

T = TypeVar("T")
log = logging.getLogger("elwood.telegram")

POLL = "polling Telegram"
# The shortest pause in seconds between two polls if the first one returned nothing new (TG-35),
# and between polls while updates are pending: the server throttles equal offsets.
PAUSE = 0.5
PENDING_PAUSE = 1.0
# Seconds for the last call: the channel has one second to stop.
LAST_WORD = 0.7
# This many consecutive long polls that return early and empty are a network fault (TG-35).
IDLE_POLLS = 60
# Backoff after a failure in seconds: it doubles from the first to the last.
FIRST_PAUSE, LAST_PAUSE = 1.0, 5.0
# Pause in seconds, and number of pauses, while another program polls: after a restart it may be
# our own old poll, which ends soon (TG-01).
CONFLICT_PAUSE = 5.0
CONFLICTS = 3
# Seconds between two attempts when a person must act: a revoked token, a second poller, a webhook.
SLOW = 300.0
# Seconds after which that counts as stuck, so that the owner gets an alarm within a minute.
ALARM = 30.0


class Poll:
    """Deliver updates by long poll.  Unsettled updates are delivered again after a restart.

    A request with an offset confirms all updates before it, so the offset moves over settled
    updates only, in order of delivery.  Ids are never compared by size: after a week without
    updates the sequence restarts at any number (TG-19).

    *random* returns numbers from 0 to 1 for jitter.  After *silence* seconds without a response to
    a poll the channel is stuck.
    """

    def __init__(
        self, bot: Bot, settings: TelegramSettings, random: Callable[[], float], silence: float
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._random = random
        self._silence = silence
        self._delivered: dict[int, bool] = {}  # True if settled
        self._offset: int | None = None
        self._confirmed: int | None = None  # the offset that Telegram knows
        self._changed = Signal()
        self._failures = 0
        self._conflicts = 0
        self._has_failed = False  # the last call
        self._idle = 0
        self._not_before = float("-inf")
        self._began = float("-inf")

    async def listen(self) -> None:
        """Listen for connections, if the subclass needs any."""

    async def introduce(self) -> TelegramUser:
        while (me := await self._attempt("the bot's name", 0, self._bot.get_me)) is None:
            pass
        return me

    async def fetch(self) -> list[Update | UnreadableUpdate]:
        """Wait for new updates; network and API errors are never raised.

        While some are unsettled, poll every second without confirming them: one slow chat must not
        block the others.
        """
        while True:
            with show_wait("Telegram to answer a poll", limit=self._silence):
                while (updates := await self._poll_once()) is None:
                    pass
            fresh = [update for update in updates if update.update_id not in self._delivered]
            if fresh:
                self._delivered |= {update.update_id: False for update in fresh}
                return fresh  # no pause before the next poll: more are likely
            self._not_before = self._began + PAUSE

    async def _poll_once(self) -> list[Update | UnreadableUpdate] | None:
        """Poll once, after the due pause; return None after a failure."""
        await self._pause()
        self._began = trio.current_time()
        # After a failure do not wait, so that the recovery is reported before the next message.
        wait = self._settings.poll if self._all_settled() and not self._has_failed else 0
        self._confirmed = self._offset
        call = partial(self._bot.get_updates, self._confirmed, wait=wait)
        updates = await self._attempt("the next update", wait, call)
        if updates is None:
            return None
        is_idle = not updates and trio.current_time() - self._began < wait / 2
        self._idle = self._idle + 1 if is_idle else 0
        if self._idle >= IDLE_POLLS:
            why = "long polls return immediately and empty: is there a proxy in between?"
            report_error(POLL, why)
        elif not is_idle:
            report_done(POLL)
        return updates

    def mark_settled(self, number: int) -> None:
        """Allow the confirmation of update *number*: it is recorded or handled."""
        self._delivered[number] = True
        self._changed.give()

    async def confirm(self) -> None:
        """Confirm the settled updates before stopping, or they come again at the next start.

        That is harmless unless a backup is restored in between, so a failure is ignored.
        """
        self._advance()
        if self._offset != self._confirmed:
            with trio.move_on_after(LAST_WORD), suppress(*FAILURES):
                await self._bot.get_updates(self._offset, wait=0)

    async def _pause(self) -> None:
        with trio.move_on_after(PENDING_PAUSE):
            while not self._all_settled():
                await self._changed.wait()
        self._advance()
        await trio.sleep_until(max(self._not_before, trio.current_time()))

    def _all_settled(self) -> bool:
        return all(self._delivered.values())

    def _advance(self) -> None:
        """Move the offset to the first unsettled update.

        Call it between two polls only: a running poll may return the updates again.
        """
        for number in list(self._delivered):
            if not self._delivered[number]:
                return
            del self._delivered[number]
            self._offset = number + 1

    async def _attempt(
        self, subject: str, wait: float, call: Callable[[], Awaitable[T]]
    ) -> T | None:
        """Return the result of *call*, or None after a failure and its pause."""
        began = trio.current_time()
        try:
            with show_wait(f"{subject} from Telegram", limit=wait + 2 * POLL_MARGIN):
                result = await call()
        except FAILURES as error:
            self._confirmed = None
            self._has_failed = True
            about = {"channel": "telegram", "outcome": "poll failed", "why": explain(error)}
            event(log, "channel", about, success=False, seconds=trio.current_time() - began)
            await self._back_off(error)
            return None
        self._failures = self._conflicts = 0
        self._has_failed = False
        return result

    async def _back_off(self, error: Failure) -> None:
        why = explain(error)
        report_error(POLL, why)
        match error:
            case TelegramError(code=400 | 401 | 404):
                await self._need_a_person(why)
            case TelegramError(code=409) if error.mentions("webhook"):
                await self._check_foreign_webhook()
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

    async def _check_foreign_webhook(self) -> None:
        """Remove the webhook if it is ours or the configuration allows it (TG-02)."""
        try:
            info = await self._bot.get_webhook_info()
            if self._settings.delete_webhook or info.url.endswith(
                _derive_secret(self._settings, "path")
            ):
                await self._bot.delete_webhook()
                return
        except FAILURES:
            await trio.sleep(CONFLICT_PAUSE)
            return
        host = urlsplit(info.url).hostname or "an unknown host"
        await self._need_a_person(
            f"a webhook at {host} gets this bot's messages: if it is yours, set "
            "telegram.delete_webhook; if not, someone else has the token: revoke it with @BotFather"
        )

    async def _need_a_person(self, why: str) -> None:
        """Pause the channel, but not Elwood, until the next attempt."""
        log.error("telegram stopped", extra={"why": why, "again_in": SLOW})
        with show_wait(f"a person, because {why}", limit=ALARM):
            await trio.sleep(SLOW)


# --- the webhook ----------------------------------------------------------------------------------

# Concurrent connections, of which Telegram opens at most 40, and bytes of an update.
CONNECTIONS = 64
MAX_UPDATE = 1 << 20
# Seconds until a request with an unsettled update is refused; Telegram delivers it again.
YES_WITHIN = 50.0
# Unsettled updates; more are refused, and Telegram delivers them again.
MAX_UNSETTLED = 1_000
# Seconds between two checks of the webhook.
LOOK = 60.0
SECRET_HEADER = "x-telegram-bot-api-secret-token"
LISTEN = "listening for Telegram"


def _derive_secret(settings: TelegramSettings, purpose: str) -> str:
    """Derive a secret from the token, so that it need not be stored."""
    assert settings.token is not None, "without a token the channel is off"
    return hmac.new(settings.token.reveal().encode(), purpose.encode(), "sha256").hexdigest()


class Webhook(Poll):
    """Receive updates from Telegram, and confirm each one when it is settled.

    Telegram delivers an unconfirmed update again, also after a restart, so nothing is stored here.
    The path identifies a webhook of ours when polling replaces it.
    """

    def __init__(
        self, bot: Bot, settings: TelegramSettings, random: Callable[[], float], silence: float
    ) -> None:
        super().__init__(bot, settings, random, silence)
        self._free = trio.CapacityLimiter(CONNECTIONS)
        self._fresh: list[Update | UnreadableUpdate] = []
        self._path = f"/{_derive_secret(settings, 'path')}"
        self._secret = _derive_secret(settings, "secret")
        self._url = settings.webhook_url.rstrip("/") + self._path

    async def listen(self) -> None:
        place = self._settings.webhook_listen
        host, _, port = place.rpartition(":")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            while True:
                try:
                    listeners = await trio.open_tcp_listeners(int(port), host=host.strip("[]"))
                except OSError as error:
                    report_error(LISTEN, f"cannot listen on {place}: {error}")
                    await trio.sleep(LAST_PAUSE)
                    continue
                report_done(LISTEN)
                await trio.serve_listeners(self._serve, listeners)

    async def introduce(self) -> TelegramUser:
        me = await super().introduce()
        set_webhook = partial(self._bot.set_webhook, self._url, self._secret)
        while await self._attempt("the webhook", 0, set_webhook) is None:
            pass
        report_done(POLL)
        return me

    async def fetch(self) -> list[Update | UnreadableUpdate]:
        while not self._fresh:
            await self._changed.wait()
        fresh, self._fresh = self._fresh, []
        return fresh

    def mark_settled(self, number: int) -> None:
        self._delivered.pop(number, None)
        self._changed.give()

    async def confirm(self) -> None:
        """Do nothing: each request has confirmed its update."""

    async def _watch(self) -> None:
        while True:
            await trio.sleep(LOOK)
            await self._attempt("the webhook", 0, self._check_webhook)

    async def _check_webhook(self) -> bool:
        """Register the webhook again if needed, and report whether Telegram can reach it."""
        info = await self._bot.get_webhook_info()
        if info.url != self._url:
            await self._bot.set_webhook(self._url, self._secret)
        if info.pending_update_count and info.last_error_message:
            report_error(POLL, f"Telegram cannot reach webhook_url: {info.last_error_message}")
        else:
            report_done(POLL)
        return True

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            if self._free.available_tokens:
                async with self._free:
                    await serve(stream, self._refuse, self._receive, max_body=MAX_UPDATE)

    def _refuse(self, method: str, path: str, headers: Mapping[str, str]) -> int | None:
        if not path.endswith(self._path):
            return 404
        if method != "POST":
            return 405
        given = headers.get(SECRET_HEADER, "").encode()
        return None if hmac.compare_digest(self._secret.encode(), given) else 403

    async def _receive(self, body: bytes) -> int:
        """Pass an update on once, however often it arrives; wait until it is settled."""
        for update in read_updates(b"[%b]" % body) or ():
            number = update.update_id
            if number not in self._delivered:
                if len(self._delivered) >= MAX_UNSETTLED:
                    return 503
                self._delivered[number] = False
                self._fresh.append(update)
                self._changed.give()
            with trio.move_on_after(YES_WITHIN):
                while number in self._delivered:
                    await self._changed.wait()
            if number in self._delivered:
                return 503
        return 200
