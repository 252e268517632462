"""The Messages API client against a fake that enforces the API's rules, over a real socket."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest

from elwood.agent.conversation.message import (
    Assistant,
    Completion,
    Human,
    Message,
    Notice,
    Prompt,
    ReceivedFile,
    Result,
    Results,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
    mend,
)
from elwood.agent.models.anthropic import Anthropic
from elwood.agent.models.client import ModelFailure, ModelRequest, Shown, Thought
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret
from tests.fake_http import Reply, serving
from tests.fake_models import SSE, Bytes, Error, FakeModels, Say, Step, messages_stream

KEY = "sk-ant-api03-not-a-real-key-123456"
SCHEMA = msgspec.Raw(b'{"type":"object","properties":{"path":{"type":"string"}}}')
PROMPT = Prompt("Be kind.", (ToolSpec("list_files", "List files.", SCHEMA),))
HI = (Human("hi"),)


def make_request(*messages: Message) -> ModelRequest:
    return ModelRequest(
        model="claude-sonnet-5-5", prompt=PROMPT, messages=messages or HI, max_tokens=1000
    )


def make_provider(url: str, client: Client, *, stall: float = 30.0) -> Anthropic:
    settings = ProviderSettings(api="anthropic", base_url=url, key=Secret(KEY), stall=stall)
    return Anthropic("anthropic", settings, client)


@asynccontextmanager
async def run_provider(fake: FakeModels, *, stall: float = 30.0) -> AsyncIterator[Anthropic]:
    async with serving(fake.answer) as url, aclosing(Client()) as client:
        yield make_provider(url, client, stall=stall)


async def complete(step: Step, show: Callable[[Shown], None] = lambda text: None) -> Completion:
    async with run_provider(FakeModels(script=[step])) as anthropic:
        return await anthropic.complete(make_request(), show)


async def expect_failure(step: Step, *, stall: float = 30.0) -> ModelFailure:
    async with run_provider(FakeModels(script=[step]), stall=stall) as anthropic:
        with pytest.raises(ModelFailure) as caught:
            await anthropic.complete(make_request(), lambda text: None)
        assert KEY not in repr(caught.value) + str(caught.value)
        return caught.value


async def test_a_response_is_stored_as_received() -> None:
    step = Say(
        "Let me look.",
        (("list_files", '{"path": "a", "n": 1.50}'), ("list_files", "")),
        thinking="hm",
        usage={
            "input_tokens": 3,
            "cache_read_input_tokens": 7,
            "cache_creation_input_tokens": 11,
            "cache_creation": {"ephemeral_1h_input_tokens": 5, "ephemeral_5m_input_tokens": 6},
        },
    )
    completion = await complete(step)
    assert completion.stop == "tools"
    assert completion.usage == Usage(3, 25, 7, 11, 5)
    message = completion.message
    assert message.model == "anthropic/claude-sonnet-5-5"
    assert message.blocks == (
        Text("Let me look."),
        ToolCall("toolu_000001_0", "list_files", '{"path": "a", "n": 1.50}'),
        ToolCall("toolu_000001_1", "list_files", "{}"),
    )
    assert bytes(message.native) == (
        b'[{"type":"thinking","thinking":"hm","signature":"signature-1"},'
        b'{"type":"text","text":"Let me look."},'
        b'{"type":"tool_use","id":"toolu_000001_0","name":"list_files",'
        b'"input":{"path": "a", "n": 1.50}},'
        b'{"type":"tool_use","id":"toolu_000001_1","name":"list_files","input":{}}]'
    )


async def test_a_scan_precedes_its_text() -> None:
    fake = FakeModels(script=[Say("ok")])
    data = base64.b64encode(b"%PDF-1.4").decode()
    async with serving(fake.answer) as url, aclosing(Client()) as client:
        settings = ProviderSettings(api="anthropic", base_url=url, key=Secret(KEY), vision=True)
        file = ReceivedFile(
            path="a.pdf", media="application/pdf", size=8, sha256="h", about="", tokens=9
        )
        asked = msgspec.structs.replace(make_request(Human("sum", (file,))), files={"h": data})
        await Anthropic("anthropic", settings, client).complete(asked, lambda text: None)
    [document, text] = fake.bodies[0]["messages"][0]["content"]
    assert document["type"] == "document"
    assert (document["source"]["data"], text["text"]) == (data, "sum")


async def test_text_is_streamed() -> None:
    told: list[Shown] = []
    await complete(Say("x" * 50, pause=0.001, thinking="hm"), told.append)
    assert told[0] == ""
    assert [one for one in told if not isinstance(one, str)] == [Thought("hm")]
    texts = [one for one in told if isinstance(one, str)]
    assert texts == sorted(texts, key=len)
    assert texts[-1] == "x" * 50
    assert len(texts) > 2


@pytest.mark.parametrize("wants", [False, True])
async def test_thinking_is_requested_if_configured(wants: bool) -> None:
    fake = FakeModels(script=[Say("x")])
    async with serving(fake.answer) as url, aclosing(Client()) as client:
        settings = ProviderSettings(api="anthropic", base_url=url, key=Secret(KEY), thoughts=wants)
        await Anthropic("anthropic", settings, client).complete(make_request(), lambda text: None)
    asked = {"type": "adaptive", "display": "summarized"} if wants else None
    assert fake.bodies[0].get("thinking") == asked


async def test_effort_is_sent_if_configured() -> None:
    fake = FakeModels(script=[Say("x")] * 3)
    async with serving(fake.answer) as url, aclosing(Client()) as client:
        settings = ProviderSettings(api="anthropic", base_url=url, key=Secret(KEY))
        for thinking in (None, "low", "none"):
            request = msgspec.structs.replace(make_request(), thinking=thinking)
            await Anthropic("anthropic", settings, client).complete(request, lambda text: None)
    assert [one.get("output_config") for one in fake.bodies] == [None, {"effort": "low"}, None]
    assert [one.get("thinking") for one in fake.bodies] == [None, None, {"type": "disabled"}]


async def test_unknown_events_are_ignored() -> None:
    """LLM-13."""
    block = {"type": "novel", "data": {"x": [1, None]}}
    events = (
        {"type": "invention", "n": 1},
        {"type": "content_block_start", "index": 7, "content_block": block},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "novel_delta", "y": 2}},
        {"type": "content_block_stop", "index": 7},
    )
    completion = await complete(Say("ok", events=events))
    assert completion.message.blocks == (Text("ok"),)
    assert msgspec.json.decode(completion.message.native)[1] == block


async def test_a_call_with_broken_json_keeps_the_history_valid() -> None:
    """LLM-14: the gate sees the raw text, the provider gets an object."""
    fake = FakeModels(script=[Say(calls=(("list_files", '{"path": '),)), Say("sorry")])
    async with run_provider(fake) as anthropic:
        first = await anthropic.complete(make_request(), lambda text: None)
        [call] = first.message.calls
        assert call.arguments == '{"path": '
        results = Results((Result(call.id, "not valid JSON", failed=True),))
        await anthropic.complete(make_request(*HI, first.message, results), lambda text: None)
    assert fake.bodies[1]["messages"][1]["content"][0]["input"] == {"INVALID_JSON": '{"path": '}
    assert fake.bodies[1]["messages"][2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": "not valid JSON",
            "is_error": True,
        }
    ]


async def test_thinking_is_returned_unchanged() -> None:
    """The fake rejects any thinking whose prefix has changed (LLM-36)."""
    call = (("list_files", '{"path": "ä\\u00e9"}'),)
    fake = FakeModels(
        script=[Say(calls=call, thinking=f"thought {n}") for n in range(5)]
        + [Say("done", thinking="last")]
    )
    history: list[Message] = [Human("go")]
    async with run_provider(fake) as anthropic:
        while True:
            done = await anthropic.complete(make_request(*mend(history)), lambda text: None)
            history.append(done.message)
            if done.stop != "tools":
                break
            history.append(Results(tuple(Result(c.id, "two files") for c in done.message.calls)))
            history.append(Notice("it is late"))
        stored = msgspec.json.decode(msgspec.json.encode(tuple(history)), type=tuple[Message, ...])
        fake.script = [Say("again", thinking="more")]
        await anthropic.complete(make_request(*stored, Human("more")), lambda text: None)
        # A changed history is detected.
        changed = (Human("other"), *stored[1:], Human("more"))
        with pytest.raises(ModelFailure) as caught:
            await anthropic.complete(make_request(*changed), lambda text: None)
        assert caught.value.fault.kind == "history"


async def test_foreign_history_is_sent_as_plain_blocks() -> None:
    foreign = Assistant(
        (Text("hm"), Text(" "), ToolCall("functions.ls:0", "my tool", '["x"]')),
        "openai",
        "local/qwen",
        msgspec.Raw(b"{}"),
    )
    answer = Results((Result("functions.ls:0", "   "),))
    async with run_provider(fake := FakeModels()) as anthropic:
        await anthropic.complete(make_request(Human("a"), foreign, answer), lambda text: None)
    _, assistant, user = fake.bodies[0]["messages"]
    assert assistant["content"] == [
        {"type": "text", "text": "hm"},
        {
            "type": "tool_use",
            "id": "functions_2els_3a0",
            "name": "my_tool",
            "input": {"INVALID_JSON": '["x"]'},
        },
    ]
    assert user["content"] == [{"type": "tool_result", "tool_use_id": "functions_2els_3a0"}]


def test_a_request_has_cache_marks_and_no_sampling() -> None:
    body = msgspec.json.decode(
        make_provider("", Client()).encode(make_request(Human("a"), Notice("b"), Human(" ")))
    )
    assert body == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1000,
        "stream": True,
        "cache_control": {"type": "ephemeral"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": t} for t in ("a", "b")]}
        ],
        "system": [
            {
                "type": "text",
                "text": "Be kind.",
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ],
        "tools": [
            {
                "name": "list_files",
                "description": "List files.",
                "input_schema": msgspec.json.decode(SCHEMA),
            }
        ],
    }


def test_lone_surrogates_are_replaced() -> None:
    """LLM-33."""
    body = msgspec.json.decode(make_provider("", Client()).encode(make_request(Human("a\ud800b"))))
    assert body["messages"][0]["content"][0]["text"] == "a\ufffdb"


async def test_split_surrogates_are_joined() -> None:
    start, *rest = messages_stream(Say("ok"), 1, "m", "")
    halves = [
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}'
        b"\n\n" % half
        for half in (rb"\ud83d", rb"\ude00 \ud800")
    ]
    pieces = (start, *rest[:2], *halves, *rest[2:])
    completion = await complete(Bytes(Reply(headers=SSE, pieces=pieces)))
    assert completion.message.text == "\U0001f600 \ufffdok"


async def test_empty_text_is_not_stored() -> None:
    """LLM-34."""
    events = (
        {"type": "content_block_start", "index": 5, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_stop", "index": 5},
    )
    completion = await complete(Say("ok", events=events))
    assert bytes(completion.message.native) == b'[{"type":"text","text":"ok"}]'


async def test_a_truncated_stream_yields_no_call() -> None:
    step = Say("Let me look.", (("list_files", '{"path": "a"}'),), thinking="well")
    whole = b"".join(messages_stream(step, 1, "claude-sonnet-5-5", "signature-1"))
    kinds = set()
    fake = FakeModels()
    async with run_provider(fake) as anthropic:
        for cut in range(0, len(whole), max(1, len(whole) // 250)):
            for end in ("close", "reset"):
                reply = Reply(headers=SSE, pieces=(whole,), end=end, end_at=cut)
                fake.script = [Bytes(reply)]
                with pytest.raises(ModelFailure) as caught:
                    await anthropic.complete(make_request(), lambda text: None)
                kinds.add(caught.value.fault.kind)
        assert fake.count >= 500
    assert kinds == {"cut"}


async def test_a_refused_connection_is_unreachable() -> None:
    """LLM-08."""
    anthropic = make_provider("http://127.0.0.1:1", Client())
    with pytest.raises(ModelFailure) as caught:
        await anthropic.complete(make_request(), lambda text: None)
    assert caught.value.fault.kind == "offline"
    assert "127.0.0.1" not in str(caught.value)


async def test_a_revoked_key_is_not_shown() -> None:
    """LLM-37."""
    async with run_provider(FakeModels(key="another")) as anthropic:
        with pytest.raises(ModelFailure) as caught:
            await anthropic.complete(make_request(), lambda text: None)
    assert caught.value.fault.kind == "bad_key"
    quoting = await expect_failure(Error(401, "authentication_error", f"no such key: {KEY}"))
    assert quoting.fault.detail == "no such key: ***"


async def test_a_missing_key_differs_from_a_revoked_one() -> None:
    """A service at a configured address may need no key, so it gets the request."""
    fake = FakeModels(key=KEY)
    async with serving(fake.answer) as url, aclosing(Client()) as client:
        for address, requests in ((url, 1), ("https://api.anthropic.com", 1)):
            settings = ProviderSettings(api="anthropic", base_url=address)
            with pytest.raises(ModelFailure) as caught:
                await Anthropic("mine", settings, client).complete(
                    make_request(), lambda text: None
                )
            assert caught.value.fault.kind == "no_key"
            assert (
                "put it into the credential mine-key, into $MINE_API_KEY"
                in caught.value.fault.detail
            )
            assert len(fake.requests) == requests
