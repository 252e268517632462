"""Receives from Telegram and confirms only what somebody has taken."""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec
import trio

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ButtonPressed,
    CommandResult,
    FindPerson,
    Meet,
    MoveChat,
    MovedChats,
    Stranger,
)
from elwood.agent.channels.intake_replies import IntakeReplies, ask
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.inbound import (
    Inbound,
    Principal,
    Taken,
    is_choice,
    person,
    session_of,
    types,
)
from elwood.agent.conversation.route import Route
from elwood.agent.session.commands.slash import COMMANDS
from elwood.agent.session.messages import Interrupt, SessionsMail
from elwood.features.telegram.bot_api import (
    CallbackQuery,
    TelegramMessage,
    UnreadableUpdate,
    Update,
)
from elwood.features.telegram.client import Bot
from elwood.features.telegram.errors import FAILURES, explain
from elwood.features.telegram.poll import Poll
from elwood.features.telegram.reading import (
    Addressed,
    Albums,
    BotIdentity,
    Ignored,
    Order,
    asked,
    identify,
    identify_press,
    order_of,
    quote,
    route_of,
    said,
    says_others_words,
    unsupported,
)
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.runtime import Address, Mailbox, clear_error, report_error

log = logging.getLogger(__name__)

HAND_ON = "handing on a message"
# What a stranger is told, with the code.
PAIRING = (
    "I do not know you yet. If you know the person I work for, give them this code: {}\n"
    "It is valid for an hour. I have kept nothing of what you wrote."
)
# What is said to a press on an answer that cannot be told any more.
WRITE_INSTEAD = "I cannot see this question any more. Please write your answer instead."
# Answered questions that are remembered, to say the same to a second press.
MAX_CHOSEN = 100


