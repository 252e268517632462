"""Receives from Telegram and confirms only what somebody has taken."""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import attrs
import trio

from elwood.agent.slash import COMMANDS
from elwood.core.identity import (
    Addressed,
    House,
    Ignored,
    identify,
    is_allowed,
    person,
    session_of,
)
from elwood.core.markdown import Rich
from elwood.core.session import Route
from elwood.messages import (
    ApprovalsMail,
    Busy,
    Inbound,
    Interrupt,
    Meet,
    Migrate,
    Migrations,
    NotNow,
    OutboxMail,
    Post,
    Pressed,
    Refused,
    SessionsMail,
    Settled,
    Stranger,
    Unsent,
)
from elwood.runtime import Address, Mailbox, Request, trouble, well
from elwood.wire.telegram import Bot
from elwood.wire.telegram_errors import FAILURES, explain
from elwood.wire.telegram_poll import Poll
from elwood.wire.telegram_reading import (
    Order,
    heard,
    order_of,
    quote,
    route_of,
    said,
    unsupported,
)
from elwood.wire.telegram_settings import TelegramSettings
from elwood.wire.telegram_types import CallbackQuery, Message, Unreadable, Update

M = TypeVar("M")
T = TypeVar("T")
log = logging.getLogger(__name__)

HAND_ON = "handing on a message"
# Seconds for an answer from inside the house, and how often to ask.
PATIENCE, TRIES = 10.0, 3
# Seconds for a notice to a person to be sent.
NOTICE = 60.0
# Seconds between two notices to one chat that too much is waiting.
BUSY_NOTICE = 60.0
# What a stranger is told, with the code.
PAIRING = (
    "I do not know you yet. If you know the person I work for, give them this code: {}\n"
    "It is valid for an hour. I have kept nothing of what you wrote."
)


