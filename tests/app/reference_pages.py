"""Generate docs/reference/ and share/: python -m tests.app.reference_pages."""

import inspect
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec

import elwood
from elwood.agent.approvals.state import ApprovalEntry
from elwood.agent.models.ledger import Charged
from elwood.agent.session.commands.slash import menu
from elwood.agent.session.extension import SlashCommand
from elwood.agent.session.log.entries import Entry
from elwood.app.cli import make_parser
from elwood.features.tasks.state import TimetableEntry
from elwood.foundation.storage.anchors import AnchorEntry
from tests.app import shell_pages
from tests.app.config_page import config_page
from tests.every_tool import every_slash_command, every_tool

ROOT = Path(elwood.__file__).parents[1]
MADE = "<!-- Generated: python -m tests.app.reference_pages -->\n"


def pages() -> dict[str, str]:
    """Make all pages, by their paths."""
    reference = {
        "docs/reference/commands.md": commands(),
        "docs/reference/tools.md": tools(),
        "docs/reference/state.md": state(),
        "docs/reference/config.md": config_page(),
    }
    return reference | shell_pages.pages()


ROLES = {"admin": "owners", "member": "owners and members", "guest": "everyone"}


def commands() -> str:
    """Describe the commands of the shell, then the slash commands by their headings in /help."""
    parser = make_parser()
    parts = [
        f"{MADE}# Commands\n",
        "## In a shell\n",
        f"Each command takes `--help` and `--config FILE`. Exit codes: {STATUS}.\n",
    ]
    for typed, command in shell_pages.commands("elwood", parser):
        if command is not parser:
            parts.append("\n".join(_shell_command(typed, command)) + "\n")
    parts += ["## In a conversation\n", SLASH]
    for group, members in menu(every_slash_command()).items():
        parts.append(f"### {group}\n")
        parts += [_slash_command(command) for command in members]
    return "\n".join(parts)


STATUS = "; ".join(f"{code}: {text.rstrip('.')}" for code, text in shell_pages.STATUS.items())
SLASH = (
    "Telegram's menu and Tab in a terminal list these commands. The name of a skill is also a\n"
    "command. Each entry lists the users of the command in a private chat and in a group.\n"
)


def _shell_command(typed: str, parser: ArgumentParser) -> Iterator[str]:
    arguments = shell_pages.arguments(parser, every=False)
    yield f"### {typed}\n\n{parser.description or ''}\n"
    for action in arguments:
        if not isinstance(action, _SubParsersAction):
            value = "|".join(action.choices or [str(action.metavar or action.dest)])
            words = (*action.option_strings[-1:], *([] if action.nargs == 0 else [value]))
            yield f"- `{' '.join(words)}`: {action.help or ''}"


def _slash_command(command: SlashCommand) -> str:
    also = "".join(f", `/{alias}`" for alias in command.aliases)
    group = ROLES[command.right.group] if command.right.group else "not available"
    about = command.about.replace("\n", "  \n")
    private = ROLES[command.right.private]
    return f"**`/{command.name}`**{also}: {about}  \nPrivate chat: {private}. Group: {group}.\n"


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
        f"{MADE}# The journals\n",
        'Each line is `{"seq", "prev", "at", "entries", "crc"}`: the number of its first entry,',
        "the hash of the line before, Unix time, the entries, and a checksum. Entry types are",
        'added, never changed. A line after a closed segment has a `"state"` and no entries',
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
