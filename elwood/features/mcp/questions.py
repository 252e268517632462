"""Questions of a server to the owner during a call: format them, and parse the answer."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from elwood.foundation.text.characters import escape_invisible

# Characters of a message, fields of a form, and answers offered as buttons.
MAX_MESSAGE, MAX_FIELDS, MAX_BUTTONS = 1000, 30, 6
# A form must not ask for secrets: the answer would be in the chat and reach the server.
_SECRET = re.compile(
    r"(?i)pass ?(?:word|phrase|wd|code)|secret|token|api[ _-]?key|private[ _-]?key|credential"
    r"|\bpin\b|\bcvv\b|\bssn\b|(?:credit|bank|debit)[ _-]?card"
)
_YES, _NO = ("yes", "true", "1"), ("no", "false", "0")

Form = Mapping[str, Any]  # parsed JSON


class ServerQuestion(msgspec.Struct, frozen=True):
    """One step of a form: a question to the owner."""

    words: str
    buttons: tuple[str, ...]  # commands to press
    name: str = ""  # of the field; "" if there is none
    field: Form = {}  # its schema
    required: bool = False


def questions(server: str, form: Form) -> list[ServerQuestion] | str:
    """Format the form of *server* as a question per field, or return the reason to decline it."""
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
        return [ServerQuestion(words, (f"{answer} done", refuse))]
    schema = form.get("requestedSchema") or {}
    fields = schema.get("properties") or {}
    if len(fields) > MAX_FIELDS:
        return f"it asked for more than {MAX_FIELDS} things together"
    if _SECRET.search(f"{message} {fields}"):
        return "it asked for a secret, and I never send secrets in a form"
    head = f"The MCP server {server} asks: {message}"
    if not fields:
        return [ServerQuestion(head, (f"{answer} yes", refuse))]
    required = schema.get("required") or ()
    steps = []
    for number, (name, field) in enumerate(fields.items(), 1):
        count = f"{number} of {len(fields)}: " if len(fields) > 1 else "- "
        lines = [head, count + escape_invisible(_describe_field(name, field))]
        is_list, offered = field.get("type") == "array", _choices(field)
        if is_list or not 0 < len(offered) <= MAX_BUTTONS:
            lines.append(f"Answer with {answer} {'…, …' if is_list else '…'}")
            offered = []
        buttons = [f"{answer} {one}" for one in offered]
        if name not in required or "default" in field:
            buttons.append(answer)
            done = "uses the default" if "default" in field else "skips it"
            lines.append(f"{answer} alone {done}.")
        steps.append(
            ServerQuestion("\n".join(lines), (*buttons, refuse), name, field, name in required)
        )
    return steps


def _describe_field(name: str, field: Form) -> str:
    about = " ".join(str(field[key]) for key in ("title", "description") if field.get(key))
    choices = ", ".join(_choices(field))
    several = "some" if field.get("type") == "array" else "one"
    kind = f"{several} of {choices}" if choices else str(field.get("type", "text"))
    usual = f", default {field['default']}" if "default" in field else ""
    return f"{name} ({kind}{usual}) {about}"[:300]


def _choices(field: Form) -> list[str]:
    if field.get("type") == "boolean":
        return ["yes", "no"]
    field = field.get("items") or field if field.get("type") == "array" else field
    named = field.get("oneOf") or field.get("anyOf") or ()
    return [str(one) for one in field.get("enum") or [each.get("const") for each in named]]


def answer_to(step: ServerQuestion, text: str) -> dict[str, object] | str:
    """Parse the owner's text into the content of a field, or return its fault.

    >>> one = ServerQuestion("", (), "age", {"type": "integer"}, True)
    >>> answer_to(one, "7"), answer_to(one, "seven"), answer_to(one, "")
    ({'age': 7}, 'age must be a whole number', 'age is missing')
    """
    text, name = text.strip(), step.name
    if name and text:
        try:
            return {name: _parse_value(step.field, text)}
        except ValueError as error:
            return f"{name} must be {error}"
    if "default" in step.field:
        return {name: step.field["default"]}
    return f"{name} is missing" if step.required else {}


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
