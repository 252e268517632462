"""Generate the first config.toml."""

import textwrap

import tomli_w

from elwood.app.config.load import format_key
from elwood.app.main import sections
from elwood.foundation.settings import Answers, yield_fields

_HEAD = """\
# The configuration of Elwood.  Lines that begin with "#" without a space show a default or an
# example; remove the "#" to set them.  `elwood doctor` checks this file.
#
# Do not write secrets here: use systemd credentials (telegram-token, anthropic-key, openai-key),
# or files that only you can read: "file:/path".

"""


def template(answers: Answers | None = None) -> str:
    """Return the first config.toml with *answers*; other keys are comments with their defaults."""
    parts, answers = [_HEAD], answers or {}
    for kind in sections():
        section = kind.SECTION
        parts.append(_comment(section.about))
        if section.tables is not None:
            parts.append(section.tables.example)
        else:
            parts.append(f"[{section.name}]\n")
            for field, key in yield_fields(kind):
                at, shown = (section.name, field.name), key.example or format_toml(field.default)
                if at in (one[:2] for one in answers if len(one) > 2):
                    continue  # its tables follow
                parts.append(_comment(key.help))
                line = f"{field.name} = {format_toml(answers[at])}" if at in answers else ""
                parts.append(f"{line or f'#{field.name} = {shown}'}\n")
        for *table, name in (one for one in answers if one[0] == section.name):
            if section.tables is None and len(table) == 1:
                continue  # written above
            head = f"[[{section.name}]]" if len(table) == 1 else f"[{format_key(tuple(table))}]"
            if f"\n{head}\n" not in parts:
                parts.append(f"\n{head}\n")
            parts.append(f"{name} = {format_toml(answers[(*table, name)])}\n")
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _comment(text: str) -> str:
    text = text.replace("`", "")
    lines = textwrap.wrap(text[0].upper() + text[1:], 95)
    return "".join(f"# {line}\n" for line in lines)


def format_toml(value: object) -> str:
    """Format *value* as TOML on one line; a plain ``${`` would be a variable."""
    text = tomli_w.dumps({"x": value}, indent=0).removeprefix("x = ")
    return text.replace(",\n]", "]").replace("\n", "").replace("${", "$${")
