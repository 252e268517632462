"""The offline model: a provider of rules, for trying Elwood without key, account or network.

It is openly not a language model.  It understands the phrases of `elwood.wire.phrases`, calls the
real tools `list_files` and `read_file`, and puts what came of them into sentences.  Equal
requests give equal answers.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence

import attrs
import msgspec
import trio

from elwood.core.conversation import (
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
    ToolSpec,
    Usage,
    repair_text,
)
from elwood.wire.phrases import (
    EXAMPLES,
    Echo,
    ListFiles,
    Phrase,
    ReadFile,
    Recall,
    Talk,
    Unknown,
    understand,
)
from elwood.wire.provider import ModelRequest
from elwood.wire.quoting import MAX_QUOTED, code, cut, fenced, literal, one_line

# Lines that are asked for at once: as many as the tool gives.
MAX_LINES = 2000
# Phrases answered at once; more in one message is not talk but a paste.
MAX_PHRASES = 8
# Steps in which an answer is handed to *on_text*.
STEPS = 6

OPENLY = "I am Elwood's offline model: a handful of rules, not a language model."


# How `core.inputs` heads a message, names what it replies to, and marks its parts.
ABOUT = re.compile(r"\[(?:[A-Z]\w+ \d{4}-\d\d-\d\d \d\d:\d\d \S+|replying to: .*)\]")
NOTE = re.compile(r"^(?:\[(?:edited|sent [^\]]{1,20} ago)\] ?)+")
TIME = re.compile(r"\b\d{1,2}:\d\d\b")


class OfflineModel:
    """The provider with the codec ``offline``.  Costs nothing and never fails."""

    codec = "offline"

    @staticmethod
    def encode(request: ModelRequest) -> bytes:
        """Return all that the model is given."""
        return msgspec.json.encode((request.prompt, request.messages))

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Completion:
        """Return calls for what is not yet known, or else the answer, word by word."""
        await trio.lowlevel.checkpoint()
        sent = self.encode(request)
        calls, text = _respond(request.prompt, request.messages)
        blocks: tuple[Block, ...]
        if calls:
            # Ids must differ within the whole history; hashing it is the way to know no counter.
            seal = hashlib.blake2b(sent, digest_size=8).hexdigest()
            blocks = tuple(
                ToolCall(f"offline-{seal}-{number}", call.name, call.arguments)
                for number, call in enumerate(calls)
            )
        else:
            blocks = (Text(repair_text(text)),)
            for part in _growing(text):
                on_text(part)
                await trio.lowlevel.checkpoint()
        native = msgspec.json.encode(blocks)
        return Completion(
            Assistant(blocks, self.codec, request.model, msgspec.Raw(native)),
            "tools" if calls else "end",
            Usage(input=len(sent) // 4, output=len(native) // 4, estimated=True),
        )


@attrs.frozen
class _Wish:
    """A tool wanted with arguments; equal wishes are told apart by their order only."""

    name: str
    arguments: str


@attrs.frozen
class _Asked:
    """A phrase, and what the same person had said before it."""

    phrase: Phrase
    before: tuple[str, ...]


def _respond(prompt: Prompt, messages: Sequence[Message]) -> tuple[list[_Wish], str]:
    """Decide: tools to call, or if none is missing, what to say."""
    begin = _open_from(messages)
    asked = list(_asked(messages, begin))
    known = _outcomes(messages[begin:])
    tools = {tool.name: tool for tool in prompt.tools}
    missing: list[_Wish] = []
    parts: list[str] = []
    for one in asked[:MAX_PHRASES]:
        wish = _wish(one.phrase, tools)
        if wish is None:
            parts.append(_answer(one, messages))
        elif known.get(wish):
            parts.append(_report(one.phrase, known[wish].pop(0)))
        else:
            missing.append(wish)
    if not asked:
        parts.append("Nobody asked me anything that I could answer.")
    if len(asked) > MAX_PHRASES:
        parts.append(f"That was more than {MAX_PHRASES} things at once; I left out the rest.")
    is_first = not any(isinstance(message, Assistant) for message in messages[:begin])
    if is_first and not any(OPENLY in part for part in parts):
        parts.append(f"({OPENLY} Say “help” for what I understand.)")
    return missing, "\n\n".join(parts)


def _open_from(messages: Sequence[Message]) -> int:
    """Find where what is not yet answered begins: behind the last message that was an answer."""
    for index in range(len(messages), 0, -1):
        message = messages[index - 1]
        if isinstance(message, Assistant) and not message.calls:
            return index
    return 0


def _asked(messages: Sequence[Message], begin: int) -> Iterator[_Asked]:
    """Yield the phrases from *begin* on; lines that nobody understands stay together."""
    said: list[str] = []
    for index, message in enumerate(messages):
        if not isinstance(message, Human):
            continue
        lines = list(_words(message.text))
        if index < begin:
            said.append("\n".join(lines).strip())
            continue
        unclear: list[str] = []
        for line in lines:
            if not line.strip() or line.startswith(">"):  # a quote of what is replied to
                continue
            phrase = understand(line)
            if isinstance(phrase, Unknown):
                unclear.append(line)
                continue
            if unclear:
                yield _Asked(Unknown("\n".join(unclear)), tuple(said))
                said += unclear
                unclear = []
            yield _Asked(phrase, tuple(said))
            said.append(line.strip())
        if unclear:
            yield _Asked(Unknown("\n".join(unclear)), tuple(said))
            said.append("\n".join(unclear))


def _words(text: str) -> Iterator[str]:
    """Yield the lines of people's own words: without what `core.inputs` says about them."""
    for line in text.splitlines():
        if not ABOUT.fullmatch(line):
            yield NOTE.sub("", line)


