"""Delivers replies to their channel, and shows drafts of an answer.

Each part of a reply is recorded before and after it is sent. A send has no idempotency key, so for
a moment its outcome is unknown; a part that may have arrived is sent again, marked as a repeat.
"""

import math
from collections.abc import Callable
from functools import partial

import trio

from elwood.agent.channels.channel import Channel, Channels
from elwood.agent.channels.client import FIRST_PAUSE, LAST_PAUSE, UNSENT_PAUSE, TellOwner, post_once
from elwood.agent.channels.messages import (
    Attachment,
    Button,
    Draft,
    Post,
    React,
    Sent,
    Status,
    Typing,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.inbound import encode_command
from elwood.agent.conversation.route import Route
from elwood.agent.models.client import Thought
from elwood.agent.models.messages import Delayed, Progress
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import Delivered, Entry, Posted, Posting, Received, Replied
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.turns import Turn, Undelivered
from elwood.foundation.log import bind
from elwood.foundation.runtime import show_wait
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.text.characters import well_formed
from elwood.foundation.text.lines import duration, one_line, shorten
from elwood.foundation.text.markdown import Rich, to_entities
from elwood.foundation.text.splitting import split, with_footer

# Factor for the wait after a crash of the outbox, perhaps because of this message: its own restart
# is delayed by the same times, and other messages must have their turn in between.
AFTER_CRASH = 4.0
# Characters of an answer above which work on it could block other tasks for a moment.
MUCH = 10_000
# Maximum messages of an answer; longer answers become a file, after a message with the beginning.
MAX_MESSAGES, BEGINNING = 4, 1500
IN_A_FILE = "… The whole answer is in the file below."
# Seconds between two signs of life of a turn.
ALIVE_EVERY = 2.0
# Seconds without any sign: an answer within this time needs no announcement.
SILENT = 0.5
# Seconds before a status line for a call, and characters of the call in it.
STATUS_AFTER, MAX_STATUS = 5.0, 150
THINKS = "thinking"
# Characters of a draft: longer answers become files, and each new word would be searched for
# secrets in all of it.
DRAFT = 16_384
# Characters of the text before calls that stays above the next text.
MAX_BEFORE = 3000
# Draft ids of one turn: a channel that shows a long text in several drafts uses the next ones.
DRAFTS_PER_TURN = 1000


# Message before replies that their person could not get.
MISSED = "I could not reach you, so these messages waited:"
# Seconds after which an undelivered reply shows as stuck.
STUCK_AFTER = 60.0
# Characters of an undeliverable answer that the owner is shown.
LOST = 1000

Place = tuple[str, str, str]


def _place(undelivered: Undelivered) -> Place:
    route = undelivered.replied.route
    return route.channel, route.chat, route.thread


class Delivery:
    """Delivers the replies of one session, in order per recipient; recipients are independent."""

    def __init__(self, core: Core, log_: SessionLog) -> None:
        self._log = log_
        self._blocking = core.environment.blocking
        self._channels = core.channels
        self._redactor = core.redactor
        self._unsent: set[tuple[str, int]] = set()

    async def accept(self, replied: Replied, *before: Entry) -> None:
        """Record *before* and *replied* as one; then deliver the reply, unless it is quiet."""
        if self._log.state.undelivered or replied.quiet:
            await self._log.keep(*before, replied, last_words=True)
            return
        # If the queue is empty, the record of the first part goes into the same line.
        self._unsent.add((replied.reply, 0))
        posting = Posting(replied.reply, 0, 1)
        await self._log.keep(*before, replied, posting, last_words=True)

    def route(self, answered: Turn | Received) -> Route:
        """Return the route of an answer to *answered* at this time."""
        run = answered.bounds
        follows = run is not None and run.follows
        owner = self._channels.owner_routes() if follows else ()
        return next(iter(owner), answered.route)

    def mark_seen(self, received: Received) -> None:
        """Mark a message that waits for a turn as seen."""
        outbox = self._channels.outboxes.get(received.route.channel)
        if outbox is not None and received.message is not None:
            outbox.offer(React(route=received.route, message=received.message))

    async def run(self) -> None:
        """Deliver as long as the session lives."""
        busy: set[Place] = set()

        def is_idle(undelivered: Undelivered) -> bool:
            return _place(undelivered) not in busy

        async with trio.open_nursery() as nursery:
            while True:
                for undelivered in self._log.state.undelivered.values():
                    place = _place(undelivered)
                    if place not in busy:
                        busy.add(place)
                        nursery.start_soon(self._deliver_all, place, busy)
                await self._log.wait_until(
                    lambda: any(map(is_idle, self._log.state.undelivered.values()))
                )

    async def _deliver_all(self, place: Place, busy: set[Place]) -> None:
        while undelivered := self._next(place):
            what = f"delivery of {undelivered.replied.reply}"
            cause = bind(message=undelivered.message, turn=undelivered.replied.turn)
            with cause, show_wait(what, limit=STUCK_AFTER):
                await self._deliver(undelivered)
        busy.discard(place)

    def _next(self, place: Place) -> Undelivered | None:
        undelivered = self._log.state.undelivered.values()
        return next((one for one in undelivered if _place(one) == place), None)

    async def _deliver(self, undelivered: Undelivered) -> None:
        replied = undelivered.replied
        markdown = None
        channel = self._channels.get_by_route(replied.route)
        if not undelivered.posted:
            hide = not replied.untrusted
            markdown = channel.to_markdown(replied.text, replied.footer, hide_targets=hide)
        made = partial(_split_reply, replied, channel, markdown is not None)
        pieces = made() if len(replied.text) <= MUCH else await self._blocking(made)
        typed = (
            *(Button(text, encode_command(number)) for number, text in enumerate(replied.buttons)),
            *(Button(text, encode_command(command)) for text, command in replied.pages.items()),
        )
        for number, (piece, files) in enumerate(pieces):
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
                    files=files,
                    repeat=repeat,
                    buttons=typed if number == len(pieces) - 1 else (),
                    is_reply=True,
                    markdown=markdown or "",
                    records="" if markdown is None else replied.footer,
                )
                pause, outbox = delay, self._channels.outboxes.get(replied.route.channel)
                match await post_once(outbox, post, math.inf):
                    case Sent(message):
                        done = (Delivered(replied.reply),) if number == len(pieces) - 1 else ()
                        posted = Posted(*key, message)
                        # If a power cut loses it, the part is sent again, marked as a repeat.
                        await self._log.keep(posted, *done, last_words=True, synced=False)
                        break
                    case Undeliverable(why, first, away):
                        if first:
                            await self._tell_owner(replied, why)
                        away = away and replied.route.private and replied.text != MISSED
                        await self._log.keep(Delivered(replied.reply, why, away), last_words=True)
                        return
                    case Unsure(crashed=crashed):
                        repeat, recorded = True, False
                        pause = AFTER_CRASH * delay if crashed else delay
                    case Unsent():  # the record is still correct
                        recorded, pause = True, min(delay, UNSENT_PAUSE)
                await trio.sleep(pause)
                delay = min(LAST_PAUSE, delay * 2)
        if replied.reply in self._log.state.undelivered:
            # Another version split it into more parts, and all parts of this version have arrived.
            await self._log.keep(Delivered(replied.reply), last_words=True)

    async def send_missed(self, route: Route) -> None:
        """Send the replies that waited for the person at *route*, who is back."""
        waited = self._log.state.missed.items()
        back = {reply: one for reply, one in waited if one.replied.route.is_same_chat(route)}
        postings = list[Posting]()
        for reply, one in back.items():
            part = len(one.posted)
            self._unsent.add((reply, part))
            postings.append(Posting(reply, part, one.attempts[part] + 1))
        if postings:
            first = postings[0]
            note = f"{first.reply}:missed:{first.attempt}"
            to = back[first.reply].replied.route
            await self._log.keep(Replied(note, None, (), to, MISSED), *postings, last_words=True)

    async def _tell_owner(self, replied: Replied, why: str) -> None:
        """Report to the owner in another chat the first undeliverable answer of a chat.

        The answer in a private chat may be another owner's: it waits for its person.
        """
        route = replied.route

        def elsewhere() -> list[Route]:
            routes = self._channels.owner_routes()
            return [one for one in routes if not one.is_same_chat(route)]

        place = f"the {'chat' if route.private else 'group'} {route.chat}"
        rest = (
            "I send my answers when they are back."
            if route.private
            else "I could not post the answer below. To see later ones, use "
            f"`elwood session show {self._log.id}` in a terminal.\n\n{shorten(replied.text, LOST)}"
        )
        await TellOwner(self._channels.outboxes, elsewhere, self._redactor)(
            f"I can no longer send messages to {place}: {why}. {rest}"
        )


