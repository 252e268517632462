"""The Messages API of Anthropic: requests and streams."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from elwood.agent.conversation.message import (
    Assistant,
    Block,
    Completion,
    Human,
    Message,
    Notice,
    ReceivedFile,
    Results,
    Stop,
    Text,
    ToolCall,
    Usage,
    get_visible_files,
)
from elwood.agent.models.client import (
    PICTURES,
    GrowingText,
    HttpProvider,
    ModelRequest,
    ResponseStream,
    arguments_of,
    decode,
    tool_name,
)
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import Client
from elwood.foundation.text.characters import well_formed


class Anthropic(HttpProvider):
    """The client of the API; never sends sampling parameters."""

    codec = "anthropic"
    visible = (*PICTURES, "application/pdf")
    path = "/v1/messages"
    models_path = "/v1/models?limit=1000"

    def __init__(self, name: str, settings: ProviderSettings, client: Client) -> None:
        super().__init__(name, settings, client)
        self._version = settings.version
        self._has_thoughts = settings.thoughts

    def headers(self) -> dict[str, str]:
        key = {"x-api-key": self.key} if self.key else {}
        return {"anthropic-version": self._version, **key}

    def payload(self, request: ModelRequest, clean: Callable[[str], str]) -> dict[str, Any]:
        """Return the body of a request; cache marks are not part of the comparison of requests."""
        payload: dict[str, Any] = {
            "model": request.model,
            "max_tokens": request.max_tokens,
            "stream": True,
            "cache_control": {"type": "ephemeral"},
            "messages": _messages(request.messages, clean, partial(self._format_file, request)),
        }
        if self._has_thoughts:
            payload["thinking"] = {"type": "adaptive", "display": "summarized"}
        if request.thinking == "none":
            payload["thinking"] = {"type": "disabled"}
        elif request.thinking is not None:
            payload["output_config"] = {"effort": request.thinking}
        if request.prompt.system.strip():
            long = {"type": "ephemeral", "ttl": "1h"}
            text = clean(request.prompt.system)
            payload["system"] = [{"type": "text", "text": text, "cache_control": long}]
        if request.prompt.tools:
            payload["tools"] = [
                {
                    "name": tool.name,
                    "description": clean(tool.description),
                    "input_schema": tool.schema,
                }
                for tool in request.prompt.tools
            ]
        return payload

    def _format_file(self, request: ModelRequest, file: ReceivedFile) -> dict[str, Any]:
        data, instead = self.data_of(file, request)
        if instead:
            return {"type": "text", "text": instead}
        kind = "image" if file.media in PICTURES else "document"
        return {"type": kind, "source": {"type": "base64", "media_type": file.media, "data": data}}

    def begin(self, request: ModelRequest) -> "MessageStream":
        return MessageStream(self, request)


def _messages(
    messages: tuple[Message, ...],
    clean: Callable[[str], str],
    shown: Callable[[ReceivedFile], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Merge consecutive messages of the user's side into one, results first."""
    sent: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []

    def close() -> None:
        if results or texts:
            sent.append({"role": "user", "content": [*results, *texts]})
            results.clear()
            texts.clear()

    for message in messages:
        match message:
            case Human(text) | Notice(text):
                texts += map(shown, get_visible_files(message))
                if text.strip():
                    texts.append({"type": "text", "text": clean(text)})
            case Results():
                for result in message.results:
                    block: dict[str, Any] = {
                        "type": "tool_result",
                        "tool_use_id": tool_id(result.call),
                    }
                    if result.text.strip():
                        block["content"] = clean(result.text)
                    if result.files:
                        said = {"type": "text", "text": clean(result.text)}
                        block["content"] = [said, *map(shown, result.files)]
                    results.append({**block, "is_error": True} if result.failed else block)
            case Assistant():
                content = _content(message, clean)
                if content is not None:
                    close()
                    sent.append({"role": "assistant", "content": content})
    close()
    return sent


def _content(message: Assistant, clean: Callable[[str], str]) -> Any:
    if message.codec == Anthropic.codec:
        return message.native
    sent: list[dict[str, Any]] = []
    for block in message.blocks:
        match block:
            case Text(text):
                if text.strip():
                    sent.append({"type": "text", "text": clean(text)})
            case ToolCall(id, name, arguments):
                given = arguments_of(arguments)[1]
                call = {"type": "tool_use", "id": tool_id(id), "name": tool_name(name)}
                sent.append({**call, "input": given})
    return sent or None


def tool_id(identifier: str) -> str:
    """Return the id of a call in a form that this API accepts; a valid one is unchanged.

    >>> tool_id("toolu_01"), tool_id("functions.read:0")
    ('toolu_01', 'functions_2eread_3a0')
    """
    plain = re.sub(r"[^a-zA-Z0-9_-]", lambda match: f"_{ord(match[0]):x}", identifier[:128])
    return plain[:128]


