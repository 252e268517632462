"""Interpret Telegram messages: sender, session, addressee and text."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from mimetypes import guess_extension

import msgspec

from elwood.agent.conversation.inbound import Principal, decode_command, plain
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

# Characters kept of a quote: it is a reminder, not a document.
MAX_QUOTE = 4096
# Characters kept of each overheard group message.
MAX_OVERHEARD = 500
# Characters of a question that is quoted with its answer.
MAX_QUESTION = 300
# Characters of a file name, and of a file id.
MAX_NAME = 60
# File name suffixes for kinds of files that have no name.
_ENDINGS = {"photo": ".jpg", "voice": ".ogg", "audio": ".mp3"} | dict.fromkeys(
    ("video", "video_note", "animation"), ".mp4"
)
_YEAR_3000 = 32_503_680_000  # later than the date of any message
_NO_BRACKETS = str.maketrans("[]", "()")
# The key of updates to handle in order: the chat, and True for its button presses.
Order = tuple[int, bool]


def order_of(update: Update | UnreadableUpdate) -> Order:
    """Return the ordering key of *update*; presses overtake waiting messages."""
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
    """Return the name of *message*, in the form that the outbox uses for sent messages."""
    return f"{message.chat.id}:{message.message_id}"


def route_of(message: TelegramMessage) -> Route:
    """Return the route of the answer; in groups it is a reply, because others write in between."""
    private = message.chat.type == "private"
    reply_to = None if private else message.message_id
    return route_to(message.chat.id, message.topic, private, reply_to)


# --- sender and addressee -------------------------------------------------------------------------


class BotIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The bot, and the ids of its configuration."""

    bot: int
    username: str
    owners: frozenset[int]
    groups: frozenset[int] = frozenset()
    # The current id of each upgraded group to the id in its session's name.
    moved: Mapping[int, int] = msgspec.field(default_factory=dict)

    def is_allowed(self, group: int) -> bool:
        """Return True if *group*, or its id before an upgrade, is in the configuration."""
        return group in self.groups or self.moved.get(group) in self.groups

    def group(self, chat: int) -> str:
        """Return the principal of a group, unchanged by an upgrade."""
        return principal_id(self.moved.get(chat, chat))

    def principal(self, user: TelegramUser) -> Principal:
        name = one_line(user.name) or "somebody"
        return Principal(principal_id(user.id), name, user.id in self.owners)


class Addressed(msgspec.Struct, frozen=True):
    """A message with its sender and session.  It does not say whether the sender may talk."""

    principal: Principal
    session: str
    text: str
    # Always True in a private chat.
    for_us: bool = True


def identify(message: TelegramMessage, us: BotIdentity) -> Addressed | None:
    """Return the sender, the session and the text without our name; None if no person wrote it.

    Rights depend on ``from.id`` only: names can be chosen, and a group has many people.  In groups
    a message is for us if it mentions us, replies to us or has a command with our name (TG-27,
    TG-31).
    """
    if message.sender_chat or message.via_bot or message.chat.type == "channel":
        return None
    text, answered = _text(message), message.reply_to_message
    name = re.compile(rf"(^|\s)(/\w+)?@{re.escape(us.username)}\b", re.IGNORECASE)
    if message.chat.type == "private":  # a command for another bot was copied
        text = re.sub(r"^(/\w+)@\w+", r"\1", text)
    is_named = name.search(text) is not None
    # Every message of a topic "replies" to its first one; that is not a reply to its creator.
    is_answer = answered is not None and answered.forum_topic_created is None
    author = answered.from_ if answered is not None and is_answer else None
    answers_us = author is not None and author.id == us.bot
    # A bare mention keeps its text, so that there is something to answer.
    words = name.sub(lambda found: found[1] + found[2] if found[2] else "", text).strip() or text
    return _address(message, message.from_, words, is_named or answers_us, us)


def identify_press(
    query: CallbackQuery, message: TelegramMessage, us: BotIdentity
) -> Addressed | None:
    """Return a button press as a message with the text of the button.

    The text is "" for an old message, which Telegram sends to the bot without its content.
    """
    rows = message.reply_markup.inline_keyboard if message.reply_markup is not None else ()
    labels = (key.text for row in rows for key in row if key.callback_data == query.data)
    command = decode_command(query.data) if message.date else ""
    return _address(message, query.from_, command or next(labels, "").strip(), True, us)