def _split_reply(
    replied: Replied, channel: Channel, whole: bool
) -> list[tuple[Rich, tuple[Attachment, ...]]]:
    """Split a reply into messages, or one if *whole*; always in the same way.

    A very long reply becomes a file, with a message before it that has the beginning.
    """
    # Opening a link sends its address out, and strangers' words may have chosen it.
    hide = not replied.untrusted
    if whole:
        return [(with_footer(replied.text, replied.footer, hide_targets=hide), ())]
    pieces = channel.render(replied.text, replied.footer, hide_targets=hide)
    if len(pieces) <= MAX_MESSAGES or not channel.files:
        return [(piece, ()) for piece in pieces]
    beginning = split(
        to_entities(replied.text, hide_targets=hide), BEGINNING, channel.size.offsets
    )[0]
    told = Rich(f"{beginning.text}\n\n{IN_A_FILE}", beginning.entities)
    footer = replied.footer
    *footers, caption = channel.render("", footer) if footer else [Rich("")]
    file = Attachment("answer.txt", replied.text.encode())
    return [(told, ()), *((one, ()) for one in footers), (caption, (file,))]


class Showing:
    """Shows the turns of one session while they run."""

    def __init__(self, channels: Channels, redactor: Redactor) -> None:
        self._channels = channels
        self._redactor = redactor
        self._turn: Turn | None = None
        self._peeks: dict[str, Callable[[], str]] = {}
        self._newest: Progress | None = None
        self._has_newest = trio.Event()
        self._before = ""
        # Time of the next sign of life; changed without waking the task that waits.
        self._due = math.inf
        self._wait = trio.CancelScope()

    def begin(self, turn: Turn, number: int) -> None:
        """Show *turn*, which has the *number*, from now on."""
        self._turn = turn
        self._route = turn.route
        self._outbox = self._channels.outboxes.get(self._route.channel)
        self._draft = number * DRAFTS_PER_TURN
        self._before, self._newest = "", None
        self._is_full = False  # the draft of this response
        self._is_late = False  # text before calls has not been shown yet
        self._running, self._since, self._has_line = "", 0.0, False
        self._loud_at = trio.current_time() + SILENT
        self._give_sign_at(self._loud_at)

    def end(self) -> None:
        """Stop showing the turn."""
        self._turn = self._newest = None
        self._peeks.clear()
        self._give_sign_at(math.inf)

    def take(self, said: Progress) -> bool:
        """Show the newest output of a model; return True if it is text of an answer."""
        is_text = isinstance(said, str)
        if self._turn is None or self._outbox is None:
            return False
        if isinstance(said, str) and (trio.current_time() < self._loud_at or not said.strip()):
            return False
        self._newest = said
        self._has_newest.set()
        return is_text

    async def run(self) -> None:
        """Show drafts, signs of life, and how long a call has been running."""
        while True:
            with trio.CancelScope(deadline=self._due) as self._wait:
                await self._has_newest.wait()
            self._has_newest = trio.Event()
            if self._turn is None:
                continue
            match self._newest:
                case str() as text:
                    self._show_text(text)
                case Thought(text):
                    self._show_thought(text)
                case Delayed(why):
                    self._offer(Typing(route=self._route, why=self._redactor(why)))
            self._newest = None
            if trio.current_time() >= self._due:
                self._give_sign_at(trio.current_time() + ALIVE_EVERY)
                self._give_sign(self._turn)

    def _give_sign_at(self, time: float) -> None:
        self._due = self._wait.deadline = time

    def _give_sign(self, turn: Turn) -> None:
        if self._is_late:
            self._show("", str)
            self._is_late = False
        now = trio.current_time()
        if turn.running != self._running:
            self._running, self._since = turn.running, now
        running, took = self._running, now - self._since
        self._has_line = self._has_line or bool(running and took >= STATUS_AFTER)
        if running or not turn.asking:  # otherwise the owner's answer is next
            if self._has_line:
                what = f"{one_line(running, MAX_STATUS)} · {duration(took)}"
                self._offer(Status(route=self._route, text=f"⏳ {what if running else THINKS}"))
            self._offer(Typing(route=self._route))
        for step, peek in self._peeks.items():
            self._offer_detail(step, peek())

    def _show_text(self, text: str) -> None:
        if self._is_full and len(text) > DRAFT:
            return  # it would be the same draft
        self._is_full = self._show(text, self._redactor.partial) and len(text) > DRAFT

    def _show_thought(self, text: str) -> None:
        """Show the thinking so far, to those who want to see it."""
        self._offer_draft(text, is_thought=True)

    def show_detail(self, step: str, text: str | Callable[[], str]) -> None:
        """Show more about the call *step*; a function is called until a text follows."""
        if isinstance(text, str):
            self._peeks.pop(step, None)
            self._offer_detail(step, f"{text}\n")
        else:
            self._peeks[step] = text

    def _offer_detail(self, step: str, text: str) -> None:
        if self._turn is not None and text.strip():
            self._offer_draft(text, step=step)

    def _offer_draft(self, text: str, *, is_thought: bool = False, step: str = "") -> None:
        draft = Draft(
            route=self._route,
            draft=self._draft,
            unredacted=text,
            redact=self._redact_end,
            is_thought=is_thought,
            step=step,
        )
        self._offer(draft)

    def show_response(self, text: str) -> None:
        """Show the whole *text* of a response with calls; later text is shown below it."""
        is_long = len(text) > 2 * DRAFT
        redact = self._redactor.partial if is_long else self._redactor
        whole = redact(text[: 2 * DRAFT])[:DRAFT]
        self._is_full = False
        if not whole.strip():
            return
        self._newest = None
        if trio.current_time() >= self._loud_at:
            self._show(whole, str)
        else:
            self._is_late = True
        before = f"{self._before}{whole}\n\n"
        self._before = before if len(before) <= MAX_BEFORE else ""

    def _redact_end(self, text: str) -> str:
        """Redact the end of *text*.  A secret that begins before the end is not shown in part."""
        shown = self._redactor.partial(well_formed(text[-2 * DRAFT :]))
        if len(text) > 2 * DRAFT:
            shown = shown[DRAFT // 2 :]
        return shown[-DRAFT:]

    def _show(self, text: str, redact: Callable[[str], str]) -> bool:
        before = self._before
        draft = Draft(
            route=self._route,
            draft=self._draft,
            unredacted=text[:DRAFT],
            redact=lambda text: before + redact(well_formed(text)),
        )
        return self._offer(draft)

    def _offer(self, message: Draft | Typing | Status) -> bool:
        return self._outbox is not None and self._outbox.offer(message)