class Intake:
    """The long poll and, for each chat, one task that hands its updates on in order.

    An update is confirmed when everybody concerned has answered for it; until then Telegram
    keeps it, so this actor keeps nothing.  *random* and *silence* are those of `Poll`.
    """

    def __init__(
        self,
        bot: Bot,
        settings: TelegramSettings,
        *,
        sessions: Address[SessionsMail],
        approvals: Address[ApprovalsMail],
        outbox: Address[OutboxMail],
        random: Callable[[], float],
        silence: float = 120.0,
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._sessions = sessions
        self._approvals = approvals
        self._outbox = outbox
        self._new_poll = partial(Poll, bot, settings, random, silence)

    async def run(self, mailbox: Mailbox[None]) -> None:
        """Receive until stopped; nobody writes to *mailbox*, it only tells of the stop."""
        self._poll = self._new_poll()
        self._talks: dict[Order, deque[Update | Unreadable]] = {}
        self._busy_told: dict[int, float] = {}
        self._postponed: dict[int, int] = {}  # by chat, the update that had to wait
        self._albums: dict[int, str] = {}
        self._why = ""  # an update was not taken; there is no checkpoint from here to its use
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive, nursery)
            async for _ in mailbox:
                pass
            nursery.cancel_scope.cancel()

    async def _receive(self, nursery: trio.Nursery) -> None:
        me = await self._poll.introduce()
        moved = await self._approvals.insist(Migrations)
        self._house = House(
            bot=me.id,
            username=me.username or "",
            owners=frozenset(self._settings.owners),
            groups=frozenset(self._settings.groups),
            moved=moved,
        )
        nursery.start_soon(self._set_menu)
        while True:
            for update in await self._poll.fetch():
                self._hand_on(update, nursery)

    async def _set_menu(self) -> None:
        try:
            await self._bot.set_my_commands(COMMANDS)
        except FAILURES as error:  # the commands work without a menu
            log.warning("command menu not set", extra={"why": explain(error)})

    def _hand_on(self, update: Update | Unreadable, nursery: trio.Nursery) -> None:
        chat = order_of(update)
        talk = self._talks.get(chat)
        if talk is not None:
            talk.append(update)
            return
        self._talks[chat] = deque([update])
        nursery.start_soon(self._talk, chat)

    async def _talk(self, chat: Order) -> None:
        """Deal with the updates of one chat in order; one that nobody took is tried again."""
        waiting_for = self._talks[chat]
        while waiting_for:
            pause = 1.0
            while not await self._handle(waiting_for[0]):
                trouble(HAND_ON, self._why or "nobody takes it and its sender cannot be told")
                self._why = ""
                await trio.sleep(pause)
                pause = min(60.0, 2 * pause)
            well(HAND_ON)
            self._poll.settle(waiting_for.popleft().update_id)
        del self._talks[chat]

    async def _handle(self, update: Update | Unreadable) -> bool:
        """Deal with one update; False if it must not be confirmed yet."""
        if isinstance(update, Unreadable):
            log.warning("update not readable", extra={"update": update.update_id, "at": update.why})
        elif update.callback_query is not None:
            await self._press(update.callback_query)
        elif update.stopped_message_generation is not None:
            stopped = update.stopped_message_generation
            thread = stopped.message_thread_id
            self._sessions.offer(Interrupt(session_of(stopped.chat.id, thread, self._house.moved)))
        elif (message := update.message or update.edited_message) is not None:
            return await self._message(update.update_id, message, update.edited_message is not None)
        return True

    async def _message(self, number: int, message: Message, edited: bool) -> bool:
        if message.migrate_to_chat_id is not None:
            return await self._move(message.chat.id, message.migrate_to_chat_id)
        if message.migrate_from_chat_id is not None:
            return await self._move(message.migrate_from_chat_id, message.chat.id)
        who = identify(heard(message), self._house)
        if isinstance(who, Ignored) or message.is_service:
            return True
        route = route_of(message)
        if not who.principal.owner:
            met = await self._ask(
                self._approvals,
                lambda: Meet(principal=who.principal.id, name=who.principal.name, route=route),
            )
            if met is None:
                return False
            if isinstance(met, Stranger):
                return met.code is None or await self._tell(route, PAIRING.format(met.code))
        complaint = unsupported(message)
        if complaint is not None:
            # One complaint about an album is enough, and none about a live location that moves.
            seen = edited or self._is_same_album(message)
            return seen or await self._tell(route, complaint)
        self._is_same_album(message)
        return await self._inbound(number, message, edited, who, route)

    def _is_same_album(self, message: Message) -> bool:
        """Tell whether *message* continues the album that the last one of its chat was from."""
        before = self._albums.pop(message.chat.id, None)
        if message.media_group_id is not None:
            self._albums[message.chat.id] = message.media_group_id
        return before is not None and before == message.media_group_id

    async def _inbound(
        self, number: int, message: Message, edited: bool, who: Addressed, route: Route
    ) -> bool:
        name = f"{message.chat.id}:{message.message_id}"
        sent_at = message.edit_date if edited and message.edit_date else message.date
        taken = await self._ask(
            self._sessions,
            lambda: Inbound(
                session=who.session,
                id=f"tg:{self._house.bot}:{number}",
                principal=who.principal,
                route=route,
                text=said(message, who.text),
                sent_at=float(sent_at),
                message=name,
                edits=name if edited else None,
                quote=quote(message),
            ),
        )
        match taken:
            case Busy(waiting=count):
                now = trio.current_time()
                if now - self._busy_told.get(route.chat, float("-inf")) < BUSY_NOTICE:
                    return True
                told = await self._tell(
                    route,
                    f"{count} of your messages are waiting already, so I did not take this one, "
                    "nor those you send before I have answered. Please send them again later.",
                )
                if told:
                    self._busy_told[route.chat] = now
                return told
            case Refused(why=why):
                return await self._tell(route, f"I could not take this message: {why}")
            case NotNow(why=why):
                if self._postponed.get(route.chat) != number:
                    self._postponed[route.chat] = number
                    await self._tell(route, f"I cannot take messages now: {why}. I keep trying.")
                self._why = why
                return False
            case None:
                return await self._tell(
                    route, "I could not take this message. Please send it again in a minute."
                )
        return True

    async def _press(self, query: CallbackQuery) -> None:
        """Have a press decided, say what came of it, and take used buttons away.

        The decision counts whether or not Telegram still shows our answer to it (TG-26).
        """
        where = route_of(query.message) if query.message else None
        who, data = person(query.from_.id), query.data or ""
        pressed = partial(Pressed, principal=who, data=data, route=where)
        settled = await self._ask(self._approvals, pressed)
        if settled is None:
            settled = Settled("That did not work. Please press again in a minute.", ok=False)
        with suppress(*FAILURES):
            await self._bot.answer_callback_query(query.id, settled.text)
        if settled.ok and query.message is not None:
            with suppress(*FAILURES):
                await self._bot.edit_message_reply_markup(
                    query.message.chat.id, query.message.message_id
                )

    async def _move(self, old: int, new: int) -> bool:
        """Let an upgraded group keep its session and its place in the configuration (TG-09)."""
        if not is_allowed(old, self._house):
            return True
        await self._ask(self._approvals, lambda: Migrate(old=old, new=new))
        moved = await self._ask(self._approvals, Migrations)
        if moved is None or new not in moved:
            return False
        self._house = attrs.evolve(self._house, moved=moved)
        log.info("group moved", extra={"old": old, "new": new})
        return True

    async def _ask(self, address: Address[M], make: Callable[[], Request[T]]) -> T | None:
        """Ask until there is an answer, at most for three times ten seconds."""
        for _ in range(TRIES):
            with trio.move_on_after(PATIENCE):
                return await address.insist(make)
        return None

    async def _tell(self, route: Route, text: str) -> bool:
        """Tell the sender something; False if it surely did not arrive."""
        post = partial(Post, route=route, part=Rich(text))
        for attempt in range(TRIES):
            with trio.move_on_after(NOTICE):
                sent = await self._outbox.insist(post)
                if not isinstance(sent, Unsent):
                    return True
            await trio.sleep(2.0**attempt)
        return False
