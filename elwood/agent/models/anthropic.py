"""The Messages API of Anthropic: requests, streams, errors, models."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from elwood.agent.conversation.message import (
    Assistant,
    Block,
    Completion,
    Human,
    Message,
    Notice,
    Results,
    Stop,
    Text,
    ToolCall,
    Usage,
    repair_text,
)
from elwood.agent.models.client import (
    ApiEndpoint,
    Refusal,
    arguments_of,
    decode,
    is_json,
    kind_of,
    tool_id,
)
from elwood.agent.models.client import tool_name as safe_name
from elwood.agent.models.provider import HistoryProblem, ModelFailure, ModelRequest
from elwood.agent.models.routing import FailureKind, ListedModel
from elwood.foundation.text.tokens import estimate

CODEC = "anthropic"

_TYPES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_SPEND_CODES = {"enforced_spend_limit_reached", "contract_spend_limit_reached"}
_TOOL_CODES = {"tool_name_conflict", "available_tools_limit_exceeded"}
_THINKING = ("thinking", "redacted_thinking")


class Anthropic:
    """A provider.  *version* is the ``anthropic-version``; never sends sampling parameters."""

    codec = CODEC

    def __init__(self, endpoint: ApiEndpoint, *, version: str) -> None:
        self._endpoint = endpoint
        self._version = version

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Completion:
        """Return one whole response; raises ModelFailure."""
        body = encode(request)
        assembly = MessageStream(f"{self._endpoint.name}/{request.model}", self._endpoint)
        try:
            async with self._endpoint.events("/v1/messages", body, self._headers()) as events:
                async for batch in events:
                    for event in batch:
                        assembly.take(event)
                    assembly.tell(on_text)
                    if assembly.is_whole:
                        break
        except Refusal as refusal:
            raise failure(self._endpoint, refusal.status, refusal.headers, refusal.body) from None
        if (error := assembly.error) is not None:
            raise failure(self._endpoint, 0, {}, error)
        return assembly.completion(body)

    async def offers(self) -> tuple[ListedModel, ...]:
        """List the models of this account; raises ModelFailure."""
        try:
            body = await self._endpoint.get("/v1/models?limit=1000", self._headers())
        except Refusal as refusal:
            raise failure(self._endpoint, refusal.status, refusal.headers, refusal.body) from None
        try:
            return msgspec.json.decode(body, type=_ModelPage).offers
        except msgspec.DecodeError as error:
            raise self._endpoint.failure("server", "the list of models is not readable") from error

    def _headers(self) -> dict[str, str]:
        headers = {"anthropic-version": self._version}
        if self._endpoint.key:
            headers["x-api-key"] = self._endpoint.key
        return headers


class _Model(msgspec.Struct):
    id: str
    lifecycle: str | None = None
    retires_at: str | None = None


class _ModelPage(msgspec.Struct):
    data: list[_Model]

    @property
    def offers(self) -> tuple[ListedModel, ...]:
        return tuple(ListedModel(m.id, m.lifecycle or "", m.retires_at or "") for m in self.data)


def encode(request: ModelRequest) -> bytes:
    """Return the body of the request.

    A history sent before is sent again byte for byte, with more behind it; the marks for the
    cache are no part of that check.
    """
    try:
        return msgspec.json.encode(_payload(request, str))
    except UnicodeEncodeError:  # lone surrogates (LLM-33): rare, so not looked for first
        return msgspec.json.encode(_payload(request, repair_text))


def _payload(request: ModelRequest, clean: Callable[[str], str]) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "stream": True,
        "cache_control": {"type": "ephemeral"},
        "messages": _messages(request.messages, request.no_thinking, clean),
    }
    if request.prompt.system.strip():
        long = {"type": "ephemeral", "ttl": "1h"}
        text = clean(request.prompt.system)
        payload["system"] = [{"type": "text", "text": text, "cache_control": long}]
    if request.prompt.tools:
        payload["tools"] = [
            {"name": tool.name, "description": clean(tool.description), "input_schema": tool.schema}
            for tool in request.prompt.tools
        ]
    return payload


def _messages(
    messages: tuple[Message, ...], no_thinking: bool, clean: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Merge what follows each other on the user's side into one message, results first."""
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
                if text.strip():
                    texts.append({"type": "text", "text": clean(text)})
            case Results():
                for result in message.results:
                    block = {"type": "tool_result", "tool_use_id": tool_id(result.call)}
                    if result.text.strip():
                        block["content"] = clean(result.text)
                    results.append({**block, "is_error": True} if result.failed else block)
            case Assistant():
                content = _content(message, no_thinking, clean)
                if content is not None:
                    close()
                    sent.append({"role": "assistant", "content": content})
    close()
    return sent


