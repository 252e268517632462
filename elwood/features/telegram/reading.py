"""What a Telegram message says: by whom, in which session, whether to us, and in which words."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from mimetypes import guess_extension

import msgspec

from elwood.agent.conversation.inbound import Principal, plain, typed
from elwood.agent.conversation.message import PendingFile
from elwood.agent.conversation.route import Route
from elwood.features.telegram.bot_api import (
    CallbackQuery,
    SharedFile,
    TelegramMessage,
    TelegramUser,
    UnreadableUpdate,
    Update,
)
from elwood.features.telegram.channel import principal_id, route_to, session_of
from elwood.foundation.secrets.redaction import Masked, screen
from elwood.foundation.text.characters import utf16_length
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.markdown import Entity, Rich
from elwood.foundation.text.splitting import MESSAGE_LIMIT

# Characters of a quote that are passed on: a quote reminds, it does not carry a document.
MAX_QUOTE = 4096
# Characters of what a group said before that are kept of each message.
MAX_OVERHEARD = 500
# Characters of a question that its answer is shown with.
MAX_QUESTION = 300
# Characters of a file's name, and of its id.
MAX_NAME = 60
# How the names end of files that have none.
_ENDINGS = {"photo": ".jpg", "voice": ".ogg", "audio": ".mp3"} | dict.fromkeys(
    ("video", "video_note", "animation"), ".mp4"
)
_YEAR_3000 = 32_503_680_000  # no date of a message is later
_NO_BRACKETS = str.maketrans("[]", "()")
# What is dealt with in order: the messages of a chat; and apart, what is pressed there.
Order = tuple[int, bool]


def order_of(update: Update | UnreadableUpdate) -> Order:
    """Say with what *update* must stay in order; presses overtake messages that wait."""
    if isinstance(update, Update):
        if (message := update.message or update.edited_message) is not None:
            return message.chat.id, False
        if (query := update.callback_query) is not None:
            return query.message.chat.id if query.message else query.from_.id, True
        if update.stopped_message_generation is not None:
            return update.stopped_message_generation.chat.id, True
        if update.my_chat_member is not None:
            return update.my_chat_member.chat.id, False
    return 0, False


def message_name(message: TelegramMessage) -> str:
    """Name *message* as the outbox names what it has sent."""
    return f"{message.chat.id}:{message.message_id}"


def route_of(message: TelegramMessage) -> Route:
    """Say where the answer goes; in groups it refers to the message, as others write between."""
    private = message.chat.type == "private"
    reply_to = None if private else message.message_id
    return route_to(message.chat.id, message.topic, private, reply_to)


# --- who speaks, and whether to us ----------------------------------------------------------------


class BotIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who we are and whom the configuration names.

    *moved* maps the present id of an upgraded group to the id that its session is named after.
    """

    bot: int
    username: str
    owners: frozenset[int]
    groups: frozenset[int] = frozenset()
    moved: Mapping[int, int] = msgspec.field(default_factory=dict)

    def is_allowed(self, group: int) -> bool:
        """Tell whether *group*, or what it was before an upgrade, is in the configuration."""
        return group in self.groups or self.moved.get(group) in self.groups

    def group(self, chat: int) -> str:
        """Name a group as principals are named, the same after an upgrade."""
        return principal_id(self.moved.get(chat, chat))

    def principal(self, user: TelegramUser) -> Principal:
        name = one_line(user.name) or "somebody"
        return Principal(principal_id(user.id), name, user.id in self.owners)


class Addressed(msgspec.Struct, frozen=True):
    """*principal* says *text* in *session*; whether they may is not decided by that.

    In a group it may be not *for_us*.
    """

    principal: Principal
    session: str
    text: str
    for_us: bool = True


def identify(message: TelegramMessage, us: BotIdentity) -> Addressed | None:
    """Say who speaks, in which session, and take our own name out of the text; None: nobody.

    Rights hang on ``from.id`` alone: names can be chosen, and a group holds many people.  In
    groups only what mentions us, answers us or commands us by name is for us (TG-27, TG-31).
    """
    if message.sender_chat or message.via_bot or message.chat.type == "channel":
        return None  # not written by a person
    text, answered = _text(message), message.reply_to_message
    name = re.compile(rf"(^|\s)(/\w+)?@{re.escape(us.username)}\b", re.IGNORECASE)
    is_named = name.search(text) is not None
    # Every message of a topic "replies" to its opening; that is no answer to who opened it.
    is_answer = answered is not None and answered.forum_topic_created is None
    author = answered.from_ if answered is not None and is_answer else None
    answers_us = author is not None and author.id == us.bot
    # A bare mention keeps its text: there must be something to answer.
    said = name.sub(lambda found: found[1] + found[2] if found[2] else "", text).strip() or text
    return _address(message, message.from_, said, is_named or answers_us, us)


def identify_press(
    query: CallbackQuery, message: TelegramMessage, us: BotIdentity
) -> Addressed | None:
    """Read a press on one of our answers as if what the button says had been written to us.

    No text if that cannot be seen any more: Telegram shows a bot its old messages without it.
    """
    rows = message.reply_markup.inline_keyboard if message.reply_markup is not None else ()
    labels = (key.text for row in rows for key in row if key.callback_data == query.data)
    said = typed(query.data) if message.date else ""
    return _address(message, query.from_, said or next(labels, "").strip(), True, us)


