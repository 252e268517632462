"""A Bot API with the real one's semantics, on a real loopback socket.

In a test: ``async with fake_telegram() as fake``.  As a process: ``python -m tests.fake_telegram
--port-file F``, controlled over the same port under ``/_/``. The rules are those of the Bot API;
the error texts are the server's.
"""

import argparse
import json
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from tests.fake_http import (
    LOST,
    Reply,
    Request,
    announced,
    connection,
    json_reply,
    listen,
    port_of,
    whole,
)
from tests.telegram_rules import (
    MAX_CAPTION,
    MAX_TEXT,
    Rates,
    is_fault_of_ours,
    units,
    wrong,
    wrong_entities,
)

BOT = {"id": 4242, "is_bot": True, "first_name": "Elwood", "username": "elwood_bot"}
# Recognizable in any output, and not in the form of a real token.
TOKEN = "4242:fake-token"
OWNER = 1001
MAX_RICH = 32_768
# The end of a picture that the server cannot read.
BROKEN = b"broken"
MAX_POLL = 50
# Some of the reactions that a bot may use.
EMOJI = {"👍", "👎", "❤", "🔥", "🎉", "🤔", "👀", "🙏", "👌", "💯", "⚡", "🏆", "✍", "🤷", "😢"}


@attrs.define
class Fault:
    """A fault in the next *times* calls of *method* (``*``: any; in *chat* only).

    *kind*: ``error`` (answer *code*, *description*, *parameters*), ``html`` (a proxy's page with
    *code*), ``swallow`` (done, but never answered), ``lose`` (done, then the connection is closed),
    ``hang`` (not done, never answered), ``drop`` (not done, connection closed).
    """

    method: str
    kind: str = "error"
    times: int = 1
    chat: int | None = None
    code: int = 500
    description: str = "Internal Server Error"
    parameters: dict[str, int] | None = None


@attrs.define
class SentMessage:
    """A message of the bot, and its later changes."""

    chat: int
    message_id: int
    text: str
    params: dict[str, Any]
    at: float
    edits: int = 0

    @property
    def buttons(self) -> list[str]:
        rows = (self.params.get("reply_markup") or {}).get("inline_keyboard", [])
        return [button["callback_data"] for row in rows for button in row]

    def button(self, letter: str) -> str:
        """Return the data of the button for an answer, by its last letter."""
        return next(data for data in self.buttons if data.endswith(f":{letter}"))


class Refusal(Exception):
    def __init__(self, code: int, description: str, parameters: dict[str, int] | None = None):
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


