"""Sends to Telegram: one task per chat, within its budgets, and says honestly what became of it."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import assert_never

import attrs
import msgspec
import trio

from elwood.agent.channels.messages import (
    Attachment,
    Draft,
    OutboxMail,
    Post,
    PostResult,
    React,
    Sent,
    Typing,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.channels.pacing import Bucket, Pacing
from elwood.agent.conversation.route import Route
from elwood.features.telegram.client import (
    CALL_TIMEOUT,
    FAILURES,
    Bot,
    Failure,
    Remedy,
    TelegramError,
    explain,
    remedy,
)
from elwood.foundation.net.http import Interrupted, Unreachable
from elwood.foundation.runtime import Mailbox, Signal, clear_error, report_error, waiting
from elwood.foundation.text.characters import utf16_length
from elwood.foundation.text.markdown import Rich, mark_repeat
from elwood.foundation.text.splitting import MESSAGE_LIMIT, clipped, frame, split

log = logging.getLogger(__name__)

# Messages that may wait for one chat, and marks of messages as seen, which give way to newer ones.
MAX_WAITING, MAX_REACTIONS = 64, 8
SEEN = "👀"
# Seconds after which an idle chat is forgotten: its longest window has passed.
IDLE = 60.0
# Seconds at most by which a flood wait is prolonged at random.
JITTER = 0.25
# Seconds to wait when flood control does not say how long.
FLOOD = 5.0
# Seconds between two looks whether Telegram is back.
PROBE = 4.0
# Messages of a group's budget that edits leave for what is final.
EDITS_LEAVE = 2
# The topic that every forum has; messages to it name none.
GENERAL = 1
SEND = "sending to Telegram"
# UTF-16 units of the text under a file.
MAX_CAPTION = 1024
# Bytes of a picture that is shown as one; Telegram makes it smaller then.  Larger ones, and what
# it cannot read, arrive as files, unchanged.
MAX_PHOTO = 5 << 20
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
# Seconds for which a draft is taken to be on the screen (the API shows it for 30).
DRAFT_SHOWN = 25.0
# What ends the message that a group is shown.  A kill leaves it standing: it must not pass for an
# answer, or the answer behind it would be a repeat that nobody marked.
UNFINISHED = " …"


class SendOptions(msgspec.Struct):
    """How a message is to be sent, after what was learned from refusals."""

    chat: int
    topic: int | None
    reply_to: int | None
    plain: bool = False
    learned: set[Remedy] = msgspec.field(default_factory=set)

    def adapt(self, cure: Remedy, error: Failure) -> bool:
        """Change them by *cure*; False if that cannot help, or has not helped already."""
        if cure in self.learned or cure == "nobody":
            return False
        self.learned.add(cure)
        if isinstance(error, TelegramError) and error.migrate_to is not None:
            self.chat = error.migrate_to
        self.topic = None if cure == "no topic" else self.topic
        self.reply_to = None if cure == "no reply" else self.reply_to
        self.plain = self.plain or cure == "plain"
        return True


class _Piece(msgspec.Struct, frozen=True):
    """What one call sends: a text, or a file with a text under it."""

    text: Rich
    file: Attachment | None = None

    async def send(self, bot: Bot, options: SendOptions, buttons: Iterable[tuple[str, str]]) -> int:
        """Send it with *options* and return the message's id.  Raises what the bot raises."""
        return await bot.send_message(
            options.chat,
            self.text.text,
            () if options.plain else self.text.entities,
            file=self.file,
            photo=self.file is not None and _is_picture(self.file) and not options.plain,
            topic=options.topic,
            reply_to=options.reply_to,
            buttons=buttons,
        )

    def smaller(self) -> tuple["_Piece", ...]:
        """Cut it, as it was too long after all; nothing if there is nothing to cut."""
        if self.file is not None:
            return (_Piece(self.text), _Piece(Rich(""), self.file)) if self.text.text else ()
        halves = split(self.text, max(2, utf16_length(self.text.text) // 2))
        return tuple(_Piece(half) for half in halves)


def _is_picture(file: Attachment) -> bool:
    return len(file.data) <= MAX_PHOTO and file.data.startswith(_PICTURES)


def _pieces(text: Rich, files: Sequence[Attachment]) -> tuple[_Piece, ...]:
    """Cut a message into what single calls can send; a short text goes under the first file."""
    if files and utf16_length(text.text) <= MAX_CAPTION:
        return (_Piece(text, files[0]), *(_Piece(Rich(""), file) for file in files[1:]))
    parts = (text,) if utf16_length(text.text) <= MESSAGE_LIMIT else split(text, MESSAGE_LIMIT)
    return (*map(_Piece, parts), *(_Piece(Rich(""), file) for file in files))


class _Preview:
    """Drafts in a private chat; in a group a message that is edited, and deleted at the end."""

    def __init__(self) -> None:
        self.message: int | None = None
        self._draft: int | None = None
        self._shown: str | None = None
        self._shown_at = float("-inf")
        self._typed_at = float("-inf")
        self._is_lost = False

    def wanted(self, mail: Draft | Typing, now: float, pacing: Pacing) -> str | None:
        """Return what is to be shown of *mail*, if it is worth a call now."""
        if isinstance(mail, Typing):  # not while a draft is on the screen
            drafting = self._shown is not None and now - self._shown_at < DRAFT_SHOWN
            return None if drafting or now - self._typed_at < pacing.typing_gap else ""
        is_private = mail.route.private
        gap = pacing.draft_gap if is_private else pacing.edit_gap
        if self._is_lost or now - self._shown_at < gap:
            return None
        text = mail.text
        if not text.strip() or (text == self._shown and not is_private):
            return None
        return frame(text, self._shown if self._draft == mail.draft else None)

    async def show(self, bot: Bot, chat: int, mail: Draft | Typing, text: str, now: float) -> None:
        """Show *text*, or that work goes on.  Raises what the bot raises."""
        topic = _topic(mail.route.topic)
        if isinstance(mail, Typing):
            self._typed_at = now
            await bot.send_chat_action(chat, topic=topic)
            return
        self._shown, self._shown_at = text, now
        if mail.route.private:
            self._draft = mail.draft
            await bot.send_message_draft(chat, mail.draft, text, topic=topic)
            return
        text = clipped(text, MESSAGE_LIMIT - len(UNFINISHED)) + UNFINISHED
        if self.message is not None:
            await bot.edit_message_text(chat, self.message, text)
            return
        # If it is not known whether it was sent, there may be one stray message, but no second.
        self._is_lost = True
        self.message = await bot.send_message(chat, text, (), topic=topic, silent=True)
        self._is_lost = False

    async def end(self, bot: Bot, chat: int) -> None:
        """A real message has come: forget what was shown, and take it away in a group."""
        message, self.message = self.message, None
        self._draft, self._shown = None, None
        self._typed_at = float("-inf")
        self._is_lost = False
        if message is not None:
            with suppress(*FAILURES):
                await bot.delete_message(chat, message)


@attrs.define(eq=False)
class _ChatQueue:
    """One chat: what waits for it and what it has had."""

    chat: int
    messages: Bucket
    previews: Bucket
    posts: deque[Post] = attrs.field(factory=deque)
    # What is shown next of an answer that is being written, and its text without secrets.
    preview: tuple[Draft | Typing, str] | None = None
    busy: bool = False
    flooded_until: float = 0.0
    screen: _Preview = attrs.field(factory=_Preview)
    wake: trio.Event = attrs.field(factory=trio.Event)
    reactions: deque[React] = attrs.field(factory=lambda: deque(maxlen=MAX_REACTIONS))


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
        total = self._pacing.total
        previews = min(total / 2, self._pacing.all_previews)
        self._total = Bucket(total, max(1.0, total))
        self._all_previews = Bucket(previews, max(1.0, previews))
        self._turns = trio.Lock()  # fair: chats take their turn at the global budget
        self._queues: dict[int, _ChatQueue] = {}
        self._moved: dict[int, int] = {}
        self._stopping = False
        # Why nobody can be reached, as the probe found out; and since when they can be again.
        self._away = ""
        self._back_at = float("-inf")
        self._doubt = Signal()

    async def run(self, mailbox: Mailbox[OutboxMail]) -> None:
        """Send until stopped; what is queued then is still sent, within the grace."""
        self._queues.clear()
        self._away = ""
        async with trio.open_nursery() as probing:
            probing.start_soon(self._probe)
            async with trio.open_nursery() as nursery:
                async for mail in mailbox:
                    queue = self._queues.get(mail.route.chat)
                    if queue is None:
                        queue = self._queues[mail.route.chat] = self._new_queue(mail.route)
                        nursery.start_soon(self._keep, mail.route.chat, queue)
                    self._take(queue, mail)
                self._stopping = True
                for queue in self._queues.values():
                    queue.wake.set()
            probing.cancel_scope.cancel()

    async def _probe(self) -> None:
        """After a failure that may be everybody's, ask until there is an answer.

        Meanwhile nobody else tries: one that waits is as good as a hundred.
        """
        while True:
            await self._doubt.wait()
            while why := await self._trouble():
                self._away = why
                report_error(SEND, why)
                await trio.sleep(PROBE * (1 - self._random() / 4))
            if self._away:
                self._away, self._back_at = "", trio.current_time()
                clear_error(SEND)

    async def _trouble(self) -> str:
        """Say why Telegram answers nobody; empty if it does."""
        try:
            await self._bot.get_me()
        except FAILURES as error:
            return explain(error) if remedy(error) in ("not sent", "unknown") else ""
        return ""

    def _new_queue(self, route: Route) -> _ChatQueue:
        messages = self._pacing.chat if route.private else self._pacing.group
        chat = self._moved.get(route.chat, route.chat)
        return _ChatQueue(chat, messages, self._pacing.previews)

    def _take(self, queue: _ChatQueue, mail: OutboxMail) -> None:
        match mail:
            case Post():
                if len(queue.posts) >= MAX_WAITING:
                    mail.reply.set(Unsent(f"{MAX_WAITING} messages wait for this chat already"))
                    return
                queue.posts.append(mail)
                queue.preview = None  # what is final comes first, and makes it stale
            case Draft() | Typing():
                text = self._wanted(queue, mail)
                if text is None:
                    return
                queue.preview = mail, text
            case React():
                queue.reactions.append(mail)
            case _:
                assert_never(mail)
        queue.wake.set()

    def _wanted(self, queue: _ChatQueue, mail: Draft | Typing) -> str | None:
        """Return the text to show if there is room for *mail*, and it shows anything new."""
        now = trio.current_time()
        if queue.busy or queue.posts or queue.preview or not self._may_decorate(queue, now):
            return None
        is_edit = isinstance(mail, Draft) and not mail.route.private
        if is_edit and queue.messages.delay(now, leave=EDITS_LEAVE):
            return None
        return queue.screen.wanted(mail, now, self._pacing)

    def _may_decorate(self, queue: _ChatQueue, now: float) -> bool:
        """Tell whether the budgets have room for what no answer depends on."""
        is_full = queue.previews.delay(now) or self._all_previews.delay(now)
        return now >= queue.flooded_until and not (is_full or self._away)

    async def _keep(self, chat: int, queue: _ChatQueue) -> None:
        """Serve one chat until it has been idle for long."""
        while True:
            queue.wake = trio.Event()
            if queue.posts:
                await self._deliver(chat, queue, queue.posts.popleft())
            elif queue.reactions:
                seen = queue.reactions.popleft()
                if self._may_decorate(queue, trio.current_time()):
                    await self._show(queue, seen, SEEN)
            elif queue.preview is not None:
                (preview, text), queue.preview = queue.preview, None
                await self._show(queue, preview, text)
            elif self._stopping:
                return
            else:
                with trio.move_on_after(max(IDLE, queue.flooded_until - trio.current_time())):
                    await queue.wake.wait()
                # No checkpoint from here to the end: no message can come in between.
                waits = queue.posts or queue.reactions or queue.preview or queue.screen.message
                if not (waits or self._stopping):
                    del self._queues[chat]
                    return

    async def _show(self, queue: _ChatQueue, preview: Draft | Typing | React, text: str) -> None:
        now = trio.current_time()
        queue.previews = queue.previews.spend(now)
        self._all_previews = self._all_previews.spend(now)
        queue.busy = True
        if isinstance(preview, Draft) and not preview.route.private:  # edits count as messages
            queue.messages = queue.messages.spend(now)
            self._total = self._total.spend(now)
        try:
            if isinstance(preview, React):
                number = int(preview.message.rpartition(":")[2])
                await self._bot.set_message_reaction(queue.chat, number, text)
            else:
                await queue.screen.show(self._bot, queue.chat, preview, text, now)
        except TelegramError as error:
            if error.code == 429:
                self._flooded(queue, error)
        except (Unreachable, Interrupted):
            pass  # decoration; the answer does not depend on it
        finally:
            queue.busy = False

    async def _deliver(self, chat: int, queue: _ChatQueue, post: Post) -> None:
        queue.busy = True
        with waiting(f"a message to be sent to chat {chat}", limit=4 * CALL_TIMEOUT):
            outcome = await self._send(chat, queue, post)
        post.reply.set(outcome)
        if isinstance(outcome, Sent):
            await queue.screen.end(self._bot, queue.chat)
        queue.busy = False
        if isinstance(outcome, Undeliverable):
            log.warning("not deliverable", extra={"chat": chat, "why": outcome.why})

    async def _send(self, chat: int, queue: _ChatQueue, post: Post) -> PostResult:
        options = SendOptions(queue.chat, _topic(post.route.topic), post.route.reply_to)
        part = mark_repeat(post.part) if post.repeat else post.part
        left = deque(_pieces(part, post.files))
        buttons = [(button.text, button.data) for button in post.buttons]
        arrived: Sent | None = None
        while left:
            await self._room(queue)
            if post.reply.is_settled:  # who asked has gone, and will ask anew
                return arrived or Unsent("nobody waits for it any more")
            if self._away or trio.current_time() < self._back_at + post.calm:
                away = Unsent(self._away or "it was away until now")
                return away if arrived is None else _partly(away)
            piece = left.popleft()
            try:
                number = await piece.send(self._bot, options, () if left else buttons)
            except FAILURES as error:
                failed = self._learn(queue, options, piece, left, error)
                if failed is None:
                    continue
                return failed if arrived is None else _partly(failed)
            clear_error(SEND)
            arrived = Sent(f"{options.chat}:{number}")
            options.reply_to = None
            if options.chat != queue.chat:
                self._moved[chat] = queue.chat = options.chat
        return arrived or Undeliverable("there is nothing in it to send")

    def _learn(
        self,
        queue: _ChatQueue,
        options: SendOptions,
        piece: _Piece,
        left: deque[_Piece],
        error: Failure,
    ) -> Unsure | Unsent | Undeliverable | None:
        """Change *options* and *left* so that another try may work, or say what became of it."""
        why = explain(error)
        cure = remedy(error)
        if cure in ("not sent", "unknown"):
            self._doubt.give()
        if cure in ("not sent", "no access"):
            report_error(SEND, why)
            return Unsent(why)
        if cure == "unknown":
            report_error(SEND, why)
            return Unsure(why)
        again = piece.smaller() if cure == "split" else (piece,)
        if cure == "wait":
            self._flooded(queue, error)
        elif not again or not options.adapt(cure, error):
            return Undeliverable(why)
        left.extendleft(reversed(again))
        return None

    async def _room(self, queue: _ChatQueue) -> None:
        """Wait until both this chat and all chats together may have a message more."""
        now = await _sleep_while(
            lambda now: max(queue.flooded_until - now, queue.messages.delay(now))
        )
        queue.messages = queue.messages.spend(now)
        async with self._turns:
            self._total = self._total.spend(await _sleep_while(lambda now: self._total.delay(now)))

    def _flooded(self, queue: _ChatQueue, error: Failure) -> None:
        asked = error.retry_after if isinstance(error, TelegramError) else None
        wait = FLOOD if asked is None else asked
        queue.flooded_until = trio.current_time() + wait + self._random() * JITTER


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
