"""Questions of a server to the owner during a call: format them, and parse the answer."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from elwood.foundation.text.characters import escape_invisible

# Characters of a message, fields of a form, and answers offered as buttons.
MAX_MESSAGE, MAX_FIELDS, MAX_BUTTONS = 1000, 10, 6
# A form must not ask for secrets: the answer would be in the chat and reach the server.
_SECRET = re.compile(
    r"(?i)pass ?(?:word|phrase|wd|code)|secret|token|api[ _-]?key|private[ _-]?key|credential"
    r"|\bpin\b|\bcvv\b|\bssn\b|(?:credit|bank|debit)[ _-]?card"
)
_YES, _NO = ("yes", "true", "1"), ("no", "false", "0")

Form = Mapping[str, Any]  # parsed JSON


class ServerQuestion(msgspec.Struct, frozen=True):
    """A question to the owner."""

    words: str
    buttons: tuple[str, ...]  # commands to press
    fields: Mapping[str, Form] = {}  # schemas of the answer's fields
    required: tuple[str, ...] = ()


def question(server: str, form: Form) -> ServerQuestion | str:
    """Format the form of *server* as a question, or return the reason to decline it."""
    message = escape_invisible(str(form.get("message", ""))[:MAX_MESSAGE]).replace("⏎\n", "\n")
    answer = f"/mcp answer {server}"
    refuse = f"/mcp decline {server}"
    if form.get("mode") == "url":
        url = escape_invisible(str(form.get("url", ""))[:MAX_MESSAGE])
        host = urlsplit(url).hostname
        words = (
            f"The MCP server {server} asks you to open a page of {host}: {url}\n"
            f"It says: {message}\nI cannot check this."
        )
        return ServerQuestion(words, (f"{answer} done", refuse))
    schema = form.get("requestedSchema") or {}
    fields = schema.get("properties") or {}
    if len(fields) > MAX_FIELDS:
        return f"it asked for more than {MAX_FIELDS} things together"
    if _SECRET.search(f"{message} {fields}"):
        return "it asked for a secret, and I never send secrets in a form"
    lines = [f"The MCP server {server} asks: {message}"]
    lines += [f"- {escape_invisible(line)}" for line in _describe_fields(fields)]
    offered = _choices(next(iter(fields.values()))) if len(fields) == 1 else []
    offered = offered or ([] if fields else ["yes"])
    if not offered or len(offered) > MAX_BUTTONS:
        example = "; ".join(f"{name}=…" for name in fields) if len(fields) > 1 else "…"
        lines.append(f"Answer with {answer} {example}")
        offered = []
    buttons = (*(f"{answer} {one}" for one in offered), refuse)
    return ServerQuestion("\n".join(lines), buttons, fields, tuple(schema.get("required") or ()))


def _describe_fields(fields: Mapping[str, Form]) -> Iterator[str]:
    for name, field in fields.items():
        about = " ".join(str(field[key]) for key in ("title", "description") if field.get(key))
        choices = ", ".join(_choices(field))
        kind = f"one of {choices}" if choices else str(field.get("type", "text"))
        usual = f", default {field['default']}" if "default" in field else ""
        yield f"{name} ({kind}{usual}) {about}"[:300]


def _choices(field: Form) -> list[str]:
    if field.get("type") == "boolean":
        return ["yes", "no"]
    field = field.get("items") or field if field.get("type") == "array" else field
    named = field.get("oneOf") or field.get("anyOf") or ()
    return [str(one) for one in field.get("enum") or [each.get("const") for each in named]]


def answer_to(prompt: ServerQuestion, text: str) -> dict[str, object] | str:
    """Parse the owner's text into the content of a form, or return its fault.

    >>> one = ServerQuestion("", (), {"age": {"type": "integer"}}, ("age",))
    >>> answer_to(one, "7"), answer_to(one, "seven")
    ({'age': 7}, 'age must be a whole number')
    """
    given: dict[str, str] = {}
    if len(prompt.fields) == 1:
        given = {next(iter(prompt.fields)): text.strip()}
    elif prompt.fields:
        for part in filter(str.strip, text.split(";")):
            name, equals, value = part.partition("=")
            if not equals or name.strip() not in prompt.fields:
                return f"write it as {'; '.join(f'{name}=…' for name in prompt.fields)}"
            given[name.strip()] = value.strip()
    content: dict[str, object] = {}
    for name, field in prompt.fields.items():
        if name in given and given[name] != "":
            try:
                content[name] = _parse_value(field, given[name])
            except ValueError as error:
                return f"{name} must be {error}"
        elif "default" in field:
            content[name] = field["default"]
        elif name in prompt.required:
            return f"{name} is missing"
    return content


def _parse_value(field: Form, text: str) -> object:
    kind, choices = field.get("type", "string"), _choices(field)
    if kind == "array":
        chosen = [part.strip() for part in text.split(",")]
        if not set(chosen) <= set(choices):
            raise ValueError(f"one or more of {', '.join(choices)}")
        return chosen
    if kind == "boolean":
        if text.lower() not in _YES + _NO:
            raise ValueError("yes or no")
        return text.lower() in _YES
    if choices and text not in choices:
        raise ValueError(f"one of {', '.join(choices)}")
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            raise ValueError("a whole number" if kind == "integer" else "a number") from None
    return text
