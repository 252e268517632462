"""Chat Completions as everybody speaks them (protocols/openai.md §3 to §5): calls and errors."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from elwood.agent.conversation.message import Assistant, Completion
from elwood.agent.models.api_call import (
    Line,
    Refusal,
    decode,
    is_json,
    kind_of,
)
from elwood.agent.models.openai_form import Form, LimitField
from elwood.agent.models.openai_stream import Merge
from elwood.agent.models.provider import HistoryProblem, ModelFailure, ModelRequest
from elwood.agent.models.routing import FailureKind, Offer
from elwood.agent.models.settings import EchoReasoning


class OpenAI:
    """A provider: any service of this shape.

    *echo* says under which name the service wants its reasoning back; histories with another
    echo are sent without theirs.  *new_id* names calls that the service left without a name.
    """

    def __init__(
        self, line: Line, *, echo: EchoReasoning, limit: LimitField, new_id: Callable[[], str]
    ) -> None:
        self._form = Form(echo, limit)
        self.codec = self._form.codec
        self._line = line
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
        model = f"{self._line.name}/{request.model}"
        merge = Merge(model, self._line, self.codec, self._echo, taken, self._new_id)
        try:
            async with self._line.events("/chat/completions", body, self._headers()) as events:
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
            raise failure(self._line, 0, {}, merge.error)
        return merge.completion(body)

    async def offers(self) -> tuple[Offer, ...]:
        """List the models of this service; raises ModelFailure."""
        try:
            body = await self._line.get("/models", self._headers())
        except Refusal as refusal:
            raise self._refused(refusal) from None
        try:
            return tuple(Offer(model.id) for model in msgspec.json.decode(body, type=_Page).data)
        except msgspec.DecodeError as error:
            raise self._line.failure("server", "the list of models is not readable") from error

    def encode(self, request: ModelRequest) -> bytes:
        """Return the body of the request."""
        return self._form.encode(request)

    def _refused(self, refusal: Refusal) -> ModelFailure:
        return failure(self._line, refusal.status, refusal.headers, refusal.body)

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._line.key}"} if self._line.key else {}


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


def failure(line: Line, status: int, headers: Mapping[str, str], body: bytes) -> ModelFailure:
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
        return line.failure(kind, f"HTTP {status}, not from the API (a proxy?)", headers=headers)
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
    return line.failure(kind, message, headers=headers, problem=problem)


def _names(error: Mapping[str, Any]) -> list[str]:
    metadata = error.get("metadata")
    inner = metadata.get("error_type") if isinstance(metadata, dict) else None
    return [name for name in (error.get("code"), inner, error.get("type")) if isinstance(name, str)]
