"""A model provider on a real loopback socket: Messages and Chat Completions, scripted.

In a test::

    fake = FakeModels()
    fake.script = [Say("hello"), Error(529, "overloaded_error")]
    async with serving(fake.answer) as url: ...

As a process: ``python -m tests.fake_models --port-file F [--latency S] [--log L]``.  Without a
script it follows the last message (see `obey`).
"""

import argparse
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
import msgspec
import trio

from tests.fake_http import Reply, Request, announced, json_reply
from tests.fake_model_rules import Bindings, Json, anthropic_problem, blocks, chat_problem
from tests.reminders import TOLD_AGAIN

SSE = {"content-type": "text/event-stream"}
PROSE = (
    "The quick brown fox jumps over the lazy dog, and then it says: what a fine day this is. "
    "Another sentence (number 12345) has a link, https://example.org/a/b?c=d#e, and ends so.\n"
)


@attrs.frozen
class Say:
    """A response: text, tool calls as (name, arguments as JSON text), and how it ends.

    *thinking* adds a signed thinking block at the beginning. *delay* seconds pass before the first
    byte; *end* ("close", "reset", "stall") breaks the stream after *end_at* bytes. *events* are raw
    events inserted before the last ones.
    """

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    stop: str | None = ""
    thinking: str = ""
    usage: Json | None = attrs.field(factory=dict)
    delay: float = 0.0
    pause: float = 0.0
    end: str = ""
    end_at: int = 0
    events: tuple[Json, ...] = ()
    details: Json | None = None
    ids: tuple[str, ...] = ()


@attrs.frozen
class Error:
    """An HTTP error in the API's own form; *details* can contain an ``error_code``."""

    status: int
    type: str = "api_error"
    message: str = "scripted"
    headers: dict[str, str] = attrs.field(factory=dict)
    details: Json | None = None


@attrs.frozen
class Bytes:
    """Any response."""

    reply: Reply


Step = Say | Error | Bytes


def _steps(steps: Iterable[Step]) -> list[Step]:
    return list(steps)


@attrs.define
class FakeModels:
    """The provider. It takes its steps from *script*, then from *otherwise*.

    *keep* requests are stored, newest last; *key* is checked if set.
    """

    script: list[Step] = attrs.field(factory=list, converter=_steps)
    otherwise: Callable[[Json], Step] = attrs.field(default=lambda body: obey(body))
    key: str = ""
    keep: int = 1000
    models: list[Json] = attrs.field(factory=list)
    log: Callable[[Json], None] | None = None
    requests: list[Request] = attrs.field(factory=list)
    bodies: list[Json] = attrs.field(factory=list)
    count: int = 0
    running: int = 0
    most: int = 0
    bindings: Bindings = attrs.field(factory=Bindings)

    async def answer(self, request: Request) -> Reply:
        """Answer one request."""
        self.count += 1
        self.requests.append(request)
        del self.requests[: -self.keep]
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            reply = self._reply(request)
            if reply.delay:
                await trio.sleep(reply.delay)
            return attrs.evolve(reply, delay=0.0)
        finally:
            self.running -= 1

    def _reply(self, request: Request) -> Reply:
        is_chat = request.path.endswith("/chat/completions")
        key = request.headers.get("x-api-key") or request.headers.get("authorization", "")[7:]
        if self.key and key != self.key:
            return error_reply(Error(401, "authentication_error", "invalid x-api-key"))
        if request.method == "GET":
            return json_reply({"data": self.models, "has_more": False})
        if not is_chat and not request.headers.get("anthropic-version"):
            return error_reply(Error(400, "invalid_request_error", "anthropic-version: required"))
        try:
            body = msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            return error_reply(Error(400, "invalid_request_error", f"not valid JSON: {error}"))
        self.bodies.append(body)
        del self.bodies[: -self.keep]
        if self.log is not None:
            self.log(body)
        problem = chat_problem(body) if is_chat else anthropic_problem(body)
        if problem is None and not is_chat:
            problem = self.bindings.problem(body)
        if problem is not None:
            return error_reply(Error(*problem))
        step = self.script.pop(0) if self.script else self.otherwise(body)
        match step:
            case Bytes(reply):
                return reply
            case Error():
                return error_reply(step)
            case Say():
                pieces = chat_stream(step, self.count) if is_chat else self._messages(step, body)
                return Reply(
                    headers=SSE,
                    pieces=pieces if step.pause else (b"".join(pieces),),
                    delay=step.delay,
                    pause=step.pause,
                    end=step.end,
                    end_at=step.end_at,
                )

    def _messages(self, step: Say, body: Json) -> tuple[bytes, ...]:
        signature = self.bindings.sign(body, step.thinking) if step.thinking else ""
        return messages_stream(step, self.count, body["model"], signature)


