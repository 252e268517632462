"""The rows of corpora/llm_failures.jsonl that the client decides, each over a real socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import MAX_ERROR, ModelFailure
from elwood.agent.models.messages import ModelUnavailable, Spending
from elwood.agent.models.providers import make_provider
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import MAX_EVENT, Client
from elwood.foundation.secrets.redaction import Secret
from tests.agent.models.test_actor import RunningModels, run_models
from tests.agent.models.test_actor import make_request as asked
from tests.agent.models.test_anthropic import make_request, run_provider
from tests.fake_http import Reply, json_reply, serving
from tests.fake_models import SSE, Bytes, Error, FakeModels, Say, Step, messages_stream

CORPUS = Path(__file__).parents[2] / "corpora" / "llm_failures.jsonl"
ROWS = [msgspec.json.decode(line)["id"] for line in CORPUS.read_bytes().splitlines()]

INVALID = "invalid_request_error"
PAIRING = "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after"
ORPHAN = "messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1"
SIGNATURE = "messages.1.content.0: Invalid signature in thinking block. The block is bound to …"
IMAGE = "messages.0.content.1.image.source.base64: At least one of the image dimensions exceed"
SURROGATE = "The request body is not valid JSON: no low surrogate in string"
HTML = Reply(status=200, headers={"content-type": "text/html"}, pieces=(b"<html>sign in</html>",))


def error(status: int, kind: str, message: str = "m", code: str = "") -> Error:
    return Error(status, kind, message, details={"error_code": code} if code else None)


def make_rate_limit(headers: dict[str, str], code: str = "") -> Error:
    return Error(429, "rate_limit_error", "m", headers, {"error_code": code} if code else None)


# id; the provider's behaviour; the expected kind, kind/problem, or a check of single fields
CASES: list[tuple[str, Step, dict[str, object]]] = [
    ("LLM-01", make_rate_limit({"retry-after": "7"}), {"kind": "rate_limit", "retry_after": 7.0}),
    ("LLM-02", make_rate_limit({}, "enforced_spend_limit_reached"), {"kind": "spend_limit"}),
    ("LLM-03", error(402, "billing_error"), {"kind": "spend_limit"}),
    (
        "LLM-03",
        error(400, INVALID, "You have reached your specified API usage limits."),
        {"kind": "spend_limit"},
    ),
    ("LLM-04", error(529, "overloaded_error"), {"kind": "overloaded", "retry_after": None}),
    ("LLM-05", error(500, "api_error"), {"kind": "server"}),
    ("LLM-06", error(408, "timeout_error"), {"kind": "conflict"}),
    ("LLM-06", error(409, "conflict_error"), {"kind": "conflict"}),
    ("LLM-07", Error(500, headers={"x-should-retry": "false"}), {"should_retry": False}),
    ("LLM-07", Error(400, INVALID, "m", {"x-should-retry": "true"}), {"should_retry": True}),
    ("LLM-09", Say("x", end="reset", end_at=-1), {"kind": "cut"}),
    ("LLM-10", Say("x", end="reset", end_at=700), {"kind": "cut"}),
    ("LLM-10", Bytes(Reply(headers=SSE, pieces=messages_stream(Say("x"), 1, "m", "")[:-1])),
     {"kind": "cut"}),
    ("LLM-11", Say("x", end="stall", end_at=700), {"kind": "stalled"}),
    ("LLM-12", Say(events=({"type": "error", "error": {"type": "overloaded_error"}},)),
     {"kind": "overloaded"}),
    ("LLM-12", Say(events=({"type": "error", "error": {"type": "novel_error"}},)),
     {"kind": "server"}),
    ("LLM-24", Say("x", stop="tool_use"), {"kind": "nonsense"}),
    ("LLM-25", Say(calls=(("a", "{}"), ("b", "{}")), ids=("t", "t")), {"kind": "nonsense"}),
    ("LLM-28", error(400, INVALID, PAIRING), {"kind": "history"}),
    ("LLM-29", error(400, INVALID, ORPHAN), {"kind": "history"}),
    ("LLM-30", error(400, INVALID, "prompt is too long: 1000001 tokens > 1000000 maximum"),
     {"kind": "too_long"}),
    ("LLM-30", error(413, "request_too_large"), {"kind": "too_long"}),
    ("LLM-30", Bytes(Reply(status=413, pieces=(b"<html>413</html>",))), {"kind": "too_long"}),
    ("LLM-31", error(400, INVALID, "m", "image_dimensions_too_large"),
     {"kind": "history"}),
    ("LLM-31", error(400, INVALID, IMAGE), {"kind": "history"}),
    ("LLM-32", error(400, INVALID, "Could not process image"),
     {"kind": "history"}),
    ("LLM-33", error(400, INVALID, SURROGATE), {"kind": "history"}),
    ("LLM-34", error(400, INVALID, "messages: text content blocks must be non-empty"),
     {"kind": "history"}),
    ("LLM-35", error(400, INVALID, "tools.0.custom.name: String should match pattern"),
     {"kind": "rejected"}),
    ("LLM-35", error(400, INVALID, "m", "tool_name_conflict"),
     {"kind": "rejected"}),
    ("LLM-35", error(400, INVALID, "m", "available_tools_limit_exceeded"),
     {"kind": "rejected"}),
    ("LLM-36", error(400, INVALID, SIGNATURE), {"kind": "history"}),
    ("LLM-37", error(401, "authentication_error"), {"kind": "bad_key"}),
    ("LLM-38", Error(403, "permission_error", "on hold", details={"appeal_url": "https://a.b"}),
     {"kind": "forbidden", "detail": "on hold (appeal: https://a.b)"}),
    ("LLM-39", error(404, "not_found_error", "model: m"), {"kind": "no_model"}),
    ("LLM-40", Bytes(HTML), {"kind": "server"}),
    ("LLM-40", Bytes(Reply(status=403, pieces=(b"<html>blocked</html>",))), {"kind": "server"}),
    ("LLM-40", Bytes(Reply(status=429, pieces=(b"slow down",))), {"kind": "rate_limit"}),
    ("LLM-40", Bytes(Reply(headers=SSE, pieces=(b"data: <html>\n\n",))), {"kind": "server"}),
    ("400", Bytes(json_reply({"hello": 1})), {"kind": "rejected"}),
    ("400", error(400, INVALID, "thinking.type: Input should be 'adaptive'"), {"kind": "rejected"}),
    ("400", error(400, INVALID, "max_tokens: must be positive"), {"kind": "rejected"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "step", "expected"), CASES, ids=[f"{row}-{n}" for n, (row, _, _) in enumerate(CASES)]
)
async def test_each_failure_has_its_kind(row: str, step: Step, expected: dict[str, object]) -> None:
    stall = 0.05 if row == "LLM-11" else 30.0
    async with run_provider(FakeModels(script=[step]), stall=stall) as anthropic:
        with pytest.raises(ModelFailure) as caught:
            await anthropic.complete(make_request(), lambda text: None)
    assert {name: getattr(caught.value.fault, name) for name in expected} == expected


async def complete(step: Step) -> Completion:
    async with run_provider(FakeModels(script=[step])) as anthropic:
        return await anthropic.complete(make_request(), lambda text: None)


CALL = (("list_files", "{}"),)


@pytest.mark.parametrize(
    ("row", "step", "stop", "calls"),
    [
        ("LLM-13", Say("x", events=({"type": "novel"},)), "end", 0),
        ("LLM-14", Say(calls=(("list_files", "{"),)), "tools", 1),
        ("LLM-15", Say(calls=CALL, stop="max_tokens"), "cut", 1),
        ("LLM-16", Say("half", stop="max_tokens"), "cut", 0),
        ("LLM-17", Say(calls=CALL, stop="model_context_window_exceeded"), "window", 1),
        ("LLM-18", Say(calls=CALL, stop="refusal", details={"category": "bio"}), "refused", 1),
        ("LLM-19", Say("x", stop="pause_turn"), "paused", 0),
        ("LLM-20", Say("x", stop="compaction"), "paused", 0),
        ("LLM-21", Say("x", stop=None), "unknown", 0),
        ("LLM-21", Say(calls=CALL, stop="novel"), "unknown", 1),
        ("LLM-22", Say(""), "end", 0),
        ("LLM-23", Say("x", stop="stop_sequence"), "end", 0),
        ("LLM-41", Say("x", usage=None), "end", 0),
    ],
)
async def test_each_stop_reason_has_its_kind(row: str, step: Say, stop: str, calls: int) -> None:
    """Calls may run only after "tools"; the turn handles each other stop reason."""
    completion = await complete(step)
    assert (completion.stop, len(completion.message.calls)) == (stop, calls)
    assert completion.usage.estimated == (row == "LLM-41")


def test_every_row_is_covered() -> None:
    """The actor (test_actor.py) or the turn decides the other rows."""
    client = {row for row, _, _ in CASES} | {f"LLM-{n}" for n in (*range(13, 24), 41)}
    actor = {"LLM-08", "LLM-42", "LLM-44"}
    turn = {"LLM-26", "LLM-27", "LLM-43"}
    assert set(ROWS) <= client | actor | turn


# --- through the actor ----------------------------------------------------------------------------


@asynccontextmanager
async def run_real_provider(folder: Path, fake: FakeModels) -> AsyncIterator[RunningModels]:
    client = Client(connections=64)
    async with serving(fake.answer) as url:
        provider = make_provider(
            "a",
            ProviderSettings(api="anthropic", base_url=url, key=Secret("sk-ant-1234567890")),
            client=client,
            new_id=lambda: "x",
        )
        async with run_models(folder, a=provider) as it:
            yield it
        await client.aclose()


async def test_cancelling_closes_the_connection(tmp_path: Path) -> None:
    gone = trio.Event()
    pieces = (b"".join(messages_stream(Say("x" * 400), 1, "m", "")),)
    stalling = Reply(headers=SSE, pieces=pieces, end="stall", end_at=600, gone=gone)
    send, receive = trio.open_memory_channel[str](10)
    async with run_real_provider(tmp_path, FakeModels(script=[Bytes(stalling), Say("next")])) as it:
        question = msgspec.structs.replace(asked(), progress=send.send_nowait)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.models.ask, question)
            assert await receive.receive()
            assert not gone.is_set()
            nursery.cancel_scope.cancel()
        with trio.fail_after(60):  # much less than the limit of a response
            await gone.wait()
        assert isinstance(await it.ask(), Completion)
        assert (await it.models.ask(Spending(session="s"))).session.estimated


@pytest.mark.parametrize(
    "endless",
    [
        Reply(headers=SSE, pieces=(b"data: ", b"x" * MAX_EVENT)),
        Reply(headers={"content-type": "text/plain"}, pieces=(b"x" * (MAX_ERROR + 1),)),
    ],
)
async def test_a_response_that_is_too_long_is_asked_for_once_more(
    endless: Reply, tmp_path: Path, mock_clock: MockClock
) -> None:
    mock_clock.rate = 20  # the retry is a second later
    fake = FakeModels(otherwise=lambda body: Bytes(endless))
    async with run_real_provider(tmp_path, fake) as it:
        result = await it.ask()
    assert isinstance(result, ModelUnavailable)
    assert "longer than" in result.why
    assert fake.count == 2
