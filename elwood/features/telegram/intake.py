"""Receive updates from Telegram, and confirm those that an actor has accepted."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
import trio

from elwood.agent.approvals.messages import ApprovalsMail, ButtonPressed
from elwood.agent.channels.client import IntakeReplies, ask, post_once
from elwood.agent.channels.messages import Edit, OutboxMail, Reachable
from elwood.agent.conversation.inbound import (
    CommandResult,
    Inbound,
    Principal,
    Taken,
    is_choice,
    types,
)
from elwood.agent.conversation.message import PendingFile
from elwood.agent.conversation.route import Route
from elwood.agent.people.messages import EndAccess, Known, Meet, MovedGroups, MoveGroup, Stranger
from elwood.agent.session.commands.slash import menu
from elwood.agent.session.extension import SlashCommand
from elwood.agent.session.log.state import is_typed
from elwood.agent.session.messages import SessionsMail
from elwood.features.telegram.bot_api import (
    CallbackQuery,
    MembershipChanged,
    StopPressed,
    TelegramChat,
    TelegramMessage,
    UnreadableUpdate,
    Update,
)
from elwood.features.telegram.channel import number_of, principal_id, route_to, session_of
from elwood.features.telegram.client import FAILURES, Bot, explain
from elwood.features.telegram.poll import Poll, Webhook
from elwood.features.telegram.reading import (
    Addressed,
    BotIdentity,
    Order,
    album_of,
    chosen,
    find_quoted_author,
    format_overheard,
    format_text,
    has_foreign_text,
    identify,
    identify_press,
    is_for_another,
    message_name,
    order_of,
    pending_file,
    question_text,
    quote,
    route_of,
)
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.runtime import Address, Mailbox, report_done, report_error
from elwood.foundation.text.lines import one_line

T = TypeVar("T")
log = logging.getLogger("elwood.telegram")

HAND_ON = "handing on a message"
# The longest pause in seconds between two attempts to hand one on.
LAST_RETRY = 8.0
# The answer to a stranger, with the code.
PAIRING = (
    "I do not know you yet. If you know the person I work for, give them this code: {}\n"
    "It is valid for one hour. I have not kept your message."
)
# Owners with the full command menu; others have the menu for everyone.
MAX_MENUS = 8
# Strangers waiting for a code; beyond that their messages wait, too.
MAX_STRANGERS = 256
# Unknown chats whose dropped messages are counted; a crowd forgets the oldest.
MAX_DROPPED = 1000
UNREADABLE = "I cannot read this kind of message. Please write it as text."
# Seconds without another picture after which an album is complete: longer than between two polls.
ALBUM_WAIT = 1.5
# Overheard messages kept of each group, groups for which they are kept, and their age limit in
# seconds; the last is also the shortest time between two log entries about an unknown chat.
MAX_HEARD, MAX_HEARD_IN, HOUR = 20, 100, 3600.0
# The answers to button presses that have no effect.
WRITE_INSTEAD = "This button has expired. Please type your answer instead."
EXPIRED = "This button has expired. Please type the command instead."
NOT_YOURS = "Only the person I answered can use these buttons."


class Intake:
    """The receiver and, for each chat, one task that hands on its updates in order.

    An update is confirmed when all actors concerned have accepted it; until then Telegram keeps it,
    so nothing is stored here.  The session fetches files.  *random* and *silence* are passed to
    `Poll`; *now* returns Unix time; *commands* are for menus; *note_return* gets the chat of a
    person who is back.
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
        commands: Sequence[SlashCommand] = (),
        note_return: Callable[[Route], Awaitable[None]],
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._commands = commands
        self._note_return = note_return
        self._sessions = sessions
        self._approvals = approvals
        self._outbox = outbox
        self._now = now
        kind = Webhook if settings.webhook_url else Poll
        self._new_poll = partial(kind, bot, settings, random, silence)

    async def run(self, mailbox: Mailbox[None]) -> None:
        """Receive until *mailbox*, which gets no messages, is closed."""
        self._poll = self._new_poll()
        self._pending: dict[Order, deque[Update | UnreadableUpdate]] = {}
        self._replies = IntakeReplies(self._outbox)
        # Overheard lines with their Unix time, by session; not stored.
        self._overheard: dict[str, deque[tuple[int, str]]] = {}
        # The time of the last log entry about each unknown chat, and the messages since.
        self._dropped: dict[int, tuple[float, int]] = {}
        self._greet, strangers = trio.open_memory_channel[tuple[Route, str]](MAX_STRANGERS)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._receive, nursery)
            nursery.start_soon(self._greet_in_turn, strangers)
            nursery.start_soon(self._poll.listen)
            async for _ in mailbox:
                pass
            nursery.cancel_scope.cancel()
        await self._poll.confirm()

    async def _receive(self, nursery: trio.Nursery) -> None:
        me = await self._poll.introduce()
        moved = await self._approvals.insist(MovedGroups)
        self._us = BotIdentity(
            bot=me.id,
            username=me.username or "",
            owners=frozenset(self._settings.owners),
            groups=frozenset((*self._settings.groups, *self._settings.allowed_chats)),
            moved=_parse_moves(moved),
        )
        nursery.start_soon(self._set_menu)
        while True:
            for update in await self._poll.fetch():
                self._hand_on(update, nursery)

    async def _set_menu(self) -> None:
        """Set the menu for everyone, and the full menu in the private chats of the owners."""
        commands = [one for group in menu(self._commands).values() for one in group]
        everything = {one.name: one.help for one in commands}
        everyday = {one.name: one.help for one in commands if one.menu == "everybody"}
        await self._show_menu(everyday, type="all_private_chats")
        await self._show_menu(everyday, type="all_group_chats")
        for owner in self._settings.owners[:MAX_MENUS]:
            await self._show_menu(everything, type="chat", chat_id=owner)

    async def _show_menu(self, commands: Mapping[str, str], **scope: str | int) -> None:
        try:
            await self._bot.set_my_commands(commands, scope)
        except FAILURES as error:  # the commands work without a menu
            log.warning("command menu not set", extra={"scope": scope, "why": explain(error)})

    async def _greet_in_turn(self, strangers: trio.MemoryReceiveChannel[tuple[Route, str]]) -> None:
        """Send codes to strangers one by one, so that a crowd does not delay others."""
        async for route, code in strangers:
            await self._replies.send_text(route, PAIRING.format(code))

    def _hand_on(self, update: Update | UnreadableUpdate, nursery: trio.Nursery) -> None:
        chat = order_of(update)
        queue = self._pending.get(chat)
        if queue is not None:
            queue.append(update)
            return
        self._pending[chat] = deque([update])
        nursery.start_soon(self._handle_chat, chat)

    async def _handle_chat(self, chat: Order) -> None:
        """Handle the updates of one chat in order; retry until each is accepted."""
        waiting_for = self._pending[chat]
        while waiting_for:
            pause, album = 1.0, await _collect_album(waiting_for)
            while not await self._handle(album):
                report_error(
                    HAND_ON,
                    self._replies.why or "it is not accepted, and its sender cannot be informed",
                )
                self._replies.why = ""
                await trio.sleep(pause)
                pause = min(LAST_RETRY, 2 * pause)
            report_done(HAND_ON)
            for update in album:
                waiting_for.remove(update)
                self._poll.mark_settled(update.update_id)
        del self._pending[chat]

    async def _handle(self, album: list[Update | UnreadableUpdate]) -> bool:
        """Handle one update, or those of one *album*; return False to retry."""
        update = album[-1]
        if isinstance(update, UnreadableUpdate):
            log.warning("update not readable", extra={"update": update.update_id, "at": update.why})
        elif (query := update.callback_query) is not None:
            if is_choice(query.data):
                return await self._take_choice(update.update_id, query)
            await self._take_press(query)
        elif update.stopped_message_generation is not None:
            return await self._take_stop(update.update_id, update.stopped_message_generation)
        elif update.my_chat_member is not None:
            return await self._take_membership(update.my_chat_member)
        elif update.edited_message is not None:
            return await self._take_message(update.update_id, [update.edited_message], edited=True)
        elif update.message is not None:
            messages = [one.message for one in album if isinstance(one, Update) and one.message]
            return await self._take_message(update.update_id, messages, edited=False)
        return True

    async def _take_message(self, number: int, album: list[TelegramMessage], edited: bool) -> bool:
        # Any picture of an album can have its caption.
        message = next((one for one in album if one.caption), album[0])
        if message.migrate_to_chat_id is not None:
            return await self._move_group(message.chat.id, message.migrate_to_chat_id)
        if message.migrate_from_chat_id is not None:
            return await self._move_group(message.migrate_from_chat_id, message.chat.id)
        await self._outbox.tell(Reachable(route=route_of(message)))
        request = identify(message, self._us)
        if request is None or message.is_service or not (request.for_us or self._settings.observe):
            return True
        route = route_of(message)
        admitted = await self._admit(request, message.chat, route, asks=True)
        if admitted is None:
            return False
        if isinstance(admitted, Stranger):
            return await self._refuse(admitted, request, message.chat, route)
        if not request.for_us:
            if not edited and (line := format_overheard(request, message)):
                self._keep_overheard(request.session, message.date, line)
            return True
        request = msgspec.structs.replace(request, principal=admitted)
        if edited and message.location is not None:
            return True  # a live location that moves
        if not (request.text or message.attached):
            return await self._replies.send_text(route, UNREADABLE)
        if (answered := message.reply_to_message) and answered.attached_as in ("photo", "document"):
            album = [*album, answered]  # "what is this?"
        pending = tuple(pending_file(one) for one in album if one.has_file)
        request = msgspec.structs.replace(request, text=format_text(message, request.text))
        return await self._send_inbound(number, message, edited, request, route, pending)

    async def _admit(
        self, request: Addressed, chat: TelegramChat, route: Route, *, asks: bool
    ) -> Principal | Stranger | None:
        """Return the sender with their role, or a `Stranger`; None if approvals do not respond.

        In a group of ours everyone may talk.  In private *asks* makes a stranger request access.
        """
        if not route.private:
            group = await self._meet(self._us.group(chat.id), route)
            if not isinstance(group, Known):
                return group
        if request.principal.owner:
            return request.principal
        met = await self._meet(request.principal.id, route, request.principal.name, asks=asks)
        if isinstance(met, Known) or (met is not None and not route.private):
            return msgspec.structs.replace(request.principal, member=met == Known("member"))
        return met

    async def _meet(
        self, principal: str, route: Route, name: str = "", *, asks: bool = False
    ) -> Known | Stranger | None:
        chat = int(route.chat)
        if principal == self._us.group(chat) and self._us.is_allowed(chat):
            return Known()
        if principal in map(principal_id, self._settings.allowed_chats):
            return Known()
        asks = asks and route.private and self._settings.pairing == "code"
        return await ask(
            self._approvals, lambda: Meet(principal=principal, name=name, route=route, asks=asks)
        )

    async def _refuse(
        self, stranger: Stranger, request: Addressed, chat: TelegramChat, route: Route
    ) -> bool:
        """Send a stranger their code; else, and in an unknown group, only log the message."""
        if stranger.code is not None:
            await self._greet.send((route, stranger.code))
            return True
        if not request.for_us:
            return True
        self._log_drop(chat.id, request.principal.id, "a stranger" if route.private else "a group")
        if route.private or not request.principal.owner:
            return True
        return await self._ask_about_group(chat, request.principal)

    def _log_drop(self, chat: int, by: str, where: str) -> None:
        """Log a message that was dropped, once an hour for each chat."""
        now = self._now()
        at, since = self._dropped.pop(chat, (now - HOUR, 0))
        is_due = now - at >= HOUR
        self._dropped[chat] = (now, 0) if is_due else (at, since + 1)
        if is_due:
            about = {"chat": chat, "by": by, "dropped_since_the_last_entry": since}
            log.warning(f"message of {where} that is not allowed", extra=about)
        if len(self._dropped) > MAX_DROPPED:
            del self._dropped[next(iter(self._dropped))]

    async def _ask_about_group(self, chat: TelegramChat, by: Principal) -> bool:
        """Ask the owner whether to answer in a group to which *by* added the bot."""
        if self._settings.pairing == "off" and not by.owner:
            return True
        group, route = self._us.group(chat.id), route_to(chat.id, private=False)
        meet = partial(Meet, principal=group, name=chat.title or "", route=route, brought=by)
        return await ask(self._approvals, meet) is not None

    async def _take_membership(self, change: MembershipChanged) -> bool:
        """Handle that the bot was added to a chat, or removed from it."""
        chat, by = change.chat, self._us.principal(change.from_)
        was_there, is_there = change.old_chat_member.is_there, change.new_chat_member.is_there
        private = chat.type == "private"
        place = f"“{one_line(chat.title)}”" if chat.title else "it"
        gone = "they blocked me" if private else f"{by.name} removed me from {place}"
        route = route_to(chat.id)
        await self._outbox.tell(Reachable(route=route, gone="" if is_there else gone))
        if private and is_there:
            await self._note_return(route)
        if private or chat.type == "channel" or was_there == is_there:
            return True
        log.info("membership changed", extra={"chat": chat.id, "by": by.id, "is_there": is_there})
        if not is_there:
            group = self._us.group(chat.id)
            ended = await ask(self._approvals, lambda: EndAccess(principal=group))
            return bool(ended)
        return self._us.is_allowed(chat.id) or await self._ask_about_group(chat, by)

    def _keep_overheard(self, session: str, at: int, line: str) -> None:
        """Keep a message of a group for the next message to us."""
        lines = self._overheard.pop(session, deque(maxlen=MAX_HEARD))
        lines.append((at, line))
        self._overheard[session] = lines
        if len(self._overheard) > MAX_HEARD_IN:
            del self._overheard[next(iter(self._overheard))]

    async def _send_inbound(
        self,
        number: int,
        message: TelegramMessage,
        edited: bool,
        request: Addressed,
        route: Route,
        pending: tuple[PendingFile, ...],
    ) -> bool:
        name = message_name(message)
        sent_at = message.edit_date if edited and message.edit_date else message.date
        is_command = is_typed(request.text)  # a command has no use for quotes or earlier messages
        lines = () if is_command else self._overheard.get(request.session, ())
        heard = "\n".join(line for at, line in lines if self._now() - at < HOUR)
        taken = await ask(
            self._sessions,
            lambda: Inbound(
                session=request.session,
                id=f"tg:{self._us.bot}:{number}",
                principal=request.principal,
                route=route,
                text=request.text,
                sent_at=float(sent_at),
                message=name,
                edits=name if edited else None,
                quote=None if is_command else quote(message),
                untrusted=not is_command and has_foreign_text(message, self._us),
                quoted=find_quoted_author(message, self._us),
                heard=heard,
                pending=pending,
            ),
        )
        if isinstance(taken, Taken) and heard:
            self._overheard.pop(request.session, None)  # it may have been evicted since
        return await self._replies.report_refusal(taken, number, route)

    async def _take_choice(self, number: int, query: CallbackQuery) -> bool:
        """Handle a press on the answer to a question as a message with that answer.

        Its id comes from the question, so two presses, or two devices, answer once.
        """
        if (message := query.message) is None:
            await self._answer(query, WRITE_INSTEAD)
            return True
        request, route = identify_press(query, message, self._us), route_of(message)
        if request is None:
            return True
        admitted = await self._admit(request, message.chat, route, asks=False)
        if not isinstance(admitted, Principal):
            return True
        if is_for_another(query, message):
            await self._answer(query, NOT_YOURS)
            return True
        if not request.text:
            await self._answer(query, EXPIRED if types(query.data) else WRITE_INSTEAD)
            return True
        taken = await ask(
            self._sessions,
            lambda: Inbound(
                session=request.session,
                id=f"tg:{self._us.bot}:{message.chat.id}:{message.message_id}",
                principal=admitted,
                route=route,
                text=request.text,
                sent_at=self._now(),
                quote="" if types(query.data) else question_text(message),
            ),
        )
        await self._answer(query, "✓" if isinstance(taken, Taken) else "")
        if isinstance(taken, Taken):  # also for a second press
            part = None if types(query.data) else chosen(message, request.text)
            edit = Edit(route=route, message=message_name(message), part=part)
            self._nursery.start_soon(post_once, self._outbox, edit)  # the next press retries it
        return await self._replies.report_refusal(taken, number, route)

    async def _take_stop(self, number: int, pressed: StopPressed) -> bool:
        """Handle the stop button of a draft like a typed /stop."""
        user, topic = pressed.chat.id, pressed.message_thread_id
        sender = Principal(principal_id(user), "", user in self._us.owners)
        route = route_to(user, topic)
        known = sender.owner or isinstance(await self._meet(sender.id, route), Known)
        if pressed.chat.type != "private" or not known:
            return True
        taken = await ask(
            self._sessions,
            lambda: Inbound(
                session=session_of(user, topic, self._us.moved),
                id=f"tg:{self._us.bot}:{number}",
                principal=sender,
                route=route,
                text="/stop",
                sent_at=self._now(),
            ),
        )
        return await self._replies.report_refusal(taken, number, route)

    async def _answer(self, query: CallbackQuery, text: str) -> None:
        """Show the result of a press."""
        with suppress(*FAILURES):
            await self._bot.answer_callback_query(query.id, text)

    async def _take_press(self, query: CallbackQuery) -> None:
        """Send a press to approvals, which also edits the message, and show the result.

        The decision counts even if Telegram no longer shows our answer to the press (TG-26).
        """
        where = route_of(query.message) if query.message else None
        name = message_name(query.message) if query.message else ""
        sender, data = principal_id(query.from_.id), query.data or ""
        pressed = partial(ButtonPressed, principal=sender, data=data, route=where, message=name)
        result = await ask(self._approvals, pressed)
        if result is None:
            result = CommandResult("That did not work. Please press again in a minute.", ok=False)
        await self._answer(query, result.text)

    async def _move_group(self, old: int, new: int) -> bool:
        """Keep the session and the configuration of an upgraded group (TG-09)."""
        known = await self._meet(self._us.group(old), route_to(old, private=False))
        if not isinstance(known, Known):
            return known is not None
        group, moved_to = self._us.group(old), principal_id(new)
        await ask(self._approvals, lambda: MoveGroup(old=group, new=moved_to))
        answer = await ask(self._approvals, MovedGroups)
        moved = _parse_moves(answer or {})
        if new not in moved:
            return False
        self._us = msgspec.structs.replace(self._us, moved=moved)
        log.info("group moved", extra={"old": old, "new": new})
        return True


def _parse_moves(moved: Mapping[str, str]) -> dict[int, int]:
    return {number_of(new): number_of(old) for new, old in moved.items()}


async def _collect_album(
    waiting_for: deque[Update | UnreadableUpdate],
) -> list[Update | UnreadableUpdate]:
    """Return the next update; if it is part of an album, wait until the album is complete."""
    whole, album = [waiting_for[0]], album_of(waiting_for[0])
    while album is not None:
        await trio.sleep(ALBUM_WAIT)
        parts = [update for update in waiting_for if album_of(update) == album]
        if len(parts) == len(whole):
            break
        whole = parts
    return whole
