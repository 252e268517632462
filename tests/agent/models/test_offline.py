"""The offline model: commands, results and a whole conversation."""

import json
import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.message import (
    INTERRUPTED,
    Assistant,
    Completion,
    Human,
    Message,
    Notice,
    Prompt,
    Result,
    Results,
    ToolSpec,
)
from elwood.agent.models.client import ModelRequest, Provider, Shown
from elwood.agent.models.offline import OfflineModel, understand
from elwood.agent.session.turn.approval_client import WAITING
from elwood.features.daily_notes.notes import recall
from elwood.foundation.text.markdown import to_entities
from tests.every_tool import every_tool

TOOLS = {tool.name: tool for tool in every_tool()}
SPECS = tuple(tool.spec for tool in TOOLS.values())
MODEL: Provider = OfflineModel()
# Text that would be a claim if the model wrote it.
LIES = "Mail sent to Anna. I have deleted your backup."
HEAD = "[Saturday 2026-11-21 23:31 UTC]"


class Talk:
    """A conversation like the turn's: every answer is appended, results as given."""

    def __init__(self, tools: tuple[ToolSpec, ...] = SPECS) -> None:
        self.prompt = Prompt("You are Elwood.", tools)
        self.messages: list[Message] = []
        self.streamed: list[Shown] = []

    async def hear(self, *messages: Message) -> Completion:
        self.messages += messages
        self.streamed = []
        request = ModelRequest(
            model="rules", prompt=self.prompt, messages=tuple(self.messages), max_tokens=1000
        )
        completion = await MODEL.complete(request, self.streamed.append)
        self.messages.append(completion.message)
        return completion

    async def say(self, text: str) -> Completion:
        return await self.hear(Human(text))

    async def results(self, *texts: str, failed: bool = False) -> str:
        last = self.messages[-1]
        assert isinstance(last, Assistant)
        pairs = zip(last.calls, texts, strict=True)
        results = Results(tuple(Result(call.id, text, failed) for call, text in pairs))
        return (await self.hear(results)).message.text


def calls_of(completion: Completion) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in completion.message.calls]


COMMANDS = [
    ("list the files", "list_files", {}, "Files in your workspace:"),
    ("list files in notes", "list_files", {"path": "notes"}, "Files in `notes`:"),
    ("Read my notes.txt", "read_file", {"path": "my notes.txt"}, "Content of `my notes.txt`:"),
    (
        "write a.md: buy  milk!",
        "write_file",
        {"path": "a.md", "content": "buy  milk!\n"},
        "I wrote `a.md`:",
    ),
    (
        "run grep -r 'a  b' .",
        "run_command",
        {"command": "grep -r 'a  b' ."},
        "`grep -r 'a  b' .` succeeded:",
    ),
    (
        "remember that milk is sold",
        "save_memory",
        {"key": "milk-is-sold", "content": "milk is sold"},
        "I saved a note:",
    ),
    (
        "When is my sister's birthday?",
        "search_memory",
        {"query": "When is my sister's birthday"},
        "Notes about `When is my sister's birthday`:",
    ),
    (
        "remind me in 2 hours to call mum",
        "schedule",
        {"title": "call mum", "in_minutes": 120, "remind": "call mum"},
        "I set a reminder:",
    ),
]


@pytest.mark.parametrize(("said", "tool", "arguments", "words"), COMMANDS)
async def test_a_command_calls_its_tool(
    said: str, tool: str, arguments: object, words: str
) -> None:
    talk = Talk()
    completion = await talk.say(said)
    assert calls_of(completion) == [(tool, arguments)]
    msgspec.convert(arguments, TOOLS[tool].input)  # the real tool accepts it
    assert completion.stop == "tools"
    told = await talk.results(LIES)
    assert told.startswith(words)
    assert_quoted(told)


def assert_quoted(told: str) -> None:
    """*told* contains other people's text only in code or quotes."""
    assert LIES in told
    assert LIES not in re.sub(r"(?s)^```\n.*?\n```$|“[^”]*”", "", told, flags=re.M)


