"""Tools that read and write files in the workspace."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Protocol

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.calls import ApprovalScope, Plan, ReadFiles, WriteFile
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.tools.tool import (
    Output,
    Tool,
    ToolContext,
    ToolFailure,
    WorkspaceFiles,
    convert_refusals,
    in_words,
)
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import File, Item, Root, decode_line, raw_lines, refuse_binary
from elwood.foundation.storage.paths import holds_secrets, protection
from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.diff import format_diff
from elwood.foundation.text.lines import escape_name

# Entries of a folder shown by one call.
MAX_ITEMS = 500
# Characters of a line that are shown; a longer line is data, not text.
MAX_LINE = 2000
# Lines shown by one call.
MAX_LINES = 2000
# Characters shown by one call, below the limit of the tool so that no line is cut there.
MAX_PAGE = 45_000


class ListFiles(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[
        str, Meta(description="Folder, relative to the workspace; '.' is the workspace itself")
    ] = "."


class ReadFile(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace")]
    offset: Annotated[int, Meta(ge=1, description="First line to read, counted from 1")] = 1
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES, description="Number of lines to read")] = (
        MAX_LINES
    )


# Tools that only read the workspace.
reading_tool = partial(Tool, risk="read", effect="pure", gives=PRIVATE)


class _HasPath(Protocol):
    path: str


async def plan_look(verb: str, given: _HasPath, context: ToolContext) -> Plan:
    await trio.lowlevel.checkpoint()
    is_all = verb in ("read", "list")
    subject = f"{verb} {given.path}" if is_all else f"{verb}\n{in_words(given)}"
    asks = {"read": "read this file", "list": "list this folder"}.get(verb, "search your files")
    return Plan(ReadFiles(), subject, asks=asks)


async def scope_of_look(
    verb: str, files: WorkspaceFiles, blocking: Blocking, given: _HasPath, context: ToolContext
) -> ApprovalScope | None:
    return await blocking(lambda: folder_scope(verb, *files.resolve(given.path, context.route)))


def folder_scope(verb: str, root: Root, path: str, start: str = "") -> ApprovalScope | None:
    """Return the folder of *root* that may be approved with *path*; blocks.

    With a *start*, outside the workspace, it is named by its path on this machine.  For a file
    directly in *root* it is that file alone: never the whole of *root*, nor files that instruct
    Elwood or start programs.
    """
    try:
        located = root.locate(path)
    except (PathRefused, Unconfined):
        return None  # the tool itself will fail, with the reason
    folder, _, name = located.rpartition("/")
    if not located or protection(located):
        return None
    start = f"{root.path.resolve()}/" if start else ""
    if folder:
        parts, where = folder.split("/"), f"in {escape_name(start + folder)}/"
        keys = tuple(f"folder {start}{'/'.join(parts[:end])}" for end in range(len(parts), 0, -1))
        covers = f"{verb} any file {where} or in its subfolders"
        return ApprovalScope(keys, f"{verb} {where}", covers)
    words = f"{verb} {escape_name(start + name)}"
    return ApprovalScope((f"file {start}{name}",), words, f"{words}, even if its content changes")


class FileReader:
    def __init__(self, files: WorkspaceFiles, blocking: Blocking) -> None:
        self._files = files
        self._blocking = blocking

    async def list_files(self, given: ListFiles, context: ToolContext) -> str | Output:
        with convert_refusals(given.path):
            return await self._blocking(lambda: self._list_folder(given, context))

    async def read_file(self, given: ReadFile, context: ToolContext) -> str | Output:
        with convert_refusals(given.path):
            return await self._blocking(lambda: self._read_page(given, context))

    def _list_folder(self, given: ListFiles, context: ToolContext) -> str | Output:
        root, path, _ = self._files.resolve(given.path, context.route)
        items, more = root.items(path)
        if not items:
            return f"{escape_name(given.path)} is an empty folder"
        lines = [_format_item(item) for item in items[:MAX_ITEMS]]
        if more or len(items) > MAX_ITEMS:
            total = f"more than {len(items)}" if more else str(len(items))
            lines.append(f"[{MAX_ITEMS} of {total} entries are shown]")
        return mark_names("\n".join(lines), items[:MAX_ITEMS])

    def _read_page(self, given: ReadFile, context: ToolContext) -> str | Output:
        root, path, _ = self._files.resolve(given.path, context.route)
        with root.file(path) as file:
            lines, total = _cut_page(file, given)
        name = escape_name(given.path)
        if total == 0:
            return f"{name} is empty"
        if not lines:
            raise ToolFailure(f"{name} has only {total} lines; choose a smaller offset")
        last = given.offset + len(lines) - 1
        text = "\n".join(lines)
        if given.offset > 1 or last < total:
            text += f"\n[lines {given.offset} to {last} of {total}"
            text += f"; read on with offset={last + 1}]" if last < total else "]"
        return Output(text, untrusted=True, origin=name) if file.untrusted else text


def mark_names(text: str, items: list[Item]) -> str | Output:
    """Return *text*, which contains the names of *items*, marked if any of them is.

    Names are content too: they may have been chosen after reading untrusted text.
    """
    marked = next((item for item in items if item.untrusted), None)
    return text if marked is None else Output(text, untrusted=True, origin=escape_name(marked.name))


def _cut_page(file: File, given: ReadFile) -> tuple[list[str], int]:
    """Return the requested lines, and the number of lines in the file."""
    lines: list[str] = []
    room, total = MAX_PAGE, 0
    for raw in raw_lines(given.path, file):
        total += 1
        if total < given.offset or len(lines) == given.limit or room <= 0:
            continue
        line = decode_line(raw).removeprefix("\ufeff")
        if len(line) > MAX_LINE:
            line = f"{line[:MAX_LINE]} [… line cut, it has {len(line):,} characters]"
        room -= len(line) + 1
        if room > 0:
            lines.append(line)
    return lines, total


def _format_item(item: Item) -> str:
    name = escape_name(item.name)
    secret = ", has secrets, cannot be read" if holds_secrets(item.name) else ""
    match item.kind:
        case "folder":
            return f"{name}/"
        case "link":
            target = "outside" if item.target is None else escape_name(item.target)
            return f"{name} (link to {target}{secret})"
        case "file":
            return f"{name} ({item.size:,} bytes{secret})"
        case _:
            return f"{name} ({item.kind}, cannot be read)"


def reading_tools(files: WorkspaceFiles, blocking: Blocking) -> tuple[Tool, ...]:
    reader = FileReader(files, blocking)
    return (
        reading_tool(
            name="list_files",
            id="files.folder.list",
            description=(
                "List the names and sizes in one folder of the workspace. Folders end with '/'; "
                "list each one separately."
            ),
            input=ListFiles,
            run=reader.list_files,
            plan=partial(plan_look, "list"),
            scope=partial(scope_of_look, "list", files, blocking),
            target=lambda given: escape_name(given.path),
            looks_at="folder",
        ),
        reading_tool(
            name="read_file",
            id="files.file.read",
            description=(
                "Read a text file of the workspace. Long files come in pages: the last line has "
                "the offset of the next page. Binary files and files with secrets are refused."
            ),
            input=ReadFile,
            run=reader.read_file,
            plan=partial(plan_look, "read"),
            scope=partial(scope_of_look, "read", files, blocking),
            target=lambda given: escape_name(given.path),
            looks_at="file",
        ),
    )


# --- writing --------------------------------------------------------------------------------------

# Bytes of a written file, and of an edited one, before and after.
MAX_CONTENT = 2 << 20
# Maximum characters of a diff in a question that is longer than the call itself.
MAX_DIFF = 10_000
# State of a file that does not exist yet, in the plan of a call.
ABSENT = "absent"

_TOO_LARGE = f"has, or would have, more than {MAX_CONTENT:,} bytes; it is too large to edit"


class WriteText(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace")]
    content: Annotated[
        str, Meta(max_length=MAX_CONTENT, description="The complete content of the file")
    ]


class EditText(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace")]
    old: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_CONTENT,
            description="Text to replace, exactly as in the file, including white space",
        ),
    ]
    new: Annotated[str, Meta(max_length=MAX_CONTENT, description="Replacement text")]
    all: Annotated[
        bool, Meta(description="Replace every occurrence; if false, it must occur only once")
    ] = False


class FileWriter:
    def __init__(self, files: WorkspaceFiles, blocking: Blocking) -> None:
        self._files = files
        self._blocking = blocking

    async def write_file(self, given: WriteText, context: ToolContext) -> str:
        data = given.content.encode()
        if len(data) > MAX_CONTENT:
            raise ToolFailure(f"content has {len(data):,} bytes; the limit is {MAX_CONTENT:,}")

        def write() -> str:
            root, path, _ = self._files.resolve(given.path, context.route)
            return root.write(path, data, untrusted=context.label.untrusted)

        with convert_refusals(given.path):
            done = await self._blocking(write)
        return f"{done} {escape_name(given.path)} ({len(data):,} bytes)"

    async def edit_file(self, given: EditText, context: ToolContext) -> str:
        """Replace one occurrence of a text in a file, or all of them."""
        if given.old == given.new:
            raise ToolFailure("old and new are the same; nothing was changed")
        untrusted = context.label.untrusted

        def edit() -> int:
            root, path, _ = self._files.resolve(given.path, context.route)
            with root.file(path) as file:
                if file.stat.st_size > MAX_CONTENT:
                    raise PathRefused(given.path, _TOO_LARGE)
                data = file.read(MAX_CONTENT)
                refuse_binary(given.path, data, file.stat.st_size)
                data, count = _apply_edit(given, data)
                untrusted_now = untrusted or file.untrusted
                root.write(path, data, untrusted=untrusted_now, expect=file.stat)
                return count

        with convert_refusals(given.path):
            count = await self._blocking(edit)
        return f"edited {escape_name(given.path)}: {count} replaced"

    async def plan_write(self, given: WriteText, context: ToolContext) -> Plan:
        """Plan the write: the changed lines, or the content of a new file."""
        text = f":\n{given.content}"
        return await self._plan("write", given.path, text, lambda before: given.content, context)

    async def plan_edit(self, given: EditText, context: ToolContext) -> Plan:
        what = "every occurrence" if given.all else "once"
        text = f", {what}; replace:\n{given.old}\n--- with:\n{given.new}"

        def change(before: bytes) -> str:
            return _apply_edit(given, before)[0].decode()

        return await self._plan("edit", given.path, text, change, context)

    async def _plan(
        self, verb: str, path: str, text: str, change: Callable[[bytes], str], context: ToolContext
    ) -> Plan:
        """Plan to *verb* a file; *text* describes that if there is no readable difference."""

        def inspect() -> tuple[str, ApprovalScope | None, str, str]:
            root, inner, start = self._files.resolve(path, context.route)
            before, diff = _inspect_file(root, inner, change)
            return before, folder_scope(verb, root, inner, start), inner, diff

        before, scope, inner, diff = await self._blocking(inspect)
        foreign = before != ABSENT and escape_invisible(path) not in context.written
        action = WriteFile(protection(inner) is not None, foreign)
        if diff and len(diff) <= max(MAX_DIFF, len(text)):
            text = f"\n{diff}"
        does = {"write": "create" if before == ABSENT else "replace"}.get(verb, "change")
        facts, asks = {"before": before}, f"{does} this file"
        return Plan(action, f"{verb} {path}{text}", facts, scope=scope, asks=asks)


def _apply_edit(given: EditText, data: bytes) -> tuple[bytes, int]:
    """Return the edited content and the number of replacements."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise PathRefused(given.path, "is not UTF-8 text; it cannot be edited") from error
    old, new = given.old, given.new
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        old, new = (re.sub("\r?\n", "\r\n", part) for part in (old, new))
    count = text.count(old)
    if not count:
        raise ToolFailure(f"{escape_name(given.path)}: old was not found; nothing was changed")
    if count > 1 and not given.all:
        raise ToolFailure(
            f"{escape_name(given.path)}: old occurs {count} times; nothing was changed. "
            "Give more of the text around it, or all=true"
        )
    if len(data) + count * (len(new.encode()) - len(old.encode())) > MAX_CONTENT:
        raise PathRefused(given.path, _TOO_LARGE)
    return text.replace(old, new).encode(), count


