"""Sends to Telegram: one task per chat, within its budgets, and says honestly what became of it."""

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
from elwood.foundation.net.http import Interrupted, Unreachable
from elwood.foundation.runtime import (
    Lock,
    Mailbox,
    Signal,
    clear_error,
    report_done,
    report_error,
    waiting,
)
from elwood.foundation.text.characters import utf16_length
from elwood.foundation.text.markdown import REPEAT_MARK, Rich, mark_repeat
from elwood.foundation.text.splitting import MESSAGE_LIMIT, split

log = logging.getLogger("elwood.telegram")

# Messages that may wait for one chat, and marks of messages as seen, which give way to newer ones.
MAX_WAITING, MAX_REACTIONS = 64, 8
SEEN = "👀"
# Chats of which it is kept that nothing arrives there.
MAX_GONE = 1000
# Seconds after which an idle chat is forgotten: its longest window has passed.
IDLE = 60.0
# Seconds at most by which a flood wait is prolonged at random.
JITTER = 0.25
# Seconds to wait when flood control does not say how long.
FLOOD = 5.0
# Seconds within which refused messages in two chats mean that the whole bot sends too much.  Flood
# control does not say whom it means.  A single chat can be refused for an hour for a reason of its
# own (slow mode, edits), so one refusal holds that chat only.
TOGETHER = 5.0
# Seconds between two looks whether Telegram is back.
PROBE = 4.0
# Messages of a group's budget that edits leave for what is final.
EDITS_LEAVE = 2
# The topic that every forum has; messages to it name none.
GENERAL = "1"
SEND = "sending to Telegram"
# UTF-16 units of the text under a file.
MAX_CAPTION = 1024
# Pictures of an album.
MAX_ALBUM = 10
# Seconds after which a draft is shown anew: the API shows it for 30.
REFRESH = 20.0
# UTF-16 units of a draft; what is said beyond them stands in the next one.
MAX_DRAFT = 3900
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
    """What one call sends: a text, or a file with a text under it, or an album with one.

    *markdown* is the text for a rich message.
    """

    text: Rich
    files: tuple[Attachment, ...] = ()
    markdown: str = ""

    async def send(self, bot: Bot, options: SendOptions, buttons: Iterable[tuple[str, str]]) -> int:
        """Send it with *options* and return the message's id.  Raises what the bot raises."""
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
        """Cut it, as it was too long after all; nothing if there is nothing to cut."""
        if self.files:
            text = (_Piece(self.text),) if self.text.text else ()
            alone = tuple(_Piece(Rich(""), (file,)) for file in self.files)
            return (*text, *alone) if text or len(alone) > 1 else ()
        halves = split(self.text, max(2, utf16_length(self.text.text) // 2))
        return tuple(_Piece(half) for half in halves)


def _pieces(
    text: Rich, files: Sequence[Attachment] = (), *, albums: bool = True
) -> tuple[_Piece, ...]:
    """Cut a message into what single calls can send; a short text goes under the first file."""
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
    """What one call shows of work that goes on."""

    kind: Literal["typing", "draft", "line", "reaction"]
    text: str = ""


class _Screen:
    """What is seen of work in one topic, until the next message there.

    In a private chat that is a draft of what is said, or else that somebody types, and a line, a
    silent message that is edited, of what runs.  In a group that message holds both.  Only the
    newest of each is kept: what there was no room for is not shown later.
    """

    def __init__(self, route: Route) -> None:
        self.route = route
        self.message: int | None = None
        self._is_lost = False
        self._newest: Draft | None = None
        self._turn = self._draft = 0
        self._page = self._shown = self._runs = self._line = ""
        self._looked_at = self._drawn_at = self._typed_at = self._edited_at = float("-inf")
        self._is_alive = False

    def take(self, mail: Draft | Typing | Status) -> None:
        match mail:
            case Draft():
                self._newest = mail
            case Status(text=text):
                self._runs = text
            case Typing(why=why):
                self._is_alive = True
                self._runs = f"⏳ {why}" if why else self._runs

    def due(self, now: float, pacing: Pacing, *, edits: bool, draws: bool) -> _Frame | None:
        """Return what is to be shown now; there is room for *edits* of the line, or *draws*."""
        private = self.route.private
        gap = pacing.status_gap if private else pacing.edit_gap
        if edits and not self._is_lost and now - self._edited_at >= gap:
            if not private:
                self._turn_page(now, pacing.draft_gap)
            said = "" if private or not self._page else self._page + UNFINISHED
            line = "\n\n".join(filter(None, (said, self._runs)))
            if line not in ("", self._line):
                return _Frame("line", line)
        if not draws:
            return None
        if private and now - self._drawn_at >= pacing.draft_gap:
            self._turn_page(now, pacing.draft_gap)
            fades = self._is_alive and now - self._drawn_at >= REFRESH
            if self._page and (self._page != self._shown or fades):
                return _Frame("draft", self._page)
        seen = max(self._typed_at, self._edited_at)
        if self._is_alive and not (private and self._page) and now - seen >= pacing.typing_gap:
            return _Frame("typing")
        return None

    def _turn_page(self, now: float, gap: float) -> None:
        """Take in what was said last: more on the same page, or another one.

        Clients animate what is added at the end of a draft; what is not has a new one.
        Once in *gap* seconds, because the whole text is searched for secrets each time.
        """
        if self._newest is None or now - self._looked_at < gap:
            return
        mail, self._newest, self._looked_at = self._newest, None, now
        text = mail.text
        page = split(Rich(text), MAX_DRAFT)[-1].text if text.strip() else ""
        if mail.draft != self._turn:
            self._turn = self._draft = mail.draft
        elif self._page.startswith(page):
            return  # it is said once more, from the start
        elif not page.startswith(self._page):
            self._draft += 1
        self._page = page

    async def show(self, bot: Bot, chat: int, frame: _Frame, now: float) -> None:
        """Show *frame*.  Raises what the bot raises."""
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
                # If it is not known whether it was sent, there may be one stray message, no second.
                self._is_lost = True
                self.message = await bot.send_message(
                    chat, frame.text, (), topic=topic, silent=True
                )
                self._is_lost = False
                self._shown = ""  # some clients take the draft away now


@attrs.define(eq=False)
class _ChatQueue:
    """One chat: what waits for it and what it has had."""

    chat: int
    messages: Bucket
    previews: Bucket
    posts: deque[Post] = attrs.field(factory=deque)
    edits: deque[Edit] = attrs.field(factory=deque)
    # What is seen of work, by thread, and messages of ours that go: with the next post, or now.
    screens: dict[str, _Screen] = attrs.field(factory=dict)
    ending: list[int] = attrs.field(factory=list)
    gone: deque[int] = attrs.field(factory=deque)
    flooded_until: float = 0.0
    wake: trio.Event = attrs.field(factory=trio.Event)
    reactions: deque[React] = attrs.field(factory=lambda: deque(maxlen=MAX_REACTIONS))

    def delete_ended(self) -> None:
        """Queue each ended status message for deletion, once."""
        self.gone.extend(self.ending)
        self.ending.clear()


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
        self._total = per_second(total)
        self._all_previews = per_second(min(total / 2, self._pacing.all_previews))
        self._all_flooded_until = 0.0  # no chat may have anything
        self._refused: tuple[_ChatQueue, float] | None = None  # the newest, and when
        self._turns = Lock()  # fair: chats take their turn at the global budget
        self._queues: dict[int, _ChatQueue] = {}
        self._moved: dict[int, int] = {}
        # Chats where nothing arrives, and why; and of these, where something was to arrive since.
        self._gone: dict[int, str] = {}
        self._missed: set[int] = set()
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
                    if isinstance(mail, Reachable):
                        self._know(int(mail.route.chat), mail.gone)
                    else:
                        self._take(self._queue(nursery, mail.route), mail)
                self._stopping = True
                for queue in self._queues.values():
                    queue.ending += [one.message for one in queue.screens.values() if one.message]
                    queue.screens.clear()
                    queue.delete_ended()
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

    def _queue(self, nursery: trio.Nursery, route: Route) -> _ChatQueue:
        chat = int(route.chat)
        queue = self._queues.get(chat)
        if queue is None:
            messages = self._pacing.chat if route.private else self._pacing.group
            moved = self._moved.get(chat, chat)
            queue = self._queues[chat] = _ChatQueue(moved, messages, self._pacing.previews)
            nursery.start_soon(self._keep, chat, queue)
        return queue

    def _know(self, chat: int, gone: str) -> None:
        """Note that nothing arrives in *chat*, as *gone* says; or, if empty, that it may again."""
        if not gone:
            self._gone.pop(chat, None)
            self._missed.discard(chat)
        elif chat not in self._gone:
            self._gone[chat] = gone
            while len(self._gone) > MAX_GONE:  # forgotten, it costs one call that is refused
                self._know(next(iter(self._gone)), "")

    def _take(self, queue: _ChatQueue, mail: Post | Edit | Draft | Typing | React | Status) -> None:
        match mail:
            case Post() | Edit():
                if len(queue.posts) + len(queue.edits) >= MAX_WAITING:
                    mail.reply.set(Unsent(f"{MAX_WAITING} messages wait for this chat already"))
                elif isinstance(mail, Post):
                    queue.posts.append(mail)
                else:
                    queue.edits.append(mail)
            case _ if queue.chat in self._gone:
                return  # nobody would see it
            case Draft(is_thought=True):
                return  # there is no place for it beside the answer
            case Draft() | Typing() | Status():
                thread = mail.route.thread
                if thread not in queue.screens:
                    queue.screens[thread] = _Screen(mail.route)
                queue.screens[thread].take(mail)
                if self._due(queue) is None:
                    return  # nothing to wake up for: in a crowd that is most of it
            case React():
                queue.reactions.append(mail)
            case _:
                assert_never(mail)
        queue.wake.set()

    async def _keep(self, chat: int, queue: _ChatQueue) -> None:
        """Serve one chat until it has been idle for long."""
        while True:
            queue.wake = trio.Event()
            flood = self._flood(queue)
            if queue.posts:  # what is final comes first
                await self._deliver(chat, queue, queue.posts.popleft())
            elif queue.edits:
                await self._change(queue, queue.edits.popleft())
            elif queue.gone and flood <= 0:
                await self._take_away(queue, queue.gone.popleft())
            elif queue.reactions:  # one for which there is no room would come too late
                seen, now = queue.reactions.popleft(), trio.current_time()
                if flood <= 0 and not (queue.previews.delay(now) or self._all_previews.delay(now)):
                    await self._show(queue, seen, _Frame("reaction", SEEN))
            elif self._stopping:
                return
            elif (next_ := self._due(queue)) is not None:
                await self._show(queue, *next_)
            else:
                with trio.move_on_after(flood if queue.gone else max(IDLE, flood)) as idle:
                    await queue.wake.wait()
                # No checkpoint from here to the end: no message can come in between.
                waits = queue.posts or queue.edits or queue.gone or queue.ending or queue.reactions
                lines = any(screen.message is not None for screen in queue.screens.values())
                if idle.cancelled_caught and not (waits or lines or self._stopping):
                    del self._queues[chat]
                    return

    def _due(self, queue: _ChatQueue) -> tuple[_Screen, _Frame] | None:
        """Find what is to be shown of work in this chat, if there is room for it."""
        now = trio.current_time()
        if self._away or self._flood(queue) > 0 or self._all_previews.delay(now):
            return None
        edits = not (queue.messages.delay(now, leave=EDITS_LEAVE) or self._total.delay(now))
        draws = not queue.previews.delay(now)
        for screen in queue.screens.values():
            frame = screen.due(now, self._pacing, edits=edits, draws=draws)
            if frame is not None:
                return screen, frame
        return None

    async def _show(self, queue: _ChatQueue, screen: _Screen | React, frame: _Frame) -> None:
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
            await screen.show(self._bot, queue.chat, frame, now)
        except TelegramError as error:
            if error.code == 429:
                self._hold(queue, error)
            elif error.code == 403:
                self._know(queue.chat, explain(error))
        except (Unreachable, Interrupted):
            pass  # decoration; the answer does not depend on it

    async def _take_away(self, queue: _ChatQueue, message: int) -> None:
        """Delete a message of ours; one that cannot be deleted stays."""
        try:
            await self._bot.delete_message(queue.chat, message)
        except FAILURES as error:
            if remedy(error) in ("not sent", "unknown", "wait") and not self._stopping:
                queue.gone.append(message)
                self._hold(queue, error)

    async def _deliver(self, chat: int, queue: _ChatQueue, post: Post) -> None:
        screen = queue.screens.pop(post.route.thread, None)
        if screen is not None and screen.message is not None:
            queue.ending.append(screen.message)
        with waiting(f"a message to be sent to chat {chat}", limit=4 * CALL_TIMEOUT):
            outcome = await self._send(chat, queue, post)
        gone = post.is_reply and queue.chat in self._gone
        if isinstance(outcome, Undeliverable) and gone and queue.chat not in self._missed:
            self._missed.add(queue.chat)
            outcome = Undeliverable(outcome.why, first=True)
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
            await self._room(queue)
            if queue.chat in self._gone:
                lost = Undeliverable(self._gone[queue.chat])
                return lost if arrived is None else _partly(lost)
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
            report_done(SEND)
            arrived = Sent(f"{options.chat}:{number}")
            options.reply_to = None
            if options.chat != queue.chat:
                self._moved[chat] = queue.chat = options.chat
        return arrived or Undeliverable("there is nothing in it to send")

    async def _change(self, queue: _ChatQueue, edit: Edit) -> None:
        """Edit a message; nothing goes off the screen for it."""
        with waiting(f"an edit in chat {queue.chat}", limit=4 * CALL_TIMEOUT):
            edit.reply.set(await self._edit(queue, edit))

    async def _edit(self, queue: _ChatQueue, edit: Edit) -> PostResult:
        message = int(edit.message.rpartition(":")[2])
        buttons, part = [(button.text, button.data) for button in edit.buttons], edit.part
        while True:
            await self._room(queue)
            if edit.reply.is_settled:
                return Unsent("nobody waits for it any more")
            if queue.chat in self._gone:
                return Undeliverable(self._gone[queue.chat])
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
                        self._flooded(queue, error)
                    case "not sent" | "no access":
                        return Unsent(why)
                    case "unknown":
                        return Unsure(why)
                    case _:
                        return Undeliverable(why)
            else:
                return Sent(edit.message)

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
        if piece.markdown and isinstance(error, TelegramError) and error.code in (400, 404):
            left.extendleft(reversed(_pieces(piece.text)))  # it can be said otherwise
            return None
        if cure in ("not sent", "no access"):
            report_error(SEND, why)
            return Unsent(why)
        if cure == "unknown":
            report_error(SEND, why)
            return Unsure(why)
        if isinstance(error, TelegramError) and error.code == 403:
            self._know(queue.chat, why)
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
            now = await _sleep_while(
                lambda now: max(self._all_flooded_until - now, self._total.delay(now))
            )
            self._total = self._total.spend(now)

    def _flood(self, queue: _ChatQueue) -> float:
        """Return for how many seconds nothing may be sent to a chat after a refusal."""
        return max(queue.flooded_until, self._all_flooded_until) - trio.current_time()

    def _hold(self, queue: _ChatQueue, error: Failure) -> None:
        """Send nothing to a chat for as long as *error* asks."""
        asked = error.retry_after if isinstance(error, TelegramError) else None
        wait = FLOOD if asked is None else asked
        queue.flooded_until = trio.current_time() + wait + self._random() * JITTER

    def _flooded(self, queue: _ChatQueue, error: Failure) -> None:
        """Hold a chat in which a message was refused, or all chats if all are meant."""
        self._hold(queue, error)
        now = trio.current_time()
        if self._refused is not None:
            other, at = self._refused
            if other is not queue and now - at < TOGETHER:
                # The limit that both have in common ends with the shorter wait.
                common = min(other.flooded_until, queue.flooded_until)
                self._all_flooded_until = max(self._all_flooded_until, common)
        self._refused = queue, now


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


def _topic(thread: str) -> int | None:
    return None if thread in ("", GENERAL) else int(thread)
