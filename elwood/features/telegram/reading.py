"""What a Telegram message says, in the terms of the house."""

from elwood.agent.conversation.identity import Heard, House, Mark
from elwood.agent.conversation.route import Route
from elwood.features.telegram.bot_api import (
    CallbackQuery,
    TelegramMessage,
    UnreadableUpdate,
    Update,
)
from elwood.foundation.text.lines import one_line

# Bytes above which the hosted Bot API gives no file to a bot (TG-32).
MAX_FILE = 20 * 1024 * 1024
# Characters of a quote that are passed on: a quote reminds, it does not carry a document.
MAX_QUOTE = 4096
# Characters of a question that its answer is shown with.
MAX_QUESTION = 300
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
    return 0, False


def route_of(message: TelegramMessage) -> Route:
    """Say where the answer goes; in groups it refers to the message, as others write between."""
    private = message.chat.type == "private"
    reply_to = None if private else message.message_id
    return Route("telegram", message.chat.id, message.topic, private, reply_to)


def heard(message: TelegramMessage) -> Heard:
    """Return what matters of *message* for the question who wrote it to whom."""
    sender, answered = message.from_, message.reply_to_message
    # Every message of a topic "replies" to its opening; that is no answer to who opened it.
    is_answer = answered is not None and answered.forum_topic_created is None
    author = answered.from_ if answered is not None and is_answer else None
    return Heard(
        chat=message.chat.id,
        private=message.chat.type == "private",
        sender=sender.id if sender else None,
        name=sender.name if sender else "",
        topic=message.topic,
        anonymous=(
            message.sender_chat is not None
            or message.via_bot is not None
            or message.chat.type == "channel"
            or (sender is not None and sender.is_bot)
        ),
        text=_text(message),
        marks=tuple(
            Mark(entity.type, entity.offset, entity.length, entity.user.id if entity.user else None)
            for entity in message.entities or message.caption_entities
        ),
        answers=author.id if author else None,
    )


def quote(message: TelegramMessage) -> str | None:
    """Return the text that *message* replies to: the part picked out, else the whole."""
    if message.quote is not None and message.quote.text:
        return message.quote.text[:MAX_QUOTE]
    return _text(message.reply_to_message)[:MAX_QUOTE] if message.reply_to_message else None


def says_others_words(message: TelegramMessage, house: House) -> bool:
    """Tell whether *message* carries words that are neither its sender's nor ours nor the owner's.

    That is what was forwarded, and what is quoted of somebody else (TA-51).
    """
    if message.forward_origin is not None:
        return True
    if not quote(message):
        return False
    quoted = message.reply_to_message
    if quoted is None or quoted.forward_origin is not None:
        return True  # quoted from another chat, or passed on before
    author = None if quoted.sender_chat or quoted.via_bot else quoted.from_
    return author is None or author.id not in house.owners | {house.bot}


def pressed(query: CallbackQuery, bot: int) -> Heard | None:
    """Return a press on one of our answers as if what stands on the button had been written to us.

    None if that cannot be seen any more: Telegram shows a bot its old messages without it.
    """
    message = query.message
    if message is None or message.reply_markup is None:
        return None
    keys = (key for row in message.reply_markup.inline_keyboard for key in row)
    label = next((key.text for key in keys if key.callback_data == query.data), "")
    if not label.strip():
        return None
    return Heard(
        chat=message.chat.id,
        private=message.chat.type == "private",
        sender=query.from_.id,
        name=query.from_.name,
        topic=message.topic,
        anonymous=query.from_.is_bot,
        text=label,
        answers=bot,
    )


def asked(message: TelegramMessage) -> str:
    """Return our question in *message*, in one line and shortened: enough to know which it was."""
    return one_line(_text(message), MAX_QUESTION)


def said(message: TelegramMessage, text: str) -> str:
    """Return *text*, the words of *message*, with what the words alone do not show.

    A forwarded text is somebody else's and so marked: it must not pass for the sender's wish.
    """
    if message.forward_origin is not None:
        # Who chooses a name must not be able to end the bracket that it stands in.
        author = one_line(message.forward_origin.name).translate(_NO_BRACKETS) or "somebody"
        text = f"[forwarded from {author}]\n{text}"
    if message.attached is not None:
        text = f"[A {message.attached[0]} is attached, which you cannot see]\n{text}"
    return text


def unsupported(message: TelegramMessage) -> str | None:
    """Say to the sender why *message* cannot be read; None if it has words."""
    if _text(message):
        return None
    kind, size = message.attached or ("message of this kind", None)
    known = "" if size is None or size <= MAX_FILE else ", and Telegram gives bots 20 MB at most"
    return f"I cannot read a {kind} yet{known}. Please write it as text."


class Albums:
    """Tells which messages belong together: an album comes as one message for each picture."""

    def __init__(self) -> None:
        self._last: dict[int, str] = {}  # by chat

    def continues(self, message: TelegramMessage) -> bool:
        """Tell whether *message* continues the album that the last one of its chat was from."""
        before = self._last.pop(message.chat.id, None)
        if message.media_group_id is not None:
            self._last[message.chat.id] = message.media_group_id
        return before is not None and before == message.media_group_id


def _text(message: TelegramMessage) -> str:
    return message.text if message.text is not None else message.caption or ""