class FakeTelegram:
    """The server's state. Tests read *sent*, *drafts*, *calls*, and set the switches."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.token = TOKEN
        self.port = 80
        self.sent: list[SentMessage] = []
        # Files of messages, by message id: name and bytes.
        self.files: dict[int, tuple[str, bytes]] = {}
        # Files sent by people, by file id; and their download paths.
        self.shared: dict[str, bytes] = {}
        self._paths: dict[str, str] = {}
        # Seconds that each download takes, by file id; 0 if missing.
        self.slow: dict[str, float] = {}
        self.drafts: list[tuple[int, int, str]] = []
        self.actions: list[int] = []
        # The bot's reactions: chat and message id.
        self.reactions: dict[tuple[int, int], str] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.counts: Counter[str] = Counter()
        # Polls received, answered or not.
        self.polls = 0
        self.answered: dict[str, str] = {}
        # The command menus, by scope: names and descriptions.
        self.menus: dict[str, dict[str, str]] = {}
        self.faults: list[Fault] = []
        # The file folder of a self-hosted `--local` server; its answers contain paths there.
        self.local: Path | None = None
        # The address for updates; a test delivers them.
        self.webhook = self.webhook_secret = self.webhook_error = ""
        self.blocked: set[int] = set()
        self.unknown: set[int] = set()
        self.moved: dict[int, int] = {}
        self.dead_topics: set[int] = set()
        self.gone: set[int] = set()
        # Messages per chat and second that exceed the limit; a violation costs *flood_wait*.
        self.flood_limit: int | None = None
        self.flood_wait = 1
        # The vendor's limits for all chats, if set; exceeding them is a bug.
        self.rates: Rates | None = None
        # Invalid requests: there must be none at the end.
        self.violations: list[str] = []
        # A proxy in between that answers every poll immediately.
        self.instant = False
        # Time of the first poll.
        self.polled_at: float | None = None
        self._recent: dict[int, deque[float]] = {}
        self._flooded: dict[int, float] = {}
        self._updates: list[dict[str, Any]] = []
        self._delivered: set[int] = set()
        self._next_update = 1000
        self._uploaded = ("", b"")
        self._uploads: dict[str, tuple[str, bytes]] = {}
        self._next_message = 0
        self._changed = trio.Event()
        self._poller: trio.CancelScope | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # --- outside events: people write ---------------------------------------------------------

    def push(self, update: dict[str, Any]) -> int:
        """Queue an update as it is, with an id if it has none; return the id."""
        if "update_id" not in update:
            update = {"update_id": self._next_update, **update}
        number = int(update["update_id"])
        self._next_update = number + 1
        self._updates.append(update)
        self._stir()
        return number

    def message(
        self, text: str | None, *, chat: int = OWNER, user: int = OWNER, **more: Any
    ) -> Any:
        """Build a message as a person sends it: private unless *chat* is negative."""
        self._next_message += 1
        kind = "private" if chat > 0 else "supergroup"
        made: dict[str, Any] = {
            "message_id": self._next_message,
            "date": int(self.clock()),
            "chat": {"id": chat, "type": kind, "first_name": "Ann"},
            "from": {"id": user, "is_bot": False, "first_name": "Ann", "language_code": "en"},
        }
        if text is not None:
            made["text"] = text
        return made | more

    def say(self, text: str | None, **more: Any) -> int:
        """Send a message as a person; return its update id."""
        return self.push({"message": self.message(text, **more)})

    def file(self, data: bytes, **more: Any) -> dict[str, Any]:
        """Upload a file as a person; return its reference in a message."""
        number = len(self.shared) + 1
        self.shared[f"file{number}"] = data
        named = {"file_id": f"file{number}", "file_unique_id": f"u{number}", "file_size": len(data)}
        return named | more

    def voice(self, words: bytes, **more: Any) -> dict[str, Any]:
        """Record a voice message with these words as a person."""
        return self.file(b"OggS" + words, duration=12, mime_type="audio/ogg", **more)

    def photo(self, data: bytes, width: int, height: int) -> list[dict[str, Any]]:
        """Build the sizes of a picture sent by a person: the last one is *data*."""
        small = self.file(b"small", width=90, height=90)
        return [small, self.file(data, width=width, height=height)]

    def member(
        self, chat: int, status: str = "member", *, user: int = OWNER, title: str = ""
    ) -> int:
        """Add the bot to a chat, or remove it (any other *status*)."""
        there = status in ("member", "administrator")
        (self.blocked.discard if there else self.blocked.add)(chat)
        old, made = "left" if there else "member", self.message(None, chat=chat, user=user)
        changed = {
            "chat": made["chat"] | ({"title": title} if title else {}),
            "from": made["from"],
            "date": made["date"],
            "old_chat_member": {"user": BOT, "status": old},
            "new_chat_member": {"user": BOT, "status": status, "until_date": 0},
        }
        return self.push({"my_chat_member": changed})

    def press(
        self, data: str, *, user: int = OWNER, message: SentMessage | None = None, **more: Any
    ) -> str:
        """Press a button under *message*, with *more* in it; return the query id."""
        query = f"q{self._next_update}"
        shown = None
        if message is not None:
            shown = {
                "message_id": message.message_id,
                "chat": {
                    "id": message.chat,
                    "type": "private" if message.chat > 0 else "supergroup",
                },
                "date": int(message.at),
                "text": message.text,
                "from": BOT,
                **(
                    {"reply_markup": markup}
                    if (markup := message.params.get("reply_markup"))
                    else {}
                ),
                **more,
            }
        asked = {"id": query, "from": {"id": user, "is_bot": False, "first_name": "Ann"}}
        self.answered[query] = ""
        pressed = {"callback_query": asked | {"data": data, "chat_instance": "1"}}
        if shown is not None:
            pressed["callback_query"]["message"] = shown
        self.push(pressed)
        return query

    def button(self, words: str) -> tuple[str, SentMessage] | None:
        """Find the newest button that shows *words*; return its data and its message."""
        for message in reversed(self.sent):
            markup = message.params.get("reply_markup") or {"inline_keyboard": []}
            for key in (key for row in markup["inline_keyboard"] for key in row):
                if words in key["text"]:
                    return key["callback_data"], message
        return None

    def show(self, text: str, *, chat: int = OWNER, **params: Any) -> SentMessage:
        """Add a message of the bot."""
        self._next_message += 1
        self.sent.append(SentMessage(chat, self._next_message, text, params, self.clock()))
        return self.sent[-1]

    def fault(self, method: str, kind: str = "error", **more: Any) -> None:
        self.faults.append(Fault(method, kind, **more))

    def go_on(self, update: int, message: int) -> None:
        """Continue from these ids, as the server of an older bot."""
        self._next_update, self._next_message = update, message

    def forget(self) -> None:
        """Drop the unconfirmed updates, as the server does after a day."""
        self._updates.clear()
        self._stir()

    @property
    def unconfirmed(self) -> list[int]:
        """Return the updates that the server still stores."""
        return [int(update["update_id"]) for update in self._updates]

    @property
    def polling(self) -> bool:
        """True while a poll is open."""
        return self._poller is not None

    def texts(self, chat: int | None = None) -> list[str]:
        return [m.text for m in self.sent if chat is None or m.chat == chat]

    async def until(self, true: Callable[[], Any]) -> None:
        """Wait until a condition on this state holds; it changes only by a call or a push."""
        while not true():
            await self._changed.wait()

    # --- the server ----------------------------------------------------------------------------

    async def respond(self, asked: Request) -> Reply:
        if asked.path.startswith("/_/"):
            return await self._control(asked)
        if asked.path.startswith(f"/file/bot{self.token}/"):
            return await self._file(asked)
        head, _, method = asked.path.partition("?")[0][1:].rpartition("/")
        if head != f"bot{self.token}":
            known = head.startswith("bot") and ":" in head
            return _refused(Refusal(401, "Unauthorized") if known else Refusal(404, "Not Found"))
        params = self._params(asked)
        fault = self._fault(method, params)
        if fault is not None and fault.kind in {"error", "html", "hang", "drop"}:
            self._note(method, params, fault.kind)
            if fault.kind == "hang":
                await trio.sleep_forever()
            if fault.kind == "drop":
                return LOST
            if fault.kind == "html":
                return whole(fault.code, b"<html>Bad Gateway</html>", "text/html")
            return _refused(Refusal(fault.code, fault.description, fault.parameters))
        try:
            if why := wrong(method, params):
                raise Refusal(400, f"Bad Request: {why}")
            if self.rates is not None and "chat_id" in params:
                self._count(method, params["chat_id"], len(params.get("media", "1")))
            result = await self._perform(method, params)
        except Refusal as refusal:
            if is_fault_of_ours(refusal.description):
                self.violations.append(f"{method}: {refusal.description} {params}")
            self._note(method, params, f"{refusal.code} {refusal.description}")
            return _refused(refusal)
        self._note(method, params, fault.kind if fault else "ok")
        if fault is not None and fault.kind == "swallow":
            await trio.sleep_forever()
        if fault is not None and fault.kind == "lose":
            return LOST
        return json_reply({"ok": True, "result": result})

    async def _file(self, asked: Request) -> Reply:
        """Send a file whose path was requested."""
        fault = self._fault("download", {})
        path = asked.path.removeprefix(f"/file/bot{self.token}/")
        await trio.sleep(self.slow.get(self._paths.get(path, ""), 0.0))
        self._note("download", {"path": path}, fault.kind if fault else "ok")
        if fault is not None and fault.kind == "drop":
            return LOST
        if fault is not None or path not in self._paths or asked.method != "GET":
            return _refused(Refusal(fault.code if fault else 404, "Not Found"))
        return whole(200, self.shared[self._paths[path]], "application/octet-stream")

    async def _perform(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "getUpdates":
                return await self._get_updates(params)
            case "sendMessage":
                return self._send_message(params)
            case "sendDocument" | "sendPhoto":
                return self._send_file(method, params)
            case "sendMediaGroup":
                return self._send_album(params)
            case "sendRichMessage":
                return self._send_rich(params)
            case "sendMessageDraft":
                return self._draft(params)
            case "editMessageText" | "editMessageReplyMarkup":
                return self._edit(method, params)
            case "deleteMessage":
                self._admit(params)
                number = params["message_id"]
                if number in self.gone or all(m.message_id != number for m in self.sent):
                    raise Refusal(400, "Bad Request: message to delete not found")
                self.gone.add(number)
                return True
            case "sendChatAction":
                self._admit(params)
                self.actions.append(params["chat_id"])
                return True
            case "setMessageReaction":
                return self._react(params)
            case "answerCallbackQuery":
                if params["callback_query_id"] not in self.answered:
                    raise Refusal(
                        400,
                        "Bad Request: query is too old and response timeout expired or query ID "
                        "is invalid",
                    )
                if len(params.get("text", "")) > 200:
                    raise Refusal(400, "Bad Request: MESSAGE_TOO_LONG")
                self.answered[params["callback_query_id"]] = params.get("text", "")
                return True
            case "getMe":
                return BOT
            case "getFile":
                if (name := params["file_id"]) not in self.shared:
                    raise Refusal(400, "Bad Request: wrong file_id or the file is temporarily ...")
                if self.local is not None:
                    (path := self.local / name).write_bytes(self.shared[name])
                    return {"file_id": name, "file_unique_id": "u", "file_path": str(path)}
                if len(self.shared[name]) > 20 << 20:
                    raise Refusal(400, "Bad Request: file is too big")
                self._paths[f"things/{name}"] = name
                return {"file_id": name, "file_unique_id": "u", "file_path": f"things/{name}"}
            case "setMyCommands":
                return self._set_menu(params["commands"], params.get("scope", {"type": "default"}))
            case "setWebhook":
                if not params["url"].startswith("https://"):
                    why = "bad webhook: An HTTPS URL must be provided for webhook"
                    raise Refusal(400, f"Bad Request: {why}")
                if not re.fullmatch(r"[\w-]{1,256}", params.get("secret_token", "-"), re.ASCII):
                    raise Refusal(400, "Bad Request: secret token contains unallowed characters")
                self.webhook, self.webhook_secret = params["url"], params.get("secret_token", "")
                return True
            case "getWebhookInfo":
                told = {"last_error_message": self.webhook_error} if self.webhook_error else {}
                pending = {"pending_update_count": len(self._updates)}
                return {"url": self.webhook, **pending, **told}
            case "deleteWebhook":
                self.webhook = ""
                return True
        raise Refusal(404, "Not Found: method not found")

    async def _get_updates(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        if self.webhook:
            raise Refusal(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook "
                "to delete the webhook first",
            )
        self.polls += 1
        self._confirm(params.get("offset"))
        if self._poller is not None:
            self._poller.cancel()
        limit = max(1, min(params.get("limit", 100), 100))
        timeout = 0 if self.instant else max(0, min(params.get("timeout", 0), MAX_POLL))
        with trio.CancelScope() as scope:
            self._poller = scope
            self.polled_at = self.polled_at or self.clock()
            self._stir()
            with trio.move_on_after(timeout):
                while not self._updates:
                    await self._changed.wait()
        if self._poller is not scope:
            raise Refusal(
                409,
                "Conflict: terminated by other getUpdates request; make sure that only one bot "
                "instance is running",
            )
        self._poller = None
        batch = self._updates[:limit]
        self._delivered |= {update["update_id"] for update in batch}
        return batch

    def _confirm(self, offset: int | None) -> None:
        """Drop the delivered updates before *offset*; a new, lower sequence stays."""
        if offset is None:
            return
        while self._updates:
            first = self._updates[0]["update_id"]
            if first not in self._delivered or first >= offset:
                return
            del self._updates[0]
            self._stir()

    def _set_menu(self, commands: list[dict[str, str]], scope: dict[str, Any]) -> bool:
        if scope.get("chat_id") in self.unknown:
            raise Refusal(400, "Bad Request: chat not found")
        for one in commands:
            if not re.fullmatch("[a-z0-9_]{1,32}", one["command"]):
                raise Refusal(400, "Bad Request: BOT_COMMAND_INVALID")
            if not 1 <= len(one["description"]) <= 256:
                raise Refusal(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
        if len(commands) > 100:
            raise Refusal(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
        name = " ".join(map(str, scope.values()))
        self.menus[name] = {one["command"]: one["description"] for one in commands}
        return True

    def _send_message(self, params: dict[str, Any]) -> dict[str, Any]:
        chat = self._admit(params, counts=True)
        return self._made(chat, _checked(params), params)

    def _params(self, asked: Request) -> dict[str, Any]:
        """Parse the parameters of a call; a file is stored separately, under its field's name."""
        if not asked.headers.get("content-type", "").startswith("multipart/form-data"):
            given: dict[str, Any] = asked.json()
            return given
        fields, files = asked.form()
        params: dict[str, Any] = {
            key: value if key in {"caption", "text"} else json.loads(value)
            for key, value in fields.items()
        }
        for field, (name, data) in files.items():
            params[field] = {"file_name": name, "file_size": len(data)}
            self._uploaded = (name, data)
        self._uploads = files
        return params

    def _send_file(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        chat = self._admit(params, counts=True)
        field = method.removeprefix("send").lower()
        if field not in params:
            raise Refusal(400, f"Bad Request: there is no {field} in the request")
        name, data = self._uploaded
        if not data:
            raise Refusal(400, "Bad Request: file must be non-empty")
        if len(data) > (10 if method == "sendPhoto" else 50) << 20:
            raise Refusal(413, "Request Entity Too Large")
        if method == "sendPhoto" and data.endswith(BROKEN):
            raise Refusal(400, "Bad Request: IMAGE_PROCESS_FAILED")
        caption = {
            "text": params.get("caption", ""),
            "entities": params.get("caption_entities", []),
        }
        if units(caption["text"]) > MAX_CAPTION:
            raise Refusal(400, "Bad Request: message caption is too long")
        made = self._made(chat, _checked(caption) if caption["text"] else "", params)
        self.files[made["message_id"]] = (name, data)
        return made

    def _send_album(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        media = params["media"]
        if not 2 <= len(media) <= 10:
            raise Refusal(400, "Bad Request: group send failed")
        if len({one["type"] for one in media} - {"photo"}) > (media[0]["type"] != "photo"):
            raise Refusal(400, "Bad Request: Document can't be mixed with other media types")
        assert "reply_markup" not in params, "an album has no buttons"
        made = []
        for one in media:
            name, data = self._uploads[one["media"].removeprefix("attach://")]
            given = params | {"media": one} | {one["type"]: {"file_name": name}}
            if one["type"] == "photo" and data.endswith(BROKEN):
                raise Refusal(400, "Bad Request: IMAGE_PROCESS_FAILED")
            caption = one.get("caption", "")
            if units(caption) > MAX_CAPTION:
                raise Refusal(400, "Bad Request: message caption is too long")
            checked = {"text": caption, "entities": one.get("caption_entities", [])}
            made.append((_checked(checked) if caption else "", given, (name, data)))
        chat = self._admit(params, counts=True)
        messages = [(self._made(chat, text, given), file) for text, given, file in made]
        self.files |= {message["message_id"]: file for message, file in messages}
        return [message for message, _ in messages]

    def _send_rich(self, params: dict[str, Any]) -> dict[str, Any]:
        chat = self._admit(params, counts=True)
        assert set(params["rich_message"]) == {"markdown"}, "what Elwood sends of it"
        text = params["rich_message"]["markdown"]
        if not text.strip():
            raise Refusal(400, "Bad Request: RICH_MESSAGE_CONTENT_REQUIRED")
        if units(text) > MAX_RICH:
            raise Refusal(400, "Bad Request: message is too long")
        if "![" in text:
            raise Refusal(400, "Bad Request: RICH_MESSAGE_PHOTO_NO_MEDIA_FOUND")
        return self._made(chat, text, params)

    def _made(self, chat: int, text: str, params: dict[str, Any]) -> dict[str, Any]:
        reply = params.get("reply_parameters") or {}
        if reply.get("message_id") in self.gone and not reply.get("allow_sending_without_reply"):
            raise Refusal(400, "Bad Request: message to be replied not found")
        self._next_message += 1
        made = SentMessage(chat, self._next_message, text, params, self.clock())
        self.sent.append(made)
        return {
            "message_id": made.message_id,
            "date": int(made.at),
            "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup"},
            "from": BOT,
            "text": text,
        }

    def _draft(self, params: dict[str, Any]) -> bool:
        chat = self._admit(params)
        if chat < 0:
            raise Refusal(400, "Bad Request: PEER_ID_INVALID")
        if not params.get("draft_id"):
            raise Refusal(400, "Bad Request: RANDOM_ID_INVALID")
        if units(params.get("text", "")) > MAX_TEXT:
            raise Refusal(400, "Bad Request: message is too long")
        self.drafts.append((chat, params["draft_id"], params.get("text", "")))
        return True

    def _react(self, params: dict[str, Any]) -> bool:
        chat, number = self._admit(params), params["message_id"]
        if not 0 < number <= self._next_message or number in self.gone:
            raise Refusal(400, "Bad Request: message to react not found")
        given = params.get("reaction", [])
        if len(given) > 1:
            raise Refusal(400, "Bad Request: REACTIONS_TOO_MANY")
        self.reactions.pop((chat, number), None)
        for one in given:
            if one["type"] != "emoji" or one["emoji"] not in EMOJI:
                raise Refusal(400, "Bad Request: REACTION_INVALID")
            self.reactions[chat, number] = one["emoji"]
        return True

    def _edit(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        chat = self._admit(params, counts=True)
        found = [m for m in self.sent if m.chat == chat and m.message_id == params["message_id"]]
        if not found or params["message_id"] in self.gone:
            raise Refusal(400, "Bad Request: message to edit not found")
        message = found[0]
        text = message.text if method == "editMessageReplyMarkup" else _checked(params)
        markup = params.get("reply_markup")
        same_entities = method != "editMessageText" or params.get("entities") == message.params.get(
            "entities"
        )
        if text == message.text and same_entities and markup == message.params.get("reply_markup"):
            raise Refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply "
                "markup are exactly the same as a current content and reply markup of the message",
            )
        message.text, message.edits = text, message.edits + 1
        message.params = message.params | {"reply_markup": markup}
        if method == "editMessageText":
            message.params |= {"entities": params.get("entities")}
        return {"message_id": message.message_id, "chat": {"id": chat}, "date": 0}

    def _admit(self, params: dict[str, Any], *, counts: bool = False) -> int:
        """Check that the bot may write in this chat now."""
        chat = int(params["chat_id"])
        if chat in self.unknown:
            raise Refusal(400, "Bad Request: chat not found")
        if chat in self.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        if chat in self.moved:
            raise Refusal(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                {"migrate_to_chat_id": self.moved[chat]},
            )
        if params.get("message_thread_id") in self.dead_topics:
            raise Refusal(400, "Bad Request: message thread not found")
        if self.flood_limit is not None:
            self._flood(chat, counts)
        return chat

    def _count(self, method: str, chat: int, count: int) -> None:
        assert self.rates is not None
        if (wait := self.rates.refuse(method, chat, self.clock(), count)) is not None:
            self.violations.append(f"{method}: too many for {chat}")
            seconds = int(wait) + 1
            raise Refusal(
                429, f"Too Many Requests: retry after {seconds}", {"retry_after": seconds}
            )

    def _flood(self, chat: int, counts: bool) -> None:
        now = self.clock()
        until = self._flooded.get(chat, 0.0)
        recent = self._recent.setdefault(chat, deque())
        while recent and now - recent[0] >= 1.0:
            recent.popleft()
        assert self.flood_limit is not None
        if now >= until and counts and len(recent) >= self.flood_limit:
            until = self._flooded[chat] = now + self.flood_wait
        if now < until:
            wait = int(until - now) + 1
            raise Refusal(429, f"Too Many Requests: retry after {wait}", {"retry_after": wait})
        if counts:
            recent.append(now)

    def _fault(self, method: str, params: dict[str, Any]) -> Fault | None:
        for fault in self.faults:
            if fault.method in (method, "*") and fault.chat in (None, params.get("chat_id")):
                fault.times -= 1
                if fault.times == 0:
                    self.faults.remove(fault)
                return fault
        return None

    def _note(self, method: str, params: dict[str, Any], outcome: str) -> None:
        self.calls.append((method, params))
        self.counts[f"{method} {outcome}"] += 1
        self._stir()

    def _stir(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # --- control requests ----------------------------------------------------------------------

    async def _control(self, asked: Request) -> Reply:
        """Handle ``/_/say``, ``crowd`` (one message in each of many chats), ``sent`` and ``wait``.

        ``sent`` returns the sent messages (from ``?n``); ``wait`` waits until ``sent`` messages
        exist and a poll is open, up to ``timeout`` s.
        """
        path, _, query = asked.path.removeprefix("/_/").partition("?")
        given = asked.json()
        match path:
            case "say":
                return json_reply({"update_id": self.say(given.pop("text"), **given)})
            case "crowd":
                for chat in range(1, given["chats"] + 1):
                    self.say(given["text"], chat=chat, user=chat)
                return json_reply({"at": self.clock()})
            case "sent":
                return json_reply([attrs.asdict(m) for m in self.sent[int(query or 0) :]])
            case "wait":
                with trio.move_on_after(given.get("timeout", 10)):
                    await self.until(lambda: self.polled_at and len(self.sent) >= given["sent"])
                return json_reply({"sent": len(self.sent), "polled_at": self.polled_at})
        return json_reply({"error": "no such door"}, 404)


def _refused(refusal: Refusal) -> Reply:
    said: dict[str, Any] = {
        "ok": False,
        "error_code": refusal.code,
        "description": refusal.description,
    }
    if refusal.parameters:
        said["parameters"] = refusal.parameters
    return json_reply(said, refusal.code)


def _checked(params: dict[str, Any]) -> str:
    """Return the text as the server stores it, or refuse it."""
    text = str(params.get("text", ""))
    trimmed = text.strip()
    if not trimmed:
        raise Refusal(400, "Bad Request: message text is empty")
    if units(trimmed) > MAX_TEXT:
        raise Refusal(400, "Bad Request: message is too long")
    if "parse_mode" in params:
        raise Refusal(400, "Bad Request: can't parse entities: the fake knows no parse mode")
    if why := wrong_entities(trimmed, params.get("entities", [])):
        raise Refusal(400, f"Bad Request: can't parse entities: {why}")
    return trimmed


@asynccontextmanager
async def fake_telegram(**more: Any) -> AsyncIterator[FakeTelegram]:
    """Run a fake server during the block."""
    fake = FakeTelegram(**more)
    listener = await listen()
    fake.port = port_of(listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, connection(fake.respond), [listener])
        yield fake
        assert not fake.violations, fake.violations
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True)
    trio.run(announced, FakeTelegram().respond, parser.parse_args().port_file)
