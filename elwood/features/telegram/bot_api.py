"""What the Bot API sends: structs that take what they know and ignore the rest."""

from typing import Any

import msgspec


class User(msgspec.Struct):
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


class Me(User):
    """Ourselves."""

    can_read_all_group_messages: bool = False


class Chat(msgspec.Struct):
    """Where messages stand."""

    id: int
    type: str = "private"
    title: str | None = None


class MessageEntity(msgspec.Struct):
    """A formatted span in UTF-16 units."""

    type: str
    offset: int
    length: int
    user: User | None = None


class TextQuote(msgspec.Struct):
    """The part of a message that a reply picked out."""

    text: str = ""


class Attachment(msgspec.Struct):
    """A file of any kind; its size in bytes, if Telegram says so."""

    file_size: int | None = None


class Origin(msgspec.Struct):
    """Where a forwarded message comes from."""

    type: str = ""
    sender_user: User | None = None
    sender_user_name: str | None = None
    sender_chat: Chat | None = None
    chat: Chat | None = None

    @property
    def name(self) -> str:
        """Who wrote it, in their own words: untrusted."""
        if self.sender_user is not None:
            return self.sender_user.name
        chat = self.chat or self.sender_chat
        return self.sender_user_name or (chat.title if chat else None) or "somebody"


class Key(msgspec.Struct):
    """A button under a message."""

    text: str = ""
    callback_data: str | None = None


class Markup(msgspec.Struct):
    """The buttons under a message, by rows."""

    inline_keyboard: list[list[Key]] = []


class Message(msgspec.Struct):
    """A message, as far as we can use it.  Of one we may not see, *date* is 0."""

    message_id: int
    chat: Chat
    date: int = 0
    from_: User | None = msgspec.field(default=None, name="from")
    sender_chat: Chat | None = None
    via_bot: User | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: "Message | None" = None
    quote: TextQuote | None = None
    forward_origin: Origin | None = None
    edit_date: int | None = None
    media_group_id: str | None = None
    text: str | None = None
    entities: list[MessageEntity] = []
    caption: str | None = None
    caption_entities: list[MessageEntity] = []
    reply_markup: Markup | None = None
    photo: list[Attachment] | None = None
    document: Attachment | None = None
    voice: Attachment | None = None
    audio: Attachment | None = None
    video: Attachment | None = None
    video_note: Attachment | None = None
    animation: Attachment | None = None
    sticker: Attachment | None = None
    poll: Any = None
    location: Any = None
    contact: Any = None
    migrate_to_chat_id: int | None = None
    migrate_from_chat_id: int | None = None
    # Service messages: they announce something and say nothing.
    forum_topic_created: Any = None
    forum_topic_edited: Any = None
    forum_topic_closed: Any = None
    forum_topic_reopened: Any = None
    pinned_message: Any = None
    new_chat_members: Any = None
    left_chat_member: Any = None
    message_auto_delete_timer_changed: Any = None
    write_access_allowed: Any = None

    @property
    def topic(self) -> int | None:
        """The topic it stands in; replies in plain groups carry a thread that is none."""
        return self.message_thread_id if self.is_topic_message else None

    @property
    def is_service(self) -> bool:
        """Whether it announces something instead of saying something."""
        announced = (
            self.forum_topic_created,
            self.forum_topic_edited,
            self.forum_topic_closed,
            self.forum_topic_reopened,
            self.pinned_message,
            self.new_chat_members,
            self.left_chat_member,
            self.message_auto_delete_timer_changed,
            self.write_access_allowed,
        )
        return any(thing is not None for thing in announced)

    @property
    def attached(self) -> tuple[str, int | None] | None:
        """What is attached, in a word for people, with its size in bytes."""
        kinds = {
            "animation": self.animation,  # before document: animations carry both
            "video": self.video,
            "video message": self.video_note,
            "voice message": self.voice,
            "audio file": self.audio,
            "sticker": self.sticker,
            "document": self.document,
        }
        for kind, file in kinds.items():
            if file is not None:
                return kind, file.file_size
        if self.photo is not None:
            return "picture", self.photo[-1].file_size if self.photo else None
        for kind, thing in (
            ("poll", self.poll),
            ("location", self.location),
            ("contact", self.contact),
        ):
            if thing is not None:
                return kind, None
        return None


class CallbackQuery(msgspec.Struct):
    """A pressed button."""

    id: str
    from_: User = msgspec.field(name="from")
    message: Message | None = None
    data: str | None = None


class Stopped(msgspec.Struct):
    """Somebody pressed the stop button of a draft."""

    chat: Chat
    message_thread_id: int | None = None


class Update(msgspec.Struct):
    """Something happened; of the kinds we know at most one is set."""

    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: CallbackQuery | None = None
    stopped_message_generation: Stopped | None = None


class Unreadable(msgspec.Struct):
    """An update in a form we do not know; *why* holds none of its content."""

    update_id: int
    why: str


class Sent(msgspec.Struct):
    """What we need of a message that we sent."""

    message_id: int


class WebhookInfo(msgspec.Struct):
    """The webhook; *url* is empty if none is set."""

    url: str = ""
