"""Rules of the Bot API: the parameters of each method, entities, buttons, and rates.

Stricter than the real server in two things: it ignores an unknown parameter, and repairs
overlapping entities; both would be hidden bugs.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

MAX_TEXT = 4096
MAX_CAPTION = 1024
MAX_DATA = 64  # bytes of a button
MAX_BUTTONS, MAX_IN_ROW = 100, 8
ENTITY_TYPES = {
    "mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bold",
    "italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote",
    "code", "pre", "text_link", "text_mention", "custom_emoji", "date_time",
}  # fmt: skip
# Formatting that excludes any other in it or around it.
_ALONE = {"code", "pre"}

_SEND = """chat_id! message_thread_id disable_notification protect_content message_effect_id
    reply_parameters reply_markup ephemeral_message_parameters """
_FILE = _SEND + "caption caption_entities parse_mode "
_DRAFT = "chat_id! draft_id! message_thread_id can_stop keep_on_stop "
_PLACE = "chat_id! message_id! "
# The parameters of the methods; those without ! are optional.
PARAMETERS = {
    "getUpdates": "offset limit timeout allowed_updates",
    "setWebhook": "url! secret_token max_connections allowed_updates drop_pending_updates "
    "ip_address certificate",
    "deleteWebhook": "drop_pending_updates",
    "getWebhookInfo": "",
    "getMe": "",
    "logOut": "",
    "getChat": "chat_id!",
    "getChatMember": "chat_id! user_id!",
    "getChatAdministrators": "chat_id!",
    "leaveChat": "chat_id!",
    "getFile": "file_id!",
    "sendMessage": _SEND + "text! entities parse_mode link_preview_options",
    "sendRichMessage": _SEND + "rich_message!",
    "sendPhoto": _FILE + "photo! has_spoiler show_caption_above_media",
    "sendDocument": _FILE + "document! thumbnail disable_content_type_detection",
    "sendAudio": _FILE + "audio! duration performer title thumbnail",
    "sendVideo": _FILE + "video! duration width height thumbnail supports_streaming",
    "sendVoice": _FILE + "voice! duration",
    "sendMediaGroup": """chat_id! message_thread_id media! disable_notification protect_content
        reply_parameters message_effect_id""",
    "sendMessageDraft": _DRAFT + "text entities parse_mode",
    "sendRichMessageDraft": _DRAFT + "rich_message!",
    "sendChatAction": "chat_id! action! message_thread_id",
    "setMessageReaction": _PLACE + "reaction is_big",
    "editMessageText": _PLACE
    + "text entities parse_mode rich_message link_preview_options reply_markup",
    "editMessageCaption": _PLACE + "caption caption_entities parse_mode reply_markup",
    "editMessageReplyMarkup": _PLACE + "reply_markup",
    "deleteMessage": _PLACE,
    "deleteMessages": "chat_id! message_ids!",
    "answerCallbackQuery": "callback_query_id! text show_alert url cache_time",
    "setMyCommands": "commands! scope language_code",
    "deleteMyCommands": "scope language_code",
    "createForumTopic": "chat_id! name! icon_color icon_custom_emoji_id",
}  # fmt: skip
_KINDS: dict[type, str] = {
    int: """chat_id message_id message_thread_id draft_id offset limit timeout user_id duration
        max_connections""",
    str: """text caption parse_mode callback_query_id file_id action message_effect_id url
        secret_token language_code name""",
    bool: """disable_notification protect_content can_stop keep_on_stop is_big show_alert
        drop_pending_updates has_spoiler""",
    list: "entities caption_entities allowed_updates reaction commands media message_ids",
    dict: """reply_parameters reply_markup rich_message link_preview_options scope
        ephemeral_message_parameters""",
}
_TYPES = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_REPLY = {"message_id", "chat_id", "allow_sending_without_reply", "quote", "quote_position",
          "quote_entities", "quote_parse_mode"}  # fmt: skip
_PREVIEW = {"is_disabled", "url", "prefer_small_media", "prefer_large_media", "show_above_text"}
_ENTITY = {"type", "offset", "length", "url", "user", "language", "custom_emoji_id",
           "unix_time", "date_time_format"}  # fmt: skip
_ACTIONS = {"callback_data", "url", "copy_text", "web_app", "login_url", "switch_inline_query"}
_BUTTON = _ACTIONS | {"text", "style", "disabled", "icon_custom_emoji_id"}

# Refusals with an outside cause; every other one is a bug of the caller.
WORLD = (
    "not found", "blocked by the user", "deactivated", "kicked", "not a member", "upgraded",
    "query is too old", "wrong file", "not modified", "IMAGE_PROCESS_FAILED", "Conflict",
    "file is too big", "TOPIC_CLOSED", "not enough rights", "Too Many Requests", "Unauthorized",
)  # fmt: skip
OURS = ("method not found",)


def is_fault_of_ours(description: str) -> bool:
    """Return True if this refusal means an invalid request."""
    return not any(words in description for words in WORLD) or description.endswith(OURS)


def units(text: str) -> int:
    """Return the length of *text* in UTF-16 units, like the server."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def wrong(method: str, params: Mapping[str, Any]) -> str | None:
    """Return the server's error about *params* of *method*, if any."""
    if (known := PARAMETERS.get(method)) is None:
        return None
    names = known.split()
    missing = [name[:-1] for name in names if name.endswith("!") and name[:-1] not in params]
    # The files of an album are separate parts that it refers to.
    parts = {one["media"].removeprefix("attach://") for one in params.get("media", [])}
    unknown = params.keys() - {name.removesuffix("!") for name in names} - parts
    if missing or unknown:
        return f"missing: {missing}, unknown: {sorted(unknown)}"
    for name, value in params.items():
        kind = _TYPES.get(name)
        if kind is not None and type(value) is not kind:
            return f"{name} is no {kind.__name__}"
    for name, fields in (("reply_parameters", _REPLY), ("link_preview_options", _PREVIEW)):
        if odd := params.get(name, {}).keys() - fields:
            return f"{name}: unknown: {sorted(odd)}"
    if "message_id" not in params.get("reply_parameters", {"message_id": 1}):
        return "reply_parameters: message_id is missing"
    markup = params.get("reply_markup", {})
    return _wrong_buttons(markup["inline_keyboard"]) if "inline_keyboard" in markup else None