def _inspect_file(root: Root, path: str, change: Callable[[bytes], str]) -> tuple[str, str]:
    """Return a fingerprint of the content at *path*, to notice another change, and a diff.

    The diff is "" for a new file, or if *change* cannot be applied to the present content.
    """
    with convert_refusals(path):
        try:
            with root.file(path) as file:
                found = file.stat
                data = file.read(MAX_CONTENT) if found.st_size <= MAX_CONTENT else b""
        except PathMissing:
            return ABSENT, ""
    diff = ""
    with suppress(UnicodeDecodeError, ToolFailure, PathRefused):
        if data and b"\0" not in data:
            diff = format_diff(data.decode(), change(data))
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}", diff


def writing_tools(files: WorkspaceFiles, blocking: Blocking) -> tuple[Tool, ...]:
    writer = FileWriter(files, blocking)
    return (
        Tool(
            name="write_file",
            id="files.file.write",
            writes=True,
            description=(
                "Create a text file of the workspace, or replace its whole content. Missing "
                "folders are created. To change a part of a file, use edit_file."
            ),
            input=WriteText,
            run=writer.write_file,
            risk="write",
            effect="keyed",
            target=lambda given: escape_name(given.path),
            plan=writer.plan_write,
            deeds=("write",),
        ),
        Tool(
            name="edit_file",
            id="files.file.edit",
            writes=True,
            description=(
                "Replace a piece of text in a file of the workspace. Give the piece exactly, and "
                "long enough that it occurs only once in the file."
            ),
            input=EditText,
            run=writer.edit_file,
            risk="write",
            effect="once",
            target=lambda given: escape_name(given.path),
            plan=writer.plan_edit,
            deeds=("write", "delete"),
        ),
    )
