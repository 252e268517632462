"""The form of a request of Chat Completions (protocols/openai.md §3, §5)."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from elwood.agent.conversation.message import (
    Assistant,
    Human,
    Message,
    Notice,
    Results,
    repair_text,
)
from elwood.agent.models.openai_stream import REASONING, wire_call
from elwood.agent.models.provider import ModelRequest
from elwood.agent.models.settings import EchoReasoning

LimitField = Literal["max_tokens", "max_completion_tokens", "none"]


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
