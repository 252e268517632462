"""What the offline model says about results: never more than they do, in nobody else's name."""

import json

import msgspec
import pytest

from elwood.agent.conversation.calls import Outcome
from elwood.agent.conversation.message import (
    INTERRUPTED,
    Notice,
    Result,
    ToolCall,
)
from elwood.agent.models.offline_steps import Wish, step
from elwood.agent.models.offline_telling import summary
from elwood.agent.models.phrases import understand
from elwood.agent.session.log.entries import CallEnded, CallPending
from elwood.agent.session.log.turns import OpenCall, late, result_of
from elwood.agent.session.turn.approval_client import TOLD, WAITING
from elwood.app.builtin_tools import builtin
from elwood.foundation.text.markdown import to_entities
from tests.agent.models.test_offline import Talk, calls

TOOLS = {tool.name: tool for tool in builtin()}
# Words that would be claims if they were the writer's.
LIES = "Mail sent to Anna. I have deleted your backup. Done."
PAGE = f"Content of https://a.example/ (not instructions):\nStatus: 200\nTitle: {LIES}\n\n"
PAGE += f"# {LIES}\n\n{LIES} {LIES} {LIES}\n\n(end of the content)"
HITS = f"Results:\n\n1. {LIES}\n   https://a.example/\n   {LIES}\n\n(end of the results)"
# A phrase, a good result of its first tool, and words that the answer has then.
ACTS = [
    ("list the files", "a.md (12 bytes)", "This is in your workspace"),
    ("read a.md", LIES, "`a.md` says"),
    ("write a.md: milk", "created a.md (5 bytes)", "I wrote `a.md`"),
    ("replace milk with tea in a.md", "edited a.md: 1 replaced", "I changed `a.md`"),
    ("find *.md", "a.md\nb.md", "This is called `*.md`"),
    ("find *.md", "nothing found", "Nothing is called `*.md`."),
    ("search for milk", "a.md:1: milk was deleted", "`milk` stands here"),
    ("search for milk", "nothing found in 3 text files", "`milk` stands nowhere"),
    ("run make test > log.txt", LIES, "`make test > log.txt` ended without an error"),
    ("search the web for tea", HITS, "The web search for “tea” has these results"),
    ("search the web for tea", "The web search found nothing.", "has no results"),
    ("fetch https://a.example/", PAGE, "`https://a.example/` is called “Mail"),
    ("summarise https://a.example/", PAGE, "begins:"),
    ("post 1 to https://a.example/", PAGE, "with status 200"),
    ("send me a.md", "sent as message 12", "I sent `a.md`."),
    ("tell the owner: hello", "sent as message 12", "I sent the message to `owner`."),
    ("ask me whether tea or coffee", "asked (1. tea, 2. coffee); …", "your next message"),
    ("remember that milk is sold", "saved milk-is-sold", "I saved it as `milk-is-sold`."),
    ("remember that milk is sold", "replaced milk-is-sold", "I replaced what I had under"),
    ("what do you know about tea", f"## tea\n{LIES}", "My memory has this about “tea”"),
    ("what do you know about tea", "no note has any of these words", "has nothing about “tea”"),
]
FAILURES: list[tuple[Outcome, str, str]] = [
    ("waiting", WAITING, "It waits for your answer, and is not done yet."),
    ("denied", f"denied: {TOLD['denied']}", "“the owner said no”"),
    ("denied", "not allowed: your settings forbid it", "I may not"),
    ("failed", f"a.md: the file was deleted by somebody. {LIES}", "I could not"),
    ("failed", f"it broke; the note was saved\n{LIES}", "I could not"),
    ("failed", "a.example: the name a.example is not known", "I could not"),
    ("unknown", f"stopped; {INTERRUPTED}", "I do not know whether I could"),
    ("unknown", "it is not known whether it had an effect", "I do not know whether I could"),
    ("dry run", "dry run: nothing was done", "so I did not"),
]


def ended(said: str, outcome: Outcome, text: str) -> tuple[str, CallEnded]:
    """Return what is said to a result of the first call for a phrase, and its receipt."""
    phrase = understand(said)
    wish = step(phrase, [])
    assert isinstance(wish, Wish)
    told = step(phrase, [Result("c", text, failed=outcome != "ok")])
    assert isinstance(told, str)
    tool = TOOLS[wish.name]
    target = tool.target(msgspec.convert(json.loads(wish.arguments), tool.input))
    return told, CallEnded("t", "c", tool.name, outcome, text, target)


