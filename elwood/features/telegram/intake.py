"""Receives from Telegram and confirms only what somebody has taken."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
    asked,
    chosen,
    identify,
    identify_press,
    is_for_another,
    message_name,
    order_of,
    overheard,
    pending_file,
    quote,
    quoted,
    route_of,
    said,
    says_others_words,
)
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.runtime import Address, Mailbox, report_done, report_error

T = TypeVar("T")
log = logging.getLogger("elwood.telegram")

HAND_ON = "handing on a message"
# Seconds at most between two tries to hand one on.
LAST_RETRY = 8.0
# What a stranger is told, with the code.
PAIRING = (
    "I do not know you yet. If you know the person I work for, give them this code: {}\n"
    "It is valid for an hour. I have kept nothing of what you wrote."
)
# Owners who are shown a menu of their own; others have that of everybody.
MAX_MENUS = 8
# Strangers that may wait for their code before their messages do.
MAX_STRANGERS = 256
UNREADABLE = "I cannot read a message of this kind. Please write it as text."
# Seconds without another picture after which an album is whole: longer than between two polls.
ALBUM_WAIT = 1.5
# Messages of a group that are kept though they were not for us, in how many, and seconds for which
# they go along; also the least time between two notes that a group is not ours.
MAX_HEARD, MAX_HEARD_IN, HOUR = 20, 100, 3600.0
# What is said to a press on an answer that cannot be told any more.
WRITE_INSTEAD = "I cannot see this question any more. Please write your answer instead."
EXPIRED = "This button has expired. Please type the command instead."
NOT_YOURS = "These buttons are for the person who asked."


class Intake:
    """The long poll and, for each chat, one task that hands its updates on in order.

    An update is confirmed when everybody concerned has answered for it; until then Telegram
    keeps it, so this actor keeps nothing.  Files are left for the session to fetch.  *random* and
    *silence* are those of `Poll`, *now* is Unix time; *commands* are for menus.
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
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._commands = commands
        self._sessions = sessions
        self._approvals = approvals
        self._outbox = outbox
        self._now = now
        kind = Webhook if settings.webhook_url else Poll
        self._new_poll = partial(kind, bot, settings, random, silence)

    async def run(self, mailbox: Mailbox[None]) -> None:
        """Receive until stopped; nobody writes to *mailbox*, it only tells of the stop."""
        self._poll = self._new_poll()
        self._talks: dict[Order, deque[Update | UnreadableUpdate]] = {}
        self._replies = IntakeReplies(self._outbox)
        # What was said to others, with its Unix time, by session; lost with the process.
        self._heard: dict[str, deque[tuple[int, str]]] = {}
        # When it was noted last that a group is not ours.
        self._noted: dict[int, float] = {}
        self._greet, strangers = trio.open_memory_channel[tuple[Route, str]](MAX_STRANGERS)
        async with trio.open_nursery() as nursery:
            self._beside = nursery
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
            moved=_numbers(moved),
        )
        nursery.start_soon(self._set_menu)
        while True:
            for update in await self._poll.fetch():
                self._hand_on(update, nursery)

    async def _set_menu(self) -> None:
        """Show everybody what works for all, and the owners in their own chats all there is."""
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
        """Give strangers their codes one after another: a crowd must not be in others' way."""
        async for route, code in strangers:
            await self._replies.tell(route, PAIRING.format(code))

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
            pause, album = 1.0, await _whole_album(waiting_for)
            while not await self._handle(album):
                report_error(
                    HAND_ON, self._replies.why or "nobody takes it and its sender cannot be told"
                )
                self._replies.why = ""
                await trio.sleep(pause)
                pause = min(LAST_RETRY, 2 * pause)
            report_done(HAND_ON)
            for update in album:
                waiting_for.remove(update)
                self._poll.settle(update.update_id)
        del self._talks[chat]

    async def _handle(self, album: list[Update | UnreadableUpdate]) -> bool:
        """Deal with one update, or those of one *album*; False if not to be confirmed yet."""
        update = album[-1]
        if isinstance(update, UnreadableUpdate):
            log.warning("update not readable", extra={"update": update.update_id, "at": update.why})
        elif (query := update.callback_query) is not None:
            if is_choice(query.data):
                return await self._choose(update.update_id, query)
            await self._press(query)
        elif update.stopped_message_generation is not None:
            return await self._stop(update.update_id, update.stopped_message_generation)
        elif update.my_chat_member is not None:
            return await self._member(update.my_chat_member)
        elif update.edited_message is not None:
            return await self._message(update.update_id, [update.edited_message], edited=True)
        elif update.message is not None:
            messages = [one.message for one in album if isinstance(one, Update) and one.message]
            return await self._message(update.update_id, messages, edited=False)
        return True

    async def _message(self, number: int, album: list[TelegramMessage], edited: bool) -> bool:
        # The words of an album stand below any one of its pictures.
        message = next((one for one in album if one.caption), album[0])
        if message.migrate_to_chat_id is not None:
            return await self._move(message.chat.id, message.migrate_to_chat_id)
        if message.migrate_from_chat_id is not None:
            return await self._move(message.migrate_from_chat_id, message.chat.id)
        await self._outbox.tell(Reachable(route=route_of(message)))
        who = identify(message, self._us)
        if who is None or message.is_service or not (who.for_us or self._settings.observe):
            return True
        route = route_of(message)
        admitted = await self._admit(who, message.chat, route, asks=True)
        if admitted is None:
            return False
        if isinstance(admitted, Stranger):
            return await self._turn_away(admitted, who, message.chat, route)
        if not who.for_us:
            if not edited and (line := overheard(who, message)):
                self._overhear(who.session, message.date, line)
            return True
        who = msgspec.structs.replace(who, principal=admitted)
        if edited and message.location is not None:
            return True  # one that moves
        if not (who.text or message.attached):
            return await self._replies.tell(route, UNREADABLE)
        if (answered := message.reply_to_message) and answered.attached_as in ("photo", "document"):
            album = [*album, answered]  # "what is this?"
        pending = tuple(pending_file(one) for one in album if one.has_file)
        heard = msgspec.structs.replace(who, text=said(message, who.text))
        return await self._inbound(number, message, edited, heard, route, pending)

    async def _admit(
        self, who: Addressed, chat: TelegramChat, route: Route, *, asks: bool
    ) -> Principal | Stranger | None:
        """Say who may talk here, with their role; None if nobody can say it now.

        In a group that we answer in everybody may.  In private whoever does not, *asks* to.
        """
        if not route.private:
            group = await self._meet(self._us.group(chat.id), route)
            if not isinstance(group, Known):
                return group
        if who.principal.owner:
            return who.principal
        met = await self._meet(who.principal.id, route, who.principal.name, asks=asks)
        if isinstance(met, Known) or (met is not None and not route.private):
            return msgspec.structs.replace(who.principal, member=met == Known("member"))
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

    async def _turn_away(
        self, stranger: Stranger, who: Addressed, chat: TelegramChat, route: Route
    ) -> bool:
        """Give a stranger their code; in a group that is not ours say nothing, but note it."""
        if stranger.code is not None:
            await self._greet.send((route, stranger.code))
        if route.private or not who.for_us:
            return True
        now = self._now()
        self._noted = {group: at for group, at in self._noted.items() if now - at < HOUR}
        if chat.id not in self._noted:
            self._noted[chat.id] = now
            about = {"group": chat.id, "by": who.principal.id}
            log.warning("asked in a group that I do not answer in", extra=about)
        return await self._ask_owner(chat, who.principal) if who.principal.owner else True

    async def _ask_owner(self, chat: TelegramChat, by: Principal) -> bool:
        """Have the owner asked whether we answer in a group, into which *by* brought us."""
        if self._settings.pairing == "off" and not by.owner:
            return True
        group, route = self._us.group(chat.id), route_to(chat.id, private=False)
        brought = partial(Meet, principal=group, name=chat.title or "", route=route, brought=by)
        return await ask(self._approvals, brought) is not None

    async def _member(self, change: MembershipChanged) -> bool:
        """Take in that we came into a chat, or out of it."""
        chat, by = change.chat, self._us.principal(change.from_)
        was_there, is_there = change.old_chat_member.is_there, change.new_chat_member.is_there
        private = chat.type == "private"
        gone = "" if is_there else "they blocked me" if private else f"{by.name} took me out"
        await self._outbox.tell(Reachable(route=route_to(chat.id), gone=gone))
        if private or chat.type == "channel" or was_there == is_there:
            return True
        log.info("membership changed", extra={"chat": chat.id, "by": by.id, "is_there": is_there})
        if not is_there:
            group = self._us.group(chat.id)
            ended = await ask(self._approvals, lambda: EndAccess(principal=group))
            return bool(ended)
        return self._us.is_allowed(chat.id) or await self._ask_owner(chat, by)

    def _overhear(self, session: str, at: int, line: str) -> None:
        """Keep what was said in a group, but not to us, for whoever speaks to us next."""
        lines = self._heard.pop(session, deque(maxlen=MAX_HEARD))
        lines.append((at, line))
        self._heard[session] = lines
        if len(self._heard) > MAX_HEARD_IN:
            del self._heard[next(iter(self._heard))]

    async def _inbound(
        self,
        number: int,
        message: TelegramMessage,
        edited: bool,
        who: Addressed,
        route: Route,
        pending: tuple[PendingFile, ...],
    ) -> bool:
        name = message_name(message)
        sent_at = message.edit_date if edited and message.edit_date else message.date
        is_command = is_typed(who.text)  # what it stands below says nothing to it
        lines = () if is_command else self._heard.get(who.session, ())
        heard = "\n".join(line for at, line in lines if self._now() - at < HOUR)
        taken = await ask(
            self._sessions,
            lambda: Inbound(
                session=who.session,
                id=f"tg:{self._us.bot}:{number}",
                principal=who.principal,
                route=route,
                text=who.text,
                sent_at=float(sent_at),
                message=name,
                edits=name if edited else None,
                quote=None if is_command else quote(message),
                untrusted=not is_command and says_others_words(message, self._us),
                quoted=quoted(message, self._us),
                heard=heard,
                pending=pending,
            ),
        )
        if isinstance(taken, Taken) and heard:
            self._heard.pop(who.session, None)  # others may have pushed it out meanwhile
        return await self._replies.settle(taken, number, route)

    async def _choose(self, number: int, query: CallbackQuery) -> bool:
        """Take a press on the answer to a question as a message that says so.

        It is named after the question: pressing twice, or on two devices, answers once.
        """
        if (message := query.message) is None:
            await self._answer(query, WRITE_INSTEAD)
            return True
        who, route = identify_press(query, message, self._us), route_of(message)
        if who is None:
            return True
        admitted = await self._admit(who, message.chat, route, asks=False)
        if not isinstance(admitted, Principal):
            return True
        if is_for_another(query, message):
            await self._answer(query, NOT_YOURS)
            return True
        if not who.text:
            await self._answer(query, EXPIRED if types(query.data) else WRITE_INSTEAD)
            return True
        taken = await ask(
            self._sessions,
            lambda: Inbound(
                session=who.session,
                id=f"tg:{self._us.bot}:{message.chat.id}:{message.message_id}",
                principal=admitted,
                route=route,
                text=who.text,
                sent_at=self._now(),
                quote="" if types(query.data) else asked(message),
            ),
        )
        await self._answer(query, "✓" if isinstance(taken, Taken) else "")
        if isinstance(taken, Taken):  # perhaps the press before was
            part = None if types(query.data) else chosen(message, who.text)
            edit = Edit(route=route, message=message_name(message), part=part)
            self._beside.start_soon(post_once, self._outbox, edit)  # else the next press does it
        return await self._replies.settle(taken, number, route)

    async def _stop(self, number: int, pressed: StopPressed) -> bool:
        """Take the stop button of a draft as if whoever sees it had typed the command."""
        user, topic = pressed.chat.id, pressed.message_thread_id
        who = Principal(principal_id(user), "", user in self._us.owners)
        route = route_to(user, topic)
        known = who.owner or isinstance(await self._meet(who.id, route), Known)
        if pressed.chat.type != "private" or not known:
            return True
        taken = await ask(
            self._sessions,
            lambda: Inbound(
                session=session_of(user, topic, self._us.moved),
                id=f"tg:{self._us.bot}:{number}",
                principal=who,
                route=route,
                text="/stop",
                sent_at=self._now(),
            ),
        )
        return await self._replies.settle(taken, number, route)

    async def _answer(self, query: CallbackQuery, text: str) -> None:
        """Say what came of a press."""
        with suppress(*FAILURES):
            await self._bot.answer_callback_query(query.id, text)

    async def _press(self, query: CallbackQuery) -> None:
        """Have a press decided, and say what came of it; who decides changes the message.

        The decision counts whether or not Telegram still shows our answer to it (TG-26).
        """
        where = route_of(query.message) if query.message else None
        name = message_name(query.message) if query.message else ""
        who, data = principal_id(query.from_.id), query.data or ""
        pressed = partial(ButtonPressed, principal=who, data=data, route=where, message=name)
        settled = await ask(self._approvals, pressed)
        if settled is None:
            settled = CommandResult("That did not work. Please press again in a minute.", ok=False)
        await self._answer(query, settled.text)

    async def _move(self, old: int, new: int) -> bool:
        """Let an upgraded group keep its session and its place in the configuration (TG-09)."""
        known = await self._meet(self._us.group(old), route_to(old, private=False))
        if not isinstance(known, Known):
            return known is not None
        group, moved_to = self._us.group(old), principal_id(new)
        await ask(self._approvals, lambda: MoveGroup(old=group, new=moved_to))
        answer = await ask(self._approvals, MovedGroups)
        moved = _numbers(answer or {})
        if new not in moved:
            return False
        self._us = msgspec.structs.replace(self._us, moved=moved)
        log.info("group moved", extra={"old": old, "new": new})
        return True


def _numbers(moved: Mapping[str, str]) -> dict[int, int]:
    return {number_of(new): number_of(old) for new, old in moved.items()}


async def _whole_album(
    waiting_for: deque[Update | UnreadableUpdate],
) -> list[Update | UnreadableUpdate]:
    """Take the next update; if it is part of an album wait until no more of that come."""
    whole, album = [waiting_for[0]], album_of(waiting_for[0])
    while album is not None:
        await trio.sleep(ALBUM_WAIT)
        found = [update for update in waiting_for if album_of(update) == album]
        if len(found) == len(whole):
            break
        whole = found
    return whole