def _wrong_buttons(rows: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
    if sum(map(len, rows)) > MAX_BUTTONS or any(not 0 < len(row) <= MAX_IN_ROW for row in rows):
        return "reply_markup: too many buttons, or an empty row"
    for button in (button for row in rows for button in row):
        if odd := button.keys() - _BUTTON:
            return f"a button: unknown: {sorted(odd)}"
        if not button.get("text", "").strip():
            return "a button: text is empty"
        if len(button.keys() & _ACTIONS) != 1:
            return "a button: it must do exactly one thing"
        if not 1 <= len(button.get("callback_data", "x").encode()) <= MAX_DATA:
            return "BUTTON_DATA_INVALID"
    return None


def wrong_entities(text: str, entities: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the error in the formatting of *text*, which is already trimmed."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    spans = []
    for entity in entities:
        if odd := entity.keys() - _ENTITY:
            return f"unknown: {sorted(odd)}"
        if entity["type"] not in ENTITY_TYPES:
            return f"unknown {entity['type']}"
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start < 0 or start >= end or end > len(encoded) // 2:
            return "entity out of bounds"
        for cut in (start, end):
            if 0xDC <= encoded[2 * cut + 1 : 2 * cut + 2].ljust(1, b"\0")[0] <= 0xDF:
                return "inside of a character"
        if entity["type"] == "text_link" and not entity.get("url"):
            return "no URL"
        spans.append((start, end, entity["type"]))
    for number, (start, end, kind) in enumerate(spans):
        for start2, end2, kind2 in spans[number + 1 :]:
            if end <= start2 or end2 <= start:
                continue
            if start < start2 < end < end2 or start2 < start < end2 < end:
                return f"{kind} and {kind2} cross"
            if kind == kind2 or ({kind, kind2} & _ALONE and not _quoted(kind, kind2)):
                return f"{kind} and {kind2} may not be nested"
    return None


def _quoted(kind: str, other: str) -> bool:
    return bool({kind, other} & {"blockquote", "expandable_blockquote"})


class Rates:
    """The vendor's rate limits for a bot, for each chat and for all together."""

    def __init__(self) -> None:
        self._times: dict[tuple[int, str], deque[float]] = {}

    def refuse(self, method: str, chat: int, now: float, count: int = 1) -> float | None:
        """Count a call of *count* messages; return the seconds to wait if it exceeds a limit."""
        if method.endswith("Draft") or method == "sendChatAction":
            windows = [(chat, "drafts", 20, 5.0), (chat, "more drafts", 40, 30.0)]
        elif method.startswith(("send", "edit")):
            # About one a second, with short bursts; and thirty a second to all.
            group = [(chat, "group", 20, 60.0)] if chat < 0 else [(chat, "chat", 10, 5.0)]
            windows = [*group, (0, "all", 30, 1.0)]
            if chat > 0:
                windows.append((chat, "minute", 65, 60.0))
        else:
            return None
        for key, name, most, seconds in windows:
            times = self._times.setdefault((key, name), deque())
            while times and times[0] <= now - seconds:
                times.popleft()
            if len(times) + count > most:
                return times[0] + seconds - now
        for key, name, _, _ in windows:
            self._times[key, name].extend([now] * count)
        return None
