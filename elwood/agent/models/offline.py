"""The offline model: a provider of rules, for trying Elwood without key, account or network.

It is openly not a language model.  It understands the phrases of `agent.models.phrases`, calls the
real tools (`offline_steps`), and puts what came of them into sentences (`offline_telling`).  Equal
requests give equal answers.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

import attrs
import msgspec
import trio

from elwood.agent.conversation.brought_along import OFFERED, without_days
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
    repair_text,
)
from elwood.agent.models.offline_steps import Wish, step
from elwood.agent.models.offline_telling import tell_late
from elwood.agent.models.phrases import (
    Echo,
    Phrase,
    Recall,
    Talk,
    Unknown,
    examples,
    understand,
)
from elwood.agent.models.provider import ModelRequest
from elwood.foundation.text.quote_markdown import (
    MAX_QUOTED,
    code,
    cut,
    in_quotes,
    literal,
)

# Phrases answered at once; more in one message is not talk but a paste.
MAX_PHRASES = 8
# Lines of one message that are looked at one by one; more is a paste as well.
MAX_LINES = 50
# Steps in which an answer is handed to *on_text*.
STEPS = 6

OPENLY = "I am Elwood's offline model: a handful of rules, not a language model."


# How `core.inputs` heads a message, names what it replies to, and marks its parts.
ABOUT = re.compile(
    r"\[(?:[A-Z]\w+ \d{4}-\d\d-\d\d \d\d:\d\d \S+|replying to: .*|A run of the task .*)\]"
)
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
class _Asked:
    """A phrase, and what the same person had said before it."""

    phrase: Phrase
    before: tuple[str, ...]


def _respond(prompt: Prompt, messages: Sequence[Message]) -> tuple[list[Wish], str]:
    """Decide: tools to call, or if none is missing, what to say."""
    begin = _open_from(messages)
    asked = list(islice(_asked(messages, begin), MAX_PHRASES + 1))
    known = _outcomes(messages[begin:])
    tools = {tool.name for tool in prompt.tools}
    question = _question_before(messages[:begin])
    notes = _notes(messages[begin:])
    missing: list[Wish] = []
    parts = [told for told in map(_told_late, messages[begin:]) if told]
    for one in asked[:MAX_PHRASES]:
        if question is not None and isinstance(one.phrase, Unknown):
            parts.append(_chosen(one.phrase.text, question))
            continue
        if notes and isinstance(one.phrase, Unknown):
            parts.append(f"I have a note that may answer that:\n\n{notes}")
            continue
        match _next(one.phrase, tools, known):
            case Wish() as wish:
                missing.append(wish)
            case str(text):
                parts.append(text)
            case None:
                parts.append(_answer(one, messages, tools))
    if not asked and not parts:
        parts.append("Nobody asked me anything that I could answer.")
    if len(asked) > MAX_PHRASES:
        parts.append(f"That was more than {MAX_PHRASES} things at once; I left out the rest.")
    is_first = not any(isinstance(message, Assistant) for message in messages[:begin])
    if is_first and not any(OPENLY in part for part in parts):
        parts.append(f"({OPENLY} Say “help” for what I understand.)")
    return missing, "\n\n".join(parts)


def _next(
    phrase: Phrase, tools: Collection[str], known: dict[Wish, list[Result]]
) -> Wish | str | None:
    """Go as far with *phrase* as results are *known*, which are taken out."""
    done: list[Result] = []
    while isinstance(wanted := step(phrase, done), Wish) and known.get(wanted):
        done.append(known[wanted].pop(0))
    if isinstance(wanted, Wish) and wanted.name not in tools:
        return f"I was given no tool {code(wanted.name)}, so I cannot do that."
    return wanted


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
        if len(lines) > MAX_LINES:
            yield _Asked(Unknown("\n".join(lines)), tuple(said))
            said.append("\n".join(lines))
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
    """Yield the lines of people's own words: without what is said about them, or came back."""
    for line in without_days(text).splitlines():
        if not ABOUT.fullmatch(line):
            yield NOTE.sub("", line)


def _outcomes(messages: Sequence[Message]) -> dict[Wish, list[Result]]:
    """Collect what came of the calls made so far, oldest first."""
    wishes: dict[str, Wish] = {}
    found: dict[Wish, list[Result]] = {}
    for message in messages:
        if isinstance(message, Assistant):
            wishes.update((call.id, Wish(call.name, call.arguments)) for call in message.calls)
        elif isinstance(message, Results):
            for result in message.results:
                if result.call in wishes:
                    found.setdefault(wishes[result.call], []).append(result)
    return found


def _answer(asked: _Asked, messages: Sequence[Message], tools: Collection[str]) -> str:
    """Answer what needs no tool."""
    match asked.phrase:
        case Talk("hello"):
            return "Hello. What shall I look at?"
        case Talk("who"):
            return f"{OPENLY} I need no key, no account and no network. I call Elwood's real tools."
        case Talk("help"):
            return f"{OPENLY} I understand, in roughly these words:\n\n{examples(tools)}"
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
        case Unknown(text):
            quoted = literal(cut(text, 60).replace("\n", " "))
            return f"I do not understand “{quoted}”. {OPENLY} Try:\n\n{examples(tools)}"
        case _:
            raise AssertionError(asked.phrase)


def _told_late(message: Message) -> str | None:
    return tell_late(message.text) if isinstance(message, Notice) else None


def _notes(messages: Sequence[Message]) -> str:
    """Quote the notes that were offered with what is asked; "" if there are none."""
    offered = [m.text for m in messages if isinstance(m, Notice) and m.text.startswith(OFFERED)]
    lines = (line for text in offered for line in text[len(OFFERED) : -1].splitlines())
    return "\n".join(f"• {literal(line[2:])}" for line in lines if line.startswith("- "))


def _question_before(messages: Sequence[Message]) -> tuple[str, ...] | None:
    """Return the answers that the turn before offered, if it asked something."""
    begin = _open_from(messages[:-1])
    for wish, results in _outcomes(messages[begin:]).items():
        if wish.name == "ask_user" and not all(result.failed for result in results):
            return msgspec.json.decode(wish.arguments, type=_Offered).options
    return None


class _Offered(msgspec.Struct):
    options: tuple[str, ...] = ()


def _chosen(text: str, options: tuple[str, ...]) -> str:
    """Say which answer to our question *text* is; it may be the number of one."""
    number = int(text) if text.strip() in map(str, range(1, len(options) + 1)) else 0
    return f"Your answer is {in_quotes(options[number - 1] if number else text)}."


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


def _growing(text: str) -> Iterator[str]:
    """Yield *text* up to ever later words, at last the whole."""
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    for end in ends[: -1 : max(1, len(ends) // STEPS)]:
        yield text[:end]
    yield text
