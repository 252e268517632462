"""The conversation with a model, independent of providers.

An assistant message has two forms: neutral blocks, for all decisions of Elwood, and the provider's
own content exactly as received, which is sent back.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal
from weakref import WeakValueDictionary

import msgspec

from elwood.foundation.text.tokens import estimate


class Text(msgspec.Struct, frozen=True, tag="text"):
    text: str


class ToolCall(msgspec.Struct, frozen=True, tag="call"):
    """The model requests a call; *arguments* is the raw JSON text as received, unchecked."""

    id: str
    name: str
    arguments: str


Block = Text | ToolCall


class ReceivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a message or of a result, stored at *path* in the workspace."""

    path: str
    # Bytes.
    size: int
    sha256: str
    # Description for the model.
    about: str
    # Text that was read from it.
    text: str = ""
    # Media type (``image/jpeg``), if a model can see it.
    media: str = ""
    # Tokens that it costs a model to see it.
    tokens: int = 0
    # The content may be from strangers.
    untrusted: bool = True


class PendingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a message that must still be fetched from its channel."""

    id: str  # the channel's own; empty if the channel has none
    name: str  # it is stored under this name, the same one if it is fetched twice
    kind: str  # a word for people
    size: int = 0  # bytes, as reported by the channel
    duration: int = 0  # seconds of a recording
    is_speech: bool = False  # words of the sender, to be transcribed

    @property
    def progress(self) -> str:
        """The work on it, as in "I am …"."""
        if not self.is_speech:
            return f"fetching the {self.kind}"
        return f"listening to the {self.kind}, {self.duration // 60}:{self.duration % 60:02}"


class FetchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The result of fetching a pending file."""

    file: ReceivedFile | None = None
    words: str = ""  # the transcript of a recording, marked as one
    trouble: str = ""  # the error, for the sender and the model


class Human(msgspec.Struct, frozen=True, tag="human"):
    """The words of people, rendered for the model, and the *files* that it may see."""

    text: str
    files: tuple[ReceivedFile, ...] = ()


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """A text of Elwood to the model; never words of a person or of a tool.

    A reminder has the *key* of its feature.  *private* is the origin of private data in the text,
    for the question to the owner; else empty.
    """

    text: str
    key: str = ""
    private: str = ""


class Assistant(msgspec.Struct, frozen=True, tag="assistant"):
    """One complete response of a model.

    *native* is the provider's content as received (JSON), to be replayed byte for byte by the
    codec of that name, without thoughts that no longer match the prefix.
    """

    blocks: tuple[Block, ...]
    codec: str
    model: str
    native: msgspec.Raw

    def __post_init__(self) -> None:
        # Without a copy, a message read from a log would keep its whole line in memory.
        msgspec.structs.force_setattr(self, "native", self.native.copy())

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))

    @property
    def text(self) -> str:
        """The text, joined by blank lines."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, Text))


class Result(msgspec.Struct, frozen=True):
    """The result of a call, and the *files* that the model may see; the text names them."""

    call: str
    text: str
    failed: bool = False
    files: tuple[ReceivedFile, ...] = ()


class Results(msgspec.Struct, frozen=True, tag="results"):
    """The results of all calls of the previous assistant message, in order."""

    results: tuple[Result, ...]


Message = Human | Notice | Assistant | Results


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool for the model; *schema* is JSON Schema (draft 2020-12), kept as sent."""

    name: str
    description: str
    schema: msgspec.Raw


class Prompt(msgspec.Struct, frozen=True, weakref=True):
    """The prefix of all messages of an epoch: system text and tools, byte for byte.

    Equal prompts of several logs are shared in memory.
    """

    system: str
    tools: tuple[ToolSpec, ...] = ()

    def __post_init__(self) -> None:
        known = _prompts.setdefault(self.system, self)
        if known is not self and known == self:
            msgspec.structs.force_setattr(self, "system", known.system)
            msgspec.structs.force_setattr(self, "tools", known.tools)


# By system text.
_prompts: WeakValueDictionary[str, Prompt] = WeakValueDictionary()


# Why a response ended, in neutral words.  `tools` is the only one after which calls may run;
# `cut` is max_tokens, `window` the model's context, `paused` a server-side tool loop.
Stop = Literal["end", "tools", "cut", "window", "refused", "paused", "unknown"]


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one call.  *input* excludes tokens read from or written to the cache.

    *cache_write_1h* are the part of *cache_write* that is kept for an hour, which costs more.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    estimated: bool = False


class Completion(msgspec.Struct, frozen=True):
    """One complete response, never a part of a stream that was cut.

    *detail* explains a refusal or an unknown stop reason, in the provider's words.
    """

    message: Assistant
    stop: Stop
    usage: Usage
    detail: str = ""


def texts(message: Message) -> tuple[str, ...]:
    """Return the texts of a message for the model, to estimate its length."""
    match message:
        case Human(text) | Notice(text):
            return (text,)
        case Results(results):
            return tuple(result.text for result in results)
        case Assistant(blocks):
            return tuple(b.text if isinstance(b, Text) else b.arguments for b in blocks)


def get_visible_files(message: Message) -> tuple[ReceivedFile, ...]:
    """Return the files in a message that a model may see."""
    match message:
        case Human(_, files):
            return files
        case Results(results):
            return tuple(file for result in results for file in result.files)
    return ()


# Maximum of files that a model sees again with each request, and of their bytes; beyond it, only
# the newest KEPT_SEEN remain: as many as one message can have, so that requests change rarely.
# Files of results count as those of people.
MAX_SEEN, MAX_SEEN_BYTES = 16, 12 << 20
KEPT_SEEN, KEPT_SEEN_BYTES = 10, 6 << 20


