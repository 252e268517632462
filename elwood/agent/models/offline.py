"""The offline model: eight commands, to try Elwood without key, account or network.

It does not pretend to be a language model.  One line is one command; it calls the real tools and
reports only their results.  Text of others is in code blocks or in quotes, so that it formats
nothing and is not mistaken for the model's own words.  Equal requests give equal answers.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import Literal

import msgspec
import trio

from elwood.agent.conversation.message import (
    Assistant,
    Block,
    Completion,
    Human,
    Message,
    Notice,
    Prompt,
    Result,
    Results,
    Text,
    ToolCall,
    Usage,
)
from elwood.agent.models.client import ModelRequest, Shown
from elwood.foundation.text.characters import well_formed
from elwood.foundation.text.lines import code, fence, in_quotes, shorten
from elwood.foundation.text.words import slug

OPENLY = "I am Elwood's offline model. I know eight commands; I am not a language model."

# Maximum characters of a command in an answer, and of the name of a note.
MAX_NAMED, MAX_KEY = 100, 50
# Maximum characters of a result that are shown: about a screen, and one message of any channel.
MAX_SHOWN = 3_000

# The header of a person's message, and marks of its parts.
_HEAD = re.compile(
    r"\[(?:[A-Z]\w+ \d{4}-\d\d-\d\d \d\d:\d\d \S+|replying to.*|A run of the task .*)\]"
)
_MARK = re.compile(
    r"^(?:\[(?:edited|sent [^\]]{1,20} ago|[^\[\]]{1,70} \((?:admin|member|guest)\))\]:? ?)+"
)
# Data before the words of a person, as `wrap_untrusted` formats it.
_WRAPPED = re.compile(r"\A<([\w-]+) .*?\n</\1>\n", re.S)
# Prefix of the result of a call that waits.
_WAITS = "waiting for approval"
# Prefix of a search result without notes.
_NO_NOTES = "no note"


class OfflineCommand(msgspec.Struct, frozen=True):
    """A parsed line: call *tool* with *arguments*, which are JSON.

    *about* is its subject, as Markdown.
    """

    tool: str
    arguments: str
    about: str


# By tool: an example, the pattern of the line, and the texts for a failure and for a success.
# The first pattern that matches the whole line is used.
_RULES = {
    "list_files": (
        "list the files",
        r"list(?: the)?(?: files)?(?: in (?P<path>\S.*))?",
        "list {}",
        "Files in {}:",
    ),
    "read_file": ("read SOUL.md", r"read (?P<path>\S.*)", "read {}", "Content of {}:"),
    "write_file": (
        "write notes.txt: buy milk",
        r"write (?P<path>[^\s:]+): *(?P<content>\S.*)",
        "write {}",
        "I wrote {}:",
    ),
    "run_command": ("run ls -l", r"run (?P<command>\S.*)", "run {}", "{} succeeded:"),
    "save_memory": (
        "remember that my sister's birthday is 4 May",
        r"remember (?:that )?(?P<content>\S.*)",
        "save {}",
        "I saved a note:",
    ),
    "schedule": (
        "remind me in 1 minute to call mum",
        r"remind me in (?P<count>\d{1,4}) (?P<unit>minute|hour|day)s? to (?P<remind>\S.*)",
        "set a reminder: {}",
        "I set a reminder:",
    ),
    "search_memory": (
        "when is my sister's birthday?",
        r"(?P<query>\w.*)\?",
        "search my notes for {}",
        "Notes about {}:",
    ),
}
_HELP = re.compile(r"help|\?|what (?:can|do) you do\W*|who are you\W*|how does this work\W*", re.I)
_GREETING = re.compile(
    r"(?:hello|hi|hey|good (?:morning|afternoon|evening|day))(?: there|,? elwood)?\W*", re.I
)
_MINUTES = {"minute": 1, "hour": 60, "day": 1440}
_BRIEF = {"write_file", "save_memory", "schedule"}  # tools whose results are one line


def understand(line: str) -> OfflineCommand | Literal["help"] | None:
    """Parse a command; return None if *line* is not one.

    >>> understand("read SOUL.md").arguments
    '{"path":"SOUL.md"}'
    >>> understand("sing")
    """
    if _HELP.fullmatch(line) or _GREETING.fullmatch(line):
        return "help"
    for tool, (_, pattern, *_) in _RULES.items():
        found = re.fullmatch(pattern, line, re.I)
        if found is not None:
            given: dict[str, str | int] = {k: v for k, v in found.groupdict().items() if v}
            about = found[1] or ""
            match tool:
                case "write_file":
                    given["content"] = f"{found['content']}\n"
                case "save_memory":
                    seal = hashlib.blake2b(about.encode(errors="replace"), digest_size=3)
                    key = slug(about)[:MAX_KEY].strip("-") or f"note-{seal.hexdigest()}"
                    given["key"] = about = key
                case "schedule":
                    about = found["remind"]
                    minutes = int(found["count"]) * _MINUTES[found["unit"].lower()]
                    given = {"title": about[:60].strip(), "in_minutes": minutes, "remind": about}
            about = code(shorten(about, MAX_NAMED)) if about else "your workspace"
            return OfflineCommand(tool, msgspec.json.encode(given).decode(), about)
    return None


class OfflineModel:
    """The provider with the codec ``offline``.  It is free and never fails."""

    codec = "offline"

    @staticmethod
    def encode(request: ModelRequest) -> bytes:
        return msgspec.json.encode((request.prompt, request.messages))

    async def complete(self, request: ModelRequest, show: Callable[[Shown], None]) -> Completion:
        await trio.lowlevel.checkpoint()
        sent = self.encode(request)
        wanted, text = _respond(request.prompt, request.messages)
        blocks: tuple[Block, ...]
        if wanted:
            # Ids must be unique within the whole history; a hash of it needs no counter.
            seal = hashlib.blake2b(sent, digest_size=8).hexdigest()
            blocks = tuple(
                ToolCall(f"offline-{seal}-{number}", command.tool, command.arguments)
                for number, command in enumerate(wanted)
            )
        else:
            blocks = (Text(well_formed(text)),)
            show(text)
        native = msgspec.json.encode(blocks)
        return Completion(
            Assistant(blocks, self.codec, request.model, msgspec.Raw(native)),
            "tools" if wanted else "end",
            Usage(input=len(sent) // 4, output=len(native) // 4, estimated=True),
        )


def _respond(prompt: Prompt, messages: Sequence[Message]) -> tuple[list[OfflineCommand], str]:
    """Return the tools to call or, if no result is missing, the text of the answer."""
    begin = _find_unanswered(messages)
    now = messages[begin:]
    tools = {tool.name for tool in prompt.tools}
    results = _results(now)
    wanted: list[OfflineCommand] = []
    parts: list[str] = []
    for command, group in groupby(_lines(now), understand):
        lines = list(group)
        if command is None:
            quoted = in_quotes(shorten(" ".join(lines), MAX_NAMED))
            parts.append(f"I do not understand {quoted}. {OPENLY} Try:\n\n{_help(tools)}")
            continue
        for line in lines:
            if command == "help":
                hello = "Hello! " if _GREETING.fullmatch(line) else ""
                parts.append(f"{hello}{OPENLY} Try:\n\n{_help(tools)}")
            elif command.tool not in tools:
                parts.append(f"I do not have the tool `{command.tool}`, so I cannot do that.")
            elif found := results.get((command.tool, command.arguments)):
                parts.append(format_result(command, found.pop(0)))
            else:
                wanted.append(command)
    if not parts and not wanted:  # usually the result of a call that had waited
        notices = (_excerpt(message.text) for message in now if isinstance(message, Notice))
        parts.append("\n\n".join(["News:", *notices]))
    is_first = not any(isinstance(message, Assistant) for message in messages[:begin])
    if is_first and not any(OPENLY in part for part in parts):
        parts.append(f"({OPENLY} Type “help” for a list.)")
    return wanted, "\n\n".join(parts)


def format_result(command: OfflineCommand, result: Result) -> str:
    """Format the result of a call, and whose words it contains."""
    _, _, failure, success = _RULES[command.tool]
    head, _, rest = result.text.partition("\n")
    if command.tool == "search_memory" and head.startswith(_NO_NOTES):
        return "I have no note about that."
    if not result.failed:
        shown = in_quotes(head) if command.tool in _BRIEF else _excerpt(result.text)
        return f"{success.format(command.about)}\n\n{shown}"
    aim = failure.format(command.about)
    if head.startswith(_WAITS):
        return f"I need your approval to {aim}. I have not done it yet."
    # A failed call may have had an effect: report it only in the tool's own words.
    more = f"\n\n{_excerpt(rest)}" if rest.strip() else ""
    return f"I tried to {aim}. The result: {in_quotes(head)}{more}"


def _excerpt(text: str) -> str:
    whole = text.rstrip("\n")
    if len(whole) <= MAX_SHOWN:
        return fence(whole)
    more = f"These are the first {MAX_SHOWN} of {len(whole)} characters."
    return f"{fence(whole[:MAX_SHOWN])}\n\n{more}"


def _find_unanswered(messages: Sequence[Message]) -> int:
    """Return the index after the last message that was an answer."""
    answers = (n for n, m in enumerate(messages, 1) if isinstance(m, Assistant) and not m.calls)
    return max(answers, default=0)


def _lines(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the lines of people's own words, without headers, marks and quotations."""
    for message in messages:
        if not isinstance(message, Human):
            continue
        said = _WRAPPED.sub("", message.text).splitlines()
        own = (_MARK.sub("", line).strip() for line in said if not _HEAD.fullmatch(line))
        yield from (line for line in own if line and not line.startswith(">"))


def _results(messages: Sequence[Message]) -> dict[tuple[str, str], list[Result]]:
    """Collect the results of the calls so far by tool and arguments, oldest first."""
    calls: dict[str, tuple[str, str]] = {}
    found: dict[tuple[str, str], list[Result]] = {}
    for message in messages:
        if isinstance(message, Assistant):
            calls.update((call.id, (call.name, call.arguments)) for call in message.calls)
        elif isinstance(message, Results):
            for result in message.results:
                if result.call in calls:
                    found.setdefault(calls[result.call], []).append(result)
    return found


def _help(tools: Collection[str]) -> str:
    examples = [example for tool, (example, *_) in _RULES.items() if tool in tools]
    return "\n".join(f"- `{text}`" for text in ["help", *examples])
