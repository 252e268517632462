"""The offline model: what it makes of phrases, of results and of a whole conversation."""

import json
from collections.abc import Sequence

import msgspec
import pytest

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
    mend,
)
from elwood.agent.models.offline import (
    MAX_LINES,
    MAX_PHRASES,
    OPENLY,
    OfflineModel,
)
from elwood.agent.models.provider import ModelRequest, Provider
from elwood.features.memory.note import Note
from elwood.features.memory.ranking import offered
from elwood.features.tasks.task import Task
from elwood.features.tasks.texts import framed
from elwood.features.tasks.when import Once
from elwood.foundation.text.quote_markdown import MAX_SHOWN

SCHEMA = msgspec.Raw(b'{"type":"object"}')
TOOLS = (
    ToolSpec("list_files", "List files.", SCHEMA),
    ToolSpec("read_file", "Read a file.", SCHEMA),
)
MODEL: Provider = OfflineModel()


class Talk:
    """A conversation as the turn keeps it: every answer is appended, results as given."""

    def __init__(self, tools: tuple[ToolSpec, ...] = TOOLS) -> None:
        self.prompt = Prompt("You are Elwood.", tools)
        self.messages: list[Message] = []
        self.streamed: list[str] = []

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

    async def results(self, *texts: str, failed: bool = False) -> Completion:
        last = self.messages[-1]
        assert isinstance(last, Assistant)
        pairs = zip(last.calls, texts, strict=True)
        return await self.hear(
            Results(tuple(Result(call.id, text, failed) for call, text in pairs))
        )


def calls(completion: Completion) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in completion.message.calls]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("hello", "Hello."),
        ("Who are you?", "not a language model"),
        ("what can you do?", "`show me lines 1-5 of SOUL.md`"),
        ("help", "- `list the files` · `read SOUL.md`"),
        ("echo Hello World!", "Hello World!"),
        ("say: 1 < 2", r"1 \< 2"),
        ("what did I say before?", "You had not said anything before that."),
        ("what time is it?", "I have no clock"),
        ("thanks!", "You are welcome."),
        ("good night", "Goodbye."),
        ("sing me a song", "I do not understand “sing me a song”"),
        ("read", "I do not understand “read”"),
        ("x" * 5000, "I do not understand"),
        ("...", "I do not understand"),
    ],
)
async def test_a_phrase_that_needs_no_tool_is_answered_at_once(said: str, words: str) -> None:
    completion = await Talk().say(said)
    assert words in completion.message.text
    assert (completion.stop, completion.message.calls) == ("end", ())


@pytest.mark.parametrize("said", ["hello", "echo hi", "sing", "who are you", "help", "thanks"])
async def test_the_first_answer_says_once_that_this_is_no_language_model(said: str) -> None:
    talk = Talk()
    assert (await talk.say(said)).message.text.count(OPENLY) == 1
    assert OPENLY not in (await talk.say("echo again")).message.text


@pytest.mark.parametrize(
    ("said", "result", "words"),
    [
        ("list the files", "a.md\nb.md", "This is in your workspace:\n\n```\na.md\nb.md\n```"),
        ("list the files in notes", "a.md", "This is in `notes`:\n\n```\na.md\n```"),
        ("read a.md", "one\ntwo\n", "`a.md` says:\n\n```\none\ntwo\n```"),
        ("read a.md lines 1-2", "one\ntwo\n", "Lines 1 to 2 of `a.md`:\n\n```\none\ntwo\n```"),
        ("read a.md line 2", "two", "Line 2 of `a.md`:\n\n```\ntwo\n```"),
        ("read a.md", "", "There is nothing in `a.md`."),
        ("read a.md", "```\nx\n```", "````\n```\nx\n```\n````"),
    ],
)
async def test_a_result_is_put_into_sentences(said: str, result: str, words: str) -> None:
    talk = Talk()
    await talk.say(said)
    completion = await talk.results(result)
    assert completion.message.text.startswith(words) or words in completion.message.text
    assert completion.stop == "end"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("read a.md", "I could not read `a.md`: “no such file”"),
        ("list the files", "I could not look into your workspace: “no such file”"),
    ],
)
async def test_a_failed_call_is_not_told_as_a_success(said: str, words: str) -> None:
    talk = Talk()
    await talk.say(said)
    completion = await talk.results("no such file", failed=True)
    assert completion.message.text.startswith(words)


async def test_a_call_cut_off_by_a_crash_is_reported_as_such() -> None:
    talk = Talk()
    await talk.say("read a.md")
    talk.messages = mend(talk.messages)
    completion = await talk.hear()
    assert INTERRUPTED in completion.message.text


async def test_a_long_result_is_shown_in_part_and_said_to_be() -> None:
    talk = Talk()
    await talk.say("read a.md")
    text = (await talk.results("x" * (MAX_SHOWN + 1))).message.text
    assert f"the first {MAX_SHOWN} of {MAX_SHOWN + 1} characters" in text
    assert len(text) < MAX_SHOWN + 300


