"""The stream of the Messages API put together again, exactly (protocols/anthropic.md §4)."""

from collections.abc import Callable
from typing import Any

import msgspec

from elwood.agent.conversation.message import (
    Assistant,
    Block,
    Completion,
    Stop,
    Text,
    ToolCall,
    Usage,
    repair_text,
)
from elwood.agent.models.api_call import Line, arguments_of, decode
from elwood.foundation.text.tokens import estimate

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


class Assembly:
    """One response in the making; *model* is its full name (``provider/model``).

    Nothing is taken from it before *is_whole*: a stream without ``message_stop`` is no message.
    """

    def __init__(self, model: str, line: Line) -> None:
        self.error: bytes | None = None
        self.is_whole = False
        self._model = model
        self._line = line
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
            raise self._line.failure("server", "an event of the stream is not readable") from error

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
                self._line.unknown(f"event {kind}")

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
            self._line.unknown(f"delta {kind}")

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
            raise self._line.failure("cut", "the stream ended before the message did")
        native: list[Any] = []
        blocks: list[Block] = []
        for index in sorted(self._open):
            self._close(self._open[index], native, blocks)
        reason = self._stop
        stop = STOPS.get(reason or "", "unknown")
        detail = ""
        if stop == "unknown":
            detail = f"stop reason {reason}"
            self._line.unknown(detail)
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
            raise self._line.failure("nonsense", "stopped for tools, but named none")  # LLM-24
        if stop == "tools" and not all(opened.is_closed for opened in self._open.values()):
            raise self._line.failure("nonsense", "stopped for tools in the middle of a block")
        if len({call.id for call in calls}) < len(calls):
            raise self._line.failure("nonsense", "two tool calls have one id")  # LLM-25
        if not all(call.id and call.name for call in calls):
            raise self._line.failure("nonsense", "a tool call has no id or no name")

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
