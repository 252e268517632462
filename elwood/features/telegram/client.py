"""Calls of the Telegram Bot API, its errors and their remedies."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec
import trio

from elwood.agent.channels.client import TRIES
from elwood.agent.channels.messages import Attachment
from elwood.agent.conversation.message import PendingFile
from elwood.agent.media.client import NotFetched
from elwood.features.telegram.bot_api import (
    FileLocation,
    SentMessage,
    TelegramUser,
    UnreadableUpdate,
    Update,
    WebhookInfo,
    read_updates,
)
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.net.http import Answer, Client, Interrupted, Unreachable, retry_after
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.files import Root
from elwood.foundation.text.markdown import Entity

T = TypeVar("T")
log = logging.getLogger("elwood.telegram")

# The kinds of updates we request; others would be confirmed unread.
ALLOWED_UPDATES = (
    "message",
    "edited_message",
    "callback_query",
    "stopped_message_generation",
    "my_chat_member",
)
# Seconds beyond the long poll after which the connection must be dead (TG-36).
POLL_MARGIN = 15.0
# Seconds for the response to other calls, and to calls that only show progress.
CALL_TIMEOUT = 30.0
PREVIEW_TIMEOUT = 5.0
# Seconds for the response to a probe.
PROBE_TIMEOUT = 10.0
# Seconds for the response to an upload, which Telegram checks first.
UPLOAD_TIMEOUT = 60.0
# The largest file in bytes that the API serves, and seconds for its download.
MAX_DOWNLOAD, DOWNLOAD_TIMEOUT = 20 << 20, 120.0
# Bytes of a file from a local Bot API server: it is in memory for a moment.
MAX_LOCAL = 100 << 20
# The longest pause in seconds between two attempts to download a file.
LAST_PAUSE = 30.0
# Bytes of a button's data, and characters of the answer to a button press.
MAX_BUTTON_DATA = 64
MAX_ANSWER = 200
# Characters of a label that fit half the width of a phone.
SHORT_LABEL = 16
# Updates per request: the maximum of the API.
BATCH = 100


class _Reply(msgspec.Struct):
    ok: bool = False
    result: msgspec.Raw = msgspec.Raw(b"null")
    error_code: int = 0
    description: str = ""
    parameters: dict[str, int] | None = None


class Bot:
    """One bot.  Every call raises TelegramError, Unreachable (certainly not sent) or Interrupted.

    Each actor needs a Bot with its own Client, so that a poll never waits for a send's connection.
    """

    def __init__(self, settings: TelegramSettings, client: Client) -> None:
        assert settings.token is not None, "without a token the channel is off"
        self._token = settings.token
        self._client = client
        base, bot = settings.base_url.rstrip("/"), f"bot{settings.token.reveal()}/"
        self._prefix, self._files = f"{base}/{bot}", f"{base}/file/{bot}"

    async def get_me(self) -> TelegramUser:
        return await self._call("getMe", {}, TelegramUser, PROBE_TIMEOUT)

    async def get_updates(
        self, offset: int | None, *, wait: int
    ) -> list[Update | UnreadableUpdate]:
        """Wait up to *wait* seconds for updates; confirm all before *offset*.

        An update that cannot be parsed is returned as UnreadableUpdate.
        """
        ask: dict[str, Any] = {"timeout": wait, "limit": BATCH, "allowed_updates": ALLOWED_UPDATES}
        if offset is not None:
            ask["offset"] = offset
        answer = await self._send("getUpdates", ask, wait + POLL_MARGIN)
        reply = self._unwrap("getUpdates", answer)
        updates = read_updates(reply)
        if updates is None:
            raise TelegramError("getUpdates", 502, "the result is not a list of updates")
        return updates

    async def get_file(self, file: str) -> str:
        """Return the path of *file* for `download`, valid for an hour."""
        return (await self._call("getFile", {"file_id": file}, FileLocation)).file_path

    async def download(self, path: str) -> bytes:
        """Download a path from `get_file`, at most `MAX_DOWNLOAD` bytes."""
        with trio.move_on_after(DOWNLOAD_TIMEOUT):
            answer = await self._client.get(
                f"{self._files}{quote(path)}", read_timeout=CALL_TIMEOUT, limit=MAX_DOWNLOAD
            )
            if answer.status != 200:
                waits = retry_after(answer.headers)
                what = "the file was not delivered"
                raise TelegramError("download", answer.status, what, retry_after=waits)
            return answer.body
        raise Interrupted(f"the download took more than {DOWNLOAD_TIMEOUT:.0f} s", stalled=True)

    async def send_message(
        self,
        chat: int,
        text: str,
        entities: Sequence[Entity] = (),
        *,
        files: Sequence[Attachment] = (),
        photos: bool = False,
        markdown: str = "",
        topic: int | None = None,
        reply_to: int | None = None,
        buttons: Iterable[tuple[str, str]] = (),
        silent: bool = False,
    ) -> int:
        """Send a message and return its id; *buttons* are labels with their data.

        The caption of *files*, at most 10, has at most 1024 UTF-16 units.  With *photos* the files
        are shown inline, scaled by Telegram; several form an album, which has no buttons.
        *markdown* replaces the text.  Telegram renders it, loads its pictures and parses HTML, so
        it must contain none.
        """
        ask = _send_parameters(chat, topic, reply_to, buttons)
        if silent:
            ask["disable_notification"] = True
        if markdown:
            ask["rich_message"] = {"markdown": markdown}
            return (await self._call("sendRichMessage", ask, SentMessage)).message_id
        content: dict[str, Any] = (
            {"caption" if files else "text": text} if text or not files else {}
        )
        if text and entities:
            content["caption_entities" if files else "entities"] = entities
        if not files:
            ask |= content | {"link_preview_options": {"is_disabled": True}}
            return (await self._call("sendMessage", ask, SentMessage)).message_id
        kind = "photo" if photos else "document"
        if len(files) == 1:
            method = f"send{kind.capitalize()}"
            sent = await self._upload(method, ask | content, {kind: files[0]}, SentMessage)
            return sent.message_id
        named = {f"file{number}": file for number, file in enumerate(files)}
        media: list[dict[str, Any]] = [{"type": kind, "media": f"attach://{one}"} for one in named]
        media[0] |= content
        ask["media"] = media
        return (await self._upload("sendMediaGroup", ask, named, list[SentMessage]))[0].message_id

    async def send_message_draft(
        self, chat: int, draft: int, text: str, *, topic: int | None = None
    ) -> None:
        """Show *text* as a draft, with a stop button; private chats only.

        After a stop it stays until the final message arrives.
        """
        ask = _send_parameters(chat, topic) | {"draft_id": draft, "text": text}
        ask |= {"can_stop": True, "keep_on_stop": True}
        await self._call("sendMessageDraft", ask, bool, PREVIEW_TIMEOUT)

    async def edit_message_text(
        self,
        chat: int,
        message: int,
        text: str,
        entities: Sequence[Entity] = (),
        buttons: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Replace one of our messages and its buttons; no change is a success (TG-06)."""
        ask: dict[str, Any] = {"chat_id": chat, "message_id": message, "text": text}
        ask |= {"link_preview_options": {"is_disabled": True}} | _markup(buttons)
        if entities:
            ask["entities"] = entities
        await self._edit("editMessageText", ask)

    async def delete_message(self, chat: int, message: int) -> None:
        await self._call("deleteMessage", {"chat_id": chat, "message_id": message}, bool)

    async def edit_message_reply_markup(
        self, chat: int, message: int, buttons: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Replace the buttons of one of our messages; no *buttons* remove them."""
        ask = {"chat_id": chat, "message_id": message} | _markup(buttons)
        await self._edit("editMessageReplyMarkup", ask)

    async def send_chat_action(self, chat: int, *, topic: int | None = None) -> None:
        """Show "typing" for five seconds."""
        ask = _send_parameters(chat, topic) | {"action": "typing"}
        await self._call("sendChatAction", ask, bool, PREVIEW_TIMEOUT)

    async def set_message_reaction(self, chat: int, message: int, emoji: str) -> None:
        ask = {"chat_id": chat, "message_id": message}
        reaction = [{"type": "emoji", "emoji": emoji}]
        await self._call("setMessageReaction", ask | {"reaction": reaction}, bool, PREVIEW_TIMEOUT)

    async def answer_callback_query(self, query: str, text: str) -> None:
        """End the progress display of a pressed button, and show *text*."""
        ask = {"callback_query_id": query, "text": text[:MAX_ANSWER]}
        await self._call("answerCallbackQuery", ask, bool, PREVIEW_TIMEOUT)

    async def set_my_commands(
        self, commands: Mapping[str, str], scope: Mapping[str, str | int]
    ) -> None:
        listed = [{"command": name, "description": help} for name, help in commands.items()]
        await self._call("setMyCommands", {"commands": listed, "scope": scope}, bool)

    async def get_webhook_info(self) -> WebhookInfo:
        return await self._call("getWebhookInfo", {}, WebhookInfo)

    async def set_webhook(self, url: str, secret: str) -> bool:
        ask = {"url": url, "secret_token": secret, "allowed_updates": ALLOWED_UPDATES}
        return await self._call("setWebhook", ask, bool)

    async def delete_webhook(self) -> None:
        """Remove the webhook and keep the pending updates."""
        await self._call("deleteWebhook", {"drop_pending_updates": False}, bool)

    async def _upload(
        self, method: str, ask: Mapping[str, Any], files: Mapping[str, Attachment], kind: type[T]
    ) -> T:
        # In a form, values other than text are JSON.
        fields = {
            key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for key, value in ask.items()
        }
        answer = await self._client.post_form(
            self._prefix + method,
            fields,
            *((field, file.name, file.data) for field, file in files.items()),
            read_timeout=UPLOAD_TIMEOUT,
        )
        return self._parse(method, self._unwrap(method, answer), kind)

    async def _edit(self, method: str, ask: dict[str, Any]) -> None:
        try:
            await self._call(method, ask, msgspec.Raw)
        except TelegramError as error:
            if not error.mentions("message is not modified"):
                raise

    async def _call(
        self, method: str, ask: object, kind: type[T], limit: float = CALL_TIMEOUT
    ) -> T:
        answer = await self._send(method, ask, limit)
        return self._parse(method, self._unwrap(method, answer), kind)

    @staticmethod
    def _parse(method: str, result: bytes | msgspec.Raw, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(result, type=kind)
        except msgspec.DecodeError:
            # Code 200: the request has been carried out.
            raise TelegramError(method, 200, "the response cannot be parsed") from None

    async def _send(self, method: str, ask: object, limit: float) -> Answer:
        body = msgspec.json.encode(ask)
        return await self._client.post_json(self._prefix + method, body, read_timeout=limit)

    def _unwrap(self, method: str, answer: Answer) -> bytes | msgspec.Raw:
        """Return the result, or raise the error of the API."""
        status, waits = answer.status, retry_after(answer.headers)
        try:
            reply = msgspec.json.decode(answer.body, type=_Reply)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if status == 200:
                return answer.body  # hostile text may be the reason; the caller parses it
            what = "the response is not from the Bot API"
            raise TelegramError(method, status, what, retry_after=waits) from None
        if reply.ok:
            return reply.result
        parameters = reply.parameters or {}
        raise TelegramError(
            method,
            reply.error_code or status,
            self._redact_token(reply.description),
            retry_after=parameters.get("retry_after", waits),
            migrate_to=parameters.get("migrate_to_chat_id"),
        )

    def _redact_token(self, description: str) -> str:
        """Remove the token from a text that a server or proxy may echo."""
        return description.replace(self._token.reveal(), "***")[:300]


def _send_parameters(
    chat: int,
    topic: int | None,
    reply_to: int | None = None,
    buttons: Iterable[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Build the common parameters of the methods that send."""
    ask: dict[str, Any] = {"chat_id": chat}
    if topic is not None:
        ask["message_thread_id"] = topic
    if reply_to is not None:
        ask["reply_parameters"] = {"message_id": reply_to, "allow_sending_without_reply": True}
    return ask | _markup(buttons)


def _markup(buttons: Iterable[tuple[str, str]]) -> dict[str, Any]:
    keys = [_button(label, data) for label, data in buttons]
    # Short labels fit two in a row.
    width = 2 if all(len(key["text"]) <= SHORT_LABEL for key in keys) else 1
    rows = [keys[start : start + width] for start in range(0, len(keys), width)]
    return {"reply_markup": {"inline_keyboard": rows}} if rows else {}


def _button(label: str, data: str) -> dict[str, str]:
    if not 1 <= len(data.encode()) <= MAX_BUTTON_DATA:
        raise ValueError("the data of a button has 1 to 64 bytes")
    return {"text": label, "callback_data": data}


# --- errors ---------------------------------------------------------------------------------------


class TelegramError(Exception):
    """The Bot API refused *method*, or its response was invalid.

    *code* is its error code or the HTTP status.  *retry_after* (seconds) and *migrate_to* (chat id)
    are its hints.  The error contains neither URL nor token.
    """

    def __init__(
        self,
        method: str,
        code: int,
        description: str,
        *,
        retry_after: float | None = None,
        migrate_to: int | None = None,
    ) -> None:
        super().__init__(f"{method}: {code} {description}")
        self.method = method
        self.code = code
        self.description = description
        self.retry_after = retry_after
        self.migrate_to = migrate_to

    def mentions(self, *phrases: str) -> bool:
        """Return True if the description contains one of *phrases*, ignoring case."""
        description = self.description.casefold()
        return any(phrase.casefold() in description for phrase in phrases)


# A call was refused, was certainly not sent, or may have been sent.
Failure = TelegramError | Unreachable | Interrupted
FAILURES = (TelegramError, Unreachable, Interrupted)

Remedy = Literal[
    "not sent",  # no server was reached
    "wait",  # flood control: not before retry_after
    "new chat",  # the group has a new id
    "no topic",  # the topic was deleted; the chat exists
    "no reply",  # the message replied to was deleted
    "split",  # too long
    "plain",  # the formatting was refused: the text must arrive
    "undeliverable",  # it can never arrive
    "no access",  # the token is refused, for every chat
    "unknown",  # it may have arrived
]

_GONE = (
    "chat not found",
    "peer_id_invalid",
    "have no access",
    "no rights to send",
    "not enough rights",
    "chat_write_forbidden",
    "user not found",
    "group is deactivated",
)


def remedy(error: Failure) -> Remedy:
    """Return the remedy for the *error* of a send.

    >>> remedy(TelegramError("sendMessage", 403, "Forbidden: bot was blocked by the user"))
    'undeliverable'
    >>> remedy(TelegramError("sendMessage", 400, "Bad Request: can't parse entities: byte 3"))
    'plain'
    """
    if isinstance(error, Unreachable):
        return "not sent"
    if isinstance(error, Interrupted):
        return "unknown"
    if error.migrate_to is not None:
        return "new chat"
    match error.code:
        case 429:
            return "wait"
        case 401 | 404:
            return "no access"
        case 403:
            return "undeliverable"
        case 413:
            return "split"
        case 400 if error.mentions("message thread not found", "topic_closed", "topic_deleted"):
            return "no topic"
        case 400 if error.mentions("replied not found", "reply message not found"):
            return "no reply"
        case 400 if error.mentions("too long"):
            return "split"
        case 400 if error.mentions("text is empty", *_GONE):
            return "undeliverable"
        case code if 400 <= code < 500:
            return "plain"
    return "unknown"


def explain(error: Failure) -> str:
    """Describe an error and its remedy for the operator; equal faults have equal texts.

    >>> explain(Unreachable("TLS failed: certificate is not yet valid"))
    'TLS failed: certificate is not yet valid: check the clock of this machine'
    """
    match error:
        case TelegramError(code=401 | 404):
            return (
                f"Telegram rejects the token ({error.code} {error.description}): "
                "check telegram.token, or ask @BotFather for a new one"
            )
        case TelegramError() if error.mentions("file is too big"):
            return f"it is larger than {MAX_DOWNLOAD >> 20} MB, the limit of Telegram for bots"
        case TelegramError(code=403):
            return f"Telegram: {error.description.removeprefix('Forbidden: ')}"
        case TelegramError():
            return str(error)
        case Unreachable() | Interrupted():
            # A clock wrong by days makes every certificate invalid (TG-37).
            if any(words in error.why for words in ("expired", "not yet valid")):
                return f"{error.why}: check the clock of this machine"
            return error.why


# --- files ----------------------------------------------------------------------------------------


def _explain_download(error: Failure) -> str:
    """Describe a failed download for the person who sent the file."""
    if isinstance(error, TelegramError) and not error.mentions("file is too big"):
        return "Telegram did not deliver it"
    return explain(error)


# Refused downloads that another attempt cannot change.
NOT_RETRIED = (400, 401, 403, 404)


class Downloads:
    """Download files that people sent, from the API or from the folder *local_files*."""

    def __init__(self, bot: Bot, local_files: Path | None, blocking: Blocking) -> None:
        self._bot = bot
        self._folder = local_files
        self._blocking = blocking

    async def download(self, file: PendingFile) -> bytes:
        """Download a file, with retries.  Raises NotFetched, PathRefused, Unconfined."""
        if not file.id:
            raise NotFetched("I do not know this kind of file")
        if file.size > (MAX_DOWNLOAD if self._folder is None else MAX_LOCAL):
            raise NotFetched(explain(TelegramError("getFile", 400, "file is too big")))
        pause, left = 1.0, TRIES
        while True:
            try:
                where = await self._bot.get_file(file.id)
                if self._folder is None:
                    return await self._bot.download(where)
                # A local path, which must be inside the folder.
                read = partial(Root(self._folder).read, where, MAX_LOCAL)
                return await self._blocking(read)
            except FAILURES as error:
                left -= 1
                is_final = isinstance(error, TelegramError) and error.code in NOT_RETRIED
                if not left or is_final:
                    log.warning("file not downloaded", extra={"why": explain(error)})
                    raise NotFetched(_explain_download(error)) from error
                hint = error.retry_after if isinstance(error, TelegramError) else None
            await trio.sleep(min(LAST_PAUSE, max(pause, hint or 0.0)))
            pause *= 2
