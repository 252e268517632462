"""The Messages API of Anthropic (protocols/anthropic.md): requests, errors, and the model list."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from elwood.agent.conversation.message import (
    Assistant,
    Completion,
    Human,
    Message,
    Notice,
    Results,
    Text,
    ToolCall,
    repair_text,
)
from elwood.agent.models.anthropic_stream import Assembly
from elwood.agent.models.api_call import (
    Line,
    Refusal,
    arguments_of,
    decode,
    is_json,
    kind_of,
    tool_id,
)
from elwood.agent.models.api_call import tool_name as safe_name
from elwood.agent.models.provider import HistoryProblem, ModelFailure, ModelRequest
from elwood.agent.models.routing import FailureKind, Offer

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

    def __init__(self, line: Line, *, version: str) -> None:
        self._line = line
        self._version = version

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Completion:
        """Return one whole response; raises ModelFailure."""
        body = encode(request)
        assembly = Assembly(f"{self._line.name}/{request.model}", self._line)
        try:
            async with self._line.events("/v1/messages", body, self._headers()) as events:
                async for batch in events:
                    for event in batch:
                        assembly.take(event)
                    assembly.tell(on_text)
                    if assembly.is_whole:
                        break
        except Refusal as refusal:
            raise failure(self._line, refusal.status, refusal.headers, refusal.body) from None
        if (error := assembly.error) is not None:
            raise failure(self._line, 0, {}, error)
        return assembly.completion(body)

    async def offers(self) -> tuple[Offer, ...]:
        """List the models of this account; raises ModelFailure."""
        try:
            body = await self._line.get("/v1/models?limit=1000", self._headers())
        except Refusal as refusal:
            raise failure(self._line, refusal.status, refusal.headers, refusal.body) from None
        try:
            return msgspec.json.decode(body, type=_ModelPage).offers
        except msgspec.DecodeError as error:
            raise self._line.failure("server", "the list of models is not readable") from error

    def _headers(self) -> dict[str, str]:
        headers = {"anthropic-version": self._version}
        if self._line.key:
            headers["x-api-key"] = self._line.key
        return headers


class _Model(msgspec.Struct):
    id: str
    lifecycle: str | None = None
    retires_at: str | None = None


class _ModelPage(msgspec.Struct):
    data: list[_Model]

    @property
    def offers(self) -> tuple[Offer, ...]:
        return tuple(Offer(m.id, m.lifecycle or "", m.retires_at or "") for m in self.data)


def encode(request: ModelRequest) -> bytes:
    """Return the body of the request.

    A history sent before is sent again byte for byte, with more behind it; the marks for the
    cache are no part of that check (protocols/anthropic.md §6, §7).
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


def failure(line: Line, status: int, headers: Mapping[str, str], body: bytes) -> ModelFailure:
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
        return line.failure(kind, f"HTTP {status}, not from the API (a proxy?)", headers=headers)
    details = error.get("details")
    appeal = str(details.get("appeal_url", "")) if isinstance(details, dict) else ""
    if appeal.startswith("https://"):
        message += f" (appeal: {appeal})"
    problem: HistoryProblem = "other"
    if code in _SPEND_CODES:
        kind = "spend_limit"
    elif status == 400:
        kind, problem = _rejection(code, message)
    return line.failure(kind, message, headers=headers, problem=problem)


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
