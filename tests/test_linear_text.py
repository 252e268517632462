"""Every function on text from outside needs time proportional to its length.

The functions are found by the types of their parameters. A new one is called with the text if it
needs only text; else `CALLS` defines the call, or `EXCLUDED` gives the reason. Each is measured
with texts of 50,000 and 200,000 characters, in CPU time of this thread.
"""

import gc
import importlib
import inspect
import json
import pkgutil
import re
import time
from argparse import ArgumentTypeError
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import crc32

import attrs
import pytest
from pypdf.errors import PyPdfError

import elwood
from elwood.agent.approvals.prompt_text import details_message, request_messages
from elwood.agent.approvals.state import ApprovalRequest
from elwood.agent.channels.attached import readable
from elwood.agent.conversation import labels
from elwood.agent.conversation.message import Human, Prompt, rough
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.stop_words import says_stop
from elwood.agent.models.client import ModelRequest, classify
from elwood.agent.models.openai import OpenAI
from elwood.agent.models.settings import ProviderSettings
from elwood.agent.policy import quotations
from elwood.agent.policy.decide import name_source
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.commands import people, slash
from elwood.agent.session.commands.model_choice import choose
from elwood.agent.session.log import turns
from elwood.agent.session.log.branch import find_own_words
from elwood.agent.session.log.entries import Received, TurnStarted
from elwood.agent.session.log.turns import FinishedTurn, Turn
from elwood.agent.session.reading import render
from elwood.agent.session.reading.cli import since
from elwood.agent.session.reading.records import History
from elwood.agent.session.reading.tree import answer_tree
from elwood.agent.session.turn import prompt
from elwood.agent.session.turn.unsupported_claims import with_receipts
from elwood.agent.tools.tool import ToolFailure, decode_arguments
from elwood.app.config.load import load_own
from elwood.app.config.toml_file import ConfigErrors, parse_toml
from elwood.features.console import drawing
from elwood.features.console.settings import ConsoleSettings, choose_colors
from elwood.features.daily_notes import notes
from elwood.features.mcp import adding, definitions, questions, results
from elwood.features.mcp.settings import is_unpinned
from elwood.features.mcp.tools import rank_tools
from elwood.features.memory import tools as memory_tools
from elwood.features.memory.extension import relevant
from elwood.features.memory.note import Note
from elwood.features.shell.rules import rule
from elwood.features.shell.scope import scope_of
from elwood.features.skills import skill
from elwood.features.skills.store import SkillRefused
from elwood.features.tasks import heartbeat, texts, when
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.features.telegram import reading
from elwood.features.telegram.bot_api import (
    ForwardOrigin,
    TelegramChat,
    TelegramMessage,
    TelegramUser,
    TextQuote,
)
from elwood.foundation.command_line import CliFailure
from elwood.foundation.net import control
from elwood.foundation.net.control import BadLine
from elwood.foundation.net.egress import destination
from elwood.foundation.net.http import Client, EventParser
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.net.urls import Url, follow, parse
from elwood.foundation.secrets.redaction import Redactor, Secret, redact
from elwood.foundation.settings import Config
from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.text import lines, splitting, tokens
from elwood.foundation.text.characters import substitute
from elwood.foundation.text.front_matter import FrontMatterError
from elwood.foundation.text.splitting import STANDARD
from elwood.foundation.text.words import count_words
from tests.agent.approvals.approving import question
from tests.channels import two_channels
from tests.every_tool import every_tool
from tests.hostile_text import SHAPES, Shape

SHORT, LONG = 50_000, 200_000
# Maximum ratio of the times for LONG and SHORT: 4 is linear, 16 is quadratic.
MOST = 8
# Seconds of CPU below which times are not compared, because noise dominates.
FLOOR = 0.02
# Seconds for SHORT above which LONG is skipped.
HOPELESS = 5.0
# Attempts to measure it as linear: another program may evict our caches.
TRIES = 4
# Shapes for each function in a normal run; all of them for the most exposed functions.
SAMPLE = 2
EXPOSED = (
    "agent.session.turn.unsupported_claims.neutralise",
    "agent.session.turn.unsupported_claims.find_unsupported",
    "foundation.secrets.redaction.redact",
    "foundation.text.lines.wrap",
    "foundation.text.markdown.to_entities",
    "foundation.text.readable.article",
)

