"""The tools that write files in the workspace."""

import re
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from elwood.agent.conversation.calls import Plan, WriteFile
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure, path_failure
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root, refuse_binary
from elwood.foundation.storage.paths import is_protected
from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.lines import escape_name

# Of a file that is written at once, in bytes: more is no text that a model writes.
MAX_CONTENT = 1 << 20
# Of a file that is edited, before and after, in bytes.
MAX_EDITED = 2 << 20
# Of the text that is to be found, in characters.
MAX_OLD = 100_000
# Share of its words that a line must have in common with another to be called similar.
SIMILAR = 0.5
# Of a similar line, in characters, that is shown.
MAX_SHOWN = 200
# What the plan of a call says of a file that is not there yet.
ABSENT = "absent"

_TOO_LARGE = f"has, or would have, more than {MAX_EDITED:,} bytes; it is too large to be edited"


class WriteText(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace")]
    content: Annotated[
        str, Meta(max_length=MAX_CONTENT, description="What the file is to hold, all of it")
    ]


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="File, relative to the workspace")]
    old: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_OLD,
            description="Text to replace, exactly as it stands in the file, blanks included",
        ),
    ]
    new: Annotated[str, Meta(max_length=MAX_CONTENT, description="Text to put in its place")]
    all: Annotated[
        bool, Meta(description="Replace it wherever it stands; else it must stand there once")
    ] = False


class FileWriter:
    """Writes files of the workspace *root*."""

    def __init__(self, root: Root, blocking: Blocking) -> None:
        self._root = root
        self._blocking = blocking

    async def write_file(self, given: WriteText, context: ToolContext) -> str:
        """Create a file, or replace all that is in it."""
        data = given.content.encode()
        if len(data) > MAX_CONTENT:
            raise ToolFailure(f"content has {len(data):,} bytes; the limit is {MAX_CONTENT:,}")
        write = partial(self._root.write, given.path, data, untrusted=context.label.untrusted)
        try:
            done = await self._blocking(write)
        except (PathRefused, Unconfined) as error:
            raise path_failure(given.path, error) from error
        return f"{done} {escape_name(given.path)} ({len(data):,} bytes)"

    async def edit_file(self, given: Edit, context: ToolContext) -> str:
        """Replace one piece of a text file, or every one like it."""
        if given.old == given.new:
            raise ToolFailure("old and new are the same; nothing was changed")
        untrusted = context.label.untrusted

        def edit() -> int:
            with self._root.file(given.path) as file:
                if file.stat.st_size > MAX_EDITED:
                    raise PathRefused(given.path, _TOO_LARGE)
                data = file.read(MAX_EDITED)
                refuse_binary(given.path, data, file.stat.st_size)
                edited = _edited(given, data, marked=file.untrusted)
                untrusted_now = untrusted or file.untrusted
                self._root.write(given.path, edited.data, untrusted=untrusted_now, expect=file.stat)
                return edited.count

        try:
            count = await self._blocking(edit)
        except (PathRefused, Unconfined) as error:
            raise path_failure(given.path, error) from error
        return f"edited {escape_name(given.path)}: {count} replaced"

    async def plan_write(self, given: WriteText, context: ToolContext) -> Plan:
        """Say what would be written where, and what stands there now."""
        return await self._plan(given.path, f"write {given.path}:\n{given.content}", context)

    async def plan_edit(self, given: Edit, context: ToolContext) -> Plan:
        """Say what would be replaced where, and by what."""
        what = "wherever it stands" if given.all else "once"
        text = f"edit {given.path}, {what}; replace:\n{given.old}\n--- by:\n{given.new}"
        return await self._plan(given.path, text, context)

    async def _plan(self, path: str, subject: str, context: ToolContext) -> Plan:
        before = await self._blocking(partial(_state, self._root, path))
        foreign = before != ABSENT and escape_invisible(path) not in context.written
        return Plan(WriteFile(is_protected(path), foreign), subject, {"before": before})


class _Edited(msgspec.Struct, frozen=True):
    data: bytes
    count: int


def _edited(given: Edit, data: bytes, *, marked: bool) -> _Edited:
    """Make the edited file.  What is in a *marked* one is not told in a failure."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise PathRefused(given.path, "is not text in UTF-8; it cannot be edited") from error
    found = next(((old, new) for old, new in _spellings(given, text) if old in text), None)
    if found is None:
        hint = "" if marked else _similar(text, given.old)
        raise ToolFailure(
            f"{escape_name(given.path)}: old was not found; nothing was changed{hint}"
        )
    old, new = found
    count = text.count(old)
    if not given.all and (count > 1 or text.find(old, text.index(old) + 1) >= 0):
        times = f"{count} times" if count > 1 else "more than once, overlapping"
        raise ToolFailure(
            f"{escape_name(given.path)}: old stands there {times}; nothing was changed. "
            "Give more of the text around it, or all=true"
        )
    if len(data) + count * (len(new.encode()) - len(old.encode())) > MAX_EDITED:
        raise PathRefused(given.path, _TOO_LARGE)
    return _Edited(text.replace(old, new).encode(), count)


def _spellings(given: Edit, text: str) -> list[tuple[str, str]]:
    """Write *old* and *new* with the line ends of *text*; try both ways if it has both."""
    plain = (given.old, given.new)
    crlf = text.count("\r\n")
    if not crlf:
        return [plain]
    windows = (_with_crlf(given.old), _with_crlf(given.new))
    return [windows] if crlf == text.count("\n") else [plain, windows]


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _similar(text: str, old: str) -> str:
    """Point at the line that has most words in common with the first line of *old*."""
    wanted = next((found for line in old.splitlines() if (found := _words(line))), None)
    if wanted is None:
        return ""
    best, number, near = SIMILAR, 0, ""
    for at, line in enumerate(text.split("\n"), 1):
        words = _words(line)
        share = len(words & wanted) / len(words | wanted)
        if share > best:
            best, number, near = share, at, line
    return f". Line {number} is similar: {escape_name(near[:MAX_SHOWN])}" if number else ""


def _words(line: str) -> set[str]:
    return set(re.findall(r"\w+", line))


def _state(root: Root, path: str) -> str:
    """Name what is at *path*, so that it can be told whether it is still the same."""
    try:
        with root.file(path) as file:
            return f"{file.stat.st_ino} {file.stat.st_size} {file.stat.st_mtime_ns}"
    except PathMissing:
        return ABSENT
    except (PathRefused, Unconfined) as error:
        raise path_failure(path, error) from error


def writing_tools(root: Root, blocking: Blocking) -> tuple[Tool, ...]:
    """Make the tools that write."""
    writer = FileWriter(root, blocking)
    return (
        Tool(
            name="write_file",
            id="files.file.write",
            writes=True,
            description=(
                "Create a text file of the workspace, or replace all that is in it. Missing "
                "folders are made. To change a part of a file, use edit_file."
            ),
            input=WriteText,
            run=writer.write_file,
            risk="write",
            effect="keyed",
            timeout=30.0,
            target=lambda given: escape_name(given.path),
            plan=writer.plan_write,
        ),
        Tool(
            name="edit_file",
            id="files.file.edit",
            writes=True,
            description=(
                "Replace a piece of a text file of the workspace by another. The piece must be "
                "given exactly, and so much of it that it stands in the file only once."
            ),
            input=Edit,
            run=writer.edit_file,
            risk="write",
            effect="once",
            timeout=30.0,
            target=lambda given: escape_name(given.path),
            plan=writer.plan_edit,
        ),
    )
