"""Phrases: what each asks for, as calls that the real tools understand."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.message import Result
from elwood.agent.models.offline_steps import (
    TESTS,
    Wish,
    how_tests_run,
    step,
    wish,
)
from elwood.agent.models.phrase_doing import key
from elwood.agent.models.phrases import (
    EXAMPLES,
    MAX_PHRASE,
    Unknown,
    examples,
    understand,
)
from elwood.app.builtin_tools import builtin
from elwood.features.memory.tools import SaveMemory

TOOLS = {tool.name: tool for tool in builtin()}
HITS = "Results:\n\n1. Tea\n   https://tea.example/\n   About tea.\n\n(end of the results)"


def first(said: str) -> tuple[str, object]:
    """Return the first call for a phrase, which its tool must understand."""
    call = step(understand(said), [])
    assert isinstance(call, Wish), said
    arguments = json.loads(call.arguments)
    msgspec.convert(arguments, TOOLS[call.name].input)
    return call.name, arguments


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("list the files", None),
        ("Which files are in my workspace?", None),
        ("what's in my workspace", None),
        ("ls", None),
        ("list the files in .", "."),
        ("list the files in notes", "notes"),
        ("In notes, list the files!", "notes"),
        ("what is in the notes folder?", "notes"),
        ('could you please list the files in "my notes"?', "my notes"),
        ("read notes/", "notes/"),
    ],
)
def test_folders_are_listed(said: str, path: str | None) -> None:
    assert first(said) == ("list_files", {} if path is None else {"path": path})


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("read SOUL.md", {"path": "SOUL.md"}),
        ("Elwood, would you read me the file SOUL.md, please.", {"path": "SOUL.md"}),
        ("what is in SOUL.md?", {"path": "SOUL.md"}),
        ("what does `my notes.txt` say", {"path": "my notes.txt"}),
        ("SOUL.md: read it", {"path": "SOUL.md"}),
        ("cat ../../etc/passwd", {"path": "../../etc/passwd"}),
        ("show me lines 2 to 4 of a.md", {"path": "a.md", "offset": 2, "limit": 3}),
        ("read a.md lines 2-4", {"path": "a.md", "offset": 2, "limit": 3}),
        ("from a.md, read lines 2-4", {"path": "a.md", "offset": 2, "limit": 3}),
        ("line 7 of a.md", {"path": "a.md", "offset": 7, "limit": 1}),
        ("read the first 9 lines of a.md", {"path": "a.md", "offset": 1, "limit": 9}),
        ("read lines 0-9999 of a.md", {"path": "a.md", "offset": 1, "limit": 2000}),
    ],
)
def test_files_are_read(said: str, arguments: object) -> None:
    assert first(said) == ("read_file", arguments)


@pytest.mark.parametrize(
    ("said", "path", "content"),
    [
        ("write notes.txt: buy milk!", "notes.txt", "buy milk!\n"),
        ("Please write a file called a.md with: one,  two", "a.md", "one,  two\n"),
        ('save "buy milk" to lists/a.txt.', "lists/a.txt", "buy milk\n"),
        ("write `Makefile`: test:; true", "Makefile", "test:; true\n"),
    ],
)
def test_files_are_written_with_every_character(said: str, path: str, content: str) -> None:
    assert first(said) == ("write_file", {"path": path, "content": content})


@pytest.mark.parametrize(
    ("said", "old", "new"),
    [
        ("replace milk with tea in a.txt", "milk", "tea"),
        ('replace "a with b" by "c in d" in a.txt.', "a with b", "c in d"),
        ("in a.txt, replace milk with tea", "milk", "tea"),
        ("change 1.0 to 1.1 in the file a.txt", "1.0", "1.1"),
    ],
)
def test_files_are_changed(said: str, old: str, new: str) -> None:
    assert first(said) == ("edit_file", {"path": "a.txt", "old": old, "new": new})


@pytest.mark.parametrize(
    ("said", "tool", "arguments"),
    [
        ("find *.md", "find", {"name": "*.md"}),
        ("find all files named README", "find", {"name": "*README*"}),
        ("find src/*.py", "find", {"name": "*.py", "path": "src"}),
        ("find *.py in src", "find", {"name": "*.py", "path": "src"}),
        ("where's notes.txt?", "find", {"name": "notes.txt"}),
        ("search for TODO", "grep", {"pattern": "TODO"}),
        ("search my files for milk?", "grep", {"pattern": "milk"}),
        ('search for "f(x)" in src', "grep", {"pattern": r"f\(x\)", "path": "src"}),
        ("grep ^def in src", "grep", {"pattern": "^def", "path": "src"}),
        ("grep TODO src", "grep", {"pattern": "TODO", "path": "src"}),
        ("which files contain milk?", "grep", {"pattern": "milk"}),
    ],
)
def test_files_are_searched(said: str, tool: str, arguments: object) -> None:
    assert first(said) == (tool, arguments)


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("run ls -l", "ls -l"),
        ("run `make test`, please.", "make test"),
        ("please execute: grep  -r 'a  b' .", "grep  -r 'a  b' ."),
        ("run the command ls", "ls"),
        ("$ echo hi | wc", "echo hi | wc"),
    ],
)
def test_commands_are_run_as_they_are_written(said: str, command: str) -> None:
    assert first(said) == ("run_command", {"command": command})


@pytest.mark.parametrize("said", ["run", "run it", "run a quick check", "execute the plan"])
def test_words_that_are_no_command_are_not_run(said: str) -> None:
    assert "That is no command" in str(step(understand(said), []))


@pytest.mark.parametrize(
    "said", ["run the tests", "please run all my tests!", "run the test suite"]
)
def test_the_tests_are_run_if_the_workspace_shows_how(said: str) -> None:
    phrase = understand(said)
    assert first(said) == ("list_files", {})
    for name, command in TESTS:
        listing = Result("c", f"src/\n{name} (1,200 bytes)\nnotes.txt (1 bytes)")
        run = step(phrase, [listing])
        assert run == step(understand(f"run `{command}`"), [])
        assert "exit code 1" in str(step(phrase, [listing, Result("d", "exit code 1", True)]))
    assert "cannot tell" in str(step(phrase, [Result("c", "Makefile/\nnotes.txt (1 bytes)")]))
    assert "could not look" in str(step(phrase, [Result("c", "it is gone", failed=True)]))
    assert how_tests_run("Makefile (link to outside)") is None


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("search the web for green tea", "green tea"),
        ("look up green tea on the internet", "green tea"),
        ('Google "green tea"!', "green tea"),
    ],
)
def test_the_web_is_searched(said: str, query: str) -> None:
    assert first(said) == ("web_search", {"query": query})
    told = step(understand(said), [Result("c", HITS)])
    assert "https://tea.example/" in str(told)
    for end in (
        " and summarise the first hit",
        ", then read the top result",
        " and open the first",
    ):
        phrase = understand(f"{said.rstrip('!')}{end}")
        assert step(phrase, []) == wish("web_search", query=query)
        fetch = step(phrase, [Result("c", HITS)])
        assert fetch == Wish("web_fetch", '{"url":"https://tea.example/"}')
        assert "has no results" in str(step(phrase, [Result("c", "The web search found nothing.")]))
        assert "could not search" in str(step(phrase, [Result("c", "no key", failed=True)]))


@pytest.mark.parametrize(
    "said",
    [
        "fetch https://a.example/x?y=1.",
        "please read <https://a.example/x?y=1>",
        "https://a.example/x?y=1",
        "summarise https://a.example/x?y=1",
        "tell me what https://a.example/x?y=1 says",
    ],
)
def test_pages_are_fetched(said: str) -> None:
    assert first(said) == ("web_fetch", {"url": "https://a.example/x?y=1"})


@pytest.mark.parametrize(
    ("said", "method", "body", "kind"),
    [
        ('post {"a": 1} to https://a.example/x', "POST", '{"a": 1}', "application/json"),
        ("put hello there to https://a.example/x.", "PUT", "hello there", "text/plain"),
        ("patch https://a.example/x: [1]", "PATCH", "[1]", "application/json"),
        ("delete https://a.example/x", "DELETE", "", "text/plain"),
    ],
)
def test_requests_are_sent(said: str, method: str, body: str, kind: str) -> None:
    arguments = {"method": method, "url": "https://a.example/x", "body": body, "content_type": kind}
    assert first(said) == ("web_request", arguments)


@pytest.mark.parametrize(
    ("said", "text", "files", "to"),
    [
        ("send me notes.txt", "", ["notes.txt"], "here"),
        ("could you send me a.txt and b/c.md?", "", ["a.txt", "b/c.md"], "here"),
        ('send "my file" to the owner', "", ["my file"], "owner"),
        ("send a message to tg:12: I am late.", "I am late.", [], "tg:12"),
        ("tell the owner that I am late.", "I am late.", [], "owner"),
    ],
)
def test_messages_are_sent(said: str, text: str, files: list[str], to: str) -> None:
    assert first(said) == ("send_message", {"text": text, "to": to, "files": files})


@pytest.mark.parametrize(
    ("said", "question", "options"),
    [
        ("ask me whether tea or coffee", "Tea or coffee?", ["tea", "coffee"]),
        ("ask me: red, green, or blue?", "Red, green, or blue?", ["red", "green", "blue"]),
        ("ask me whether it rains", "It rains?", ["yes", "no"]),
        ("ask me: how are you?", "How are you?", []),
        ("ask me whether " + "long " * 20 + "or short", None, []),
        ("ask me: a, b, c, d, e, f or g", "A, b, c, d, e, f or g?", []),
    ],
)
def test_questions_are_asked(said: str, question: str | None, options: list[str]) -> None:
    tool, arguments = first(said)
    assert isinstance(arguments, dict)
    assert (tool, arguments["options"]) == ("ask_user", options)
    assert question in (None, arguments["question"])


def test_facts_are_remembered_and_looked_up() -> None:
    assert first("Remember that my sister\u2019s birthday is 4 May.") == (
        "save_memory",
        {"key": "my-sisters-birthday-is-4-may", "content": "my sister's birthday is 4 May."},
    )
    for said in ("what do you know about my sister?", "search your memory for my sister"):
        assert first(said) == ("search_memory", {"query": "my sister"})


@given(st.text(min_size=1, max_size=MAX_PHRASE))
def test_every_fact_has_a_name(text: str) -> None:
    msgspec.convert({"key": key(text), "content": text}, SaveMemory)


def test_facts_that_differ_in_what_a_name_cannot_hold_have_other_names() -> None:
    assert key("Аня likes tea") != key("Оля likes tea")
    assert key("x " * 50 + "a") != key("x " * 50 + "b")
    assert key("Müller is café") == "muller-is-cafe"


EVERY_EXAMPLE = [example for line in EXAMPLES for example in line]


@pytest.mark.parametrize(("tool", "text"), EVERY_EXAMPLE)
def test_each_example_is_understood(tool: str, text: str) -> None:
    phrase = understand(text)
    assert not isinstance(phrase, Unknown)
    calls = (step(phrase, []), step(phrase, [Result("c", "Makefile (1 bytes)")]))
    names = {call.name for call in calls if isinstance(call, Wish)}
    assert tool in (names or {""})


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("remind me in 1 minute to call mum", {"in_minutes": 1, "remind": "call mum"}),
        (
            "Please remind me in 2 days to water the plants, please.",
            {"in_minutes": 2880, "remind": "water the plants"},
        ),
        ("remind me to call mum at 2026-12-24 18:00", {"at": "2026-12-24 18:00"}),
        (
            "Every 20 minutes: run `ls -l`",
            {"every": {"n": 20, "unit": "minute"}, "do": "run `ls -l`"},
        ),
        ("in 5 minutes list the files", {"in_minutes": 5, "do": "list the files"}),
        (
            "every day list the files with the cheap model, for at most $0.05 a day",
            {"do": "list the files", "cheap": True, "budget_usd": 0.05},
        ),
        (
            "every day list the files for at most $2 per day",
            {"do": "list the files", "cheap": False, "budget_usd": 2.0},
        ),
    ],
)
def test_reminders_and_jobs_are_planned(said: str, arguments: dict[str, object]) -> None:
    name, given = first(said)

    assert name == "schedule"
    assert isinstance(given, dict)
    assert given["title"] == (given.get("remind") or given["do"])
    assert {key: given[key] for key in arguments} == arguments


@pytest.mark.parametrize(
    ("said", "tool", "arguments"),
    [
        ("list my tasks", "list_tasks", {}),
        ("What's scheduled?", "list_tasks", {}),
        ("show me the reminders", "list_tasks", {}),
        ("cancel task call-mum", "cancel_task", {"task": "call-mum"}),
        ("delete the reminder call mum.", "cancel_task", {"task": "call mum"}),
        ("pause the inbox task", "pause_task", {"task": "inbox"}),
        ("resume task inbox", "resume_task", {"task": "inbox"}),
        (
            "In notes.txt replace a with b",
            "edit_file",
            {"path": "notes.txt", "old": "a", "new": "b"},
        ),
        (
            "write notes.txt: remind me at nine",
            "write_file",
            {"path": "notes.txt", "content": "remind me at nine\n"},
        ),
    ],
)
def test_what_is_planned_is_listed_and_changed(said: str, tool: str, arguments: object) -> None:
    assert first(said) == (tool, arguments)


@pytest.mark.parametrize("said", ["remind me", "remind me to call mum", "on Monday", "resume it"])
def test_no_time_is_guessed(said: str) -> None:
    assert isinstance(understand(said), Unknown)


def test_only_what_there_are_tools_for_is_offered_and_it_fits_on_a_screen() -> None:
    assert examples(TOOLS).count("\n") < 10
    assert "run" not in examples(set(TOOLS) - {"run_command"})
    assert set(re.findall(r"`([^`]*)`", examples(TOOLS))) == {text for _, text in EVERY_EXAMPLE}


@given(st.text(max_size=MAX_PHRASE))
def test_every_line_is_understood_somehow(line: str) -> None:
    step(understand(line), [])


WORDS = (
    "run write replace with in to find search for the web and summarise first hit send me ask "
    "whether or remember that a.txt https://a.example \" ' ` : , . change tests read of please"
)


@given(st.lists(st.sampled_from(WORDS.split()), max_size=40).map(" ".join))
def test_whatever_is_called_is_a_tool_and_a_call_of_it_can_be_read(line: str) -> None:
    call = step(understand(line), [])
    if isinstance(call, Wish):
        msgspec.convert(json.loads(call.arguments), TOOLS[call.name].input)
