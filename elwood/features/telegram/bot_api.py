"""Types of the Bot API, parsed leniently: unknown fields are ignored."""

import json
import re
from typing import Any

import msgspec


class TelegramUser(msgspec.Struct):
    """A person or a bot; only the *id* is not their choice."""

    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None

    @property
    def name(self) -> str:
        """Their own name for themselves: untrusted."""
        return f"{self.first_name} {self.last_name or ''}".strip() or self.username or ""


class TelegramChat(msgspec.Struct):
    id: int
    type: str = "private"
    title: str | None = None


class TextQuote(msgspec.Struct):
    """The part of a message that a reply quotes."""

    text: str = ""


class ForwardOrigin(msgspec.Struct):
    """The origin of a forwarded message."""

    type: str = ""
    sender_user: TelegramUser | None = None
    sender_user_name: str | None = None
    sender_chat: TelegramChat | None = None
    chat: TelegramChat | None = None

    @property
    def name(self) -> str:
        """The author's name: untrusted."""
        if self.sender_user is not None:
            return self.sender_user.name
        chat = self.chat or self.sender_chat
        return self.sender_user_name or (chat.title if chat else None) or "somebody"


class InlineButton(msgspec.Struct):
    text: str = ""
    callback_data: str | None = None


class InlineButtons(msgspec.Struct):
    inline_keyboard: list[list[InlineButton]] = []


# Kinds of attachments, in words for people.
_KINDS = {
    "animation": "animation",  # before document: an animation has both
    "video": "video",
    "video_note": "video message",
    "voice": "voice message",
    "audio": "audio file",
    "sticker": "sticker",
    "document": "document",
    "photo": "picture",
    "poll": "poll",
    "venue": "place",  # before location: a venue has both
    "location": "location",
    "contact": "contact",
}
# The fields to show of kinds that are not files.
_FIELDS = {
    "sticker": ("emoji",),
    "poll": ("question",),
    "venue": ("title", "address"),
    "location": ("latitude", "longitude"),
    "contact": ("first_name", "last_name", "phone_number"),
}


# The longer side, in pixels, of a picture that no model scales down.
LONGEST = 1568


class SharedFile(msgspec.Struct):
    """A file in a message; the sender chooses its name and type.  *duration* is in seconds."""

    file_id: str
    file_unique_id: str = ""
    file_name: str | None = None
    mime_type: str | None = None
    file_size: int | None = None
    width: int = 0
    height: int = 0
    duration: int = 0


class FileLocation(msgspec.Struct):
    file_path: str


class _ServiceFields(msgspec.Struct, kw_only=True):
    """The fields of service messages, which announce an event and have no text."""

    forum_topic_created: Any = None
    forum_topic_edited: Any = None
    forum_topic_closed: Any = None
    forum_topic_reopened: Any = None
    pinned_message: Any = None
    new_chat_members: Any = None
    left_chat_member: Any = None
    message_auto_delete_timer_changed: Any = None
    write_access_allowed: Any = None