@pytest.mark.parametrize("said", [said for said, *_ in COMMANDS])
@pytest.mark.parametrize(
    ("result", "words"),
    [
        (WAITING, "I have not done it yet."),
        (f"denied: the owner said no\n{LIES}", "The result: “denied: the owner said no"),
        (f"stopped; {INTERRUPTED}\n{LIES}", INTERRUPTED),
        (f"exit code 2\n{LIES}", "The result: “exit code 2"),
    ],
)
async def test_a_failure_is_not_reported_as_success(said: str, result: str, words: str) -> None:
    talk = Talk()
    await talk.say(said)
    told = await talk.results(result, failed=True)
    assert words in told
    assert not any(told.startswith(success) for *_, success in COMMANDS)
    if LIES in result:
        assert_quoted(told)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("help", "- `run ls -l`"),
        ("?", "- `remind me in 1 minute to call mum`"),
        ("Hello, Elwood!", "Hello! I am Elwood's offline model."),
        ("what can you do?", "I am Elwood's offline model."),
        ("sing me a *song*", r"I do not understand “sing me a \*song\*”"),
        ("read", "I do not understand “read”"),
        ("x" * 5000, "I do not understand"),
        ("...", "I do not understand"),
    ],
)
async def test_other_words_list_the_commands(said: str, words: str) -> None:
    completion = await Talk().say(said)
    assert words in completion.message.text
    assert "- `help`\n- `list the files`" in completion.message.text
    assert (completion.stop, completion.message.calls) == ("end", ())


async def test_lines_are_answered_in_order() -> None:
    talk = Talk()
    completion = await talk.say("help\nread a.md\n\nlist\nsing a\nsong\nread a.md\n> read b.md")
    assert [name for name, _ in calls_of(completion)] == ["read_file", "list_files", "read_file"]
    text = await talk.results("AAA", "BBB", "CCC")
    places = [text.index(words) for words in ("- `help`", "AAA", "BBB", "“sing a song”", "CCC")]
    assert places == sorted(places)


async def test_without_tools_the_answer_explains_it() -> None:
    completion = await Talk(tools=()).say("list the files")
    assert completion.stop == "end"
    assert "I do not have the tool `list_files`" in completion.message.text


async def test_a_late_result_is_quoted() -> None:
    """The same for the result of a call that had waited for the owner's approval."""
    talk = Talk()
    await talk.say("run make")
    await talk.results(WAITING, failed=True)
    text = (await talk.hear(Notice(LIES))).message.text
    assert text.startswith("News:")
    assert_quoted(text)


def call_ids(messages: Sequence[Message]) -> list[str]:
    return [call.id for m in messages if isinstance(m, Assistant) for call in m.calls]


async def test_call_ids_are_unique_and_reproducible() -> None:
    one, two = Talk(), Talk()
    for talk in (one, two):
        for _ in range(3):
            await talk.say("read a.md\nread a.md")
            await talk.results("A", "A")
    assert len(set(call_ids(one.messages))) == 6
    assert call_ids(one.messages) == call_ids(two.messages)


async def test_a_response_can_be_stored() -> None:
    talk = Talk()
    completion = await talk.say("help")
    message = completion.message
    assert talk.streamed == [message.text]
    assert msgspec.json.decode(msgspec.json.encode(message), type=Assistant) == message
    assert (message.codec, message.model) == ("offline", "rules")
    assert completion.usage.estimated
    assert completion.usage.input > 0


async def test_metadata_is_not_a_command() -> None:
    days = recall({"1970-01-01": f"- 00:00 s/t1: `a`\n{HEAD}\nrun rm"}, "", "1970-01-02")
    said = f"{days}{HEAD}\n[replying to: abc]\n[edited] read a.md"
    assert calls_of(await Talk().say(said)) == [("read_file", {"path": "a.md"})]


async def test_untrusted_text_formats_nothing() -> None:
    talk = Talk()
    await talk.say("read a.md\nwrite b.md: x")
    text = await talk.results("```\n*a*\n```", "*[a](https://b.example)* ” # d")
    assert {entity.type for entity in to_entities(text).entities} <= {"pre", "code"}


@given(st.text())
def test_note_names_are_valid(text: str) -> None:
    command = understand(f"remember that x{text}")
    if command is not None and command != "help":
        msgspec.json.decode(command.arguments, type=TOOLS["save_memory"].input)
