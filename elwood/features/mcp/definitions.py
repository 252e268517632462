"""Tool definitions of a server: pin, check, show, and compare with the accepted ones."""

import difflib
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from elwood.foundation.text.characters import escape_invisible

# Tools of one server; more would crowd every prompt.
MAX_TOOLS = 200
# Characters of a description shown to a model, and of a schema.
MAX_DESCRIPTION, MAX_SCHEMA = 1000, 32_000
# Maximum nesting of a schema and of any message of a server.
MAX_DEPTH = 64
# Characters of a tool name that models accept.
MAX_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# Unicode categories that are invisible or reorder the text around them.
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}


class ToolDefinition(msgspec.Struct, frozen=True):
    """One tool as its server describes it."""

    name: str
    title: str = ""
    description: str = ""  # untrusted text
    input: str = "{}"  # input schema, canonical JSON
    output: str = ""  # output schema, canonical JSON or ""
    annotations: str = ""  # canonical JSON or ""

    @property
    def pin(self) -> str:
        """The SHA-256 hash of the whole definition."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


def canonical(value: object) -> str:
    """Format *value* as canonical JSON; None as "".

    >>> canonical({"b": 1, "a": None}), canonical(None)
    ('{"a":null,"b":1}', '')
    """
    if value is None:
        return ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def model_name(server: str, tool: str) -> str:
    """Return the model's name of a tool; a long name is cut and ends in a hash.

    >>> model_name("time", "get.now"), len(model_name("time", "x" * 100))
    ('time__get_now', 64)
    """
    name = f"{server}__{tool.replace('.', '_')}"
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def refusal(tool: ToolDefinition) -> str | None:
    """Return the reason why *tool* cannot be accepted, or None.

    >>> refusal(ToolDefinition("a b")), refusal(ToolDefinition("a", description="x\\u202ey"))
    ('its name may have only letters, digits, _, - and .', 'it has hidden characters: ⟨U+202E⟩')
    """
    if not _NAME.fullmatch(tool.name):
        return "its name may have only letters, digits, _, - and ."
    text = f"{tool.title}{tool.description}{tool.input}{tool.output}{tool.annotations}"
    # JSON may contain hidden characters in escaped form.
    for part in (text, *_texts(tool.input), *_texts(tool.output), *_texts(tool.annotations)):
        hidden = {char for char in set(part) if _is_hidden(char)}
        if hidden:
            return f"it has hidden characters: {escape_invisible(''.join(sorted(hidden)[:5]))}"
    if len(tool.input) > MAX_SCHEMA:
        return f"its schema is longer than {MAX_SCHEMA:,} characters"
    schema = json.loads(tool.input)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "its schema is not of the type object"
    if any(not ref.startswith("#") for ref in _references(schema)):
        return "its schema refers to another document"
    return None


def _is_hidden(char: str) -> bool:
    return char not in "\n\t" and unicodedata.category(char) in _HIDDEN


def _texts(text: str) -> Iterator[str]:
    for value in walk(json.loads(text or "null")):
        if isinstance(value, str):
            yield value


def _references(schema: object) -> Iterator[str]:
    for value in walk(schema):
        if isinstance(value, dict):
            yield from (str(value[key]) for key in ("$ref", "$dynamicRef") if key in value)


def walk(value: object) -> Iterator[object]:
    """Yield *value* and everything nested in it, keys too."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value


def is_deep(value: object, left: int = MAX_DEPTH) -> bool:
    """Return True if the JSON *value* is nested deeper than *left*."""
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    below = (one for one in within if isinstance(one, dict | list))
    return any(left == 1 or is_deep(one, left - 1) for one in below)


class Offer(msgspec.Struct, frozen=True):
    """The tools that a server offers now, compared with the accepted ones."""

    usable: tuple[ToolDefinition, ...] = ()  # equal to the accepted definition
    waiting: tuple[ToolDefinition, ...] = ()  # new or changed
    gone: tuple[str, ...] = ()  # accepted but no longer offered
    left_out: tuple[str, ...] = ()  # the owner does not want them
    refused: Mapping[str, str] = {}  # reason by name why a tool cannot be accepted

    @property
    def code(self) -> str:
        """The checksum of the waiting tools: accepting by it accepts exactly these."""
        return hashlib.sha256("".join(t.pin for t in self.waiting).encode()).hexdigest()[:8]