def is_for_another(query: CallbackQuery, message: TelegramMessage) -> bool:
    """Tell whether *message* answers somebody else: in groups it refers to what they wrote."""
    asked = message.reply_to_message
    if asked is None or asked.forum_topic_created is not None or message.chat.type == "private":
        return False
    return asked.from_ is not None and asked.from_.id != query.from_.id


def _address(
    message: TelegramMessage,
    sender: TelegramUser | None,
    text: str,
    is_for_us: bool,
    us: BotIdentity,
) -> Addressed | None:
    if sender is None or sender.is_bot:
        return None
    chat = message.chat
    session = session_of(chat.id, message.topic, us.moved)
    return Addressed(us.principal(sender), session, text, is_for_us or chat.type == "private")


# --- in which words -------------------------------------------------------------------------------


def quote(message: TelegramMessage) -> str | None:
    """Return the text that *message* replies to: the part picked out, else the whole."""
    if message.quote is not None and message.quote.text:
        return message.quote.text[:MAX_QUOTE]
    return _text(message.reply_to_message)[:MAX_QUOTE] if message.reply_to_message else None


def quoted(message: TelegramMessage, us: BotIdentity) -> str:
    """Say whose words a message in a group replies to: ours, or somebody's, by name."""
    if message.chat.type == "private":
        return ""
    answered = message.reply_to_message
    if answered is None or answered.sender_chat is not None or answered.from_ is None:
        return "somebody"
    if answered.from_.id == us.bot:
        return "you"
    origin = answered.forward_origin or answered.from_
    return f'"{plain(origin.name)}"'  # or somebody called You could pass for us


def overheard(who: Addressed, message: TelegramMessage) -> str:
    """Put what was said, but not to us, into one line; empty if it has no words for us."""
    text = one_line(said(message, who.text), MAX_OVERHEARD) if _text(message) else ""
    if (secret := screen(text)) is not None:
        text = secret.text if isinstance(secret, Masked) else ""
    return f"{plain(who.principal.name)}: {text}" if text else ""


def says_others_words(message: TelegramMessage, us: BotIdentity) -> bool:
    """Tell whether *message* carries words that are neither its sender's nor ours nor the owner's.

    That is what was forwarded, what is quoted of somebody else (TA-51), and what others named.
    """
    if message.forward_origin is not None or message.attached_as in ("contact", "venue", "poll"):
        return True
    if not quote(message):
        return False
    quoted = message.reply_to_message
    if quoted is None or quoted.forward_origin is not None:
        return True  # quoted from another chat, or passed on before
    author = None if quoted.sender_chat or quoted.via_bot else quoted.from_
    return author is None or author.id not in us.owners | {us.bot}


def asked(message: TelegramMessage) -> str:
    """Return our question in *message*, in one line and shortened: enough to know which it was."""
    return one_line(_text(message), MAX_QUESTION)


def chosen(message: TelegramMessage, answer: str) -> Rich | None:
    """Write our question in *message*, and the *answer* that was pressed; None if it cannot be."""
    try:
        entities = msgspec.convert(message.entities or (), tuple[Entity, ...])
    except msgspec.ValidationError:
        return None
    text = f"{message.text}\n\n✓ {answer}"
    return Rich(text, entities) if message.text and utf16_length(text) <= MESSAGE_LIMIT else None


def said(message: TelegramMessage, text: str) -> str:
    """Return *text*, the words of *message*, with what the words alone do not show.

    A forwarded text is somebody else's and so marked: it must not pass for the sender's wish.
    """
    if message.attached is not None and not message.has_file:
        details = one_line(message.details, MAX_QUESTION).translate(_NO_BRACKETS)
        text = f"[{message.attached}{details and f': {details}'}]\n{text}".strip()
    if message.forward_origin is not None:
        # Who chooses a name must not be able to end the bracket that it stands in.
        author = one_line(message.forward_origin.name).translate(_NO_BRACKETS) or "somebody"
        text = f"[forwarded from {author}]\n{text}"
    return text


def pending_file(message: TelegramMessage) -> PendingFile:
    """Return what is needed to fetch the file that is attached to *message*."""
    file, kind = message.file, message.attached or ""
    if file is None:
        return PendingFile(id="", name="", kind=kind)
    return PendingFile(
        id=file.file_id,
        name=name_of(message, file),
        kind=kind,
        size=file.file_size or 0,
        duration=file.duration,
        is_speech=message.attached_as in ("voice", "video_note"),
    )


def name_of(message: TelegramMessage, file: SharedFile) -> str:
    """Name the file of *message*: the same again if the message comes again."""
    kind, day = message.attached_as, datetime.fromtimestamp(message.date % _YEAR_3000, UTC)
    ending = _ENDINGS.get(kind) or guess_extension(file.mime_type or "") or ""
    name = f"-{file.file_name[-MAX_NAME:]}" if file.file_name else ending
    return f"{day:%Y-%m-%d}-{file.file_unique_id[:MAX_NAME] or message.message_id}{name}"


def album_of(update: Update | UnreadableUpdate) -> str | None:
    """Name the album that *update* is a part of."""
    message = update.message if isinstance(update, Update) else None
    return None if message is None else message.media_group_id


def _text(message: TelegramMessage) -> str:
    return message.text if message.text is not None else message.caption or ""