def _outcomes(messages: Sequence[Message]) -> dict[_Wish, list[Result]]:
    """Collect what came of the calls made so far, oldest first."""
    wishes: dict[str, _Wish] = {}
    found: dict[_Wish, list[Result]] = {}
    for message in messages:
        if isinstance(message, Assistant):
            wishes.update((call.id, _Wish(call.name, call.arguments)) for call in message.calls)
        elif isinstance(message, Results):
            for result in message.results:
                if result.call in wishes:
                    found.setdefault(wishes[result.call], []).append(result)
    return found


def _wish(phrase: Phrase, tools: dict[str, ToolSpec]) -> _Wish | None:
    arguments: dict[str, str | int]
    match phrase:
        case ListFiles(path) if "list_files" in tools:
            arguments = {"path": path} if path else {}
            return _Wish("list_files", msgspec.json.encode(arguments).decode())
        case ReadFile(path, first, last) if "read_file" in tools:
            arguments = {"path": path}
            if first is not None and last is not None:
                limit = min(MAX_LINES, max(1, last - first + 1))
                arguments |= {"offset": max(1, first), "limit": limit}
            return _Wish("read_file", msgspec.json.encode(arguments).decode())
        case _:
            return None


def _report(phrase: Phrase, result: Result) -> str:
    """Put the outcome of the call for *phrase* into a sentence."""
    match phrase:
        case ListFiles(path):
            place = code(path) if path else "your workspace"
            if result.failed:
                return f"I could not look into {place}: {one_line(result.text)}"
            return f"This is in {place}:\n\n{fenced(result.text)}"
        case ReadFile(path, first, last):
            if result.failed:
                return f"I could not read {code(path)}: {one_line(result.text)}"
            if not result.text.strip():
                return f"There is nothing in {code(path)}."
            if first is None:
                return f"{code(path)} says:\n\n{fenced(result.text)}"
            lines = f"Line {first}" if first == last else f"Lines {first} to {last}"
            return f"{lines} of {code(path)}:\n\n{fenced(result.text)}"
        case _:
            return result.text


def _answer(asked: _Asked, messages: Sequence[Message]) -> str:
    """Answer what needs no tool."""
    match asked.phrase:
        case Talk("hello"):
            return "Hello. What shall I look at?"
        case Talk("who"):
            return f"{OPENLY} I need no key, no account and no network. I call Elwood's real tools."
        case Talk("help"):
            return f"{OPENLY} I understand, in roughly these words:\n\n{_examples()}"
        case Talk("time"):
            return _time(messages)
        case Talk("thanks"):
            return "You are welcome."
        case Talk("bye"):
            return "Goodbye."
        case Echo(text):
            return literal(text)
        case Recall(which):
            if not asked.before:
                return "You had not said anything before that."
            said = asked.before[0 if which == "first" else -1]
            return f"Your {which} message was: “{literal(cut(said, MAX_QUOTED))}”"
        case ListFiles() | ReadFile():
            return "I was given no tool to look at files with, so I cannot."
        case Unknown(text):
            quoted = literal(cut(text, 60).replace("\n", " "))
            return f"I do not understand “{quoted}”. {OPENLY} Try:\n\n{_examples()}"
        case Talk():
            raise AssertionError(asked.phrase)


def _time(messages: Sequence[Message]) -> str:
    """Say what the harness told last about the time; there is no clock in here."""
    for message in reversed(messages):
        if isinstance(message, Notice | Human):
            for line in message.text.splitlines():
                # A person may say any time; only the head of a message is the harness's.
                told = TIME.search(line) if isinstance(message, Notice) else ABOUT.fullmatch(line)
                if told and TIME.search(line):
                    return f"I have no clock. The last I was told is: {literal(line.strip())}"
    return "I do not know: I have no clock, and this conversation has not told me the time."


def _examples() -> str:
    return "\n".join(f"- {example}" for example in EXAMPLES)


def _growing(text: str) -> Iterator[str]:
    """Yield *text* up to ever later words, at last the whole."""
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    for end in ends[: -1 : max(1, len(ends) // STEPS)]:
        yield text[:end]
    yield text