class Intake:
    """The long poll and, for each chat, one task that hands its updates on in order.

    An update is confirmed when everybody concerned has answered for it; until then Telegram
    keeps it, so this actor keeps nothing.  *random* and *silence* are those of `Poll`, *now* is
    Unix time.
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
        now: Callable[[], float],
        silence: float = 120.0,
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._sessions = sessions
        self._approvals = approvals
        self._outbox = outbox
        self._now = now
        self._new_poll = partial(Poll, bot, settings, random, silence)

    _ask = staticmethod(ask)

    async def run(self, mailbox: Mailbox[None]) -> None:
        """Receive until stopped; nobody writes to *mailbox*, it only tells of the stop."""
        self._poll = self._new_poll()
        self._talks: dict[Order, deque[Update | UnreadableUpdate]] = {}
        self._replies = IntakeReplies(self._outbox)
        self._chosen: dict[tuple[int, int], str] = {}  # by chat and message, what was taken
        self._albums = Albums()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive, nursery)
            async for _ in mailbox:
                pass
            nursery.cancel_scope.cancel()
        await self._poll.confirm()

    async def _receive(self, nursery: trio.Nursery) -> None:
        me = await self._poll.introduce()
        moved = await self._approvals.insist(MovedChats)
        self._us = BotIdentity(
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

    def _hand_on(self, update: Update | UnreadableUpdate, nursery: trio.Nursery) -> None:
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
                report_error(
                    HAND_ON, self._replies.why or "nobody takes it and its sender cannot be told"
                )
                self._replies.why = ""
                await trio.sleep(pause)
                pause = min(60.0, 2 * pause)
            clear_error(HAND_ON)
            self._poll.settle(waiting_for.popleft().update_id)
        del self._talks[chat]

    async def _handle(self, update: Update | UnreadableUpdate) -> bool:
        """Deal with one update; False if it must not be confirmed yet."""
        if isinstance(update, UnreadableUpdate):
            log.warning("update not readable", extra={"update": update.update_id, "at": update.why})
        elif (query := update.callback_query) is not None:
            if is_choice(query.data):
                return await self._choose(update.update_id, query)
            await self._press(query)
        elif update.stopped_message_generation is not None:
            stopped = update.stopped_message_generation
            thread = stopped.message_thread_id
            self._sessions.offer(Interrupt(session_of(stopped.chat.id, thread, self._us.moved)))
        elif (message := update.message or update.edited_message) is not None:
            return await self._message(update.update_id, message, update.edited_message is not None)
        return True

    async def _message(self, number: int, message: TelegramMessage, edited: bool) -> bool:
        if message.migrate_to_chat_id is not None:
            return await self._move(message.chat.id, message.migrate_to_chat_id)
        if message.migrate_from_chat_id is not None:
            return await self._move(message.migrate_from_chat_id, message.chat.id)
        who = identify(message, self._us)
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
                return met.code is None or await self._replies.tell(route, PAIRING.format(met.code))
        complaint = unsupported(message)
        if complaint is not None:
            # One complaint about an album is enough, and none about a live location that moves.
            seen = edited or self._albums.continues(message)
            return seen or await self._replies.tell(route, complaint)
        self._albums.continues(message)
        return await self._inbound(number, message, edited, who, route)

    async def _inbound(
        self, number: int, message: TelegramMessage, edited: bool, who: Addressed, route: Route
    ) -> bool:
        name = f"{message.chat.id}:{message.message_id}"
        sent_at = message.edit_date if edited and message.edit_date else message.date
        taken = await self._ask(
            self._sessions,
            lambda: Inbound(
                session=who.session,
                id=f"tg:{self._us.bot}:{number}",
                principal=who.principal,
                route=route,
                text=said(message, who.text),
                sent_at=float(sent_at),
                message=name,
                edits=name if edited else None,
                quote=quote(message),
                untrusted=says_others_words(message, self._us),
            ),
        )
        return await self._replies.settle(taken, number, route)

    async def _choose(self, number: int, query: CallbackQuery) -> bool:
        """Take a press on the answer to a question as a message that says so.

        It is named after the question: pressing twice, or on two devices, answers once.
        """
        who = identify_press(query, self._us)
        if query.message is None or who is None:
            await self._answer(query, WRITE_INSTEAD)
            return True
        message, route = query.message, route_of(query.message)
        if isinstance(who, Ignored) or not await self._is_known(who.principal):
            return True
        taken = await self._ask(
            self._sessions,
            lambda: Inbound(
                session=who.session,
                id=f"tg:{self._us.bot}:{message.chat.id}:{message.message_id}",
                principal=who.principal,
                route=route,
                text=who.text,
                sent_at=self._now(),
                quote="" if types(query.data) else asked(message),
            ),
        )
        if isinstance(taken, Taken):
            first = self._chosen.setdefault((message.chat.id, message.message_id), who.text)
            if len(self._chosen) > MAX_CHOSEN:
                del self._chosen[next(iter(self._chosen))]
            await self._answer(query, f"✓ {first}", done=True)
        else:
            await self._answer(query, "")
        return await self._replies.settle(taken, number, route)

    async def _is_known(self, principal: Principal) -> bool:
        recognise = partial(FindPerson, principal=principal.id)
        return principal.owner or await self._ask(self._approvals, recognise) is not None

    async def _answer(self, query: CallbackQuery, text: str, *, done: bool = False) -> None:
        """Say what came of a press; when that is *done* with, take its buttons away."""
        with suppress(*FAILURES):
            await self._bot.answer_callback_query(query.id, text)
        if done and query.message is not None:
            where = query.message.chat.id, query.message.message_id
            with suppress(*FAILURES):
                await self._bot.edit_message_reply_markup(*where)

    async def _press(self, query: CallbackQuery) -> None:
        """Have a press decided, say what came of it, and take used buttons away.

        The decision counts whether or not Telegram still shows our answer to it (TG-26).
        """
        where = route_of(query.message) if query.message else None
        who, data = person(query.from_.id), query.data or ""
        pressed = partial(ButtonPressed, principal=who, data=data, route=where)
        settled = await self._ask(self._approvals, pressed)
        if settled is None:
            settled = CommandResult("That did not work. Please press again in a minute.", ok=False)
        await self._answer(query, settled.text, done=settled.ok)

    async def _move(self, old: int, new: int) -> bool:
        """Let an upgraded group keep its session and its place in the configuration (TG-09)."""
        if not self._us.is_allowed(old):
            return True
        await self._ask(self._approvals, lambda: MoveChat(old=old, new=new))
        moved = await self._ask(self._approvals, MovedChats)
        if moved is None or new not in moved:
            return False
        self._us = msgspec.structs.replace(self._us, moved=moved)
        log.info("group moved", extra={"old": old, "new": new})
        return True