# Parameters of type `str` that are our own names, or are validated where they are created.
OURS = frozenset(
    {
        *("agent", "by", "call", "channel", "code", "command_line", "default", "definition"),
        *("exact_hash", "folder", "format_", "head", "here", "id", "id_", "key", "kind", "mode"),
        *("model", "place", "plan", "policy", "records", "server", "service", "session", "source"),
        *("today", "tool", "tools_note", "turn", "verb", "weekly", "zone"),
    }
)

Called = Callable[[str], object]


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """Return the public functions of all modules that have text among their parameters."""
    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.walk_packages(elwood.__path__, "elwood."):
        if module.name.endswith("__main__"):
            continue
        for name, function in vars(importlib.import_module(module.name)).items():
            inner = inspect.unwrap(function) if callable(function) else function
            if name.startswith("_") or not inspect.isfunction(inner):
                continue
            if inner.__module__ == module.name and any(map(is_text, parameters(inner))):
                found[f"{module.name.removeprefix('elwood.')}.{name}"] = inner
    return found


def parameters(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(function).parameters.values()


def is_text(parameter: inspect.Parameter) -> bool:
    return parameter.annotation in (str, bytes, str | None) and parameter.name not in OURS


# --- calls with other arguments than text ---------------------------------------------------------


HOLDING = Config.from_values()
SECRETS = [Secret("correct-horse-battery"), Secret("-----aaaaaaaa1-----")]
ANY = re.compile("(.)", re.DOTALL)
BOT = reading.BotIdentity(bot=9, username="elwood_bot", owners=frozenset([3]))
AT = datetime(2026, 3, 1, 8, 5, tzinfo=UTC)
NOW = AT.timestamp()
CHAT = Route("telegram", "1")
TASK = Task("water", "Water", Every(3600.0))
SKILL = skill.Skill(name="tea", description="How to make tea", body="Boil water.")
ONE_TURN = History(
    "s",
    [
        (1, NOW, Received("a", "hello", "me", CHAT, 0.0)),
        (2, NOW, TurnStarted("t1", ("a",), 1, "hello")),
    ],
)
NOTE = "# Sunday 2026-03-01\n\n- 08:00 s/t1: `a`\n  - ok look `b`\n"


def request_of(text: str) -> ApprovalRequest:
    asked = question(subject=text, why=text, arguments=text, principal=text, origins=(text,))
    return ApprovalRequest(NOW, "a1", "ABCD2345", asked, 60.0)


def said_by(text: str) -> Received:
    return Received("tg:1", text, "tg:1", CHAT, NOW, speaker="Ann")


def turn_of(text: str) -> Turn:
    return Turn("t1", [said_by(text)], 0)


def rule_patterns(text: str) -> object:
    patterns = (r"\bsudo\b", "(a+)+$", "(.*a){5}")
    return rule(text, PolicySettings(blocked_patterns=patterns, safe_commands=("make",)))


def telegram(text: str) -> TelegramMessage:
    person = TelegramUser(3, first_name=text)
    quoted = TelegramMessage(1, TelegramChat(1), text=text, from_=TelegramUser(2, first_name=text))
    return TelegramMessage(
        2,
        TelegramChat(-1, "group", text),
        text=text,
        from_=person,
        forward_origin=ForwardOrigin("hidden_user", sender_user_name=text),
        reply_to_message=quoted,
        quote=TextQuote(text),
    )


def remembered(text: str) -> Note:
    return Note("tea", text, label=labels.Label())


def tool_with(text: str) -> definitions.ToolDefinition:
    schema = definitions.canonical({"type": "object", "title": text})
    return definitions.ToolDefinition("look", text, text, schema)


def skill_with(text: str) -> skill.Candidate:
    head = b"---\nname: tea\ndescription: How to make tea\n---\n"
    found = skill.build_candidate(
        [skill.SkillFile("SKILL.md", head + text.encode(errors="replace"))]
    )
    return found if isinstance(found, skill.Candidate) else skill.Candidate(SKILL, (), "")


def web_address() -> Url:
    url = parse("https://a.example/b")
    assert isinstance(url, Url)
    return url


def streamed(text: str) -> object:
    """Read *text* as an answer in pieces of a word, and show each of them."""
    settings = ProviderSettings(api="openai", base_url="http://x.example")
    provider = OpenAI("x", settings, Client(), lambda: "c1")
    wanted = ModelRequest(model="m", prompt=Prompt(""), messages=(), max_tokens=1_000_000)
    stream = provider.begin(wanted)
    parser, seen = EventParser(), deque[object](maxlen=1)
    for at in range(0, len(text), 40):
        delta = {"choices": [{"delta": {"content": text[at : at + 40]}}]}
        for event in parser.feed(b"data: " + json.dumps(delta).encode() + b"\n\n"):
            stream.take(event)
            stream.report_progress(seen.append)
    return seen


def fed(text: str) -> object:
    """Feed an event of many lines in chunks of a network."""
    data = b"data:" + text.encode("utf-8", "replace").replace(b"\n", b"\ndata:")
    parser = EventParser()
    return [parser.feed(data[at : at + 4096]) for at in range(0, len(data), 4096)]


ANY_TOOL = attrs.evolve(every_tool()[0], input=dict[str, object])
CALLS: dict[str, Called] = {
    "agent.conversation.labels.remember": lambda t: labels.remember({}, t),
    "agent.conversation.message.rough": lambda t: rough(Prompt(t), [Human(t)], t),
    "agent.conversation.stop_words.says_stop": lambda t: says_stop(t, ["en", "de"]),
    "agent.models.client.classify": lambda t: classify(400, {"code": t, "type": t}, t, {}),
    "agent.session.commands.model_choice.choose": lambda t: choose(HOLDING, "", t, "2026-11-27"),
    "agent.session.commands.people.answer_people": lambda t: people.answer_people(
        [], t, "tg:1", UTC
    ),
    "agent.session.commands.slash.help_text": lambda t: slash.help_text([], f"x{t}"),
    "agent.session.log.branch.find_own_words": lambda t: find_own_words(t, [said_by(t)]),
    "agent.session.log.turns.get_answer": lambda t: turns.get_answer(turn_of(t), t, failed=False),
    "agent.session.reading.cli.since": lambda t: since(t, NOW, UTC),
    "agent.tools.tool.decode_arguments": lambda t: decode_arguments(
        json.dumps({"x": list(t)} | dict.fromkeys(t)), ANY_TOOL
    ),
    "features.console.settings.choose_colors": lambda t: choose_colors(ConsoleSettings(), t),
    "agent.session.reading.tree.answer_tree": lambda t: answer_tree(ONE_TURN, t, UTC, t, str),
    "agent.session.reading.render.list_receipts": lambda t: render.list_receipts([], t, UTC),
    "agent.session.reading.render.tool_listing": lambda t: render.tool_listing({}, t, [], UTC),
    "agent.session.turn.prompt.format_words": lambda t: prompt.format_words(said_by(t)),
    "agent.session.turn.unsupported_claims.with_receipts": lambda t: with_receipts(t, turn_of(t)),
    "app.config.load.load_own": lambda t: load_own(t, HOLDING, []),
    "app.config.toml_file.parse_toml": lambda t: parse_toml(
        Path("a.toml"), t.encode(errors="replace")
    ),
    "features.console.drawing.words": lambda t: drawing.words(t, 80),
    "features.console.drawing.draw_answer": lambda t: drawing.draw_answer(t, [t], 80),
    "features.console.drawing.tail": lambda t: drawing.tail(t, 80, 24),
    "features.daily_notes.notes.add": lambda t: notes.add(
        f"{NOTE}{t}", "s", FinishedTurn("t2", NOW, (t,), answer=t), UTC
    ),
    "features.daily_notes.notes.without": lambda t: notes.without(f"{NOTE}{t}", ["s/t1"]),
    "features.daily_notes.notes.may_have": lambda t: notes.may_have(t, ["a", "tea"]),
    "features.daily_notes.notes.blank_entries": lambda t: notes.blank_entries(
        f"{NOTE}{t}", ["a", "b", "tea"], "c1"
    ),
    "features.daily_notes.notes.with_entry": lambda t: notes.with_entry(t, t, AT),
    "features.daily_notes.notes.page": lambda t: notes.page("threads/run.md", t, untrusted=True),
    "features.mcp.adding.find_remedies": lambda t: [
        *adding.find_remedies(t, (), network=False, exists=lambda path: False)
    ],
    "features.mcp.questions.answer_to": lambda t: questions.answer_to(
        questions.ServerQuestion("", (), "a", {"enum": [t]}), t
    ),
    "features.mcp.results.fit_text": lambda t: results.fit_text(t, "received/x", {}),
    "features.mcp.results.format_listing": lambda t: results.format_listing(
        [{"name": t, "title": t}], "x"
    ),
    "features.mcp.settings.is_unpinned": lambda t: is_unpinned("npx", ("-y", t)),
    "features.memory.extension.relevant": lambda t: relevant([remembered(t)], t, 1000),
    "features.memory.tools.results": lambda t: memory_tools.results([remembered(t)], t),
    "features.shell.rules.rule": rule_patterns,
    "features.shell.scope.scope_of": lambda t: scope_of(t, {"sandbox": "x", "file a": "1"}),
    "features.skills.skill.match_command": lambda t: skill.match_command([SKILL], t),
    "features.skills.skill.find_matching": lambda t: skill.find_matching([SKILL], t),
    "features.tasks.texts.format_missed": lambda t: texts.format_missed(
        TASK, NOW, NOW, 2, t, "UTC"
    ),
    "features.tasks.texts.result": lambda t: texts.result("Failed", TASK, t),
    "features.tasks.texts.frame_prompt": lambda t: texts.frame_prompt(
        t, t, t, TASK, NOW, NOW, "UTC"
    ),
    "features.tasks.when.read_moment": lambda t: when.read_moment(t, "UTC"),
    "features.tasks.when.read_when": lambda t: when.read_when(t, "UTC"),
    "features.telegram.reading.chosen": lambda t: reading.chosen(telegram(t), t),
    "features.telegram.reading.format_text": lambda t: reading.format_text(telegram(t), t),
    "foundation.net.control.decode": lambda t: control.decode(t.encode(errors="replace"), dict),
    "foundation.net.egress.destination": lambda t: destination(EgressRules(), t),
    "foundation.net.urls.follow": lambda t: follow(web_address(), t, 0),
    "foundation.secrets.redaction.redact": lambda t: redact(t, SECRETS),
    "foundation.text.characters.substitute": lambda t: substitute(ANY, str.upper, t),
    "foundation.text.lines.clip": lambda t: lines.clip(t, 80),
    "foundation.text.lines.shorten": lambda t: lines.shorten(t, 80),
    "agent.policy.decide.name_source": lambda t: name_source(t, 60),
    "foundation.text.lines.wrap": lambda t: lines.wrap(t, 80),
    "foundation.text.lines.close_fence": lambda t: lines.close_fence(t),
    "foundation.text.tokens.fit": lambda t: tokens.fit(t, 1_000_000),
    "foundation.text.words.count_words": lambda t: count_words(t, ["tea", "cups"]),
}
# Functions that take an object containing text.
MORE: dict[str, Called] = {
    "agent.policy.quotations.shared_with": lambda t: quotations.OutgoingText(
        t[: quotations.MAX_TEXT]
    ).find_shared_runs(t[::-1]),
    "agent.approvals.prompt_text.request_messages": lambda t: request_messages(
        request_of(t), CHAT, two_channels(CHAT)
    ),
    "agent.approvals.prompt_text.details_message": lambda t: details_message(
        request_of(t), STANDARD
    ),
    "agent.models.openai.ChatStream": streamed,
    "agent.channels.attached.readable": lambda t: [readable(one) for one in splitting.parts(t, t)],
    "features.mcp.definitions.describe_tool": lambda t: definitions.describe_tool(tool_with(t)),
    "features.mcp.definitions.refusal": lambda t: definitions.refusal(tool_with(t)),
    "features.mcp.tools.rank_tools": lambda t: rank_tools(t, []),
    "features.mcp.questions.questions": lambda t: questions.questions("x", {"message": t}),
    "features.mcp.results.render": lambda t: results.render(
        [{"type": "text", "text": t}, {"type": "resource_link", "uri": t}], {"a": t}, "received/x"
    ),
    "features.skills.skill.review": lambda t: skill.review(skill_with(t)),
    "features.tasks.heartbeat.parse_checklist": lambda t: heartbeat.parse_checklist(
        HOLDING, heartbeat.Written(t)
    ),
    "features.telegram.reading.identify": lambda t: reading.identify(telegram(t), BOT),
    "features.telegram.reading.find_quoted_author": lambda t: reading.find_quoted_author(
        telegram(t), BOT
    ),
    "foundation.net.http.EventParser": fed,
    "foundation.secrets.redaction.Redactor.partial": lambda t: Redactor(SECRETS).partial(t),
    "foundation.secrets.redaction.Redactor.reveals": lambda t: Redactor(SECRETS).reveals(t),
}


# Maximum characters for a function, if not LONG, and the code that enforces them.
BOUNDS: dict[str, tuple[int, str]] = {
    "app.config.load.load_own": (20_000, "features.own_settings.store.read"),
    # Drawn by rich, 10 µs a line, in the process of the terminal.
    "features.console.drawing.draw_answer": (20_000, "a person types it"),
    "features.console.drawing.words": (20_000, "a tenth shows the same"),
    "features.files.search_tools.compile_search": (500, "features.files.search_tools.Grep"),
    "foundation.text.regex.compile_regex": (500, "features.files.search_tools.Grep"),
    "features.tasks.store.matches": (500, "features.tasks.task.check_pattern"),
    # Longer Markdown is shown unformatted.
    "foundation.text.html.to_html": (40_000, "foundation.text.markdown.MAX_MARKDOWN"),
    "foundation.text.markdown.to_entities": (40_000, "foundation.text.markdown.MAX_MARKDOWN"),
    "foundation.text.splitting.parts": (40_000, "foundation.text.markdown.MAX_MARKDOWN"),
    "foundation.text.splitting.with_footer": (40_000, "foundation.text.markdown.MAX_MARKDOWN"),
    "features.shell.danger.find_danger": (2_000, "features.shell.judge.judge"),
}
# Functions that are not measured, by the reason.
REASONS: dict[str, str] = {
    "it has effects on a named thing, and does not process text": (
        "agent.channels.client.edit_until_done agent.media.client.write_down "
        "agent.media.store.add_remark "
        "agent.session.store.remove_old "
        "agent.session.turn.looking.run_look agent.session.turn.prompt.read_document "
        "agent.tools.tool.refuse_call features.console.cli.chat "
        "features.console.client.once features.console.client.say features.console.screen.sit "
        "features.conversations.store.find features.files.tools.folder_scope "
        "features.mcp.client.remote features.skills.store.refuse_second "
        "features.skills.store.uninstall features.skills.tools.read_skill "
        "features.tasks.store.fingerprint features.web.client.find foundation.command_line.ask "
        "foundation.command_line.is_wanted foundation.command_line.put_out "
        "foundation.net.control.ask foundation.net.control.ask_over "
        "foundation.net.control.print_response "
        "foundation.net.egress.resolve_host foundation.storage.confined.open_beneath "
        "foundation.storage.disk.fatal foundation.storage.disk.write_or_report "
        "foundation.storage.files.mark_untrusted_path "
        "foundation.storage.files.open_parent "
        "foundation.storage.files.raw_lines"
    ),
    "the text is our own name or word, or from the configuration": (
        "agent.conversation.calls.bind_scope agent.models.check.is_written "
        "agent.models.check.check_prices "
        "agent.models.providers.make_provider agent.models.settings.can_think "
        "agent.session.paging.page agent.session.rights.refusal "
        "agent.tools.tool.always agent.session.restored.closing_entries "
        "agent.session.reading.cli.newest_calls "
        "agent.session.reading.export.export_conversation features.backup.rules.member "
        "features.console.drawing.box "
        "features.console.drawing.summarize_question features.console.drawing.draw_decision "
        "features.health.actor.health_file "
        "features.mcp.store.book_path features.mcp.adding.propose "
        "features.mcp.adding.parse_variables features.mcp.adding.find_package "
        "features.mcp.settings.refuse_added features.mcp.adding.describe_server "
        "features.mcp.tools.find_scopes features.mcp.tools.make_switched_off "
        "features.mcp.tools.make_tool "
        "features.shell.judge.allow_git features.shell.judge.options "
        "features.shell.judge.allow_words "
        "features.skills.skill.build_candidate features.skills.skill.review "
        "features.tasks.rules.close_times features.tasks.state.is_cancelled "
        "foundation.checks.build_unreached foundation.command_line.show_list "
        "foundation.runtime.actor_table.check_is_lower "
        "foundation.sandbox.layout.environment foundation.sandbox.seccomp.program "
        "foundation.secrets.store.look_up foundation.settings.from_home "
        "foundation.settings.is_timezone foundation.settings.secret foundation.settings.setting "
        "foundation.settings.suggest_name "
        "foundation.storage.confined.convert_error foundation.storage.files.not_written "
        "foundation.storage.files.refuse_binary foundation.storage.journal.write_line"
    ),
    "rich draws it in the process of the terminal, 64,000 characters in 2 s at worst": (
        "features.console.drawing.markdown features.console.drawing.draw_steps"
    ),
    "the text is only compared or passed on": (
        "agent.session.extension.build_reminder agent.session.turn.quoting.is_public "
        "features.files.tools.mark_names foundation.text.rich_text.trim_span"
    ),
}
EXCLUDED = {name for names in REASONS.values() for name in names.split()}


def called(name: str, function: Callable[..., Any]) -> Called | None:
    """Return a call of the function with only a text, if possible."""
    if name in CALLS:
        return CALLS[name]
    required = [one for one in parameters(function) if one.default is one.empty]
    kinds = {one.name: one.annotation for one in required}
    if inspect.iscoroutinefunction(function) or not {*kinds.values()} <= {str, bytes, str | None}:
        return None

    def call(text: str) -> object:
        data = text.encode("utf-8", "replace")
        given = {name: data if kind is bytes else text for name, kind in kinds.items()}
        return function(**given)

    return call


def calls() -> dict[str, Called]:
    found = {name: called(name, one) for name, one in functions().items() if name not in EXCLUDED}
    return MORE | {name: call for name, call in found.items() if call is not None}


CALLED = calls()


def test_every_function_on_text_is_measured_or_excluded() -> None:
    known = {*CALLED, *EXCLUDED}
    assert set(functions()) <= known, "define the call in CALLS, or the reason in REASONS"
    assert known - set(MORE) <= set(functions()), "not a function"
    assert not EXCLUDED & set(CALLS)
    assert set(CALLS) <= set(functions()), "has no text parameter: move it to MORE"


# Exceptions of functions that refuse a text.
REFUSALS = (
    ArgumentTypeError, BadLine, BadZipFile, CliFailure, ConfigErrors, FrontMatterError, PathRefused,
    PyPdfError, SkillRefused, ToolFailure, ValueError,
)  # fmt: skip


def seconds(call: Called, text: str) -> float:
    """Return the CPU time of this thread that *call* takes; a refusal counts as a result.

    The garbage collector is off, because it would visit the objects of all other tests too.
    """
    gc.disable()
    start = time.thread_time()
    try:
        result = call(text)
        if isinstance(result, Iterator):
            for _ in result:
                pass
    except REFUSALS:
        pass
    finally:
        gc.enable()
    return time.thread_time() - start


def is_linear(call: Called, shape: Shape, longest: int) -> bool:
    short, long = (shape(size) for size in (longest * SHORT // LONG, longest))
    for _ in range(TRIES):
        before = seconds(call, short)
        if before > HOPELESS:
            return False
        if seconds(call, long) < MOST * before + FLOOR:
            return True
    return False


def shapes_of(name: str, *, everything: bool) -> Mapping[str, Shape]:
    """Choose the shapes for a function: all, or a few by its name."""
    if everything or name.startswith(EXPOSED):
        return SHAPES
    names = list(SHAPES)
    start, step = crc32(name.encode()) % len(names), len(names) // SAMPLE
    chosen = [names[(start + step * number) % len(names)] for number in range(SAMPLE)]
    return {one: SHAPES[one] for one in chosen}


@pytest.mark.parametrize("name", CALLED)
def test_time_is_linear_in_the_text(name: str, request: pytest.FixtureRequest) -> None:
    everything = request.config.getoption("--all-shapes")
    longest, _ = BOUNDS.get(name, (LONG, ""))
    shapes = shapes_of(name, everything=everything)
    call = CALLED[name]
    assert [one for one, shape in shapes.items() if not is_linear(call, shape, longest)] == []
