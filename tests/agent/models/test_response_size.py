"""The size of a response is bounded, even if the service ignores its limit."""

from typing import Any

import msgspec
import pytest

from elwood.agent.models.client import MOST_CHARACTERS, MOST_EVENT_BYTES, ModelFailure
from tests.agent.models import test_anthropic, test_openai
from tests.fake_http import Reply
from tests.fake_models import SSE, Bytes, FakeModels, event

Json = dict[str, Any]
PIECE = "lorem ipsum " * 5_000
# Larger than any response; then the server is silent, so further reading would hang.
PIECES = MOST_EVENT_BYTES // len(PIECE) + 1
DELTA = {"type": "text_delta", "text": PIECE}


def anthropic_stream(pieces: int) -> list[bytes]:
    block = {"type": "text", "text": ""}
    return [
        event({"type": "message_start", "message": {"usage": {"input_tokens": 7}}}),
        event({"type": "content_block_start", "index": 0, "content_block": block}),
        *[event({"type": "content_block_delta", "index": 0, "delta": DELTA})] * pieces,
    ]


def openai_stream(pieces: int) -> list[bytes]:
    chunk = {"choices": [{"index": 0, "delta": {"content": PIECE}}]}
    return [b"data: %s\n\n" % msgspec.json.encode(chunk)] * pieces


MESSAGES_END = [
    event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    event({"type": "message_stop"}),
]
CHAT_END = [b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n', b"data: [DONE]\n\n"]
LONG = 2 * MOST_CHARACTERS // len(PIECE)


@pytest.mark.parametrize(
    "pieces",
    [anthropic_stream(PIECES), anthropic_stream(LONG), [*anthropic_stream(LONG), *MESSAGES_END]],
)
async def test_the_messages_api_is_bounded(pieces: list[bytes]) -> None:
    reply = Reply(headers=SSE, pieces=tuple(pieces))
    failure = await test_anthropic.expect_failure(Bytes(reply))
    assert (failure.fault.kind, "longer than 1000" in failure.fault.detail) == ("nonsense", True)


@pytest.mark.parametrize(
    "pieces", [openai_stream(PIECES), openai_stream(LONG), [*openai_stream(LONG), *CHAT_END]]
)
async def test_chat_completions_are_bounded(pieces: list[bytes]) -> None:
    fake = FakeModels(script=[Bytes(Reply(headers=SSE, pieces=tuple(pieces)))])
    async with test_openai.run_provider(fake) as openai:
        with pytest.raises(ModelFailure, match="longer than 1000 tokens"):
            await openai.complete(test_openai.make_request(), lambda text: None)


async def test_a_larger_limit_allows_a_longer_response() -> None:
    whole = Bytes(Reply(headers=SSE, pieces=(*openai_stream(LONG), *CHAT_END)))
    wanted = msgspec.structs.replace(test_openai.make_request(), max_tokens=MOST_CHARACTERS)
    async with test_openai.run_provider(FakeModels(script=[whole])) as openai:
        made = await openai.complete(wanted, lambda text: None)
    assert made.message.text == PIECE * LONG
