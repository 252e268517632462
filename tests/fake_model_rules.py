"""The request rules of the model APIs, for the fake provider."""

import base64
import re
from itertools import groupby, pairwise
from typing import Any

import msgspec

Problem = tuple[int, str, str]  # status, type, message
Json = dict[str, Any]

SAMPLING = ("temperature", "top_p", "top_k")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def invalid(message: str) -> Problem:
    return 400, "invalid_request_error", message


def blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def anthropic_problem(body: Json) -> Problem | None:
    """Return the Messages API's error about *body*, if any."""
    for name in SAMPLING:
        if name in body:
            return invalid(f"{name}: sampling parameters are not supported")
    if not isinstance(body.get("max_tokens"), int) or not body.get("model"):
        return invalid("max_tokens: Field required")
    for number, tool in enumerate(body.get("tools", [])):
        if not NAME.fullmatch(tool["name"]):
            return invalid(f"tools.{number}.custom.name: String should match pattern")
        if tool["input_schema"].get("type") != "object":
            return invalid(f"tools.{number}.custom.input_schema.type: Field required")
    if msgspec.json.encode(body).count(b'"cache_control"') > 4:
        return invalid("A maximum of 4 blocks with cache_control may be provided")
    messages = body["messages"]
    if not messages or messages[0]["role"] != "user":
        return invalid("messages: first message must use the user role")
    if messages[-1]["role"] != "user":
        return invalid("messages: assistant message prefill is not supported")
    wanted: list[str] = []
    for number, message in enumerate(messages):
        problem = _message_problem(number, message, wanted)
        if problem is not None:
            return problem
        wanted = [block["id"] for block in blocks(message) if block["type"] == "tool_use"]
    return None


def _message_problem(number: int, message: Json, wanted: list[str]) -> Problem | None:
    content = blocks(message)
    if not content:
        return invalid(f"messages.{number}: all messages must have non-empty content")
    if any(b["type"] == "text" and not b["text"].strip() for b in content):
        return invalid(f"messages.{number}: text content blocks must be non-empty")
    kinds = [block["type"] == "tool_result" for block in content]
    results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
    if kinds != sorted(kinds, reverse=True):
        return invalid(f"messages.{number}: tool_result blocks must come first")
    missing = [call for call in wanted if call not in results]
    if missing:
        return invalid(
            f"messages.{number}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(missing)}"
        )
    extra = [result for result in results if result not in wanted]
    if extra or len(set(results)) < len(results):
        return invalid(
            f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {extra}"
        )
    inner = [one for block in content if block["type"] == "tool_result" for one in _parts(block)]
    if any(not block["text"].strip() for block in inner if block["type"] == "text"):
        return invalid(f"messages.{number}: text content blocks must be non-empty")
    for block in [*content, *inner]:
        if block["type"] in ("image", "document") and (wrong := _source_problem(message, block)):
            return invalid(f"messages.{number}: {wrong}")
        if block["type"] == "tool_use" and not isinstance(block["input"], dict):
            return invalid(f"messages.{number}: tool_use.input: Input should be an object")
    return None


def _parts(result: Json) -> list[Json]:
    content = result.get("content", [])
    return content if isinstance(content, list) else []


# First bytes of data of each type.
MAGIC = {
    "image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG", "image/gif": b"GIF8",
    "image/webp": b"RIFF", "application/pdf": b"%PDF-",
}  # fmt: skip


def _source_problem(message: Json, block: Json) -> str | None:
    """Return the error in a picture or PDF, if any."""
    source = block["source"]
    if message["role"] != "user" or set(source) != {"type", "media_type", "data"}:
        return "image.source: Input should be a valid base64 source, in a user message"
    kind = source["media_type"]
    if kind not in MAGIC or (kind == "application/pdf") != (block["type"] == "document"):
        return f"{block['type']}.source.base64.media_type: Input should be 'image/jpeg', …"
    return _data_problem(kind, source["data"])


def _data_problem(kind: str, text: str) -> str | None:
    data = base64.b64decode(text, validate=True)
    if len(text) > 10 << 20:
        return "image exceeds 10 MB maximum"
    return None if data.startswith(MAGIC[kind]) else f"Could not process image: it is no {kind}"


def chat_problem(body: Json) -> Problem | None:
    """Return the error of Chat Completions, as the strictest server would report it."""
    wanted: list[str] = []
    if (wrong := _order_problem([message["role"] for message in body["messages"]])) is not None:
        return invalid(wrong)
    if (wrong := _template_problem(body["messages"])) is not None:
        return invalid(wrong)
    for message in [*body["messages"], {"role": "user", "content": "."}]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in wanted:
                return invalid(
                    "messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'"
                )
            wanted.remove(message["tool_call_id"])
            continue
        if isinstance(message.get("content"), list) and (wrong := _parts_problem(message)):
            return invalid(wrong)
        if wanted:
            return invalid(
                "An assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'"
            )
        if message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            if not calls and not message.get("content"):
                return invalid("assistant message must have content or tool_calls")
            wanted = [call["id"] for call in calls]
            for call in calls:
                msgspec.json.decode(call["function"]["arguments"])
    return None