# LLM-16 to LLM-21.  Calls may run only after `tools`.
STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "cut",
    "model_context_window_exceeded": "window",
    "refusal": "refused",
    "pause_turn": "paused",
    "compaction": "paused",
}
# Deltas that are appended to a field of their block: the field, and the key of the piece.
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("input", "partial_json"),
}


class _Open:
    """A block from its start event, and the pieces received since, by field."""

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.pieces: dict[str, list[str]] = {}
        self.is_closed = False

    def whole(self, field: str) -> str:
        start = self.block.get(field, "")
        return (start if isinstance(start, str) else "") + "".join(self.pieces.get(field, ()))


class MessageStream(ResponseStream):
    """One unfinished response: a stream without ``message_stop`` is not a message."""

    def __init__(self, provider: Anthropic, request: ModelRequest) -> None:
        super().__init__(provider, request)
        self._open: dict[int, _Open] = {}
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None
        self._details: Any = None
        self._has_begun = False
        self._said, self._thoughts = GrowingText(), GrowingText()
        self._gap = ""
        self._is_counted = False

    @property
    def text(self) -> str | None:
        return self._said.whole() if self._has_begun else None

    @property
    def thought(self) -> str:
        return self._thoughts.whole()

    def read(self, event: bytes) -> None:  # unknown ones are ignored (LLM-13)
        data = decode(event)
        match data["type"]:
            case "content_block_delta":
                self._delta(self._open[data["index"]], data["delta"])
            case "content_block_start":
                self._open[data["index"]] = _Open(dict(data["content_block"]))
                self._gap = "\n\n" if self._said else ""
            case "content_block_stop":
                self._open[data["index"]].is_closed = True
            case "message_start":
                self._has_begun = True
                self._add_usage(data["message"].get("usage"))
            case "message_delta":
                delta = data["delta"]
                self._stop = delta.get("stop_reason", self._stop)
                self._details = delta.get("stop_details") or self._details
                self._add_usage(data.get("usage"))
                self._is_counted = isinstance(self._usage.get("output_tokens"), int)
            case "message_stop":
                self.is_done = True
            case "error":
                self.error = event
                self.is_done = True
            case "ping":
                pass
            case kind:
                self.provider.unknown(f"event {kind}")

    def _delta(self, block: _Open, delta: dict[str, Any]) -> None:
        kind = delta["type"]
        if kind not in _DELTAS:
            self.provider.unknown(f"delta {kind}")
            return
        field, key = _DELTAS[kind]
        block.pieces.setdefault(field, []).append(delta[key])
        if field == "text":
            self._has_begun = True
            self._said.add(self._gap, delta[key])
            self._gap = ""
        elif field == "thinking":
            self._thoughts.add(delta[key])

    def _add_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage.update((k, v) for k, v in usage.items() if v is not None)

    def completion(self) -> Completion:
        if not self.is_done:
            raise self.provider.failure("cut", "the stream ended before the message did")
        native: list[Any] = []
        blocks: list[Block] = []
        for index in sorted(self._open):
            self._close(self._open[index], native, blocks)
        stop = STOPS.get(self._stop or "", "unknown")
        detail = f"stop reason {self._stop}" if stop == "unknown" else ""
        if stop == "refused" and isinstance(self._details, dict):
            detail = str(self._details.get("explanation") or self._details.get("category") or "")
        if stop == "tools" and not all(opened.is_closed for opened in self._open.values()):
            raise self.provider.failure("nonsense", "stopped for tools in the middle of a block")
        usage = self._count() if self._is_counted else None
        if usage is None:  # the usage in `message_start` is not final
            usage = self.guess_usage(msgspec.json.encode(native).decode())
        return self.build_completion(blocks, native, stop, usage, detail)

    def _close(self, opened: _Open, native: list[Any], blocks: list[Block]) -> None:
        block, kind = opened.block, opened.block.get("type")
        for field in ("text", "thinking", "signature"):
            if field in opened.pieces or isinstance(block.get(field), str):
                block[field] = well_formed(opened.whole(field))
        if kind == "text":
            if not block.get("text", "").strip():
                return  # the API sometimes returns empty texts, but does not accept them (LLM-34)
            blocks.append(Text(block["text"]))
        elif kind == "tool_use":
            raw = "".join(opened.pieces.get("input", ()))
            if not raw and block.get("input"):
                raw = msgspec.json.encode(block["input"]).decode()
            raw, block["input"] = arguments_of(raw)
            blocks.append(ToolCall(str(block.get("id", "")), str(block.get("name", "")), raw))
        native.append(block)

    def _count(self) -> Usage:
        kinds = self._usage.get("cache_creation")
        hour = kinds.get("ephemeral_1h_input_tokens") if isinstance(kinds, dict) else 0
        return Usage(
            input=self._tokens("input_tokens"),
            output=self._tokens("output_tokens"),
            cache_read=self._tokens("cache_read_input_tokens"),
            cache_write=self._tokens("cache_creation_input_tokens"),
            cache_write_1h=hour if isinstance(hour, int) else 0,
        )

    def _tokens(self, name: str) -> int:
        value = self._usage.get(name, 0)
        return value if isinstance(value, int) else 0
