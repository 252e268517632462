"""Receives from Telegram and confirms only what somebody has taken."""

import hmac
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import trio

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ButtonPressed,
    CommandResult,
    EndAccess,
    Known,
    Meet,
    MoveChat,
    MovedChats,
    Stranger,
)
from elwood.agent.channels.client import TRIES, IntakeReplies, ask, post_once
from elwood.agent.channels.messages import Edit, OutboxMail, Reachable
from elwood.agent.conversation.inbound import (
    Inbound,
    Principal,
    Taken,
    is_choice,
    person,
    session_of,
    types,
)
from elwood.agent.conversation.message import ReceivedFile
from elwood.agent.conversation.route import Route
from elwood.agent.media.client import NotUnderstood
from elwood.agent.media.store import FileKeeper
from elwood.agent.session.commands.slash import EVERYDAY, menu
from elwood.agent.session.extension import SlashCommand
from elwood.agent.session.log.state import is_typed
from elwood.agent.session.messages import SessionsMail
from elwood.features.telegram.bot_api import (
    CallbackQuery,
    MembershipChanged,
    SharedFile,
    StopPressed,
    TelegramChat,
    TelegramMessage,
    TelegramUser,
    UnreadableUpdate,
    Update,
    read_updates,
)
from elwood.features.telegram.client import (
    FAILURES,
    MAX_DOWNLOAD,
    POLL_MARGIN,
    Bot,
    Failure,
    TelegramError,
    explain,
)
from elwood.features.telegram.feature import TelegramSettings
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
    name_of,
    order_of,
    overheard,
    quote,
    quoted,
    route_of,
    said,
    says_others_words,
)
from elwood.foundation.log import event
from elwood.foundation.net.http_server import HttpServer, listener_at
from elwood.foundation.runtime import Address, Mailbox, Signal, report_done, report_error, waiting
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root

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
MAX_MENUS = 20
# Strangers that may wait for their code before their messages do.
MAX_STRANGERS = 256
UNREADABLE = "I cannot read a message of this kind. Please write it as text."
NOT_FETCHED = "I could not get the {}: {}. Please send it again, or in another form."
NOT_HEARD = "I could not listen to the {}: {}. It is kept as {}."
# Bytes of a file that a Bot API server of our own has fetched: it is held in memory for a moment.
MAX_LOCAL = 100 << 20
# Files that are downloaded and read at once, of all chats.
DOWNLOADS = 2
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
    keeps it, so this actor keeps nothing.  Files are with *keeper* by then.  *random* and *silence*
    are those of `Poll`, *now* is Unix time; *commands* are those of features, for the menus.
    """

    def __init__(
        self,
        bot: Bot,
        settings: TelegramSettings,
        *,
        sessions: Address[SessionsMail],
        approvals: Address[ApprovalsMail],
        outbox: Address[OutboxMail],
        keeper: FileKeeper,
        random: Callable[[], float],
        now: Callable[[], float],
        silence: float = 120.0,
        commands: Sequence[SlashCommand] = (),
    ) -> None:
        self._bot = bot
        self._keeper = keeper
        self._downloads = trio.CapacityLimiter(DOWNLOADS)
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
        moved = await self._approvals.insist(MovedChats)
        self._us = BotIdentity(
            bot=me.id,
            username=me.username or "",
            owners=frozenset(self._settings.owners),
            groups=frozenset((*self._settings.groups, *self._settings.allowed_chats)),
            moved=moved,
        )
        nursery.start_soon(self._set_menu)
        while True:
            for update in await self._poll.fetch():
                self._hand_on(update, nursery)

    async def _set_menu(self) -> None:
        """Show everybody what works for all, and the owners in their own chats all there is."""
        groups = menu(self._commands).values()
        everything = {name: said for group in groups for name, said in group.items()}
        everyday = {name: everything[name] for name in EVERYDAY if name in everything}
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
        if not self._outbox.offer(Reachable(route=route_of(message))):
            return False
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
        came = await self._take_in(who.session, album)
        if came.wrong and not await self._replies.tell(route, "\n".join(came.wrong)):
            return False
        words = "\n".join(filter(None, (*came.heard, who.text)))
        if message.has_file and not words and not any(file.untrusted for file in came.files):
            return True  # nothing of it can be used, and that was said
        told = (f"[{why}]" for why in came.wrong)
        text = "\n".join(filter(None, (*told, said(message, words))))
        heard = msgspec.structs.replace(who, text=text)
        return await self._inbound(number, message, edited, heard, route, tuple(came.files))

    async def _take_in(self, session: str, album: list[TelegramMessage]) -> "_Came":
        """Keep the files of *album*, and find out what is in them."""
        came = _Came()
        for message in album:
            if message.has_file:
                try:
                    async with self._downloads:
                        await self._keep(session, message, came)
                except (*FAILURES, PathRefused, Unconfined) as error:
                    why = explain(error) if isinstance(error, FAILURES) else str(error)
                    came.wrong.append(NOT_FETCHED.format(message.attached, why))
                except NotUnderstood as error:
                    kept = came.files[-1].path
                    came.wrong.append(NOT_HEARD.format(message.attached, error, kept))
        return came

    async def _keep(self, session: str, message: TelegramMessage, came: "_Came") -> None:
        found, kind = message.file, message.attached or ""
        if found is None:
            came.wrong.append(NOT_FETCHED.format(kind, "it comes in a form that I do not know"))
            return
        data = await self._download(found)
        name = name_of(message, found)
        file, removed = await self._keeper.keep(session, name, kind, data)
        if removed:
            came.wrong.append(f"To make room I removed {', '.join(removed)} (media.budget).")
        if message.attached_as not in ("voice", "video_note"):
            came.files.append(await self._keeper.understand(session, file, data))
            return
        came.files.append(msgspec.structs.replace(file, untrusted=False))
        words = await self._keeper.write_down(self._keeper.root.path / file.path, data)
        minutes, seconds = divmod(found.duration, 60)
        came.heard.append(f"[machine transcript of a {kind}, {minutes}:{seconds:02}]\n{words}")

    async def _download(self, file: SharedFile) -> bytes:
        """Download a file; raises what the last of several tries did."""
        folder = self._settings.local_files
        if (file.file_size or 0) > (MAX_DOWNLOAD if folder is None else MAX_LOCAL):
            raise TelegramError("getFile", 400, "file is too big")
        for attempt in range(TRIES):
            try:
                where = await self._bot.get_file(file.file_id)
                if folder is None:
                    return await self._bot.download(where)
                # A path on this machine, which must lie in the folder.
                read = partial(Root(folder).read, where, MAX_LOCAL)
                return await self._keeper.blocking(read)
            except FAILURES as error:
                if attempt == TRIES - 1 or (isinstance(error, TelegramError) and error.code == 400):
                    raise
            await trio.sleep(2.0**attempt)
        raise AssertionError("unreachable")

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
        if principal == self._us.group(route.chat) and self._us.is_allowed(route.chat):
            return Known()
        if principal in map(person, self._settings.allowed_chats):
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
        group, route = self._us.group(chat.id), Route("telegram", chat.id, private=False)
        brought = partial(Meet, principal=group, name=chat.title or "", route=route, brought=by)
        return await ask(self._approvals, brought) is not None

    async def _member(self, change: MembershipChanged) -> bool:
        """Take in that we came into a chat, or out of it."""
        chat, by = change.chat, self._us.principal(change.from_)
        was_there, is_there = change.old_chat_member.is_there, change.new_chat_member.is_there
        private = chat.type == "private"
        gone = "" if is_there else "they blocked me" if private else f"{by.name} took me out"
        if not self._outbox.offer(Reachable(route=Route("telegram", chat.id), gone=gone)):
            return False
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
        files: tuple[ReceivedFile, ...],
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
                files=files,
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
        who = Principal(person(user), "", user in self._us.owners)
        route = Route("telegram", user, topic)
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
        who, data = person(query.from_.id), query.data or ""
        pressed = partial(ButtonPressed, principal=who, data=data, route=where, message=name)
        settled = await ask(self._approvals, pressed)
        if settled is None:
            settled = CommandResult("That did not work. Please press again in a minute.", ok=False)
        await self._answer(query, settled.text)

    async def _move(self, old: int, new: int) -> bool:
        """Let an upgraded group keep its session and its place in the configuration (TG-09)."""
        group = await self._meet(self._us.group(old), Route("telegram", old, private=False))
        if not isinstance(group, Known):
            return group is not None
        await ask(self._approvals, lambda: MoveChat(old=old, new=new))
        moved = await ask(self._approvals, MovedChats)
        if moved is None or new not in moved:
            return False
        self._us = msgspec.structs.replace(self._us, moved=moved)
        log.info("group moved", extra={"old": old, "new": new})
        return True


class _Came(msgspec.Struct):
    """What came of the files of a message: what was kept, and *heard*, and what went *wrong*."""

    files: list[ReceivedFile] = []
    heard: list[str] = []
    wrong: list[str] = []


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


# --- the long poll: from where to ask, how often, and how long to stay away after a failure -------

POLL = "polling Telegram"
# Least seconds between two polls of which the first brought nothing new (TG-35), and between
# polls while updates are still being taken: the server throttles equal offsets.
PAUSE = 0.5
PENDING_PAUSE = 1.0
# Seconds for the last call: the channel is given one to stop.
LAST_WORD = 0.7
# Long polls in a row that return early with nothing: so many are a fault of the network (TG-35).
IDLE_POLLS = 60
# Seconds to stay away after a failure: doubling between these.
FIRST_PAUSE, LAST_PAUSE = 1.0, 5.0
# Seconds to stay away, and how often, when somebody else polls: a restart of ours may be the
# reason, whose old poll dies soon (TG-01).
CONFLICT_PAUSE = 5.0
CONFLICTS = 3
# Seconds between two tries when a person has to act: a revoked token, a second poller, a webhook.
SLOW = 300.0
# Seconds after which that shows as stuck, so that the owner hears of it within a minute.
ALARM = 30.0


class Poll:
    """Delivers updates until each is settled; what is not comes again, also after a restart.

    Asking the Bot API for an offset confirms everything before it, so the offset moves over settled
    updates only, in the order in which they were delivered.  Ids are never compared by size: after
    a week of silence the sequence begins anew anywhere (TG-19).

    *random* gives numbers from 0 to 1 for jitter.  After *silence* seconds without an answered
    poll the channel is stuck.
    """

    def __init__(
        self, bot: Bot, settings: TelegramSettings, random: Callable[[], float], silence: float
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._random = random
        self._silence = silence
        self._delivered: dict[int, bool] = {}  # and whether it is settled
        self._offset: int | None = None
        self._told: int | None = None  # the offset that Telegram knows
        self._changed = Signal()
        self._failures = 0
        self._conflicts = 0
        self._failed = False  # the last call
        self._idle = 0
        self._not_before = float("-inf")
        self._began = float("-inf")

    async def listen(self) -> None:
        """Be there for those who come."""

    async def introduce(self) -> TelegramUser:
        """Wait until Telegram says who we are."""
        while (me := await self._tried("the bot's name", 0, self._bot.get_me)) is None:
            pass
        return me

    async def fetch(self) -> list[Update | UnreadableUpdate]:
        """Wait for updates not delivered yet; never raises for a fault of the world.

        While some are not settled it asks again every second without confirming them: one slow
        chat must not keep the others from being heard.
        """
        while True:
            with waiting("Telegram to answer a poll", limit=self._silence):
                while (updates := await self._once()) is None:
                    pass
            fresh = [update for update in updates if update.update_id not in self._delivered]
            if fresh:
                self._delivered |= {update.update_id: False for update in fresh}
                return fresh  # the next poll follows at once: somebody is talking
            self._not_before = self._began + PAUSE

    async def _once(self) -> list[Update | UnreadableUpdate] | None:
        """Ask once, when it is time for it; None after a failure."""
        await self._pause()
        self._began = trio.current_time()
        # After a failure at once: that it is over must not show with the next message only.
        wait = self._settings.poll if self._all_settled() and not self._failed else 0
        self._told = self._offset
        call = partial(self._bot.get_updates, self._told, wait=wait)
        updates = await self._tried("the next update", wait, call)
        if updates is None:
            return None
        is_idle = not updates and trio.current_time() - self._began < wait / 2
        self._idle = self._idle + 1 if is_idle else 0
        if self._idle >= IDLE_POLLS:
            why = "long polls return at once with nothing: is there a proxy in between?"
            report_error(POLL, why)
        elif not is_idle:
            report_done(POLL)
        return updates

    def settle(self, number: int) -> None:
        """Let the update *number* be confirmed: somebody answers for it now."""
        self._delivered[number] = True
        self._changed.give()

    async def confirm(self) -> None:
        """Tell Telegram at the end what is settled: else it comes again with the next start.

        That would be harmless, unless a backup is restored meanwhile.  What fails is let be.
        """
        self._advance()
        if self._offset != self._told:
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
        """Move the offset up to the first update that is not settled.

        To be called between two polls only: what a poll under way brings again must be known.
        """
        for number in list(self._delivered):
            if not self._delivered[number]:
                return
            del self._delivered[number]
            self._offset = number + 1

    async def _tried(self, what: str, wait: float, call: Callable[[], Awaitable[T]]) -> T | None:
        """Return what *call* does, or None after a failure and the pause that it asks for."""
        began = trio.current_time()
        try:
            with waiting(f"{what} from Telegram", limit=wait + 2 * POLL_MARGIN):
                result = await call()
        except FAILURES as error:
            self._told = None
            self._failed = True
            about = {"channel": "telegram", "outcome": "poll failed", "why": explain(error)}
            event(log, "channel", about, success=False, seconds=trio.current_time() - began)
            await self._stay_away(error)
            return None
        self._failures = self._conflicts = 0
        self._failed = False
        return result

    async def _stay_away(self, error: Failure) -> None:
        why = explain(error)
        report_error(POLL, why)
        match error:
            case TelegramError(code=400 | 401 | 404):
                await self._need_a_person(why)
            case TelegramError(code=409) if error.says("webhook"):
                await self._settle_webhook()
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

    async def _settle_webhook(self) -> None:
        """Find out whose webhook it is; remove it only if the configuration says so (TG-02)."""
        try:
            info = await self._bot.get_webhook_info()
            if self._settings.delete_webhook or info.url.endswith(_mark(self._settings, "path")):
                await self._bot.delete_webhook()
                return
        except FAILURES:
            await trio.sleep(CONFLICT_PAUSE)
            return
        host = urlsplit(info.url).hostname or "an unknown host"
        await self._need_a_person(
            f"a webhook at {host} gets this bot's messages: if you did not set it, somebody has "
            "the token and you should revoke it; if you did, set telegram.delete_webhook"
        )

    async def _need_a_person(self, why: str) -> None:
        """Stop the channel, not Elwood, and look again now and then."""
        log.error("telegram stopped", extra={"why": why, "again_in": SLOW})
        with waiting(f"a person, as {why}", limit=ALARM):
            await trio.sleep(SLOW)


# --- the webhook ----------------------------------------------------------------------------------

# Connections at once, of which Telegram makes at most 40, and bytes of an update.
CONNECTIONS = 64
MAX_UPDATE = 1 << 20
# Seconds that Telegram is kept waiting for a yes, before it brings the update again.
YES_WITHIN = 50.0
# Updates that may wait for one; more are brought again.
MAX_UNSETTLED = 1_000
# Seconds between two looks whether Telegram still brings updates here, and whether it can.
LOOK = 60.0
SECRET_HEADER = "x-telegram-bot-api-secret-token"
LISTEN = "listening for Telegram"


def _mark(settings: TelegramSettings, what: str) -> str:
    """Make a word of the token, which nobody else can name and which need not be kept."""
    assert settings.token is not None, "without a token the channel is off"
    return hmac.new(settings.token.reveal().encode(), what.encode(), "sha256").hexdigest()


class Webhook(Poll):
    """Takes the updates that Telegram brings, and says yes to each when it is settled.

    What it gets no yes to it brings again, also after a restart: this keeps nothing either.  By
    its path we know a webhook of ours when none is wanted any more.
    """

    def __init__(
        self, bot: Bot, settings: TelegramSettings, random: Callable[[], float], silence: float
    ) -> None:
        super().__init__(bot, settings, random, silence)
        self._brought: list[Update | UnreadableUpdate] = []
        self._path = f"/{_mark(settings, 'path')}"
        self._secret = _mark(settings, "secret")
        self._url = settings.webhook_url.rstrip("/") + self._path

    async def listen(self) -> None:
        server = HttpServer(self._refuse, self._take, connections=CONNECTIONS, max_body=MAX_UPDATE)
        place = self._settings.webhook_listen
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            while True:
                try:
                    listener = listener_at(place)
                except OSError as error:
                    report_error(LISTEN, f"not possible at {place}: {error}")
                    await trio.sleep(LAST_PAUSE)
                    continue
                report_done(LISTEN)
                await trio.serve_listeners(server.serve, [listener])

    async def introduce(self) -> TelegramUser:
        me = await super().introduce()
        set_webhook = partial(self._bot.set_webhook, self._url, self._secret)
        while await self._tried("the webhook", 0, set_webhook) is None:
            pass
        report_done(POLL)
        return me

    async def fetch(self) -> list[Update | UnreadableUpdate]:
        while not self._brought:
            await self._changed.wait()
        brought, self._brought = self._brought, []
        return brought

    def settle(self, number: int) -> None:
        self._delivered.pop(number, None)
        self._changed.give()

    async def confirm(self) -> None:
        """Each was confirmed by itself."""

    async def _watch(self) -> None:
        while True:
            await trio.sleep(LOOK)
            await self._tried("the webhook", 0, self._look)

    async def _look(self) -> bool:
        """See whether Telegram brings updates here, and have it do so."""
        info = await self._bot.get_webhook_info()
        if info.url != self._url:
            await self._bot.set_webhook(self._url, self._secret)
        if info.pending_update_count and info.last_error_message:
            report_error(POLL, f"it cannot reach telegram.webhook_url: {info.last_error_message}")
        else:
            report_done(POLL)
        return True

    def _refuse(self, method: str, path: str, headers: Mapping[str, str]) -> int | None:
        if not path.endswith(self._path):
            return 404
        if method != "POST":
            return 405
        given = headers.get(SECRET_HEADER, "").encode()
        return None if hmac.compare_digest(self._secret.encode(), given) else 403

    async def _take(self, body: bytes) -> int:
        """Hand an update on once, however often it is brought, and wait until it is settled."""
        for update in read_updates(b"[%b]" % body) or ():
            number = update.update_id
            if number not in self._delivered:
                if len(self._delivered) >= MAX_UNSETTLED:
                    return 503
                self._delivered[number] = False
                self._brought.append(update)
                self._changed.give()
            with trio.move_on_after(YES_WITHIN):
                while number in self._delivered:
                    await self._changed.wait()
            if number in self._delivered:
                return 503
        return 200
