"""Describe the configuration, from its fields: docs/reference/config.md."""

import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from elwood.app.config.template import format_toml
from elwood.app.main import own_sections, sections
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Key, Settings, yield_fields

_INTRODUCTION = """\
<!-- Generated: python -m tests.app.reference_pages -->
# config.toml

Elwood reads this file when it starts and never writes it. `elwood init` creates the first one, and
`elwood doctor` checks it. All keys are optional.

- An environment variable overrides the file: `ELWOOD__SECTION__KEY`, for example
  `ELWOOD__TURN__DEADLINE=60`. Lists are JSON: `ELWOOD__TELEGRAM__OWNERS='[123456789]'`.
- Elwood replaces `${NAME}` in a text by the variable NAME, and `$${` by `${`.
- Elwood looks for a secret in `$CREDENTIALS_DIRECTORY` (systemd), then in the key, then in a
  variable. Only its owner may be able to read a `file:`. Elwood removes variables with secrets from
  its environment.
- The file `.env` beside config.toml can set the same variables, one `NAME=value` per line. Only its
  owner may be able to read it (`chmod 600`). The environment overrides it, and its variables do not
  enter the environment of Elwood or of its commands.
"""
_OWN = """\
# agent.toml

The assistant's own half of the configuration, in the state folder. Elwood reads it whenever it
changes. The assistant changes it with a tool, which shows you the diff and asks you. You can also
edit it by hand. `/settings` shows it, and `/settings undo` reverts the last change. If it has an
error, Elwood tells you and keeps the previous settings. Other sections are not allowed.
"""


def config_page() -> str:
    """Describe all sections of config.toml and agent.toml."""
    parts = [
        _INTRODUCTION,
        *map(_describe_section, sections()),
        _OWN,
        *map(_describe_section, own_sections()),
    ]
    return "\n".join(parts)


def _describe_section(kind: type[Settings]) -> str:
    section, item = kind.SECTION, kind
    head = f"[{section.name}]"
    if section.tables is not None:
        item = section.tables.item
        head = f"[{section.name}.NAME]" if section.tables.keyed else f"[[{section.name}]]"
    parts = [f"## {head}\n\n{section.about}\n\n{_format_keys(item)}\n"]
    for field, _ in yield_fields(item):
        inner = get_args(field.type)[-1] if get_origin(field.type) is Mapping else Secret
        if attrs.has(inner) and inner is not Secret:
            parts.append(f"`[{head[1:-1]}.{field.name}.NAME]`:\n\n{_format_keys(inner)}\n")
    return "\n".join(parts)


def _format_keys(item: type) -> str:
    rows = [
        f"| `{field.name}` | {_type_name(field.type)} | {_default_text(field, key)} | {key.help} |"
        for field, key in yield_fields(item)
    ]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])


def _type_name(kind: object) -> str:
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
    if get_origin(kind) is tuple and attrs.has(inner[0]):
        return "tables: " + ", ".join(f"`{field.name}`" for field, _ in yield_fields(inner[0]))
    if get_origin(kind) is tuple:
        items = get_args(inner[0]) or inner[:1]
        return f"list of {' or '.join(f'{_type_name(one)}s' for one in items)}"
    if get_origin(kind) is Mapping:
        return f"table of {_type_name(inner[1])}s" if inner[1] in names else "table"
    if get_origin(kind) in (Union, types.UnionType):
        return _type_name(inner[0])
    return names[kind]


def _default_text(field: "attrs.Attribute[Any]", key: Key) -> str:
    if key.default is not None:
        return key.default
    if field.default is attrs.NOTHING:
        return "required"
    return "none" if field.default in (None, "", (), {}) else f"`{format_toml(field.default)}`"