def is_for_another(query: CallbackQuery, message: TelegramMessage) -> bool:
    """Return True if *message* replies to another person: in groups our answers are replies."""
    request = message.reply_to_message
    if request is None or request.forum_topic_created is not None or message.chat.type == "private":
        return False
    return request.from_ is not None and request.from_.id != query.from_.id


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


# --- text -----------------------------------------------------------------------------------------


def quote(message: TelegramMessage) -> str | None:
    """Return the text that *message* replies to: the quoted part, or else all of it."""
    if message.quote is not None and message.quote.text:
        return message.quote.text[:MAX_QUOTE]
    return _text(message.reply_to_message)[:MAX_QUOTE] if message.reply_to_message else None


def find_quoted_author(message: TelegramMessage, us: BotIdentity) -> str:
    """Return the author of the text that a group message replies to: "you" for us, or a name."""
    if message.chat.type == "private":
        return ""
    answered = message.reply_to_message
    if answered is None or answered.sender_chat is not None or answered.from_ is None:
        return "somebody"
    if answered.from_.id == us.bot:
        return "you"
    origin = answered.forward_origin or answered.from_
    return f'"{plain(origin.name)}"'  # quoted, so that a person called You cannot pass for us


def format_overheard(request: Addressed, message: TelegramMessage) -> str:
    """Return one line for a message that is not for us; "" if it has no text."""
    text = one_line(format_text(message, request.text), MAX_OVERHEARD) if _text(message) else ""
    if (secret := screen(text)) is not None:
        text = secret.text if isinstance(secret, Masked) else ""
    return f"{plain(request.principal.name)}: {text}" if text else ""


def has_foreign_text(message: TelegramMessage, us: BotIdentity) -> bool:
    """Return True if *message* has text that is not by its sender, the owner or us.

    That is a forward, a quote of another person (TA-51), or a contact, venue or poll.
    """
    if message.forward_origin is not None or message.attached_as in ("contact", "venue", "poll"):
        return True
    if not quote(message):
        return False
    quoted = message.reply_to_message
    if quoted is None or quoted.forward_origin is not None:
        return True  # quoted from another chat, or from a forward
    author = None if quoted.sender_chat or quoted.via_bot else quoted.from_
    return author is None or author.id not in us.owners | {us.bot}


def question_text(message: TelegramMessage) -> str:
    """Return our question in *message* as one line, shortened but recognizable."""
    return one_line(_text(message), MAX_QUESTION)


def chosen(message: TelegramMessage, answer: str) -> Rich | None:
    """Return our question in *message* with the pressed *answer*; None if it does not fit."""
    try:
        entities = msgspec.convert(message.entities or (), tuple[Entity, ...])
    except msgspec.ValidationError:
        return None
    text = f"{message.text}\n\n✓ {answer}"
    return Rich(text, entities) if message.text and utf16_length(text) <= MESSAGE_LIMIT else None


def format_text(message: TelegramMessage, text: str) -> str:
    """Return *text* of *message* with a note on its attachment and origin.

    A forwarded text has a mark, because it must not pass for the sender's request.
    """
    if message.attached is not None and not message.has_file:
        details = one_line(message.details, MAX_QUESTION).translate(_NO_BRACKETS)
        text = f"[{message.attached}{details and f': {details}'}]\n{text}".strip()
    if message.forward_origin is not None:
        # A name must not be able to close the bracket around it.
        author = one_line(message.forward_origin.name).translate(_NO_BRACKETS) or "somebody"
        text = f"[forwarded from {author}]\n{text}"
    return text


def pending_file(message: TelegramMessage) -> PendingFile:
    """Return the reference for fetching the file of *message*."""
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
    """Return a file name for the file of *message*, the same for each delivery."""
    kind, day = message.attached_as, datetime.fromtimestamp(message.date % _YEAR_3000, UTC)
    ending = _ENDINGS.get(kind) or guess_extension(file.mime_type or "") or ""
    name = f"-{file.file_name[-MAX_NAME:]}" if file.file_name else ending
    return f"{day:%Y-%m-%d}-{file.file_unique_id[:MAX_NAME] or message.message_id}{name}"


def album_of(update: Update | UnreadableUpdate) -> str | None:
    """Return the id of the album that *update* is part of."""
    message = update.message if isinstance(update, Update) else None
    return None if message is None else message.media_group_id


def _text(message: TelegramMessage) -> str:
    return message.text if message.text is not None else message.caption or ""
