"""Model providers: the protocol, its failures, and shared code for providers over HTTP."""

import base64
import hashlib
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import trio

from elwood.agent.conversation.message import (
    Assistant,
    Block,
    Completion,
    Message,
    Prompt,
    ReceivedFile,
    Stop,
    ToolCall,
    Usage,
    get_visible_files,
    rough,
)
from elwood.agent.models.routing import FailureKind, Fault
from elwood.agent.models.settings import Effort, ProviderSettings, key_remedy, lacks_key
from elwood.foundation.net.http import Client, EventParser, Interrupted, Unreachable, retry_after
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.characters import well_formed

log = logging.getLogger("elwood.models")

# Maximum bytes of an error body that are read, and characters of it that are shown.
MAX_ERROR = 256 * 1024
MAX_DETAIL = 400
# Maximum characters of a response for each allowed token, including thoughts and calls, and the
# least maximum: no text has more on average.  It stops a service that ignores the token limit.
CHARACTERS, MOST_CHARACTERS = 8, 400_000
# The same for bytes of its events: each token may come in an event of its own.
EVENT_BYTES, MOST_EVENT_BYTES = 1_000, 8 << 20
# Types of pictures that all services accept.
PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
# Seconds for the end of the body after the last event, so that the connection can be reused.
DRAIN = 1.0


class ModelFailure(Exception):
    """The provider did not return a complete response; *fault* describes the failure."""

    def __init__(self, provider: str, fault: Fault) -> None:
        super().__init__(f"{provider}: {fault.detail}")
        self.fault = fault


