"""Chat Completions as everybody speaks them.

Requests, chunks merged as tolerantly as all servers need, errors, and the list of models.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

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
    tool_name,
)
from elwood.agent.models.provider import HistoryProblem, ModelFailure, ModelRequest
from elwood.agent.models.routing import FailureKind, ListedModel
from elwood.agent.models.settings import EchoReasoning
from elwood.foundation.text.tokens import estimate

LimitField = Literal["max_tokens", "max_completion_tokens", "none"]


class OpenAI:
    """A provider: any service of this shape.

    *echo* says under which name the service wants its reasoning back; histories with another
    echo are sent without theirs.  *new_id* names calls that the service left without a name.
    """

    def __init__(
        self,
        endpoint: ApiEndpoint,
        *,
        echo: EchoReasoning,
        limit: LimitField,
        new_id: Callable[[], str],
    ) -> None:
        self._form = Form(echo, limit)
        self.codec = self._form.codec
        self._endpoint = endpoint
        self._echo = echo
        self._new_id = new_id

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Completion:
        """Return one whole response; raises ModelFailure."""
        body = self.encode(request)
        taken = {
            call.id
            for each in request.messages
            if isinstance(each, Assistant)
            for call in each.calls
        }
        model = f"{self._endpoint.name}/{request.model}"
        merge = ChatStream(model, self._endpoint, self.codec, self._echo, taken, self._new_id)
        try:
            async with self._endpoint.events("/chat/completions", body, self._headers()) as events:
                async for batch in events:
                    for event in batch:
                        merge.take(event)
                    merge.tell(on_text)
                    if merge.is_done:
                        break
        except Refusal as refusal:
            if not (refusal.status == 200 and merge.take_whole(refusal.body)):
                raise self._refused(refusal) from None
        if merge.error is not None:
            raise failure(self._endpoint, 0, {}, merge.error)
        return merge.completion(body)

    async def offers(self) -> tuple[ListedModel, ...]:
        """List the models of this service; raises ModelFailure."""
        try:
            body = await self._endpoint.get("/models", self._headers())
        except Refusal as refusal:
            raise self._refused(refusal) from None
        try:
            return tuple(
                ListedModel(model.id) for model in msgspec.json.decode(body, type=_Page).data
            )
        except msgspec.DecodeError as error:
            raise self._endpoint.failure("server", "the list of models is not readable") from error

    def encode(self, request: ModelRequest) -> bytes:
        """Return the body of the request."""
        return self._form.encode(request)

    def _refused(self, refusal: Refusal) -> ModelFailure:
        return failure(self._endpoint, refusal.status, refusal.headers, refusal.body)

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else {}


class _Model(msgspec.Struct):
    id: str


class _Page(msgspec.Struct):
    data: list[_Model]


_CODES: dict[str, FailureKind] = {
    "insufficient_quota": "spend_limit",
    "payment_required": "spend_limit",
    "billing_hard_limit_reached": "spend_limit",
    "context_length_exceeded": "too_long",
    "exceed_context_size_error": "too_long",
    "tool_use_failed": "nonsense",
    "capacity_exceeded": "overloaded",
    "provider_overloaded": "overloaded",
    "rate_limit_exceeded": "rate_limit",
    "model_not_found": "no_model",
    "server_error": "server",
    "timeout": "server",
}
_WORDS: tuple[tuple[str, FailureKind, HistoryProblem], ...] = (
    ("context length", "too_long", "other"),
    ("context size", "too_long", "other"),
    ("context window", "too_long", "other"),
    ("maximum context", "too_long", "other"),
    ("reasoning_content", "history", "thinking"),
    ("tool_call_id", "history", "pairing"),
    ("'tool_calls'", "history", "pairing"),
    ("role 'tool'", "history", "pairing"),
    ("image", "history", "image"),
    ("surrogate", "history", "other"),
)


def failure(
    endpoint: ApiEndpoint, status: int, headers: Mapping[str, str], body: bytes
) -> ModelFailure:
    """Judge an error by status and code (§4, §5); *status* 0 is an error within the stream."""
    try:
        whole = decode(body) if is_json(body) else {}
    except ValueError:
        whole = {}
    error = whole.get("error", whole)
    if not isinstance(error, dict):
        error = {"message": error}  # Ollama, LM Studio
    if not error:
        kind = kind_of(status) if status in (413, 429) else "server"
        return endpoint.failure(
            kind, f"HTTP {status}, not from the API (a proxy?)", headers=headers
        )
    message = str(error.get("message") or error.get("detail") or f"HTTP {status}")
    names = _names(error)
    if status in (0, 200):
        code = error.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
    kind = next((_CODES[name] for name in names if name in _CODES), kind_of(status))
    problem: HistoryProblem = "other"
    if status == 402:
        kind = "rate_limit" if "retry-after" in headers else "spend_limit"
    elif status in (400, 422) and kind == "rejected":
        if str(error.get("param", "")).startswith("tools"):
            kind, problem = "history", "tools"
        lower = message.lower()
        found = next((row for row in _WORDS if row[0] in lower), None)
        if found is not None:
            kind, problem = found[1:]
    return endpoint.failure(kind, message, headers=headers, problem=problem)


def _names(error: Mapping[str, Any]) -> list[str]:
    metadata = error.get("metadata")
    inner = metadata.get("error_type") if isinstance(metadata, dict) else None
    return [name for name in (error.get("code"), inner, error.get("type")) if isinstance(name, str)]


class Form:
    """How one service wants its requests.

    *echo* says under which name it wants its reasoning back, *limit* how it calls max_tokens.
    *codec* names the native content that can be sent back as it is.
    """

    def __init__(self, echo: EchoReasoning, limit: LimitField) -> None:
        self.codec = "openai" if echo == "none" else f"openai/{echo}"
        self._echo = echo
        self._limit = limit

    def encode(self, request: ModelRequest) -> bytes:
        """Return the body of the request."""
        try:
            return msgspec.json.encode(self._payload(request, str))
        except UnicodeEncodeError:  # lone surrogates (LLM-33): rare, so not looked for first
            return msgspec.json.encode(self._payload(request, repair_text))

    def _payload(self, request: ModelRequest, clean: Callable[[str], str]) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": request.model,
            "messages": self._messages(request, clean),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._limit != "none":
            payload[self._limit] = request.max_tokens
        if request.prompt.tools:
            payload["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": clean(tool.description),
                        "parameters": tool.schema,
                    },
                }
                for tool in request.prompt.tools
            ]
        return payload

    def _messages(self, request: ModelRequest, clean: Callable[[str], str]) -> list[Any]:
        sent: list[Any] = []
        texts: list[str] = []
        if request.prompt.system.strip():
            sent.append({"role": "system", "content": clean(request.prompt.system)})

        def close() -> None:
            if texts:  # many chat templates want the roles to alternate
                sent.append({"role": "user", "content": "\n\n".join(texts)})
                texts.clear()

        for message in request.messages:
            match message:
                case Human(text) | Notice(text):
                    if text.strip():
                        texts.append(clean(text))
                case Results():
                    close()
                    for result in message.results:
                        text = clean(result.text)
                        answer = {"role": "tool", "tool_call_id": result.call, "content": text}
                        sent.append(answer)
                case Assistant():
                    if (said := self._assistant(message, request.no_thinking, clean)) is not None:
                        close()
                        sent.append(said)
        close()
        return sent

    def _assistant(self, message: Assistant, no_thinking: bool, clean: Callable[[str], str]) -> Any:
        if message.codec == self.codec:
            if not no_thinking or self._echo == "none":
                return message.native
            said = msgspec.json.decode(message.native)
            for field in REASONING:
                said.pop(field, None)
            if isinstance(said.get("content"), list):
                said["content"] = message.text or None
        else:
            said = neutral(message, clean)
        if not said.get("content") and not said.get("tool_calls"):
            return None
        if self._echo == "reasoning_content" and said.get("tool_calls"):
            said["reasoning_content"] = ""  # DeepSeek wants the field, even if it was empty
        return said


def neutral(message: Message, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return an assistant message of another API in the form of this one."""
    assert isinstance(message, Assistant)
    said: dict[str, Any] = {"role": "assistant", "content": clean(message.text) or None}
    if message.calls:
        said["tool_calls"] = [wire_call(call) for call in message.calls]
    return said


