"""Writes what the operator reads about the configuration: the reference and the first file."""

import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Union, get_args, get_origin

import attrs
import msgspec

from elwood.agent.models.routing import ProviderSettings
from elwood.app.config.keys import BY_PATH, Key
from elwood.app.config.keys import SECTIONS as ABOUT
from elwood.app.config.settings import SECTIONS
from elwood.features.tasks.task_toml import TaskForm
from elwood.foundation.secrets.redaction import Secret

_INTRODUCTION = """\
<!-- Generated: python -m elwood.app.config.reference > docs/reference/config.md -->
# config.toml

Elwood reads this file when it starts and never writes it; `elwood init` makes the first one, and
`elwood doctor` says what is wrong with it. All keys are optional.

- Every key can be set by a variable, which comes before the file: `ELWOOD__SECTION__KEY`, for
  example `ELWOOD__TURN__DEADLINE=60`. Lists and tables are JSON:
  `ELWOOD__TELEGRAM__OWNERS='[123456789]'`.
- `${NAME}` in a text stands for the variable NAME; `$${` stands for `${`.
- Secrets are looked for in `$CREDENTIALS_DIRECTORY` (systemd), then where the key says, then in a
  variable. A `file:` must be readable for its owner only. Variables that held secrets are removed
  from the environment.
"""
_HEAD = """\
# The configuration of Elwood.  Lines that begin with "#" and no blank show a default or, where
# there is none, an example; take the "#" away to set them.  `elwood doctor` checks this file.
#
# Secrets are better kept elsewhere: as systemd credentials (telegram-token, anthropic-key,
# openai-key), or in files that only you can read: "file:/path".

"""
_PROVIDER = """\
#[providers.local]
#api = "openai"
#base_url = "http://127.0.0.1:8080/v1"
"""
_TASK = """\
#[[tasks]]
#title = "Inbox"
#when = "0 8 * * 1"
#prompt = "Summarise what is new in the folder inbox."
#hours = "mon-fri 08:00-18:00"
#watch = ["inbox/*.md"]
#usd = 0.5
"""
_TABLES = {"providers": _PROVIDER, "tasks": _TASK}
_CLASSES: dict[str, type] = SECTIONS | {"providers": ProviderSettings, "tasks": TaskForm}


def reference() -> str:
    """Return the text of docs/reference/config.md."""
    parts = [_INTRODUCTION]
    for section, about in ABOUT.items():
        head = {"providers": "[providers.NAME]", "tasks": "[[tasks]]"}.get(section, f"[{section}]")
        rows = [
            f"| `{field.name}` | {_type(field.type)} | {_default(field, key)} | {key.meaning} |"
            for field, key in _fields(section)
        ]
        table = "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])
        parts.append(f"## {head}\n\n{about}\n\n{table}\n")
    return "\n".join(parts)


def template() -> str:
    """Return the first config.toml: every key in a comment, so that all defaults hold."""
    parts = [_HEAD]
    for section, about in ABOUT.items():
        parts.append(_prose(about))
        if section in _TABLES:
            parts.append(_TABLES[section])
        else:
            parts.append(f"[{section}]\n")
            for field, key in _fields(section):
                parts.append(_prose(key.meaning))
                parts.append(f"#{field.name} = {key.example or _toml(field)}\n")
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _prose(text: str) -> str:
    text = text.replace("`", "")
    lines = textwrap.wrap(text[0].upper() + text[1:], 95)
    return "".join(f"# {line}\n" for line in lines)


def _fields(section: str) -> Iterator[tuple["attrs.Attribute[object]", Key]]:
    name = "providers.NAME" if section == "providers" else section
    for field in attrs.fields(_CLASSES[section]):
        yield field, BY_PATH[f"{name}.{field.name}"]


def _type(kind: object) -> str:
    names: dict[object, str] = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        Path: "path",
        Secret: "secret",
    }
    inner = [arg for arg in get_args(kind) if arg is not types.NoneType]
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in inner)
    if get_origin(kind) is tuple:
        return f"list of {_type(inner[0])}s"
    if get_origin(kind) in (Union, types.UnionType):
        return _type(inner[0])
    return names[kind]


def _default(field: "attrs.Attribute[object]", key: Key) -> str:
    if key.default is not None:
        return key.default
    if field.default is attrs.NOTHING:
        return "must be written"
    return "none" if field.default in (None, "", ()) else f"`{_toml(field)}`"


def _toml(field: "attrs.Attribute[object]") -> str:
    # For texts, numbers and lists of them, JSON is TOML.
    return msgspec.json.encode(field.default).decode()


if __name__ == "__main__":
    print(reference(), end="")