def _content(message: Assistant, no_thinking: bool, clean: Callable[[str], str]) -> Any:
    if message.codec == CODEC:
        if not no_thinking:
            return message.native
        blocks = [
            block
            for block in msgspec.json.decode(message.native)
            if block.get("type") not in _THINKING
        ]
        return blocks or None
    sent: list[dict[str, Any]] = []
    for block in message.blocks:
        match block:
            case Text(text):
                if text.strip():
                    sent.append({"type": "text", "text": clean(text)})
            case ToolCall(id, name, arguments):
                given = arguments_of(arguments)[1]
                call = {"type": "tool_use", "id": tool_id(id), "name": safe_name(name)}
                sent.append({**call, "input": given})
    return sent or None


def failure(
    endpoint: ApiEndpoint, status: int, headers: Mapping[str, str], body: bytes
) -> ModelFailure:
    """Judge an error by status, type and code (§8); *status* 0 is an error within the stream.

    The message decides only where nothing else tells the rows apart: what is wrong with a
    history, and a spend limit that comes as 400.
    """
    error, code, message = _read(body)
    by_type = _TYPES.get(str(error.get("type", "")))
    if status in (0, 200):
        status = by_type or 500
    kind = kind_of(status)
    if not error:
        if status not in (413, 429):
            kind = "server"
        return endpoint.failure(
            kind, f"HTTP {status}, not from the API (a proxy?)", headers=headers
        )
    details = error.get("details")
    appeal = str(details.get("appeal_url", "")) if isinstance(details, dict) else ""
    if appeal.startswith("https://"):
        message += f" (appeal: {appeal})"
    problem: HistoryProblem = "other"
    if code in _SPEND_CODES:
        kind = "spend_limit"
    elif status == 400:
        kind, problem = _rejection(code, message)
    return endpoint.failure(kind, message, headers=headers, problem=problem)


def _read(body: bytes) -> tuple[dict[str, Any], str, str]:
    try:
        whole = decode(body) if is_json(body) else {}
    except ValueError:
        whole = {}
    error = whole.get("error")
    if not isinstance(error, dict):
        return {}, "", ""
    details = error.get("details")
    code = str(details.get("error_code", "")) if isinstance(details, dict) else ""
    return error, code, str(error.get("message", ""))


# Words of a 400, in the order in which they are looked for.
_WORDS: tuple[tuple[str, FailureKind, HistoryProblem], ...] = (
    ("prompt is too long", "too_long", "other"),
    ("exceed context limit", "too_long", "other"),
    ("usage limit", "spend_limit", "other"),
    ("credit balance", "spend_limit", "other"),
    ("spend limit", "spend_limit", "other"),
    ("tool_use_id", "history", "pairing"),
    ("tool_result", "history", "pairing"),
    ("signature in `thinking`", "history", "thinking"),
    ("signature in thinking", "history", "thinking"),
    ("thinking", "history", "thinking"),
    ("image", "history", "image"),
    ("media_type", "history", "image"),
)


def _rejection(code: str, message: str) -> tuple[FailureKind, HistoryProblem]:
    if code == "image_dimensions_too_large":
        return "history", "image"
    if code in _TOOL_CODES or message.startswith("tools."):
        return "history", "tools"
    lower = message.lower()
    # `thinking: …` is about our settings, `messages.3.content.0: … thinking …` about the history.
    about_history = lower.startswith("messages") or "tool_use" in lower or "could not" in lower
    for words, kind, problem in _WORDS:
        if words in lower and (kind != "history" or about_history):
            return kind, problem
    if about_history or "json" in lower or "text content blocks" in lower:
        return "history", "other"
    return "rejected", "other"


# LLM-16 to LLM-21.  Only after `tools` may calls run.
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
# Deltas that are added to the text of one field of their block.
_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class _Open:
    """A block as it started, and the pieces that came since, by field."""

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.pieces: dict[str, list[str]] = {}
        self.is_closed = False

    def add(self, field: str, piece: str) -> None:
        self.pieces.setdefault(field, []).append(piece)

    def whole(self, field: str) -> str:
        start = self.block.get(field, "")
        pieces = self.pieces.get(field, ())
        return "".join([start if isinstance(start, str) else "", *pieces])