# Fields of a message that hold reasoning, in some dialect.
REASONING = ("reasoning", "reasoning_content", "reasoning_details")

_STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "cut",
    "model_length": "window",
    "content_filter": "refused",
}


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class ChatStream:
    """One response in the making; *model* is its full name (``provider/model``).

    *taken* are the ids of calls in the history: some servers count from nought in each response,
    and a call must be told from every other of its conversation.
    """

    def __init__(
        self,
        model: str,
        endpoint: ApiEndpoint,
        codec: str,
        echo: EchoReasoning,
        taken: set[str],
        new_id: Callable[[], str],
    ) -> None:
        self.error: bytes | None = None
        self.is_done = False
        self._model = model
        self._endpoint = endpoint
        self._codec = codec
        self._echo = echo
        self._taken = taken
        self._new_id = new_id
        self._text = ""
        self._reasoning = ""
        self._details: list[dict[str, Any]] = []
        self._refusal = ""
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._finish: str | None = None
        self._usage: dict[str, Any] | None = None
        self._told: int | None = None

    def take(self, data: bytes) -> None:
        """Add one chunk.  Raises ModelFailure if it is none."""
        if self.is_done:
            return
        if data.strip() == b"[DONE]":
            self.is_done = True
            return
        try:
            self._chunk(decode(data), data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._endpoint.failure(
                "server", "a chunk of the stream is not readable"
            ) from error

    def take_whole(self, body: bytes) -> bool:
        """Take the answer of a server that does not stream; False if it is no answer."""
        try:
            whole = decode(body)
            choice = whole["choices"][0]
            chunk = {**whole, "choices": [{**choice, "delta": choice["message"]}]}
        except (ValueError, LookupError, TypeError):
            return False
        self.take(msgspec.json.encode(chunk))
        return True

    def tell(self, on_text: Callable[[str], None]) -> None:
        """Show the text so far, if it has grown; first an empty one when the message began."""
        text = repair_text(_without_thoughts(self._text)[0])
        if self._told != len(text) and self.error is None:
            self._told = len(text)
            on_text(text)

    def _chunk(self, chunk: dict[str, Any], raw: bytes) -> None:
        groq = chunk.get("x_groq") or {}
        if chunk.get("error") or groq.get("error"):
            self.error = raw if chunk.get("error") else msgspec.json.encode(groq)
            self.is_done = True
            return
        usage = chunk.get("usage") or groq.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        for choice in (chunk.get("choices") or ())[:1]:
            self._delta(choice.get("delta") or {})
            self._finish = choice.get("finish_reason") or self._finish

    def _delta(self, delta: dict[str, Any]) -> None:
        content = delta.get("content")
        if isinstance(content, str):
            self._text += content
        for part in content if isinstance(content, list) else ():  # Mistral
            if part.get("type") == "thinking":
                self._reasoning += "".join(piece.get("text", "") for piece in part["thinking"])
            else:
                self._text += part.get("text", "")
        self._reasoning += delta.get("reasoning") or delta.get("reasoning_content") or ""
        self._refusal += delta.get("refusal") or ""
        for detail in delta.get("reasoning_details") or ():
            self._detail(detail)
        for position, fragment in enumerate(delta.get("tool_calls") or ()):
            self._fragment(fragment, position)

    def _detail(self, piece: dict[str, Any]) -> None:
        index = piece.get("index")
        for known in self._details if index is not None else ():
            if (known.get("index"), known.get("type")) == (index, piece.get("type")):
                for field, value in piece.items():
                    if field in ("text", "summary", "data") and isinstance(value, str):
                        known[field] = (known.get(field) or "") + value
                    elif value is not None:
                        known[field] = value
                return
        self._details.append(dict(piece))

    def _fragment(self, fragment: dict[str, Any], position: int) -> None:
        function = fragment.get("function") or {}
        call = self._find(fragment, function, position)
        call.id = call.id or fragment.get("id") or ""
        call.name = call.name or function.get("name") or ""
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif arguments is not None:
            call.arguments.append(msgspec.json.encode(arguments).decode())

    def _find(self, fragment: dict[str, Any], function: dict[str, Any], position: int) -> _Call:
        """Return the call that *fragment* belongs to: rules 1 to 3 of the protocol's list."""
        index, identifier = fragment.get("index"), fragment.get("id") or ""
        known: _Call | None = None
        if isinstance(index, int):
            known = self._by_index.get(index)
        elif identifier:
            known = next((call for call in self._calls if call.id == identifier), None)
        elif self._calls and not function.get("name"):
            known = self._calls[min(position, len(self._calls) - 1)]
        if known is None or (identifier and known.id and known.id != identifier):
            known = _Call()
            self._calls.append(known)
            if isinstance(index, int):
                self._by_index[index] = known
        return known

    def completion(self, request: bytes) -> Completion:
        """Return the whole response.  Raises ModelFailure if it is not whole, or contradictory."""
        if self._finish is None:
            raise self._endpoint.failure("cut", "the stream ended before the message did")
        if self._finish == "error":
            raise self._endpoint.failure("server", "the response ended with an error")
        whole = repair_text(self._text)
        text, thought = _without_thoughts(whole)
        text = text if text or thought else whole
        reasoning = repair_text(self._reasoning) or thought
        calls = self._named()
        stop = _STOPS.get(self._finish, "unknown")
        if calls and stop == "end":
            stop = "tools"  # rule 5: the calls decide
        if self._refusal:
            stop = "refused"
        if stop == "tools" and not calls:
            raise self._endpoint.failure("nonsense", "stopped for tools, but named none")  # LLM-24
        blocks: list[Block] = [Text(text)] if text.strip() else []
        blocks += calls
        native = msgspec.Raw(msgspec.json.encode(self._native(text, reasoning, calls)))
        message = Assistant(tuple(blocks), self._codec, self._model, native)
        detail = self._refusal if stop == "refused" else ""
        if stop == "unknown":
            detail = f"finish reason {self._finish}"
            self._endpoint.unknown(detail)
        return Completion(message, stop, self._count(request, text + reasoning, calls), detail)

    def _named(self) -> list[ToolCall]:
        named = []
        given = [call.id for call in self._calls if call.id]
        if len(set(given)) < len(given):
            raise self._endpoint.failure("nonsense", "two tool calls have one id")  # LLM-25
        for call in self._calls:
            if not call.name:
                raise self._endpoint.failure("nonsense", "a tool call has no name")
            fresh = call.id if call.id and call.id not in self._taken else self._new_id()
            arguments, _ = arguments_of("".join(call.arguments))
            named.append(ToolCall(fresh, call.name, arguments))
        return named

    def _native(self, text: str, reasoning: str, calls: list[ToolCall]) -> dict[str, Any]:
        said: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else None}
        if calls:
            said["tool_calls"] = [wire_call(call) for call in calls]
        match self._echo:
            case "reasoning_content" if calls or reasoning:
                said["reasoning_content"] = reasoning
            case "reasoning" if reasoning:
                said["reasoning"] = reasoning
            case "reasoning_details" if self._details:
                said["reasoning_details"] = self._details
            case "thinking_chunk" if reasoning:
                thought = {"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}
                words = [{"type": "text", "text": text}] if text.strip() else []
                said["content"] = [thought, *words]
        return said

    def _count(self, request: bytes, said: str, calls: list[ToolCall]) -> Usage:
        usage = self._usage or {}
        prompt, output = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not isinstance(prompt, int) or not isinstance(output, int):  # LLM-41
            said += "".join(call.name + call.arguments for call in calls)
            return Usage(estimate(request.decode(errors="replace")), estimate(said), estimated=True)
        details = usage.get("prompt_tokens_details") or {}
        read = details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
        write = details.get("cache_write_tokens") or 0
        return Usage(max(0, prompt - read - write), output, cache_read=read, cache_write=write)


def wire_call(call: ToolCall) -> dict[str, Any]:
    """Return a call as it stands in a history; servers parse the arguments, so they are JSON."""
    arguments = bytes(arguments_of(call.arguments)[1]).decode()
    function = {"name": tool_name(call.name), "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _without_thoughts(text: str) -> tuple[str, str]:
    """Split off ``<think>…</think>`` at the start, which servers without a parser leave in.

    >>> _without_thoughts("<think>hm</think>\\n\\nyes"), _without_thoughts("<think>hm")
    (('yes', 'hm'), ('', 'hm'))
    >>> _without_thoughts("<thi"), _without_thoughts("a <think>")
    (('', ''), ('a <think>', ''))
    """
    start = text.lstrip()
    if not start.startswith("<think>"):
        return ("", "") if start and "<think>".startswith(start) else (text, "")
    thought, end, rest = start.removeprefix("<think>").partition("</think>")
    return (rest.lstrip() if end else "", thought.strip())
