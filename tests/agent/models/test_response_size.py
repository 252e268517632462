"""A response has a size that it may have: a service that ignores its limit is cut off."""

from typing import Any

import msgspec
import pytest

from elwood.agent.conversation.message import Completion, Text
from elwood.agent.models.client import CHARACTERS, MOST_CHARACTERS
from tests.agent.models import test_anthropic, test_openai
from tests.fake_http import Reply
from tests.fake_models import SSE, Bytes, FakeModels, event

Json = dict[str, Any]
PIECE = "lorem ipsum " * 5_000
# More than any response may have; the server falls silent then, so who reads on would stall.
PIECES = 2 * MOST_CHARACTERS // len(PIECE)


def messages(start: Json, *deltas: Json) -> list[bytes]:
    block = {"type": "content_block_start", "index": 0, "content_block": start}
    return [
        event({"type": "message_start", "message": {"usage": {"input_tokens": 7}}}),
        event(block),
        *(event({"type": "content_block_delta", "index": 0, "delta": each}) for each in deltas),
    ]


def chat(*deltas: Json) -> list[bytes]:
    choices = ({"choices": [{"index": 0, "delta": each}]} for each in deltas)
    return [b"data: %s\n\n" % msgspec.json.encode(each) for each in choices]


def tool(number: int) -> Json:
    return {"type": "tool_use", "id": f"t{number}", "name": "list_files", "input": {}}


def fragment(number: int, arguments: str = "{}") -> Json:
    function = {"name": "list_files", "arguments": arguments}
    return {"tool_calls": [{"index": number, "id": f"t{number}", "function": function}]}


TEXT = {"type": "text", "text": ""}
MANY = range(MOST_CHARACTERS // 50)
ANTHROPIC = {
    "text": messages(TEXT, *[{"type": "text_delta", "text": PIECE}] * PIECES),
    "one large piece of it": messages(TEXT, {"type": "text_delta", "text": PIECE * PIECES}),
    "thinking": messages(
        {"type": "thinking", "thinking": ""},
        *[{"type": "thinking_delta", "thinking": PIECE}] * PIECES,
    ),
    "arguments": messages(tool(0), *[{"type": "input_json_delta", "partial_json": PIECE}] * PIECES),
    "calls": [
        *messages(TEXT, {"type": "text_delta", "text": "well"}),
        *(
            event({"type": "content_block_start", "index": n + 1, "content_block": tool(n)})
            for n in MANY
        ),
    ],
    "blocks of no kind that we know": [
        event({"type": "content_block_start", "index": n, "content_block": {"x": PIECE}})
        for n in range(PIECES)
    ],
}
OPENAI = {
    "text": chat(*[{"content": PIECE}] * PIECES),
    "one large piece of it": chat({"content": PIECE * PIECES}),
    "thinking": chat(*[{"reasoning": PIECE}] * PIECES),
    "parts of thinking": chat(*[{"reasoning_details": [{"index": 0, "text": PIECE}]}] * PIECES),
    "thoughts": chat(*[{"reasoning_details": [{"data": PIECE}]}] * PIECES),
    "a refusal": chat(*[{"refusal": PIECE}] * PIECES),
    "arguments": chat(*[fragment(0, PIECE)] * PIECES),
    "calls": chat({"content": "well"}, *map(fragment, MANY)),
}


def endless(pieces: list[bytes]) -> FakeModels:
    body = b"".join(pieces)
    reply = Reply(headers=SSE, pieces=(body,), end="stall", end_at=len(body))
    return FakeModels(script=[Bytes(reply)])


def judge(made: Completion, part: str) -> None:
    [text] = made.message.blocks
    assert isinstance(text, Text)
    assert made.stop == "cut"
    assert str(MOST_CHARACTERS) in made.detail
    assert len(text.text) <= CHARACTERS * test_openai.wanted().max_tokens + 200
    assert text.text.endswith(f"[cut off: {made.detail}]")
    assert text.text.startswith(("lorem", "well", "[cut off"))
    assert made.message.codec == "", "half of it must not go back"
    assert made.usage.estimated
    assert made.usage.output > 10_000, f"{part} is billed"


@pytest.mark.parametrize("part", ANTHROPIC)
async def test_the_messages_api_is_cut_off(part: str) -> None:
    async with test_anthropic.provider(endless(ANTHROPIC[part])) as anthropic:
        judge(await anthropic.complete(test_anthropic.wanted(), lambda text: None), part)


@pytest.mark.parametrize("part", OPENAI)
async def test_chat_completions_are_cut_off(part: str) -> None:
    async with test_openai.provider(endless(OPENAI[part])) as openai:
        judge(await openai.complete(test_openai.wanted(), lambda text: None), part)


async def test_who_is_allowed_more_tokens_may_say_more() -> None:
    deltas = [{"content": PIECE}] * PIECES
    end = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    whole = Bytes(Reply(headers=SSE, pieces=(*chat(*deltas), end, b"data: [DONE]\n\n")))
    wanted = msgspec.structs.replace(test_openai.wanted(), max_tokens=MOST_CHARACTERS)
    async with test_openai.provider(FakeModels(script=[whole])) as openai:
        made = await openai.complete(wanted, lambda text: None)
    assert made.message.text == PIECE * PIECES
