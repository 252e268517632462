"""What the Bot API sends, read leniently: structs take what they know and ignore the rest."""

import json
import re
from typing import Any

import msgspec


class TelegramUser(msgspec.Struct):
    """A person or a bot; *id* is the only thing they cannot choose."""

    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None

    @property
    def name(self) -> str:
        """What they call themselves: untrusted."""
        return f"{self.first_name} {self.last_name or ''}".strip() or self.username or ""


class TelegramChat(msgspec.Struct):
    id: int
    type: str = "private"
    title: str | None = None


class TextQuote(msgspec.Struct):
    """The part of a message that a reply picked out."""

    text: str = ""


class ForwardOrigin(msgspec.Struct):
    """Where a forwarded message comes from."""

    type: str = ""
    sender_user: TelegramUser | None = None
    sender_user_name: str | None = None
    sender_chat: TelegramChat | None = None
    chat: TelegramChat | None = None

    @property
    def name(self) -> str:
        """Who wrote it, in their own words: untrusted."""
        if self.sender_user is not None:
            return self.sender_user.name
        chat = self.chat or self.sender_chat
        return self.sender_user_name or (chat.title if chat else None) or "somebody"


class InlineButton(msgspec.Struct):
    text: str = ""
    callback_data: str | None = None


class InlineButtons(msgspec.Struct):
    inline_keyboard: list[list[InlineButton]] = []


# What can be attached, in words for people.
_KINDS = {
    "animation": "animation",  # before document: animations carry both
    "video": "video",
    "video_note": "video message",
    "voice": "voice message",
    "audio": "audio file",
    "sticker": "sticker",
    "document": "document",
    "photo": "picture",
    "poll": "poll",
    "venue": "place",  # before location: places carry both
    "location": "location",
    "contact": "contact",
}
# Those that are no files: what is told of them.
_FIELDS = {
    "sticker": ("emoji",),
    "poll": ("question",),
    "venue": ("title", "address"),
    "location": ("latitude", "longitude"),
    "contact": ("first_name", "last_name", "phone_number"),
}


# Pixels of the longer side of a picture that all models take as it is.
LONGEST = 1568


class SharedFile(msgspec.Struct):
    """A file in a message; name and type are its sender's choice, *duration* is in seconds."""

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


class _Announced(msgspec.Struct, kw_only=True):
    """What a service message has: it announces something and says nothing."""

    forum_topic_created: Any = None
    forum_topic_edited: Any = None
    forum_topic_closed: Any = None
    forum_topic_reopened: Any = None
    pinned_message: Any = None
    new_chat_members: Any = None
    left_chat_member: Any = None
    message_auto_delete_timer_changed: Any = None
    write_access_allowed: Any = None


class TelegramMessage(_Announced):
    """A message, as far as we can use it.  Of one we may not see, *date* is 0."""

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
    # A new form of a file must not cost the text beside it.
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
        """The topic it stands in; replies in plain groups carry a thread that is none."""
        return self.message_thread_id if self.is_topic_message else None

    @property
    def is_service(self) -> bool:
        return any(getattr(self, name) is not None for name in _Announced.__struct_fields__)

    @property
    def attached_as(self) -> str:
        """The name of what is attached; empty if nothing is."""
        return next((name for name in _KINDS if getattr(self, name) is not None), "")

    @property
    def attached(self) -> str | None:
        """What is attached, in a word for people."""
        return _KINDS.get(self.attached_as)

    @property
    def has_file(self) -> bool:
        return self.attached_as in _KINDS.keys() - _FIELDS.keys()

    @property
    def file(self) -> SharedFile | None:
        """The file that is attached; of a picture the size that a model can use."""
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
        """What is told of something attached that is no file: words of anybody."""
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
    """Somebody pressed the stop button of a draft."""

    chat: TelegramChat
    message_thread_id: int | None = None


class ChatMember(msgspec.Struct):
    """Whether somebody is in a chat; *is_member* counts for those who are restricted there."""

    status: str = ""
    is_member: bool = False

    @property
    def is_there(self) -> bool:
        return self.status not in ("left", "kicked", "restricted") or self.is_member


class MembershipChanged(msgspec.Struct):
    """We were brought into a chat, or out of it; in a private chat the person (un)blocked us."""

    chat: TelegramChat
    from_: TelegramUser = msgspec.field(name="from")
    old_chat_member: ChatMember
    new_chat_member: ChatMember


class Update(msgspec.Struct):
    """Something happened; of the kinds we know at most one is set."""

    update_id: int
    message: TelegramMessage | None = None
    edited_message: TelegramMessage | None = None
    callback_query: CallbackQuery | None = None
    stopped_message_generation: StopPressed | None = None
    my_chat_member: MembershipChanged | None = None


class UnreadableUpdate(msgspec.Struct):
    """An update in a form we do not know; *why* holds none of its content."""

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
    """Read a list of updates, each for itself; None if it is no list at all.

    Lone surrogates, which JSON can carry and UTF-8 cannot, become replacement characters (TG-34).
    *result* is the list, or the whole answer if that could not be read strictly.
    """
    text = bytes(result).decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        found = found.get("result")
    if not isinstance(found, list):
        return None
    surrogates = "\\ud" in text.lower()
    read = (_read(item, surrogates) for item in found if isinstance(item, dict))
    return [update for update in read if update is not None]


def _read(item: dict[str, Any], surrogates: bool) -> Update | UnreadableUpdate | None:
    """Read one update; None if it does not even have an id."""
    try:
        return msgspec.convert(_mended(item) if surrogates else item, Update)
    except (msgspec.ValidationError, RecursionError) as error:
        if type(number := item.get("update_id")) is not int:
            return None
        # Where it is not as expected, without quoting it.
        place = re.search(r"at `(\$[\w.\[\]]*)`", str(error))
        return UnreadableUpdate(number, place[1] if place else type(error).__name__)


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value
