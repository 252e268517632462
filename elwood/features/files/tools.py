"""The tools that look at files in the workspace."""

from typing import Annotated

import msgspec
from msgspec import Meta

from elwood.agent.conversation.calls import ReadFiles
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.tools.tool import (
    Output,
    Tool,
    ToolContext,
    ToolFailure,
    WorkspaceFiles,
    always,
    path_failure,
)
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import File, Item, decoded, raw_lines
from elwood.foundation.storage.paths import holds_secrets
from elwood.foundation.text.lines import escape_name

# Entries of a folder that one call shows.
MAX_ITEMS = 500
# Of a line, in characters, that is shown: more is data, not text.
MAX_LINE = 2000
# Lines that one call shows.
MAX_LINES = 2000
# Characters that one call shows, below the limit of the tool so that no line is cut there.
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


class FileReader:
    """Looks at *files*."""

    def __init__(self, files: WorkspaceFiles, blocking: Blocking) -> None:
        self._files = files
        self._blocking = blocking

    async def list_files(self, given: ListFiles, context: ToolContext) -> str | Output:
        """List one folder, a line for each entry."""
        try:
            items, more = await self._blocking(lambda: self._items(given))
        except (PathRefused, Unconfined) as error:
            raise path_failure(given.path, error) from error
        if not items:
            return f"{escape_name(given.path)} is an empty folder"
        lines = [_line(item) for item in items[:MAX_ITEMS]]
        if more or len(items) > MAX_ITEMS:
            total = f"more than {len(items)}" if more else str(len(items))
            lines.append(f"[{MAX_ITEMS} of {total} entries are shown]")
        return named("\n".join(lines), items[:MAX_ITEMS])

    async def read_file(self, given: ReadFile, context: ToolContext) -> str | Output:
        """Read some lines of a text file."""

        def read() -> _Page:
            root, path = self._files.reached(given.path)
            with root.file(path) as file:
                return _page(file, given)

        try:
            page = await self._blocking(read)
        except (PathRefused, Unconfined) as error:
            raise path_failure(given.path, error) from error
        name = escape_name(given.path)
        if page.total == 0:
            return f"{name} is empty"
        if not page.lines:
            raise ToolFailure(f"{name} has only {page.total} lines; choose a smaller offset")
        last = given.offset + len(page.lines) - 1
        text = "\n".join(page.lines)
        if given.offset > 1 or last < page.total:
            text += f"\n[lines {given.offset} to {last} of {page.total}"
            text += f"; read on with offset={last + 1}]" if last < page.total else "]"
        return Output(text, untrusted=True, origin=name) if page.untrusted else text

    def _items(self, given: ListFiles) -> tuple[list[Item], bool]:
        root, path = self._files.reached(given.path)
        return root.items(path)


def named(text: str, items: list[Item]) -> str | Output:
    """Give back *text*, which has the names of *items* in it.

    Names are content too: who chose one of a marked file may have read what strangers wrote.
    """
    marked = next((item for item in items if item.untrusted), None)
    return text if marked is None else Output(text, untrusted=True, origin=escape_name(marked.name))


class _Page(msgspec.Struct, frozen=True):
    lines: list[str]
    total: int
    untrusted: bool


def _page(file: File, given: ReadFile) -> _Page:
    lines: list[str] = []
    room, total = MAX_PAGE, 0
    for raw in raw_lines(given.path, file):
        total += 1
        if total < given.offset or len(lines) == given.limit or room <= 0:
            continue
        line = decoded(raw)
        if len(line) > MAX_LINE:
            line = f"{line[:MAX_LINE]} [… line cut, it has {len(line):,} characters]"
        room -= len(line) + 1
        if room > 0:
            lines.append(line)
    return _Page(lines, total, file.untrusted)


def _line(item: Item) -> str:
    name = escape_name(item.name)
    secret = ", holds secrets, cannot be read" if holds_secrets(item.name) else ""
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
    """Make the tools that look at files."""
    reader = FileReader(files, blocking)
    return (
        Tool(
            name="list_files",
            id="files.folder.list",
            description=(
                "List one folder of the workspace: names, sizes, and what is a folder (ends with "
                "'/'). It does not descend: list a folder to see what is in it."
            ),
            input=ListFiles,
            run=reader.list_files,
            risk="read",
            effect="pure",
            timeout=30.0,
            target=lambda given: escape_name(given.path),
            plan=always(ReadFiles()),
            gives=PRIVATE,
        ),
        Tool(
            name="read_file",
            id="files.file.read",
            description=(
                "Read a text file of the workspace. Long files are given in pages: the last line "
                "says with which offset to read on. Binary files and files that hold secrets are "
                "refused."
            ),
            input=ReadFile,
            run=reader.read_file,
            risk="read",
            effect="pure",
            timeout=30.0,
            target=lambda given: escape_name(given.path),
            plan=always(ReadFiles()),
            gives=PRIVATE,
        ),
    )