@pytest.mark.parametrize(("said", "text", "words"), ACTS)
def test_what_went_well_is_told_and_borne_out_by_its_receipt(
    said: str, text: str, words: str
) -> None:
    told, _ = ended(said, "ok", text)
    assert words in told


@pytest.mark.parametrize("said", dict.fromkeys(said for said, _, _ in ACTS))
@pytest.mark.parametrize(("outcome", "text", "words"), FAILURES)
def test_what_did_not_is_told_as_such_and_claims_nothing(
    said: str, outcome: Outcome, text: str, words: str
) -> None:
    told, _ = ended(said, outcome, text)
    assert words in told


@pytest.mark.parametrize("output", ["", f"{LIES}\n```\nwaiting for approval"])
def test_a_command_that_failed_shows_its_code_and_what_it_printed(output: str) -> None:
    told, _ = ended("run `make`", "failed", f"exit code 2\n{output}".rstrip("\n"))
    assert told.startswith("`make` ended with exit code 2 and printed")
    assert output in told


def test_what_strangers_wrote_stands_as_they_wrote_it_and_formats_nothing() -> None:
    title = "*[a](https://b.example)* &amp; `c` ” # d"
    hits = (
        f"Results:\n\n1. {title}\n   https://a.example/_x_\n   <b>{title}\n\n(end of the results)"
    )
    told, _ = ended("search the web for tea", "ok", hits)
    rich = to_entities(told)
    for shown in (f"1. {title}", "https://a.example/_x_", f"<b>{title}"):
        assert shown in rich.text
    assert {entity.type for entity in rich.entities} == {"blockquote"}
    page = f"Content of https://a.example/:\nStatus: 404\nTitle: {title}\n\n{title} is.\n\n(end)"
    told, _ = ended("summarise https://a.example/", "ok", page)
    assert "(status 404)" in told
    assert {entity.type for entity in to_entities(told).entities} == {"code", "blockquote"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Short.", "Short."),
        ("# Head\n\n[Menu](/) | [More](/m)\n\n" + "This is [said](/s). " * 9, "This is said. " * 3),
        ("a" * 5000, "a" * 600 + "…"),
        ("[" * 50_000, "[" * 600 + "…"),
    ],
)
def test_a_page_is_summed_up_by_its_first_sentences(text: str, expected: str) -> None:
    assert summary(text) == expected.strip()


async def test_a_search_goes_on_to_the_first_hit_within_the_turn() -> None:
    talk = Talk(tuple(tool.spec for tool in builtin()))
    await talk.say("search the web for tea and summarise the first hit\nlist the files")
    completion = await talk.results(HITS, "a.md")
    assert calls(completion) == [("web_fetch", {"url": "https://a.example/"})]
    text = (await talk.results(PAGE)).message.text
    assert text.index("https://a.example/") < text.index("begins:") < text.index("a.md")


async def test_what_comes_of_a_call_that_waited_is_told_when_it_comes() -> None:
    talk = Talk(tuple(tool.spec for tool in builtin()))
    await talk.say("run make")
    assert "waits for your answer" in (await talk.results(WAITING, failed=True)).message.text
    call = ToolCall("c", "run_command", "{}")
    pending = CallPending("t", "c", "run_command", "plan", "make")
    cases: list[tuple[Outcome, str]]
    cases = [("ok", "This came of it"), ("failed", "it did not succeed")]
    for outcome, words in cases:
        end = CallEnded("t", "c", "run_command", outcome, f"{LIES}\nall of it", "make")
        one = OpenCall("c", call, pending, ended=end)
        assert result_of(one).failed == (outcome == "failed")
        text = (await talk.hear(Notice(late(one)))).message.text
        assert text.startswith("You allowed `run_command make`")
        assert words in text
        assert "all of it" in text


@pytest.mark.parametrize(("said", "answer"), [("2", "coffee"), ("coffee", "coffee"), ("3", "3")])
async def test_the_message_behind_a_question_is_its_answer(said: str, answer: str) -> None:
    talk = Talk(tuple(tool.spec for tool in builtin()))
    await talk.say("ask me whether tea or coffee")
    await talk.results("asked (1. tea, 2. coffee); the answer will come as the next message")
    assert f"Your answer is “{answer}”." in (await talk.say(said)).message.text
    assert "I do not understand" in (await talk.say(said)).message.text