def obey(body: Json) -> Step:
    """Follow the last user message, after which Elwood may have added a reminder.

    ``/call NAME {...}`` in it calls that tool; results are repeated in the answer. ``/write N``
    gets a text of N characters, a few at a time. Of any other message the last line is echoed: the
    lines above it are the bot's own text about the time or earlier days.
    """
    last = blocks(body["messages"][-1])
    results = [b for b in last if b["type"] == "tool_result"]
    if body["messages"][-1]["role"] == "tool":
        return Say(f"Result: {body['messages'][-1]['content']}"[:500])
    text = "\n".join(b["text"] for b in last if b["type"] == "text")
    for head in TOLD_AGAIN:
        text = text.partition(f"\n{head}")[0]
    calls = tuple(re.findall(r"^/call ([\w-]+) (\{.*\})$", text, re.MULTILINE))
    if calls:
        return Say(calls=calls)
    if results:
        return Say(f"Result: {results[-1].get('content', '')}"[:500])
    if written := re.search(r"^/write (\d+)$", text, re.MULTILINE):
        size = int(written[1])
        return Say((PROSE * (size // len(PROSE) + 1))[:size], pause=0.0002)
    return Say(f"You said: {text.rstrip().rpartition(chr(10))[2][-500:]}")


def event(data: Json) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), msgspec.json.encode(data))


def messages_stream(step: Say, number: int, model: str, signature: str) -> tuple[bytes, ...]:
    """Yield the events of one response of the Messages API."""
    found: list[tuple[Json, list[Json]]] = []
    if step.thinking:
        found.append(
            (
                {"type": "thinking", "thinking": "", "signature": ""},
                [
                    {"type": "thinking_delta", "thinking": step.thinking},
                    {"type": "signature_delta", "signature": signature},
                ],
            )
        )
    if step.text:
        deltas = [step.text[i : i + 20] for i in range(0, len(step.text), 20)]
        block: Json = {"type": "text", "text": ""}
        found.append((block, [{"type": "text_delta", "text": text} for text in deltas]))
    for place, (name, given) in enumerate(step.calls):
        call = step.ids[place] if step.ids else f"toolu_{number:06}_{place}"
        cut = len(given) // 2
        pieces = ["", given[:cut], given[cut:]]
        block = {"type": "tool_use", "id": call, "name": name, "input": {}}
        found.append(
            (block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces])
        )
    usage = {"input_tokens": 100, "cache_read_input_tokens": 0, "output_tokens": 1}
    message: Json = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if step.usage is not None:
        message["usage"] = {**usage, **step.usage}
    events: list[Json] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, (start, deltas_of) in enumerate(found):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas_of
        ]
        events.append({"type": "content_block_stop", "index": index})
    events += step.events
    stop = step.stop if step.stop != "" else ("tool_use" if step.calls else "end_turn")
    end: Json = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}}
    if step.details is not None:
        end["delta"]["stop_details"] = step.details
    if step.usage is not None:
        end["usage"] = {"output_tokens": 25, **step.usage}
    events += [end, {"type": "message_stop"}]
    return tuple(event(each) for each in events)


def chat_stream(step: Say, number: int) -> tuple[bytes, ...]:
    """Yield the chunks of one response of Chat Completions."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": step.text[i : i + 20]} for i in range(0, len(step.text), 20)]
    for place, (name, given) in enumerate(step.calls):
        call = step.ids[place] if step.ids else f"call_{number}_{place}"
        function = {"name": name, "arguments": ""}
        start = {"index": place, "id": call, "type": "function", "function": function}
        deltas.append({"tool_calls": [start]})
        rest = {"index": place, "function": {"arguments": given}}
        deltas.append({"tool_calls": [rest]})
    stop = step.stop if step.stop != "" else ("tool_calls" if step.calls else "stop")
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += step.events
    if stop is not None:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]})
    if step.usage is not None:
        usage = {"prompt_tokens": 100, "completion_tokens": 25, **step.usage}
        chunks.append({"choices": [], "usage": usage})
    lines = [b"data: %s\n\n" % msgspec.json.encode(chunk) for chunk in chunks]
    return (*lines, b"data: [DONE]\n\n")


def error_reply(error: Error) -> Reply:
    inner: Json = {"type": error.type, "message": error.message}
    if error.details is not None:
        inner["details"] = error.details
        inner["code"] = error.details.get("error_code")
    return json_reply({"type": "error", "error": inner}, error.status, error.headers)


async def main(port_file: Path, latency: float, log: Path | None) -> None:
    def write(body: Json) -> None:
        assert log is not None
        with log.open("ab") as file:
            file.write(msgspec.json.encode(body) + b"\n")

    fake = FakeModels(log=write if log else None, keep=10)
    fake.otherwise = lambda body: (
        attrs.evolve(step, delay=latency) if isinstance(step := obey(body), Say) else step
    )
    await announced(fake.answer, port_file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    trio.run(main, given.port_file, given.latency, given.log)