class EmbeddingFailed(Exception):
    """There are no vectors; *why* is for people.  Searches continue without.

    *refused*: the service rejects these texts; it may accept others.
    """

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.refused = refused


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one response of *model* (the provider's own name for it).

    *files* are those that it may see, in base64, by hash.  *thinking* is the effort; None: the
    model's default.
    """

    model: str
    prompt: Prompt
    messages: tuple[Message, ...]
    max_tokens: int
    files: Mapping[str, str] = {}
    thinking: Effort | None = None


def look_at(root: Root, messages: Iterable[Message]) -> dict[str, str]:
    """Read the files in *messages* that a model may see, in base64, by hash; blocks.

    Missing or changed files are left out, so that a repeated request is unchanged or says so.
    """
    found = {}
    for file in {file for message in messages for file in get_visible_files(message)}:
        with suppress(PathRefused, Unconfined):
            data = root.read(file.path, file.size + 1)
            if hashlib.sha256(data).hexdigest() == file.sha256:
                found[file.sha256] = base64.b64encode(data).decode()
    return found


class Thought(msgspec.Struct, frozen=True):
    """The model's thoughts so far in this response, which has no text yet."""

    text: str


# Progress of an incomplete response.
Shown = str | Thought


class Provider(Protocol):
    """Client of one API.  *codec* names the form of the native content it writes and can replay."""

    codec: str

    async def complete(self, request: ModelRequest, show: Callable[[Shown], None]) -> Completion:
        """Return one complete response, or raise ModelFailure.

        *show* is called with the whole text so far each time it grows, before it with the thoughts,
        and first with an empty text, when the response begins; it must not wait.
        """


class HttpProvider(ABC):
    """A provider that streams its responses over HTTP; subclasses define the format of an API.

    *name* is the provider's in the configuration.
    """

    codec: str
    # Media types that it can see, if its models have vision.
    visible: Collection[str]
    # Paths below the base address.
    path: str
    models_path: str

    def __init__(self, name: str, settings: ProviderSettings, client: Client) -> None:
        self.name = name
        self._base_url = settings.base_url.rstrip("/")
        self._stall = settings.stall
        self._vision = settings.vision
        self._key = settings.key
        self._lacks_key = lacks_key(settings)
        self._client = client

    @property
    def key(self) -> str:
        """The key in clear text, only for its header; empty if the service needs none."""
        return self._key.reveal() if self._key is not None else ""

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""

    @abstractmethod
    def payload(self, request: ModelRequest, clean: Callable[[str], str]) -> dict[str, Any]:
        """Return the body of a request; every text in it is passed through *clean*."""

    @abstractmethod
    def begin(self, request: ModelRequest) -> "ResponseStream":
        """Return the parser of the response to *request*."""

    def data_of(self, file: ReceivedFile, request: ModelRequest) -> tuple[str, str]:
        """Return the content of *file* in base64 for the model, or the text that replaces it."""
        data, why = request.files.get(file.sha256, ""), ""
        if not self._vision:
            why = f"this model cannot read pictures (providers.{self.name}.vision)"
        elif file.media not in self.visible:
            why = f"this model does not accept {file.media}"
        elif not data:
            why = "the file was deleted or changed"
        return ("", f"[You cannot look at {file.path}: {why}.]") if why else (data, "")

    def encode(self, request: ModelRequest) -> bytes:
        """Return the body of a request, byte for byte.

        A longer history begins with the same bytes as before.
        """
        try:
            return msgspec.json.encode(self.payload(request, str))
        except UnicodeEncodeError:  # lone surrogates (LLM-33): rare, so not searched first
            return msgspec.json.encode(self.payload(request, well_formed))

    async def complete(self, request: ModelRequest, show: Callable[[Shown], None]) -> Completion:
        if self._lacks_key:
            raise self.failure("bad_key", "")
        body = self.encode(request)
        stream = self.begin(request)
        url = self._base_url + self.path
        try:
            async with self._client.stream(
                "POST", url, body, headers=self.headers(), read_timeout=self._stall
            ) as answer:
                kind = answer.headers.get("content-type", "")
                if answer.status != 200 or "text/event-stream" not in kind:
                    raise self.judge(answer.status, await answer.read(MAX_ERROR), answer.headers)
                parser = EventParser()
                async for chunk in answer:
                    for event in parser.feed(chunk):
                        stream.take(event)
                    stream.report_progress(show)
                    if stream.is_done:
                        break
                # Errors here do not matter: the response is complete.
                with suppress(Interrupted), trio.move_on_after(DRAIN):
                    async for _ in answer:
                        pass
        except Unreachable as error:
            raise self.failure("offline", error.why) from error
        except Interrupted as error:
            fault: FailureKind = "stalled" if error.stalled else "cut"
            raise self.failure("nonsense" if error.too_long else fault, error.why) from error
        if stream.error is not None:
            raise self.judge(0, stream.error)
        return stream.completion()

    def failure(
        self, kind: FailureKind, detail: str, headers: Mapping[str, str] | None = None
    ) -> ModelFailure:
        """Build the exception; *detail* is shortened, and the key removed from it."""
        if self.key:
            detail = detail.replace(self.key, "***")
        elif kind == "bad_key":
            kind, detail = "no_key", f"{key_remedy(self.name)}, and start Elwood again"
        detail = " ".join(detail.split())[:MAX_DETAIL]
        headers = headers or {}
        fault = Fault(kind, detail, retry_after(headers), should_retry(headers))
        return ModelFailure(self.name, fault)

    def judge(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> ModelFailure:
        """Classify an answer that is not a stream; *status* 0 is an error within the stream."""
        try:
            whole = decode(body) if body.lstrip().startswith(b"{") else {}
        except ValueError:
            whole = {}
        error = whole.get("error", whole)
        if not isinstance(error, dict):
            error = {"message": str(error)}  # Ollama, LM Studio
        if not error:  # a proxy's page (LLM-40)
            kind = kind_of(status) if status in (413, 429) else "server"
            return self.failure(kind, f"HTTP {status}, not from the API (a proxy?)", headers)
        if status == 200 and "error" not in whole:
            return self.failure("rejected", "the answer is not a stream of events", headers)
        message = str(error.get("message") or error.get("detail") or f"HTTP {status}")
        kind = classify(status, error, message, headers or {})
        details = error.get("details")
        appeal = str(details.get("appeal_url", "")) if isinstance(details, dict) else ""
        if appeal.startswith("https://"):
            message += f" (appeal: {appeal})"
        return self.failure(kind, message, headers)

    def unknown(self, what: str) -> None:
        """Log an unknown part of a response (LLM-13)."""
        log.debug("unknown part of a response", extra={"provider": self.name, "part": what})


class GrowingText:
    """A text that grows; adding to it does not copy it."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, *texts: str) -> None:
        """Append *texts*.  Raises TypeError if one is not a text."""
        if text := "".join(texts):
            self._pieces.append(text)

    def whole(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


# A response is shown when it has grown by 1/GROWTH: each time all of it is scanned.
GROWTH = 256


class ResponseStream(ABC):
    """The unfinished response to *request*.

    Nothing is used before it is complete: a stream that was cut is not a message.
    """

    def __init__(self, provider: HttpProvider, request: ModelRequest) -> None:
        self.error: bytes | None = None
        self.is_done = False
        self.provider = provider
        self._model = f"{provider.name}/{request.model}"
        self._request = request
        self._max_tokens = request.max_tokens
        self._most = max(MOST_CHARACTERS, CHARACTERS * request.max_tokens)
        self._received = 0
        self._shown_length: int | None = None
        self._shown_at = 0  # value of *_received*
        self._thought = 0

    @property
    @abstractmethod
    def text(self) -> str | None:
        """The text that may be shown so far; None before the response has begun."""

    @property
    @abstractmethod
    def thought(self) -> str:
        """The thoughts so far, if the service reports them."""

    @abstractmethod
    def read(self, event: bytes) -> None:
        """Add one event; `take` converts what it raises for an invalid one."""

    @abstractmethod
    def completion(self) -> Completion:
        """Return the complete response.

        Raises ModelFailure if it is incomplete or contradicts itself.
        """

    def guess_usage(self, said: str) -> Usage:
        """Estimate the usage, because the provider did not report it (LLM-41)."""
        return rough(self._request.prompt, self._request.messages, said)

    def take(self, event: bytes) -> None:
        """Add one event.  Raises ModelFailure if it is invalid, or there are too many."""
        if self.is_done:
            return
        self._received += len(event)
        if self._received > max(MOST_EVENT_BYTES, EVENT_BYTES * self._max_tokens):
            raise self._too_long()
        try:
            self.read(event)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # A 200 with invalid events is caused by a proxy, like a 502 (LLM-40).
            raise self.provider.failure("server", "an event of the stream is unreadable") from error

    def report_progress(self, show: Callable[[Shown], None]) -> None:
        """Show the text so far, if it has grown; first an empty one when the message began.

        Thoughts are shown as long as there is no text.  The display repairs split characters: here
        the whole text would be searched for them at each word.

        Raises ModelFailure if it is too long.
        """
        if self._received - self._shown_at < self._shown_at // GROWTH:
            return
        self._shown_at = self._received
        text = self.text
        if text is not None and self._shown_length != len(text) and self.error is None:
            if len(text) > self._most:
                raise self._too_long()
            self._shown_length = len(text)
            show(text)
        if not text and len(thought := self.thought) > self._thought:
            self._thought = len(thought)
            show(Thought(thought))

    def build_completion(
        self, blocks: list[Block], native: Any, stop: Stop, usage: Usage, detail: str = ""
    ) -> Completion:
        """Build the completion from the received parts.  Raises ModelFailure on contradictions."""
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        if stop == "tools" and not calls:
            raise self.provider.failure("nonsense", "stopped for tools, but named none")  # LLM-24
        if len({call.id for call in calls}) < len(calls):
            raise self.provider.failure("nonsense", "two tool calls have one id")  # LLM-25
        if not all(call.id and call.name for call in calls):
            raise self.provider.failure("nonsense", "a tool call has no id or no name")
        if stop == "unknown":
            self.provider.unknown(detail)
        raw = msgspec.json.encode(native)
        if len(raw) > self._most:
            raise self._too_long()
        message = Assistant(tuple(blocks), self.provider.codec, self._model, msgspec.Raw(raw))
        return Completion(message, stop, usage, detail)

    def _too_long(self) -> ModelFailure:
        most = self._max_tokens
        return self.provider.failure("nonsense", f"the response is far longer than {most} tokens")


_STATUS: dict[int, FailureKind] = {
    401: "bad_key",
    402: "spend_limit",
    403: "forbidden",
    404: "no_model",
    408: "conflict",
    409: "conflict",
    413: "too_long",
    429: "rate_limit",
    498: "overloaded",
    529: "overloaded",
}
# Codes or types of an error that say more than the status.
_CODES: dict[str, FailureKind] = {
    "insufficient_quota": "spend_limit",
    "billing_hard_limit_reached": "spend_limit",
    "enforced_spend_limit_reached": "spend_limit",
    "contract_spend_limit_reached": "spend_limit",
    "context_length_exceeded": "too_long",
    "exceed_context_size_error": "too_long",
    "tool_use_failed": "nonsense",
    "provider_overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "image_dimensions_too_large": "history",
}
# Patterns for the message of a 400, in the order of the search.
_WORDS: tuple[tuple[str, FailureKind], ...] = (
    (r"prompt is too long|exceed context limit|maximum context", "too_long"),
    (r"context (length|size|window)", "too_long"),
    (r"(usage|spend) limit|credit balance", "spend_limit"),
    (r"^(?!messages)[\w.]+: ", "rejected"),  # one of our settings, or of the tools
    (r"^messages|tool_use|tool_result|tool_call|role 'tool'", "history"),
    (r"thinking|reasoning_content|image|media_type", "history"),
    (r"could not|json|text content blocks|surrogate", "history"),
)


def classify(
    status: int, error: Mapping[str, Any], message: str, headers: Mapping[str, str]
) -> FailureKind:
    """Classify an error by its code and status (*status* 0 or 200: within a stream).

    The message is used only if nothing else distinguishes the cases: a history that is not
    accepted, and a limit that is reported as 400.
    """
    code, details, metadata = map(error.get, ("code", "details", "metadata"))
    given = [
        details.get("error_code") if isinstance(details, dict) else None,
        code,
        metadata.get("error_type") if isinstance(metadata, dict) else None,
        error.get("type"),
    ]
    if status in (0, 200):
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
    if status == 402 and "retry-after" in headers:
        return "rate_limit"
    names = (name for name in given if isinstance(name, str) and name in _CODES)
    kind = next((_CODES[name] for name in names), kind_of(status))
    if status in (400, 422) and kind == "rejected":
        said = message.lower()
        return next((by_words for words, by_words in _WORDS if re.search(words, said)), kind)
    return kind


def kind_of(status: int) -> FailureKind:
    """Return the kind of failure of an HTTP status."""
    return _STATUS.get(status, "server" if status >= 500 else "rejected")


def decode(data: bytes) -> Any:
    """Decode JSON; lone surrogates are kept, to be repaired in the whole text.

    Raises ValueError.
    """
    try:
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:
            return json.loads(data)  # the standard library accepts "\ud83d"
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def arguments_of(raw: str) -> tuple[str, msgspec.Raw]:
    """Return a call's arguments for the gate, and in a form that is valid in a history.

    Text that is not a JSON object would make every later request fail: it is wrapped as
    Anthropic recommends.
    >>> arguments_of("")[0]
    '{}'
    >>> bytes(arguments_of('{"a": ')[1])
    b'{"INVALID_JSON":"{\\\\"a\\\\": "}'
    """
    raw = raw if raw.strip() else "{}"
    try:
        if isinstance(msgspec.json.decode(raw), dict):
            return raw, msgspec.Raw(raw.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    raw = well_formed(raw)
    return raw, msgspec.Raw(msgspec.json.encode({"INVALID_JSON": raw}))


def tool_name(name: str) -> str:
    """Return *name* in a form that every API accepts (LLM-35); a valid one is unchanged."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the server's explicit answer about retrying, if any (LLM-07)."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())
