"""What the offline model does for a phrase: which tool it calls next, until it can answer.

A step is found from the phrase and the results so far, so that it is the same after a restart.
"""

import re
from collections.abc import Sequence
from typing import assert_never

import attrs
import msgspec

from elwood.agent.conversation.message import Result
from elwood.agent.models.offline_telling import (
    found_on_web,
    tell,
    tell_first_hit,
    trouble,
)
from elwood.agent.models.phrase_doing import (
    Ask,
    Fetch,
    LookUp,
    Remember,
    Request,
    Run,
    RunTests,
    SearchWeb,
    Send,
)
from elwood.agent.models.phrase_files import (
    EditFile,
    FindFiles,
    ListFiles,
    ReadFile,
    SearchFiles,
    WriteFile,
)
from elwood.agent.models.phrase_tasks import ChangePlan, ListPlans, Plan
from elwood.agent.models.phrases import (
    Echo,
    Phrase,
    Recall,
    Talk,
    Unknown,
)

# Lines that are asked for at once: as many as the tool gives.
MAX_LINES = 2000

# How tests are run where a file of this name stands in the workspace; the first counts.
TESTS = (
    ("Makefile", "make test"),
    ("package.json", "npm test"),
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("pyproject.toml", "python3 -m pytest"),
    ("pytest.ini", "python3 -m pytest"),
    ("setup.cfg", "python3 -m pytest"),
    ("tox.ini", "python3 -m pytest"),
)
_HOW = "Write the command, as in “run `make test`”."

Argument = object


@attrs.frozen
class Wish:
    """A tool wanted with arguments; equal wishes are told apart by their order only."""

    name: str
    arguments: str


def wish(tool: str, /, **arguments: Argument) -> Wish:
    """Make a wish for *tool*; its arguments as JSON.

    >>> wish("read_file", path="a.md")
    Wish(name='read_file', arguments='{"path":"a.md"}')
    """
    return Wish(tool, msgspec.json.encode(arguments).decode())


def step(phrase: Phrase, done: Sequence[Result]) -> Wish | str | None:
    """Return what to call next, or what to say; None if *phrase* is for no tool.

    *done* are the results of the steps before, in their order.
    """
    match phrase, done:
        case RunTests(), []:
            return wish("list_files")
        case RunTests(), [listing, *rest]:
            if listing.failed:
                return trouble("look how the tests are run", listing.text)
            command = how_tests_run(listing.text)
            if command is None:
                return f"I cannot tell from the workspace how its tests are run. {_HOW}"
            return step(Run(command), rest)
        case SearchWeb(reads=True), [hits, *rest] if not hits.failed:
            found = found_on_web(hits.text)
            if not found:
                return tell(phrase, hits)
            return tell_first_hit(phrase, found[0], rest[0]) if rest else _fetch(found[0].url)
        case Run(""), _:
            return f"That is no command that I could run. {_HOW}"
        case _, [result, *_]:
            return tell(phrase, result)
        case _:
            return _first(phrase)


def how_tests_run(listing: str) -> str | None:
    """Guess from a listing of the workspace by which command the tests are run; None if unclear.

    >>> how_tests_run("src/\\nMakefile (12 bytes)"), how_tests_run("notes.txt (3 bytes)")
    ('make test', None)
    """
    names = set(re.findall(r"^(\S+) \([\d,]+ bytes\)$", listing, re.M))
    return next((command for name, command in TESTS if name in names), None)


def _fetch(url: str) -> Wish:
    return wish("web_fetch", url=url)


def _first(phrase: Phrase) -> Wish | None:
    """Say what to call first, or only."""
    match phrase:
        case Echo() | Recall() | Talk() | Unknown():
            return None
        case ListFiles(path):
            return wish("list_files", path=path) if path else wish("list_files")
        case ReadFile(path, first, last):
            if first is None or last is None:
                return wish("read_file", path=path)
            limit = min(MAX_LINES, max(1, last - first + 1))
            return wish("read_file", path=path, offset=max(1, first), limit=limit)
        case WriteFile(path, text):
            return wish("write_file", path=path, content=f"{text}\n")
        case EditFile(path, old, new):
            return wish("edit_file", path=path, old=old, new=new)
        case FindFiles(name, path):
            return wish("find", name=name, path=path) if path else wish("find", name=name)
        case SearchFiles(pattern, path):
            named = wish("grep", pattern=pattern, path=path)
            return named if path else wish("grep", pattern=pattern)
        case RunTests():
            return wish("list_files")
        case Run(command):
            return wish("run_command", command=command)
        case SearchWeb(query):
            return wish("web_search", query=query)
        case Fetch(url):
            return _fetch(url)
        case Request(method, url, body):
            kind = "application/json" if _is_json(body) else "text/plain"
            return wish("web_request", method=method, url=url, body=body, content_type=kind)
        case Send(text, files, to):
            return wish("send_message", text=text, to=to, files=files)
        case Ask(question, options):
            return wish("ask_user", question=question, options=options)
        case Remember(key, text):
            return wish("save_memory", key=key, content=text)
        case LookUp(query):
            return wish("search_memory", query=query)
        case Plan(_, remind, do, cheap, usd):
            what = {"remind": remind} if remind else {"do": do, "cheap": cheap, "budget_usd": usd}
            return wish("schedule", title=phrase.title, **phrase.times, **what)
        case ListPlans():
            return wish("list_tasks")
        case ChangePlan(verb, task):
            return wish(f"{verb}_task", task=task)
        case _:
            assert_never(phrase)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True