# Roles that Mistral's API accepts after each role.
FOLLOWERS = {
    "system": ("user",),
    "user": ("assistant",),
    "assistant": ("user", "tool"),
    "tool": ("tool", "assistant"),
}


def _order_problem(roles: list[str]) -> str | None:
    """Return Mistral's error about the order of *roles*, if any."""
    if roles[0] not in ("system", "user"):
        return f"Expected the first role to be 'system' or 'user', got '{roles[0]}'"
    for before, role in pairwise(roles):
        if role not in FOLLOWERS[before]:
            return f"Unexpected role '{role}' after role '{before}'"
    if roles[-1] not in ("user", "tool"):
        return f"Expected last role User or Tool for serving but got {roles[-1]}"
    return None


def _template_problem(messages: list[Json]) -> str | None:
    """Return the error of chat templates: Mistral's, and Gemma's as llama.cpp applies it.

    The first omits calls and their results, the second makes the results the user's words.
    """
    talk = [message for message in messages if message["role"] != "system"]
    plain = [m["role"] for m in talk if m["role"] != "tool" and not m.get("tool_calls")]
    sides = [key for key, _ in groupby(m["role"].replace("tool", "user") for m in talk)]
    results = sum(one["role"] == two["role"] == "tool" for one, two in pairwise(talk))
    for roles, count in ((plain, len(plain)), (sides, len(talk) - results)):
        if roles != ["user", "assistant"] * (count // 2) + ["user"] * (count % 2):
            return "Conversation roles must alternate user/assistant/user/assistant/..."
    return None


def _parts_problem(message: Json) -> str | None:
    """Return the error in the parts of a message; only a picture needs parts."""
    kinds = [part["type"] for part in message["content"]]
    if message["role"] != "user" or "image_url" not in kinds or set(kinds) > {"text", "image_url"}:
        return "Invalid content type. image_url is only supported by user messages"
    for part in message["content"]:
        if part["type"] == "image_url":
            head, comma, data = part["image_url"]["url"].partition(";base64,")
            kind = head.removeprefix("data:")
            if not comma or kind not in MAGIC or not kind.startswith("image/"):
                return "Invalid image URL"
            if (wrong := _data_problem(kind, data)) is not None:
                return wrong
    return None


class Bindings:
    """The preserved-thinking check of the Messages API.

    For each signature it stores the prefix of the response and the thinking block before it. Blocks
    may be missing at either end of a history, not in the middle, and may not be changed. *seen*
    counts the checked blocks, *rejected* the invalid ones.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.rejected = 0
        self._prefix: dict[str, bytes] = {}
        self._before: dict[str, str | None] = {}
        self._thoughts: dict[str, str] = {}

    def sign(self, body: Json, thinking: str) -> str:
        """Return a signature for a block that answers *body* with *thinking*."""
        signature = f"signature-{len(self._prefix) + 1}"
        self._thoughts[signature] = thinking
        self._prefix[signature] = _fingerprint(body, len(body["messages"]))
        known = [b["signature"] for m in body["messages"] for b in blocks(m) if _is_thinking(b)]
        self._before[signature] = known[-1] if known else None
        return signature

    def problem(self, body: Json) -> Problem | None:
        """Check every thinking block of *body*."""
        last: str | None = None
        for number, message in enumerate(body["messages"]):
            for place, block in enumerate(blocks(message)):
                if not _is_thinking(block):
                    continue
                self.seen += 1
                signature = block["signature"]
                bound = self._prefix.get(signature) == _fingerprint(body, number)
                is_as_said = self._thoughts.get(signature) == block.get("thinking")
                gap = last is not None and self._before[signature] != last
                if not bound or not is_as_said or gap:
                    self.rejected += 1
                    return invalid(
                        f"messages.{number}.content.{place}: Invalid signature in thinking "
                        "block. The block is bound to a different conversation."
                    )
                last = signature
        return None


def _is_thinking(block: Json) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _fingerprint(body: Json, upto: int) -> bytes:
    def bare(block: Json) -> Json:
        return {key: value for key, value in block.items() if key != "cache_control"}

    system = body.get("system", [])
    return msgspec.json.encode(
        [
            [bare(block) for block in system] if isinstance(system, list) else system,
            [bare(tool) for tool in body.get("tools", [])],
            [
                [m["role"], [bare(b) for b in blocks(m) if not _is_thinking(b)]]
                for m in body["messages"][:upto]
            ],
        ],
        order="deterministic",
    )
