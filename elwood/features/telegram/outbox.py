"""Send to Telegram: one task per chat, within its budgets, with an exact outcome per message."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, assert_never

import attrs
import msgspec
import trio

from elwood.agent.channels.messages import (
    Attachment,
    Draft,
    Edit,
    OutboxMail,
    Post,
    PostResult,
    Reachable,
    React,
    Sent,
    Status,
    Typing,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.channels.pacing import Bucket
from elwood.agent.conversation.route import Route
from elwood.features.telegram.channel import route_to
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
from elwood.features.telegram.pacing import Pacing, per_second
from elwood.features.telegram.store import StatusMessages
from elwood.foundation.net.http import Interrupted, Unreachable
from elwood.foundation.runtime import (
    Lock,
    Mailbox,
    Signal,
    clear_error,
    report_done,
    report_error,
    show_wait,
)
from elwood.foundation.text.characters import utf16_length
from elwood.foundation.text.markdown import REPEAT_MARK, Rich, mark_repeat
from elwood.foundation.text.splitting import MESSAGE_LIMIT, split

log = logging.getLogger("elwood.telegram")

# Messages queued for one chat, and reactions, of which the oldest are dropped.
MAX_WAITING, MAX_REACTIONS = 64, 8
SEEN = "👀"
# Unreachable chats to remember.
MAX_GONE = 1000
# Seconds after which an idle chat is dropped: its longest budget window has passed.
IDLE = 60.0
# The most seconds by which a flood wait is extended at random.
JITTER = 0.25
# Seconds to wait if flood control has no retry_after.
FLOOD = 5.0
# Refusals in two chats within this many seconds mean that the whole bot sends too much: flood
# control does not name its scope.  A single chat can be refused for an hour for other reasons
# (slow mode, edits), so one refusal pauses only that chat.
TOGETHER = 5.0
# Seconds between two probes while Telegram is unreachable.
PROBE = 4.0
# Messages of a group's budget that edits reserve for final messages.
EDITS_LEAVE = 2
# The default topic of a forum; messages to it carry no topic.
GENERAL = "1"
SEND = "sending to Telegram"
# UTF-16 units of the caption of a file.
MAX_CAPTION = 1024
# The most pictures of an album.
MAX_ALBUM = 10
# Seconds after which a draft is sent again: the API shows it for 30.
REFRESH = 20.0
# UTF-16 units of a draft; longer text continues in the next one.
MAX_DRAFT = 3900
# Suffix of the status message of a group.  A kill leaves that message there; without the mark it
# would look like the answer, and the real answer like an unmarked repeat.
UNFINISHED = " …"


class SendOptions(msgspec.Struct):
    """The options of a message, adapted after refusals."""

    chat: int
    topic: int | None
    reply_to: int | None
    plain: bool = False
    learned: set[Remedy] = msgspec.field(default_factory=set)

    def adapt(self, cure: Remedy, error: Failure) -> bool:
        """Apply *cure*; return False if it cannot help or was applied before."""
        if cure in self.learned or cure == "undeliverable":
            return False
        self.learned.add(cure)
        if isinstance(error, TelegramError) and error.migrate_to is not None:
            self.chat = error.migrate_to
        self.topic = None if cure == "no topic" else self.topic
        self.reply_to = None if cure == "no reply" else self.reply_to
        self.plain = self.plain or cure == "plain"
        return True


class _Piece(msgspec.Struct, frozen=True):
    """The content of one call: a text, or a file or an album with a caption."""

    text: Rich
    files: tuple[Attachment, ...] = ()
    # The text for a rich message.
    markdown: str = ""

    async def send(self, bot: Bot, options: SendOptions, buttons: Iterable[tuple[str, str]]) -> int:
        """Send it with *options*; return the message's id.  Raises the errors of the bot."""
        return await bot.send_message(
            options.chat,
            self.text.text,
            () if options.plain else self.text.entities,
            files=self.files,
            photos=bool(self.files) and self.files[0].is_picture and not options.plain,
            markdown=self.markdown,
            topic=options.topic,
            reply_to=options.reply_to,
            buttons=buttons,
        )

    def smaller(self) -> tuple["_Piece", ...]:
        """Split it because it is too long; return () if that is not possible."""
        if self.files:
            text = (_Piece(self.text),) if self.text.text else ()
            alone = tuple(_Piece(Rich(""), (file,)) for file in self.files)
            return (*text, *alone) if text or len(alone) > 1 else ()
        halves = split(self.text, max(2, utf16_length(self.text.text) // 2))
        return tuple(_Piece(half) for half in halves)


def _pieces(
    text: Rich, files: Sequence[Attachment] = (), *, albums: bool = True
) -> tuple[_Piece, ...]:
    """Split a message into pieces for single calls; a short text becomes the first caption."""
    groups: list[tuple[Attachment, ...]] = []
    for file in files:
        last = groups[-1] if groups else ()
        if albums and file.is_picture and last and last[0].is_picture and len(last) < MAX_ALBUM:
            groups[-1] = (*last, file)
        else:
            groups.append((file,))
    others = [_Piece(Rich(""), group) for group in groups]
    if others and utf16_length(text.text) <= MAX_CAPTION:
        return (_Piece(text, groups[0]), *others[1:])
    parts = (text,) if utf16_length(text.text) <= MESSAGE_LIMIT else split(text, MESSAGE_LIMIT)
    return (*map(_Piece, parts), *others)


class _Frame(msgspec.Struct, frozen=True):
    """The content of one call that shows progress."""

    kind: Literal["typing", "draft", "line", "reaction"]
    text: str = ""


class _Screen:
    """The progress display of one topic, until the next message there.

    In a private chat it is a draft of the answer, or "typing", and a status line: a silent message
    that is edited.  In a group that message has both the text and the status.  Only the newest of
    each is kept; frames without budget are skipped.
    """

    def __init__(self, route: Route) -> None:
        self.route = route
        self.message: int | None = None
        self._is_lost = False
        self._newest: Draft | None = None
        self._turn = self._draft = 0
        self._page = self._shown = self._status = self._line = ""
        self._applied_at = self._drawn_at = self._typed_at = self._edited_at = float("-inf")
        self._is_alive = False

    def take(self, mail: Draft | Typing | Status) -> None:
        match mail:
            case Draft():
                self._newest = mail
            case Status(text=text):
                self._status = text
            case Typing(why=why):
                self._is_alive = True
                self._status = f"⏳ {why}" if why else self._status

    def next_frame(self, now: float, pacing: Pacing, *, edits: bool, draws: bool) -> _Frame | None:
        """Return the frame due now; the budget allows *edits* of the line, or *draws*."""
        private = self.route.private
        gap = pacing.status_gap if private else pacing.edit_gap
        if edits and not self._is_lost and now - self._edited_at >= gap:
            if not private:
                self._apply_draft(now, pacing.draft_gap)
            text = "" if private or not self._page else self._page + UNFINISHED
            line = "\n\n".join(filter(None, (text, self._status)))
            if line not in ("", self._line):
                return _Frame("line", line)
        if not draws:
            return None
        if private and now - self._drawn_at >= pacing.draft_gap:
            self._apply_draft(now, pacing.draft_gap)
            fades = self._is_alive and now - self._drawn_at >= REFRESH
            if self._page and (self._page != self._shown or fades):
                return _Frame("draft", self._page)
        seen = max(self._typed_at, self._edited_at)
        if self._is_alive and not (private and self._page) and now - seen >= pacing.typing_gap:
            return _Frame("typing")
        return None

    def _apply_draft(self, now: float, gap: float) -> None:
        """Apply the newest text, to the same draft or to a new one.

        Clients animate text that is appended to a draft; any other change needs a new draft.
        Do it once in *gap* seconds, because the whole text is searched for secrets each time.
        """
        if self._newest is None or now - self._applied_at < gap:
            return
        mail, self._newest, self._applied_at = self._newest, None, now
        text = mail.text
        page = split(Rich(text), MAX_DRAFT)[-1].text if text.strip() else ""
        if mail.draft != self._turn:
            self._turn = self._draft = mail.draft
        elif self._page.startswith(page):
            return  # a retry that streams the same text again from the start
        elif not page.startswith(self._page):
            self._draft += 1
        self._page = page

    async def show(self, bot: Bot, chat: int, frame: _Frame, now: float) -> None:
        """Send *frame*.  Raises the errors of the bot."""
        topic = _topic(self.route.thread)
        match frame.kind:
            case "typing":
                self._typed_at, self._is_alive = now, False
                await bot.send_chat_action(chat, topic=topic)
            case "draft":
                self._shown, self._drawn_at, self._is_alive = frame.text, now, False
                await bot.send_message_draft(chat, self._draft, frame.text, topic=topic)
            case "line" if self.message is not None:
                self._line, self._edited_at = frame.text, now
                await bot.edit_message_text(chat, self.message, frame.text)
            case "line":
                self._line, self._edited_at = frame.text, now
                # If it is unknown whether it was sent, there may be one stray message, not two.
                self._is_lost = True
                self.message = await bot.send_message(
                    chat, frame.text, (), topic=topic, silent=True
                )
                self._is_lost = False
                self._shown = ""  # some clients remove the draft now


@attrs.define(eq=False)
class _ChatQueue:
    """The queue and the budgets of one chat."""

    chat: int
    messages: Bucket
    previews: Bucket
    posts: deque[Post] = attrs.field(factory=deque)
    edits: deque[Edit] = attrs.field(factory=deque)
    # By thread.
    screens: dict[str, _Screen] = attrs.field(factory=dict)
    # Status messages to delete after the next post, and now.
    ending: list[int] = attrs.field(factory=list)
    deletions: deque[int] = attrs.field(factory=deque)
    flooded_until: float = 0.0
    wake: trio.Event = attrs.field(factory=trio.Event)
    reactions: deque[React] = attrs.field(factory=lambda: deque(maxlen=MAX_REACTIONS))

    def delete_ended(self) -> None:
        """Queue each ended status message for deletion, once."""
        self.deletions.extend(self.ending)
        self.ending.clear()


class Outbox:
    """A leaf: it sends no requests to other actors and stores only *status*.  Senders retry.

    *random* returns numbers from 0 to 1 for jitter.
    """

    def __init__(
        self,
        bot: Bot,
        status: StatusMessages,
        *,
        random: Callable[[], float],
        pacing: Pacing | None = None,
    ) -> None:
        self._bot = bot
        self._status = status
        self._random = random
        self._pacing = pacing or Pacing()
        total = self._pacing.total
        self._total = per_second(total)
        self._all_previews = per_second(min(total / 2, self._pacing.all_previews))
        self._all_flooded_until = 0.0  # for all chats
        self._refused: tuple[_ChatQueue, float] | None = None  # the last refusal and its time
        self._turns = Lock()  # fair: chats take turns at the global budget
        self._queues: dict[int, _ChatQueue] = {}
        self._moved: dict[int, int] = {}
        # Unreachable chats with the reason; and those of them with a lost message.
        self._unreachable: dict[int, str] = {}
        self._missed: set[int] = set()
        self._stopping = False
        # Why Telegram is unreachable, according to the probe; and the time of its return.
        self._away = ""
        self._back_at = float("-inf")
        self._doubt = Signal()

    async def run(self, mailbox: Mailbox[OutboxMail]) -> None:
        """Send until stopped; then send the queued messages within the grace period."""
        self._queues.clear()
        self._away = ""
        async with trio.open_nursery() as probing:
            probing.start_soon(self._probe)
            async with trio.open_nursery() as nursery:
                for chat, message in await self._status.list():  # a kill has left them
                    route = route_to(chat, private=chat > 0)
                    self._get_queue(nursery, route).deletions.append(message)
                async for mail in mailbox:
                    if isinstance(mail, Reachable):
                        self._set_unreachable(int(mail.route.chat), mail.gone)
                    else:
                        self._enqueue(self._get_queue(nursery, mail.route), mail)
                self._stopping = True
                for queue in self._queues.values():
                    queue.ending += [one.message for one in queue.screens.values() if one.message]
                    queue.screens.clear()
                    queue.delete_ended()
                    queue.wake.set()
            probing.cancel_scope.cancel()

    async def _probe(self) -> None:
        """After a failure that may affect all chats, probe until Telegram responds.

        Until then the chats do not send: one probe is enough.
        """
        while True:
            await self._doubt.wait()
            while why := await self._find_outage():
                self._away = why
                report_error(SEND, why)
                await trio.sleep(PROBE * (1 - self._random() / 4))
            if self._away:
                self._away, self._back_at = "", trio.current_time()
                clear_error(SEND)

    async def _find_outage(self) -> str:
        """Return why Telegram cannot be reached, or ""."""
        try:
            await self._bot.get_me()
        except FAILURES as error:
            return explain(error) if remedy(error) in ("not sent", "unknown") else ""
        return ""

    def _get_queue(self, nursery: trio.Nursery, route: Route) -> _ChatQueue:
        chat = int(route.chat)
        queue = self._queues.get(chat)
        if queue is None:
            messages = self._pacing.chat if route.private else self._pacing.group
            moved = self._moved.get(chat, chat)
            queue = self._queues[chat] = _ChatQueue(moved, messages, self._pacing.previews)
            nursery.start_soon(self._serve_chat, chat, queue)
        return queue

    def _set_unreachable(self, chat: int, why: str) -> None:
        """Mark *chat* as unreachable, or as reachable if *why* is ""."""
        if not why:
            self._unreachable.pop(chat, None)
            self._missed.discard(chat)
        elif chat not in self._unreachable:
            self._unreachable[chat] = why
            while len(self._unreachable) > MAX_GONE:  # an evicted chat costs one refused call
                self._set_unreachable(next(iter(self._unreachable)), "")

    def _enqueue(
        self, queue: _ChatQueue, mail: Post | Edit | Draft | Typing | React | Status
    ) -> None:
        match mail:
            case Post() | Edit():
                if len(queue.posts) + len(queue.edits) >= MAX_WAITING:
                    mail.reply.set(
                        Unsent(f"{MAX_WAITING} messages are already waiting for this chat")
                    )
                elif isinstance(mail, Post):
                    queue.posts.append(mail)
                else:
                    queue.edits.append(mail)
            case _ if queue.chat in self._unreachable:
                return
            case Draft() if mail.is_thought or mail.step:
                return  # the draft shows the answer only
            case Draft() | Typing() | Status():
                thread = mail.route.thread
                if thread not in queue.screens:
                    queue.screens[thread] = _Screen(mail.route)
                queue.screens[thread].take(mail)
                if self._next_frame(queue) is None:
                    return  # nothing to wake up for, as in most cases when many chats are active
            case React():
                queue.reactions.append(mail)
            case _:
                assert_never(mail)
        queue.wake.set()

    async def _serve_chat(self, chat: int, queue: _ChatQueue) -> None:
        """Send the messages of one chat until it has been idle for `IDLE` seconds."""
        while True:
            queue.wake = trio.Event()
            flood = self._flood_wait(queue)
            if queue.posts:  # final messages first
                await self._deliver(chat, queue, queue.posts.popleft())
            elif queue.edits:
                await self._apply_edit(queue, queue.edits.popleft())
            elif queue.deletions and flood <= 0:
                await self._delete(queue, queue.deletions.popleft())
            elif queue.reactions:  # without budget it is dropped: it would come too late
                seen, now = queue.reactions.popleft(), trio.current_time()
                if flood <= 0 and not (queue.previews.delay(now) or self._all_previews.delay(now)):
                    await self._show_progress(queue, seen, _Frame("reaction", SEEN))
            elif self._stopping:
                return
            elif (frame := self._next_frame(queue)) is not None:
                await self._show_progress(queue, *frame)
            else:
                with trio.move_on_after(flood if queue.deletions else max(IDLE, flood)) as idle:
                    await queue.wake.wait()
                # No checkpoint from here to the end: no message can come in between.
                pending = queue.posts or queue.edits or queue.deletions or queue.reactions
                lines = any(screen.message is not None for screen in queue.screens.values())
                keep = pending or queue.ending or lines or self._stopping
                if idle.cancelled_caught and not keep:
                    del self._queues[chat]
                    return

    def _next_frame(self, queue: _ChatQueue) -> tuple[_Screen, _Frame] | None:
        """Return the next progress frame of this chat, if the budget allows one."""
        now = trio.current_time()
        if self._away or self._flood_wait(queue) > 0 or self._all_previews.delay(now):
            return None
        edits = not (queue.messages.delay(now, leave=EDITS_LEAVE) or self._total.delay(now))
        draws = not queue.previews.delay(now)
        for screen in queue.screens.values():
            frame = screen.next_frame(now, self._pacing, edits=edits, draws=draws)
            if frame is not None:
                return screen, frame
        return None

    async def _show_progress(
        self, queue: _ChatQueue, screen: _Screen | React, frame: _Frame
    ) -> None:
        now = trio.current_time()
        self._all_previews = self._all_previews.spend(now)
        if frame.kind == "line":  # it counts as a message
            queue.messages = queue.messages.spend(now)
            self._total = self._total.spend(now)
        else:
            queue.previews = queue.previews.spend(now)
        try:
            if isinstance(screen, React):
                number = int(screen.message.rpartition(":")[2])
                await self._bot.set_message_reaction(queue.chat, number, frame.text)
                return
            before = screen.message
            await screen.show(self._bot, queue.chat, frame, now)
            if screen.message is not None and screen.message != before:
                if self._stopping:  # it was on its way at the stop
                    queue.deletions.append(screen.message)
                await self._status.add(queue.chat, screen.message)
        except TelegramError as error:
            if error.code == 429:
                self._pause_chat(queue, error)
            elif error.code == 403:
                self._set_unreachable(queue.chat, explain(error))
        except (Unreachable, Interrupted):
            pass  # progress only; the answer does not depend on it

    async def _delete(self, queue: _ChatQueue, message: int) -> None:
        """Delete a message of ours; retry only network errors and flood control."""
        try:
            await self._bot.delete_message(queue.chat, message)
        except FAILURES as error:
            if remedy(error) in ("not sent", "unknown", "wait"):
                if not self._stopping:
                    queue.deletions.append(message)
                    self._pause_chat(queue, error)
                return
        await self._status.remove(queue.chat, message)

    async def _deliver(self, chat: int, queue: _ChatQueue, post: Post) -> None:
        screen = queue.screens.pop(post.route.thread, None)
        if screen is not None and screen.message is not None:
            queue.ending.append(screen.message)
        with show_wait(f"a message to be sent to chat {chat}", limit=4 * CALL_TIMEOUT):
            outcome = await self._send(chat, queue, post)
        is_lost = post.is_reply and queue.chat in self._unreachable
        if isinstance(outcome, Undeliverable) and is_lost:
            is_first = queue.chat not in self._missed
            self._missed.add(queue.chat)
            outcome = Undeliverable(outcome.why, first=is_first, away=True)
        post.reply.set(outcome)
        if isinstance(outcome, Sent):
            queue.delete_ended()
        elif isinstance(outcome, Undeliverable):
            log.warning("not deliverable", extra={"chat": chat, "why": outcome.why})

    async def _send(self, chat: int, queue: _ChatQueue, post: Post) -> PostResult:
        reply_to = None if post.route.reply_to is None else int(post.route.reply_to)
        options = SendOptions(queue.chat, _topic(post.route.thread), reply_to)
        part = mark_repeat(post.part) if post.repeat else post.part
        left = deque(_pieces(part, post.files, albums=not post.buttons))
        if post.markdown:
            repeat = f"{REPEAT_MARK}\n\n" if post.repeat else ""
            left = deque([_Piece(part, markdown=repeat + post.markdown)])
        buttons = [(button.text, button.data) for button in post.buttons]
        arrived: Sent | None = None
        while left:
            await self._wait_for_budget(queue, max(1, len(left[0].files)))
            if queue.chat in self._unreachable:
                lost = Undeliverable(self._unreachable[queue.chat])
                return lost if arrived is None else _partial_failure(lost)
            if post.reply.is_settled:  # the sender no longer waits, and will retry
                return arrived or Unsent("its sender no longer waits")
            if self._away or trio.current_time() < self._back_at + post.calm:
                away = Unsent(self._away or "Telegram was unreachable until now")
                return away if arrived is None else _partial_failure(away)
            piece = left.popleft()
            try:
                number = await piece.send(self._bot, options, () if left else buttons)
            except FAILURES as error:
                failed = self._prepare_retry(queue, options, piece, left, error)
                if failed is None:
                    continue
                return failed if arrived is None else _partial_failure(failed)
            report_done(SEND)
            arrived = Sent(f"{options.chat}:{number}")
            options.reply_to = None
            if options.chat != queue.chat:
                self._moved[chat] = queue.chat = options.chat
        return arrived or Undeliverable("the message is empty")

    async def _apply_edit(self, queue: _ChatQueue, edit: Edit) -> None:
        """Edit a message; the progress display stays."""
        with show_wait(f"an edit in chat {queue.chat}", limit=4 * CALL_TIMEOUT):
            edit.reply.set(await self._edit(queue, edit))

    async def _edit(self, queue: _ChatQueue, edit: Edit) -> PostResult:
        message = int(edit.message.rpartition(":")[2])
        buttons, part = [(button.text, button.data) for button in edit.buttons], edit.part
        while True:
            await self._wait_for_budget(queue)
            if edit.reply.is_settled:
                return Unsent("its sender no longer waits")
            if queue.chat in self._unreachable:
                return Undeliverable(self._unreachable[queue.chat])
            if self._away:
                return Unsent(self._away)
            try:
                if part is None:
                    await self._bot.edit_message_reply_markup(queue.chat, message, buttons)
                else:
                    text, entities = part.text, part.entities
                    await self._bot.edit_message_text(queue.chat, message, text, entities, buttons)
            except FAILURES as error:
                cure, why = remedy(error), explain(error)
                if cure in ("not sent", "unknown"):
                    self._doubt.give()
                match cure:
                    case "wait":
                        self._note_flood(queue, error)
                    case "not sent" | "no access":
                        return Unsent(why)
                    case "unknown":
                        return Unsure(why)
                    case _:
                        return Undeliverable(why)
            else:
                return Sent(edit.message)

    def _prepare_retry(
        self,
        queue: _ChatQueue,
        options: SendOptions,
        piece: _Piece,
        left: deque[_Piece],
        error: Failure,
    ) -> Unsure | Unsent | Undeliverable | None:
        """Adapt *options* and *left* for a retry and return None, or return the final outcome."""
        why = explain(error)
        cure = remedy(error)
        if cure in ("not sent", "unknown"):
            self._doubt.give()
        if piece.markdown and isinstance(error, TelegramError) and error.code in (400, 404):
            left.extendleft(reversed(_pieces(piece.text)))  # retry without Markdown
            return None
        if cure in ("not sent", "no access"):
            report_error(SEND, why)
            return Unsent(why)
        if cure == "unknown":
            report_error(SEND, why)
            return Unsure(why)
        if isinstance(error, TelegramError) and error.code == 403:
            self._set_unreachable(queue.chat, why)
        again = piece.smaller() if cure == "split" else (piece,)
        if cure == "wait":
            self._note_flood(queue, error)
        elif not again or not options.adapt(cure, error):
            return Undeliverable(why)
        left.extendleft(reversed(again))
        return None

    async def _wait_for_budget(self, queue: _ChatQueue, count: int = 1) -> None:
        """Wait until the budgets of this chat and of all chats allow *count* messages; spend them.

        Each picture of an album counts.
        """
        now = await _sleep_while(
            lambda now: max(queue.flooded_until - now, queue.messages.delay(now, count=count))
        )
        queue.messages = queue.messages.spend(now, count)
        async with self._turns:
            now = await _sleep_while(
                lambda now: max(self._all_flooded_until - now, self._total.delay(now, count=count))
            )
            self._total = self._total.spend(now, count)

    def _flood_wait(self, queue: _ChatQueue) -> float:
        """Return the seconds until flood control permits sending to a chat."""
        return max(queue.flooded_until, self._all_flooded_until) - trio.current_time()

    def _pause_chat(self, queue: _ChatQueue, error: Failure) -> None:
        """Pause a chat for the time in *error*."""
        hint = error.retry_after if isinstance(error, TelegramError) else None
        wait = FLOOD if hint is None else hint
        queue.flooded_until = trio.current_time() + wait + self._random() * JITTER

    def _note_flood(self, queue: _ChatQueue, error: Failure) -> None:
        """Pause a chat after a refusal, or all chats if two were refused together."""
        self._pause_chat(queue, error)
        now = trio.current_time()
        if self._refused is not None:
            other, at = self._refused
            if other is not queue and now - at < TOGETHER:
                # Their common limit ends with the shorter wait.
                common = min(other.flooded_until, queue.flooded_until)
                self._all_flooded_until = max(self._all_flooded_until, common)
        self._refused = queue, now


def _partial_failure(failed: Unsure | Unsent | Undeliverable) -> Unsure | Undeliverable:
    """Return the outcome of a failure after a part of the message has arrived."""
    if isinstance(failed, Undeliverable):
        return Undeliverable(f"{failed.why}; a part of it arrived")
    return Unsure(failed.why)


async def _sleep_while(delay: Callable[[float], float]) -> float:
    """Sleep until *delay* returns 0 or less; return the time."""
    while True:
        now = trio.current_time()
        wait = delay(now)
        if wait <= 0:
            return now
        await trio.sleep(wait)


def _topic(thread: str) -> int | None:
    return None if thread in ("", GENERAL) else int(thread)
