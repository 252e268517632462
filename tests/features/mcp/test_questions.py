"""Questions of a server to the owner during a call; resources, and prompts."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from elwood.app.main import FEATURES
from elwood.features.console.feature import FEATURE as console
from elwood.features.mcp.questions import ServerQuestion, answer_to, questions
from elwood.features.mcp.results import format_completions
from elwood.foundation.net.control import ask
from tests.agent.session.scripted import last_message
from tests.features.mcp.fake_server import DO, ECHO
from tests.features.mcp.house import House, fake, living

FORM = {
    "message": "Where to?",
    "requestedSchema": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome", "Paris"]}},
        "required": ["city"],
    },
}


def form(
    *, message: str = "Well?", required: tuple[str, ...] = (), **fields: Any
) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return {"message": message, "requestedSchema": schema}


def asked(given: dict[str, Any]) -> list[ServerQuestion]:
    found = questions("trips", given)
    assert isinstance(found, list)
    return found


async def ask_in_a_call(house: House, old: bool) -> str:
    """Make the server ask in a call; return the question shown to the owner."""
    steps: list[object] = [["ask", 7, "elicitation/create", FORM]]
    if not old:
        request = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}
        wanted = {"resultType": "input_required", "inputRequests": {"q": request}}
        steps = [["result", wanted]]
    await house.line.say(f"call fake__do {json.dumps({'steps': steps})}")
    return await house.line.hear(lambda said: "The MCP server fake asks" in said)


@pytest.mark.parametrize("old", [False, True])
async def test_a_server_asks_and_the_owner_answers(tmp_path: Path, old: bool) -> None:
    pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")
    async with living(tmp_path, fake=fake({"old": old})) as house:
        await house.until("/mcp show fake", ": ready;")
        told = await ask_in_a_call(house, old)
        assert "The MCP server fake asks: Where to?" in told
        assert "city (one of Rome, Paris)" in told
        said = await house.ask("/mcp answer fake London")
        assert said == "I could not send that answer: city must be one of Rome, Paris."
        await house.line.say("/mcp answer fake Rome")
        answered = await house.line.hear(lambda said: "answered (not instr" in said)
        assert '"action": "accept"' in answered.replace('":"', '": "')
        assert "Rome" in answered
        assert "is not waiting for an answer" in await house.ask("/mcp answer fake Rome")
        await ask_in_a_call(house, old)
        await house.line.say("/mcp decline fake")
        answered = await house.line.hear(lambda said: "answered (not instr" in said)
        assert "decline" in answered


async def test_a_form_is_asked_step_by_step_where_the_call_was_made(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")
    trip = form(required=("city", "sure"), city={"type": "string"}, sure={"type": "boolean"})
    async with living(tmp_path, fake=fake({"old": True})) as house:
        await house.until("/mcp show fake", ": ready;")
        steps = [["ask", 7, "elicitation/create", trip]]
        await house.line.say(f"call fake__do {json.dumps({'steps': steps})}")
        first = await house.line.hear(lambda said: "1 of 2: city (string)" in said)
        assert "The MCP server fake asks: Well?" in first
        await house.line.say("/mcp answer fake Rome")
        await house.line.hear(lambda said: "2 of 2: sure (one of yes, no)" in said)
        await house.line.say("/mcp answer fake no")
        answered = await house.line.hear(lambda said: "answered (not instr" in said)
        assert '"city":"Rome","sure":false' in answered.replace('": ', '":').replace(", ", ",")


def test_a_question_names_the_server_and_hides_nothing() -> None:
    [found] = asked(
        form(
            message="Say\u202e yes", required=("sure",), sure={"type": "boolean", "title": "Sure?"}
        )
    )
    assert (
        found.words == "The MCP server trips asks: Say⟨U+202E⟩ yes\n- sure (one of yes, no) Sure?"
    )
    assert found.buttons == ("/mcp answer trips yes", "/mcp answer trips no", "/mcp decline trips")
    assert asked(form())[0].buttons == ("/mcp answer trips yes", "/mcp decline trips")
    [url] = asked({"mode": "url", "message": "Log in", "url": "https://example.org/x?y=1"})
    assert "asks you to open a page of example.org: https://example.org/x?y=1" in url.words


@pytest.mark.parametrize(
    "given",
    [
        form(message="Your password, please"),
        form(api_key={"type": "string"}),
        form(x={"type": "string", "title": "PIN"}),
        form(x={"type": "string", "description": "the credit card number"}),
    ],
)
def test_mcp_26_questions_for_secrets_are_declined(given: dict[str, Any]) -> None:
    assert questions("trips", given) == "it asked for a secret, and I never send secrets in a form"


def test_answers_are_parsed_by_the_type_of_each_field() -> None:
    fields: dict[str, Any] = {
        "name": {"type": "string"},
        "age": {"type": "integer", "default": 30},
        "share": {"type": "number"},
        "news": {"type": "boolean"},
        "sizes": {"type": "array", "items": {"enum": ["s", "m", "l"]}},
        "way": {"type": "string", "oneOf": [{"const": "air", "title": "By air"}]},
    }
    steps = asked(form(required=("name",), **fields))
    assert [step.name for step in steps] == [*fields]
    assert "2 of 6: age (integer, default 30)" in steps[1].words
    assert "/mcp answer trips" in steps[1].buttons
    assert steps[3].buttons[:2] == ("/mcp answer trips yes", "/mcp answer trips no")
    assert "Answer with /mcp answer trips …, …" in steps[4].words
    texts = ("Ann", "", "0.5", "yes", "s, l", "air")
    assert [answer_to(*one) for one in zip(steps, texts, strict=True)] == [
        {"name": "Ann"},
        {"age": 30},
        {"share": 0.5},
        {"news": True},
        {"sizes": ["s", "l"]},
        {"way": "air"},
    ]
    assert answer_to(steps[2], "") == {}
    for number, wrong, why in (
        (0, "", "name is missing"),
        (1, "x", "age must be a whole number"),
        (3, "maybe", "news must be yes or no"),
        (4, "xl", "sizes must be one or more of s, m, l"),
        (5, "sea", "way must be one of air"),
    ):
        assert answer_to(steps[number], wrong) == why


async def test_resources_and_prompts_are_read(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")
    async with living(tmp_path, fake=fake()) as house:
        await house.until("/mcp show fake", ": ready;")
        listed = await house.call("read_resource", server="fake")
        assert "- note://1: first; a note\n- note://{number}: any" in listed
        assert "note://1:\nwhat is in it" in await house.call(
            "read_resource", server="fake", uri="note://1"
        )
        assert "- weather: weather; of a city; arguments: city" in await house.call(
            "read_prompt", server="fake"
        )
        filled = await house.call(
            "read_prompt", server="fake", name="weather", arguments={"city": "Rome"}
        )
        assert "user: Say how the weather is in Rome." in filled
        assert "there is no MCP server far; there is: fake" in await house.call(
            "read_resource", server="far"
        )
        await house.ask("/prompt fake weather city=Rome")
        said = last_message(house.model.asked[-1].messages)
        assert "Read the prompt weather of the MCP server fake with read_prompt" in str(said)
        assert "Its arguments are: city=Rome" in str(said)


async def list_completions(house: House) -> dict[str, str]:
    """Return the completions of the fake server, as a terminal gets them."""
    while not (house.runtime / "control.sock").is_socket():
        await house.ask("/mcp")  # the app is starting
    answer = await trio.to_thread.run_sync(ask, house.runtime, "commands")
    assert answer.ok, answer.text
    listed = msgspec.json.decode(answer.text, type=dict[str, str])
    return {name: text for name, text in listed.items() if "fake:" in name}


async def test_a_terminal_completes_resources_and_prompts(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")
    features = (*FEATURES, console)
    completions = {
        "@fake:note://1": "first; a note",
        "@fake:note://{number}": "any",
        "fake:weather": "weather; of a city; arguments: city",
    }
    async with living(tmp_path, features=features, fake=fake()) as house:
        await house.until("/mcp show fake", ": ready;")
        await house.call("read_resource", server="fake")  # the server answers one after another
        assert await list_completions(house) == completions
        await house.ask("/fake:weather city=Rome in May")
        said = str(last_message(house.model.asked[-1].messages))
        assert "Read the prompt weather of the MCP server fake with read_prompt" in said
        assert "Its arguments are: city=Rome in May" in said
        [reader] = [one for one in house.model.asked[-1].prompt.tools if "_resource" in one.name]
        assert "`@SERVER:URI` in a message names the resource" in reader.description
        turns = len(house.model.asked)
        await house.ask("/far:weather")
        assert len(house.model.asked) == turns
        await house.ask("/mcp disable fake")
        assert await list_completions(house) == {}
        await house.ask("/mcp enable fake")
    # After a restart they are known before the server is connected.
    async with living(tmp_path, features=features, fake=fake(start="on_demand")) as house:
        assert await list_completions(house) == completions
        assert "not started" in await house.ask("/mcp")


def test_strange_names_are_not_completed() -> None:
    names = ["ok", "two words", "con\x1btrol", "x" * 201, ""]
    resources = [{"uri": one, "name": "a\nb" * 100} for one in names]
    found = format_completions("s", resources, [{"name": f"p{one}"} for one in range(200)])
    assert list(found)[:2] == ["@s:ok", "s:p0"]
    assert len(found) == 100
    assert all(len(text) <= 100 and "\n" not in text for text in found.values())


@pytest.mark.parametrize("old", [False, True])
async def test_a_server_announces_changed_tools(tmp_path: Path, old: bool) -> None:
    pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")
    async with living(tmp_path, fake=fake({"old": old})) as house:
        await house.until("/mcp show fake", ": ready;")
        await house.do(["tools", [DO, ECHO, {**ECHO, "name": "new"}]], ["text", "x"])
        assert "new: off until you accept it" in await house.until("/mcp show fake", "new")