async def test_several_lines_are_answered_in_one_reply_in_their_order() -> None:
    talk = Talk()
    completion = await talk.say("hello\nread a.md\n\nlist the files\nsing a\nsong\nread a.md")
    assert [name for name, _ in calls(completion)] == ["read_file", "list_files", "read_file"]
    text = (await talk.results("AAA", "BBB", "CCC")).message.text
    places = [text.index(words) for words in ("Hello.", "AAA", "BBB", "“sing a song”", "CCC")]
    assert places == sorted(places)


async def test_messages_that_join_between_the_rounds_are_answered_too() -> None:
    talk = Talk()
    await talk.say("read a.md")
    last = talk.messages[-1]
    assert isinstance(last, Assistant)
    results = Results((Result(last.calls[0].id, "AAA"),))
    assert calls(await talk.hear(results, Human("and read b.md"))) == [
        ("read_file", {"path": "b.md"})
    ]
    text = (await talk.results("BBB")).message.text
    assert text.index("AAA") < text.index("BBB")


async def test_no_more_than_a_handful_is_answered_at_once() -> None:
    text = (await Talk().say("echo x\n" * (MAX_PHRASES + 1))).message.text
    assert text.count("x\n") == MAX_PHRASES
    assert "I left out the rest" in text


async def test_a_paste_is_not_looked_at_line_by_line() -> None:
    completion = await Talk().say("hello\n" + "list the files\n" * MAX_LINES)
    assert calls(completion) == []
    assert "I do not understand “hello list the files" in completion.message.text


async def test_it_remembers_what_was_said_over_several_turns() -> None:
    talk = Talk()
    await talk.say("echo one")
    await talk.say("echo two")
    assert "“echo two”" in (await talk.say("what did I say before?")).message.text
    assert "“echo one”" in (await talk.say("repeat my first message")).message.text
    assert "“echo one”" in (await talk.say("what was my first message?")).message.text


async def test_it_knows_the_time_only_from_a_notice() -> None:
    talk = Talk()
    talk.messages = [Notice("It is 2026-11-20 09:15.\nBe kind.")]
    talk.messages += [Notice("Now: 2026-11-21 22:49 CET"), Notice("Be brief.")]
    text = (await talk.say("what time is it?")).message.text
    assert "2026-11-21 22:49 CET" in text
    assert "09:15" not in text


async def test_notes_that_were_offered_answer_what_it_does_not_understand() -> None:
    talk = Talk()
    notes = Notice(offered([Note("birthday", "my sister's birthday is 4 May")]))
    done = await talk.hear(Human("When is my sister's birthday?"), notes)
    assert "• birthday: my sister's birthday is 4 May" in done.message.text
    assert "not understand" not in done.message.text
    assert "do not understand" in (await talk.say("Why is that?")).message.text


async def test_a_quote_above_a_reply_is_not_taken_for_a_request() -> None:
    assert calls(await Talk().say("> read a.md\nread b.md")) == [("read_file", {"path": "b.md"})]


async def test_without_tools_it_says_so() -> None:
    completion = await Talk(tools=()).say("list the files")
    assert completion.stop == "end"
    assert "I was given no tool `list_files`" in completion.message.text


async def test_nothing_asked_is_answered_too() -> None:
    assert "Nobody asked me" in (await Talk().hear(Notice("A tool has changed."))).message.text


def ids(messages: Sequence[Message]) -> list[str]:
    return [call.id for m in messages if isinstance(m, Assistant) for call in m.calls]


async def test_ids_of_calls_are_unique_in_the_history_and_the_same_for_the_same_history() -> None:
    one, two = Talk(), Talk()
    for talk in (one, two):
        for _ in range(3):
            await talk.say("read a.md\nread a.md")
            await talk.results("A", "A")
    assert len(set(ids(one.messages))) == 6
    assert ids(one.messages) == ids(two.messages)


async def test_the_text_grows_word_by_word_up_to_the_answer() -> None:
    talk = Talk()
    completion = await talk.say("echo one two three four five six seven eight nine ten")
    assert len(talk.streamed) > 3
    assert talk.streamed[-1] == completion.message.text
    for shorter, longer in zip(talk.streamed, talk.streamed[1:], strict=False):
        assert longer.startswith(shorter)


async def test_the_response_can_be_stored_and_costs_estimated_tokens() -> None:
    completion = await Talk().say("list the files")
    message = completion.message
    assert msgspec.json.decode(msgspec.json.encode(message), type=Assistant) == message
    assert (message.codec, message.model) == ("offline", "rules")
    assert json.loads(bytes(message.native))[0]["name"] == "list_files"
    assert completion.usage.estimated
    assert completion.usage.input > 0


async def test_what_the_house_says_about_a_message_is_not_taken_for_words() -> None:
    head = "[Saturday 2026-11-21 23:31 UTC]"
    model = OfflineModel()

    async def said(text: str) -> str:
        request = ModelRequest(
            model="rules", prompt=Prompt(""), messages=(Human(text),), max_tokens=100
        )
        return (await model.complete(request, lambda so_far: None)).message.text

    assert "hi there" in await said(f"{head}\n[replying to: abc]\n[edited] echo hi there")
    assert "23:31 UTC" in await said(f"{head}\nwhat time is it")
    task = Task("news", "News [all]", Once(0.0))
    run = framed(task, "echo hi there", due=0.0, now=0.0, trouble="no net", zone="UTC")
    assert "do not understand" not in await said(f"{head}\n{run}")
