"""Generates docs/reference/{tools,state}.md and share/: python -m tests.app.reference_pages."""

import inspect
from pathlib import Path
from typing import get_args

import msgspec

import elwood
from elwood.agent.approvals.state import ApprovalEntry
from elwood.agent.models.ledger import Charged
from elwood.agent.session.log.entries import Entry
from elwood.features.tasks.state import TimetableEntry
from elwood.foundation.storage.anchors import AnchorEntry
from tests.app import shell_pages
from tests.every_tool import every_tool

ROOT = Path(elwood.__file__).parents[1]
MADE = "<!-- Generated: python -m tests.app.reference_pages -->\n"


def pages() -> dict[str, str]:
    """Return all pages, by path."""
    reference = {"docs/reference/tools.md": tools(), "docs/reference/state.md": state()}
    return reference | shell_pages.pages()


def tools() -> str:
    """Describe the tools, as the model sees them and as the gate treats them."""
    parts = [f"{MADE}# Tools\n"]
    for tool in every_tool():
        schema = msgspec.json.decode(bytes(tool.spec.schema))
        parts.append(
            f"## {tool.name}\n\n{tool.description}\n\n"
            f"`{tool.id}`. Risk: {tool.risk}. Effect: {tool.effect}. "
            f"At most {tool.timeout:.0f} s and {tool.limit:,} characters.\n"
        )
        for name, field in schema["properties"].items():
            needed = "" if name in schema.get("required", ()) else " (optional)"
            choices = " ".join(f"`{choice}`" for choice in field.get("enum", ()))
            about = field.get("description") or choices or field.get("type", "")
            parts.append(f"- `{name}`{needed}: {about}")
        parts.append("")
    return "\n".join(parts)


def state() -> str:
    """Describe the entries of the journals."""
    parts = [
        f"{MADE}# What stands in the journals\n",
        'Each line is `{"seq", "prev", "at", "entries", "crc"}`: the number of its first entry,',
        "the hash of the line before, Unix time, the entries, and a checksum. Entry types are",
        'added, never changed. A line behind a closed segment has no entries but a `"state"`',
        "([decision 18](../decisions/0018-closed-logs.md)).\n",
    ]
    files = {
        "sessions/<id>.jsonl": get_args(Entry),
        "approvals.jsonl": get_args(ApprovalEntry),
        "usage.jsonl": (Charged,),
        "schedule.jsonl": get_args(TimetableEntry),
        "anchors.jsonl": get_args(AnchorEntry),
    }
    for file, entries in files.items():
        parts.append(f"## {file}\n")
        parts += [_described(entry) for entry in entries]
    return "\n".join(parts)


def _described(kind: type) -> str:
    about = inspect.cleandoc(kind.__doc__ or "")
    names = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(kind))
    return f"**{kind.__name__}**{f' ({names})' if names else ''}. {about}\n"


if __name__ == "__main__":
    for path, text in pages().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