class TelegramMessage(_ServiceFields):
    """A message, as far as we can use it.  *date* is 0 if we may not see it."""

    message_id: int
    chat: TelegramChat
    date: int = 0
    from_: TelegramUser | None = msgspec.field(default=None, name="from")
    sender_chat: TelegramChat | None = None
    via_bot: TelegramUser | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: "TelegramMessage | None" = None
    quote: TextQuote | None = None
    forward_origin: ForwardOrigin | None = None
    edit_date: int | None = None
    media_group_id: str | None = None
    text: str | None = None
    caption: str | None = None
    reply_markup: InlineButtons | None = None
    entities: Any = None
    # Untyped: a new form of an attachment must not make the text unreadable.
    photo: Any = None
    document: Any = None
    voice: Any = None
    audio: Any = None
    video: Any = None
    video_note: Any = None
    animation: Any = None
    sticker: Any = None
    poll: Any = None
    venue: Any = None
    location: Any = None
    contact: Any = None
    migrate_to_chat_id: int | None = None
    migrate_from_chat_id: int | None = None

    @property
    def topic(self) -> int | None:
        """The forum topic; replies in plain groups have a thread that is not a topic."""
        return self.message_thread_id if self.is_topic_message else None

    @property
    def is_service(self) -> bool:
        return any(getattr(self, name) is not None for name in _ServiceFields.__struct_fields__)

    @property
    def attached_as(self) -> str:
        """The field of the attachment, or ""."""
        return next((name for name in _KINDS if getattr(self, name) is not None), "")

    @property
    def attached(self) -> str | None:
        """The kind of the attachment, in words for people."""
        return _KINDS.get(self.attached_as)

    @property
    def has_file(self) -> bool:
        return self.attached_as in _KINDS.keys() - _FIELDS.keys()

    @property
    def file(self) -> SharedFile | None:
        """The attached file; of a picture, the size that fits a model."""
        try:
            if self.attached_as != "photo":
                return msgspec.convert(getattr(self, self.attached_as), SharedFile)
            sizes = msgspec.convert(self.photo, list[SharedFile])
        except msgspec.ValidationError:
            return None
        fit = [one for one in sizes if max(one.width, one.height) <= LONGEST]
        return max(fit or sizes, key=lambda one: one.width, default=None)

    @property
    def details(self) -> str:
        """The text of an attachment that is not a file: untrusted."""
        given = getattr(self, self.attached_as) if self.attached_as in _FIELDS else None
        if not isinstance(given, dict):
            return ""
        values = (given.get(key) for key in _FIELDS[self.attached_as])
        return ", ".join(str(value) for value in values if value is not None)


class CallbackQuery(msgspec.Struct):
    id: str
    from_: TelegramUser = msgspec.field(name="from")
    message: TelegramMessage | None = None
    data: str | None = None


class StopPressed(msgspec.Struct):
    """The stop button of a draft was pressed."""

    chat: TelegramChat
    message_thread_id: int | None = None


class ChatMember(msgspec.Struct):
    """A user's status in a chat; *is_member* matters for restricted users."""

    status: str = ""
    is_member: bool = False

    @property
    def is_there(self) -> bool:
        return self.status not in ("left", "kicked", "restricted") or self.is_member


class MembershipChanged(msgspec.Struct):
    """The bot was added to or removed from a chat; in a private chat it was (un)blocked."""

    chat: TelegramChat
    from_: TelegramUser = msgspec.field(name="from")
    old_chat_member: ChatMember
    new_chat_member: ChatMember


class Update(msgspec.Struct):
    """An event; at most one of the known kinds is set."""

    update_id: int
    message: TelegramMessage | None = None
    edited_message: TelegramMessage | None = None
    callback_query: CallbackQuery | None = None
    stopped_message_generation: StopPressed | None = None
    my_chat_member: MembershipChanged | None = None


class UnreadableUpdate(msgspec.Struct):
    """An update in an unknown form; *why* contains none of its content."""

    update_id: int
    why: str


class SentMessage(msgspec.Struct):
    message_id: int


class WebhookInfo(msgspec.Struct):
    """The webhook; *url* is empty if none is set."""

    url: str = ""
    pending_update_count: int = 0
    last_error_message: str = ""


def read_updates(result: bytes | msgspec.Raw) -> list[Update | UnreadableUpdate] | None:
    """Parse a list of updates one by one; return None if it is not a list.

    Lone surrogates, which JSON can contain and UTF-8 cannot, become replacement characters (TG-34).
    *result* is the list, or the whole answer if strict parsing failed.
    """
    text = bytes(result).decode("utf-8", "replace")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(data, dict):
        data = data.get("result")
    if not isinstance(data, list):
        return None
    surrogates = "\\ud" in text.lower()
    read = (_parse_update(item, surrogates) for item in data if isinstance(item, dict))
    return [update for update in read if update is not None]


def _parse_update(item: dict[str, Any], surrogates: bool) -> Update | UnreadableUpdate | None:
    """Parse one update; return None if it has no id."""
    try:
        return msgspec.convert(_replace_surrogates(item) if surrogates else item, Update)
    except (msgspec.ValidationError, RecursionError) as error:
        if type(number := item.get("update_id")) is not int:
            return None
        # Report the place of the error without its content.
        place = re.search(r"at `(\$[\w.\[\]]*)`", str(error))
        return UnreadableUpdate(number, place[1] if place else type(error).__name__)


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return value