class MessageStream:
    """One response in the making; *model* is its full name (``provider/model``).

    Nothing is taken from it before *is_whole*: a stream without ``message_stop`` is no message.
    """

    def __init__(self, model: str, endpoint: ApiEndpoint) -> None:
        self.error: bytes | None = None
        self.is_whole = False
        self._model = model
        self._endpoint = endpoint
        self._open: dict[int, _Open] = {}
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None
        self._details: Any = None
        self._has_begun = False
        self._told: int | None = None
        self._text = ""
        self._gap = ""
        self._is_counted = False

    def take(self, event: bytes) -> None:
        """Add one event; unknown ones are ignored (LLM-13).  Raises ModelFailure on nonsense."""
        if self.is_whole:
            return
        try:
            data = decode(event)
            self._take(data["type"], data, event)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # A 200 whose events are not those of the API: a proxy's doing, like a 502 (LLM-40).
            raise self._endpoint.failure(
                "server", "an event of the stream is not readable"
            ) from error

    def _take(self, kind: str, data: dict[str, Any], raw: bytes) -> None:
        match kind:
            case "content_block_delta":
                self._delta(self._open[data["index"]], data["delta"])
            case "content_block_start":
                self._open[data["index"]] = _Open(dict(data["content_block"]))
                self._gap = "\n\n" if self._text else ""
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
                self.is_whole = True
            case "error":
                self.error = raw
                self.is_whole = True
            case "ping":
                pass
            case _:
                self._endpoint.unknown(f"event {kind}")

    def _delta(self, block: _Open, delta: dict[str, Any]) -> None:
        kind = delta["type"]
        if kind in _TEXTS:
            piece = delta[_TEXTS[kind]]
            block.add(_TEXTS[kind], piece)
            if kind == "text_delta":
                self._text += self._gap + piece
                self._gap = ""
        elif kind == "input_json_delta":
            block.add("input", delta["partial_json"])
        elif kind == "citations_delta":
            block.block["citations"] = [*(block.block.get("citations") or ()), delta["citation"]]
        elif kind == "compaction_delta":
            block.block.update((k, v) for k, v in delta.items() if k != "type")
        else:
            self._endpoint.unknown(f"delta {kind}")

    def _add_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage.update((k, v) for k, v in usage.items() if v is not None)

    def tell(self, on_text: Callable[[str], None]) -> None:
        """Show the text so far, if it has grown; first an empty one when the message began."""
        if self._has_begun and self._told != len(self._text) and self.error is None:
            self._told = len(self._text)
            on_text(repair_text(self._text))

    def completion(self, request: bytes) -> Completion:
        """Return the whole response.  Raises ModelFailure if it is not whole, or contradictory.

        *request* is for the estimate if the usage is missing (LLM-41).
        """
        if not self.is_whole:
            raise self._endpoint.failure("cut", "the stream ended before the message did")
        native: list[Any] = []
        blocks: list[Block] = []
        for index in sorted(self._open):
            self._close(self._open[index], native, blocks)
        reason = self._stop
        stop = STOPS.get(reason or "", "unknown")
        detail = ""
        if stop == "unknown":
            detail = f"stop reason {reason}"
            self._endpoint.unknown(detail)
        elif stop == "refused" and isinstance(self._details, dict):
            detail = str(self._details.get("explanation") or self._details.get("category") or "")
        self._check(stop, blocks)
        message = Assistant(
            tuple(blocks), "anthropic", self._model, msgspec.Raw(msgspec.json.encode(native))
        )
        return Completion(message, stop, self._count(request, message), detail)

    def _close(self, opened: _Open, native: list[Any], blocks: list[Block]) -> None:
        block, kind = opened.block, opened.block.get("type")
        for field in ("text", "thinking", "signature"):
            if field in opened.pieces or isinstance(block.get(field), str):
                block[field] = repair_text(opened.whole(field))
        if kind == "text":
            if not block.get("text", "").strip():
                return  # the API gives empty texts now and then, and takes none back (LLM-34)
            blocks.append(Text(block["text"]))
        elif kind == "tool_use":
            raw = "".join(opened.pieces.get("input", ()))
            if not raw and block.get("input"):
                raw = msgspec.json.encode(block["input"]).decode()
            raw, block["input"] = arguments_of(raw)
            blocks.append(ToolCall(str(block.get("id", "")), str(block.get("name", "")), raw))
        elif "input" in opened.pieces:  # a server's tool
            block["input"] = arguments_of("".join(opened.pieces["input"]))[1]
        native.append(block)

    def _check(self, stop: Stop, blocks: list[Block]) -> None:
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        if stop == "tools" and not calls:
            raise self._endpoint.failure("nonsense", "stopped for tools, but named none")  # LLM-24
        if stop == "tools" and not all(opened.is_closed for opened in self._open.values()):
            raise self._endpoint.failure("nonsense", "stopped for tools in the middle of a block")
        if len({call.id for call in calls}) < len(calls):
            raise self._endpoint.failure("nonsense", "two tool calls have one id")  # LLM-25
        if not all(call.id and call.name for call in calls):
            raise self._endpoint.failure("nonsense", "a tool call has no id or no name")

    def _count(self, request: bytes, message: Assistant) -> Usage:
        if not self._is_counted:  # the one of `message_start` counts nothing yet
            text = request.decode(errors="replace")
            return Usage(estimate(text), estimate(bytes(message.native).decode()), estimated=True)
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
