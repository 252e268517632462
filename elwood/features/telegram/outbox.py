"""Sends to Telegram: one task per chat, within its budgets, and says honestly what became of it."""

import logging
from collections import deque
from collections.abc import Callable
from typing import assert_never

import attrs
import trio

from elwood.agent.channels.messages import (
    Draft,
    OutboxMail,
    Post,
    Sent,
    Typing,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.channels.pacing import Budget, Pacing
from elwood.features.telegram.client import CALL_TIMEOUT, Bot
from elwood.features.telegram.errors import (
    FAILURES,
    TelegramError,
    Way,
    explain,
    remedy,
)
from elwood.features.telegram.preview import Preview
from elwood.features.telegram.sending import Parcel, Piece, pieces
from elwood.foundation.net.http import Interrupted, Unreachable
from elwood.foundation.runtime import (
    Mailbox,
    clear_error,
    report_error,
    waiting,
)
from elwood.foundation.text.markdown import mark_repeat

log = logging.getLogger(__name__)

Sending = Sent | Unsure | Unsent | Undeliverable

# Messages that may wait for one chat.
LANE = 64
# Seconds after which an idle chat is forgotten: its longest window has passed.
IDLE = 60.0
# Seconds at most by which a flood wait is prolonged at random.
JITTER = 0.25
# Seconds to wait when flood control does not say how long.
FLOOD = 5.0
# Messages of a group's budget that edits leave for what is final.
EDITS_LEAVE = 2
# The topic that every forum has; messages to it name none.
GENERAL = 1
SEND = "sending to Telegram"


@attrs.define(eq=False)
class _Lane:
    """One chat: what waits for it and what it has had."""

    chat: int
    messages: Budget
    previews: Budget
    posts: deque[Post] = attrs.field(factory=deque)
    preview: Draft | Typing | None = None
    busy: bool = False
    flooded_until: float = 0.0
    screen: Preview = attrs.field(factory=Preview)
    wake: trio.Event = attrs.field(factory=trio.Event)


class Outbox:
    """A leaf: asks nobody, keeps nothing.  Who needs a delivery asks for it again.

    *random* gives numbers from 0 to 1 for jitter.
    """

    def __init__(
        self, bot: Bot, *, random: Callable[[], float], pacing: Pacing | None = None
    ) -> None:
        self._bot = bot
        self._random = random
        self._pacing = pacing or Pacing()
        self._total = Budget(self._pacing.total)
        self._queue = trio.Lock()  # fair: chats take their turn at the global budget
        self._lanes: dict[int, _Lane] = {}
        self._moved: dict[int, int] = {}
        self._has_drafts = True
        self._stopping = False

    async def run(self, mailbox: Mailbox[OutboxMail]) -> None:
        """Send until stopped; what is queued then is still sent, within the grace."""
        self._lanes.clear()
        async with trio.open_nursery() as nursery:
            async for mail in mailbox:
                lane = self._lanes.get(mail.route.chat)
                if lane is None:
                    lane = self._lane(mail)
                    nursery.start_soon(self._keep, mail.route.chat, lane)
                self._take(lane, mail)
            self._stopping = True
            for lane in self._lanes.values():
                lane.wake.set()

    def _lane(self, mail: OutboxMail) -> _Lane:
        chat, pacing = mail.route.chat, self._pacing
        lane = self._lanes[chat] = _Lane(
            self._moved.get(chat, chat),
            Budget(pacing.chat if mail.route.private else pacing.group),
            Budget(pacing.previews),
        )
        return lane

    def _take(self, lane: _Lane, mail: OutboxMail) -> None:
        match mail:
            case Post():
                if len(lane.posts) >= LANE:
                    mail.reply.set(Unsent(f"{LANE} messages wait for this chat already"))
                    return
                lane.posts.append(mail)
                lane.preview = None  # what is final comes first, and makes it stale
            case Draft() | Typing():
                if not self._has_room(lane, mail):
                    return
                lane.preview = mail
            case _:
                assert_never(mail)
        lane.wake.set()

    def _has_room(self, lane: _Lane, mail: Draft | Typing) -> bool:
        now = trio.current_time()
        if lane.busy or lane.posts or lane.preview or now < lane.flooded_until:
            return False
        # Half of the global budget is kept for what is final.
        if lane.previews.delay(now) or self._total.delay(
            now, leave=self._pacing.total[0].limit // 2
        ):
            return False
        if isinstance(mail, Typing):
            return lane.screen.wants_typing(now, self._pacing)
        private = mail.route.private
        if not private and lane.messages.delay(now, leave=EDITS_LEAVE):
            return False
        return (self._has_drafts or not private) and lane.screen.wants(
            now, mail.draft, mail.text, self._pacing, private=private
        )

    async def _keep(self, chat: int, lane: _Lane) -> None:
        """Serve one chat until it has been idle for long."""
        while True:
            lane.wake = trio.Event()
            if lane.posts:
                await self._deliver(chat, lane, lane.posts.popleft())
            elif lane.preview is not None:
                preview, lane.preview = lane.preview, None
                await self._show(lane, preview)
            elif self._stopping:
                return
            else:
                with trio.move_on_after(max(IDLE, lane.flooded_until - trio.current_time())):
                    await lane.wake.wait()
                # No checkpoint from here to the end: no message can come in between.
                waits = lane.posts or lane.preview or lane.screen.message is not None
                if not (waits or self._stopping):
                    del self._lanes[chat]
                    return

    async def _show(self, lane: _Lane, preview: Draft | Typing) -> None:
        now = trio.current_time()
        lane.previews = lane.previews.spend(now)
        self._total = self._total.spend(now)
        lane.busy = True
        topic = _topic(preview.route.topic)
        try:
            if isinstance(preview, Typing):
                await lane.screen.type(self._bot, lane.chat, topic, now)
            elif preview.route.private:
                await lane.screen.draft(
                    self._bot, lane.chat, topic, preview.draft, preview.text, now
                )
            else:
                lane.messages = lane.messages.spend(now)
                await lane.screen.edit(self._bot, lane.chat, topic, preview.text, now)
        except TelegramError as error:
            if error.code == 429:
                self._flooded(lane, error)
            elif error.code == 404 and isinstance(preview, Draft):
                self._has_drafts = False  # a server too old for them
        except (Unreachable, Interrupted):
            pass  # decoration; the answer does not depend on it
        finally:
            lane.busy = False

    async def _deliver(self, chat: int, lane: _Lane, post: Post) -> None:
        lane.busy = True
        with waiting(f"a message to be sent to chat {chat}", limit=4 * CALL_TIMEOUT):
            outcome = await self._send(chat, lane, post)
        post.reply.set(outcome)
        if isinstance(outcome, Sent):
            await lane.screen.end(self._bot, lane.chat)
        lane.busy = False
        if isinstance(outcome, Undeliverable):
            log.warning("not deliverable", extra={"chat": chat, "why": outcome.why})

    async def _send(self, chat: int, lane: _Lane, post: Post) -> Sending:
        way = Way(lane.chat, _topic(post.route.topic), post.route.reply_to)
        part = mark_repeat(post.part) if post.repeat else post.part
        left = deque(pieces(part, [Parcel(file.name, file.data) for file in post.files]))
        buttons = [(button.text, button.data) for button in post.buttons]
        arrived: Sent | None = None
        while left:
            await self._room(lane)
            if post.reply.is_settled:  # who asked has gone, and will ask anew
                return arrived or Unsent("nobody waits for it any more")
            piece = left.popleft()
            try:
                number = await piece.send(
                    self._bot, way, () if left else buttons, silent=post.silent
                )
            except FAILURES as error:
                failed = self._learn(lane, way, piece, left, error)
                if failed is None:
                    continue
                return failed if arrived is None else _partly(failed)
            clear_error(SEND)
            arrived = Sent(f"{way.chat}:{number}")
            way.reply_to = None
            if way.chat != lane.chat:
                self._moved[chat] = lane.chat = way.chat
        return arrived or Undeliverable("there is nothing in it to send")

    def _learn(
        self,
        lane: _Lane,
        way: Way,
        piece: Piece,
        left: deque[Piece],
        error: TelegramError | Unreachable | Interrupted,
    ) -> Unsure | Unsent | Undeliverable | None:
        """Change *way* and *left* so that another try may work, or say what became of it."""
        why = explain(error)
        if isinstance(error, Unreachable):
            report_error(SEND, why)
            return Unsent(why)
        if isinstance(error, Interrupted):
            report_error(SEND, why)
            return Unsure(why)
        cure = remedy(error)
        left.appendleft(piece)
        if cure == "wait":
            self._flooded(lane, error)
            return None
        if cure == "unknown":
            report_error(SEND, why)
            return Unsure(why)
        if cure == "no access":
            report_error(SEND, why)
            return Unsent(why)
        if not way.adapt(cure, error):
            return Undeliverable(why)
        if cure == "split":
            left.popleft()
            smaller = piece.smaller()
            if not smaller:
                return Undeliverable(why)
            left.extendleft(reversed(smaller))
        return None

    async def _room(self, lane: _Lane) -> None:
        """Wait until both this chat and all chats together may have a message more."""
        now = await _sleep_while(
            lambda now: max(lane.flooded_until - now, lane.messages.delay(now))
        )
        lane.messages = lane.messages.spend(now)
        async with self._queue:
            self._total = self._total.spend(await _sleep_while(lambda now: self._total.delay(now)))

    def _flooded(self, lane: _Lane, error: TelegramError) -> None:
        wait = FLOOD if error.retry_after is None else error.retry_after
        lane.flooded_until = trio.current_time() + wait + self._random() * JITTER


def _partly(failed: Unsure | Unsent | Undeliverable) -> Unsure | Undeliverable:
    """Say what a failure comes to when a part of the message is there already."""
    if isinstance(failed, Undeliverable):
        return Undeliverable(f"{failed.why}; a part of it has arrived")
    return Unsure(failed.why)


async def _sleep_while(delay: Callable[[float], float]) -> float:
    """Sleep until *delay* asks for no more seconds, and return the time then."""
    while True:
        now = trio.current_time()
        wait = delay(now)
        if wait <= 0:
            return now
        await trio.sleep(wait)


def _topic(topic: int | None) -> int | None:
    return None if topic == GENERAL else topic