def compare(
    server: str,
    offered: Sequence[ToolDefinition],
    accepted: Mapping[str, ToolDefinition],
    left_out: Mapping[str, str] = {},
) -> Offer:
    """Compare the tools *offered* by *server* with the *accepted* ones, by name.

    *left_out* has the pins of the definitions that the owner does not want.
    """
    refused: dict[str, str] = {}
    sound: dict[str, ToolDefinition] = {}
    for tool in offered:
        name = model_name(server, tool.name)
        if len(sound) >= MAX_TOOLS:
            why: str | None = f"the server has more than {MAX_TOOLS} tools"
        elif name in sound:
            why = f"another tool has the same name, {name}"
        else:
            why = refusal(tool)
        if why is None:
            sound[name] = tool
        else:
            refused[tool.name] = why
    tools = sorted(sound.values(), key=lambda tool: tool.name)
    same = [t for t in tools if t.name in accepted and accepted[t.name].pin == t.pin]
    out = [tool for tool in tools if left_out.get(tool.name) == tool.pin]
    waiting = [tool for tool in tools if tool not in same and tool not in out]
    names = {tool.name for tool in offered}
    gone = tuple(sorted(name for name in accepted if name not in names))
    return Offer(tuple(same), tuple(waiting), gone, tuple(tool.name for tool in out), refused)


def claims_to_read(tool: ToolDefinition) -> bool:
    """Return True if the server says that *tool* only reads, which no one has checked.

    >>> claims_to_read(ToolDefinition("a", annotations='{"readOnlyHint":true}'))
    True
    """
    return json.loads(tool.annotations or "{}").get("readOnlyHint") is True


def describe_claim(tool: ToolDefinition) -> str:
    """Describe the server's claim about the effect of *tool*, in a few words; "" if none.

    >>> describe_claim(ToolDefinition("a", annotations='{"readOnlyHint":true}'))
    'it only reads'
    """
    if claims_to_read(tool):
        return "it only reads"
    hints = json.loads(tool.annotations or "{}")
    match hints.get("destructiveHint"), hints.get("readOnlyHint"):
        case True, _:
            return "it can delete or overwrite"
        case False, _:
            return "it adds or changes something, and deletes nothing"
        case _, False:
            return "it changes something"
    return ""


def describe_tool(tool: ToolDefinition) -> str:
    """Format the whole of *tool* for the owner, with invisible characters escaped."""
    schema = json.dumps(json.loads(tool.input or "{}"), indent=1, ensure_ascii=False)
    lines = [tool.name, f"title: {tool.title}" if tool.title else "", tool.description, schema]
    extra = (("result", tool.output), ("annotations", tool.annotations))
    lines += [f"{what}: {text}" for what, text in extra if text]
    return "\n".join(_escape_line(line) for line in "\n".join(filter(None, lines)).split("\n"))


def _escape_line(line: str) -> str:
    return escape_invisible(line).replace("\n", "")


def review(offer: Offer, accepted: Mapping[str, ToolDefinition]) -> str:
    """Format the waiting tools: new ones without their schema, changed ones as a diff."""
    parts = []
    for tool in offer.waiting:
        old = accepted.get(tool.name)
        if old is None:
            claim, about = describe_claim(tool), tool.description or tool.title
            lines = [f"New: {tool.name}", about, f"(It says that {claim}.)" if claim else ""]
            parts.append("\n".join(map(_escape_line, "\n".join(filter(None, lines)).split("\n"))))
            continue
        before, after = describe_tool(old).split("\n"), describe_tool(tool).split("\n")
        changes = [*difflib.unified_diff(before, after, "accepted", "now", lineterm="", n=1)]
        parts.append("\n".join([f"Changed: {tool.name}", *changes]))
    return "\n\n".join(parts)