def sees_too_much(messages: Iterable[Message]) -> bool:
    """Return True if there are too many files, so that old ones must be left out."""
    files = [file for message in messages for file in get_visible_files(message)]
    return len(files) > MAX_SEEN or sum(file.size for file in files) > MAX_SEEN_BYTES


def count_newest_seen(messages: Iterable[Message]) -> int:
    """Count the newest files, which remain when there are too many."""
    files = [file for message in messages for file in get_visible_files(message)][-KEPT_SEEN:]
    sizes = accumulate(file.size for file in reversed(files))
    return sum(size <= KEPT_SEEN_BYTES for size in sizes)


INTERRUPTED = "interrupted; it may or may not have happened"


def mend(messages: Iterable[Message]) -> list[Message]:
    """Repair a history so that every provider accepts it (CP-37, LLM-28..34).

    Each call gets exactly one result directly after its message.  Results without a call and
    messages without content are dropped.  A valid history is returned unchanged.
    """
    mended: list[Message] = []
    wanted: tuple[ToolCall, ...] = ()
    held: list[Notice] = []

    def close(given: Sequence[Result]) -> None:
        if not wanted:
            return
        by_call = {result.call: result for result in given}
        results = tuple(
            by_call.get(call.id) or Result(call.id, INTERRUPTED, failed=True) for call in wanted
        )
        mended.extend((Results(results), *held))
        held.clear()

    for message in messages:
        match message:
            case Results(results):
                close(results)
                wanted = ()
                continue
            case Notice() if wanted:
                held.append(message)  # it arrived while the calls ran; their results come first
            case Human(text) | Notice(text):
                close(())
                wanted = ()
                if text.strip():
                    mended.append(message)
            case Assistant():
                close(())
                wanted = message.calls
                if message.blocks:
                    mended.append(message)
    close(())
    return mended


# The tag around a prefix of a turn's text, added by a feature: words of earlier days.
OPENING_TAG = "threads"


def remove_opening(text: str) -> str:
    r"""Return a turn's text without the prefix that a feature added.

    >>> remove_opening('<threads day="1970-01-02">\nx\n</threads>\n[now]\nhi')
    '[now]\nhi'
    """
    return text[len(find_opening(text)) :]


def find_opening(text: str) -> str:
    """Return the prefix of a turn's text that a feature added, or ""."""
    if not text.startswith(f"<{OPENING_TAG} day="):
        return ""
    head, end, _ = text.partition(f"\n</{OPENING_TAG}>\n")
    return head + end if end else ""


def is_opening_private(text: str) -> bool:
    """Return True if the opening of a turn's text is private data."""
    return re.match(rf'<{OPENING_TAG} day="[^"]*" label="private">', text) is not None


def rough(prompt: Prompt, messages: Iterable[Message], said: str) -> Usage:
    """Estimate the usage of a call, rather too high, by bytes only: fast for any history.

    >>> rough(Prompt("x" * 30), (), "six chars")
    Usage(input=10, output=3, cache_read=0, cache_write=0, cache_write_1h=0, estimated=True)
    """
    size = len(prompt.system) + sum(len(bytes(t.schema)) + len(t.description) for t in prompt.tools)
    said_before: list[str] = []
    for message in messages:
        said_before += texts(message)
        if files := get_visible_files(message):
            size += sum(3 * file.tokens for file in files)
    size += _bytes("".join(said_before))  # in one step: a history has thousands of texts
    return Usage(size // 3, _bytes(said) // 3, estimated=True)


def _bytes(text: str) -> int:
    # A Chinese character is one token and three bytes; an English token has four.
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def estimate_prompt(prompt: Prompt) -> int:
    """Estimate the tokens of the prompt.

    >>> estimate_prompt(Prompt("Be good."))
    3
    """
    texts = [prompt.system]
    for tool in prompt.tools:
        texts += [tool.name, tool.description, bytes(tool.schema).decode()]
    return sum(map(estimate, texts))


# Minimum of estimated tokens of a request that counts for the ratio: the overhead that a service
# adds to each request is small then.
ENOUGH = 500
# The weight of the newest request: the last ten determine the ratio.
WEIGHT = 0.2
# Possible ratios of a tokenizer: beyond them, the service counts something else.
LEAST, MOST = 0.5, 3.0


class Calibration(msgspec.Struct):
    """Ratio of the tokens that the last *model* counted to the estimated ones."""

    model: str = ""
    ratio: float = 1.0
    is_known: bool = False

    def update(self, model: str, estimated: int, usage: Usage) -> None:
        """Update the ratio with the usage of a request of *estimated* tokens to *model*.

        >>> calibration = Calibration()
        >>> calibration.update("m", 1000, Usage(input=200, cache_read=1000))
        >>> calibration.update("m", 1000, Usage(input=1400))
        >>> round(calibration.ratio, 2)
        1.24
        """
        if model != self.model:  # another model has another tokenizer
            self.model, self.ratio, self.is_known = model, 1.0, False
        counted = usage.input + usage.cache_read + usage.cache_write
        if usage.estimated or not counted or estimated < ENOUGH:
            return
        seen = min(MOST, max(LEAST, counted / estimated))
        self.ratio += (WEIGHT if self.is_known else 1.0) * (seen - self.ratio)
        self.is_known = True


def extract_words(text: str) -> str:
    """Return the words of people in a turn's text, in one line.

    >>> extract_words("[Thursday 1970-01-01 00:01 UTC]\\nhello\\nthere")
    'hello there'
    """
    text = remove_opening(text)
    head, _, rest = text.partition("\n")
    return " ".join((rest if head.startswith("[") and rest else text).split())
