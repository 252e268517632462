"""Tools that search the workspace by content and by name.

RE2 searches in time linear in the text.  An expression for Python's `re` could block a thread for
years.
"""

import re
import time
from collections.abc import Callable
from fnmatch import translate
from functools import partial
from typing import Annotated

import attrs
import msgspec
from msgspec import Meta

from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import (
    Output,
    ReachedPath,
    Tool,
    ToolContext,
    ToolFailure,
    WorkspaceFiles,
    convert_refusals,
)
from elwood.features.files.tools import (
    MAX_PAGE,
    mark_names,
    plan_look,
    reading_tool,
    reading_tools,
    scope_of_look,
    writing_tools,
)
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.storage.files import File, Item, decode_line, raw_lines
from elwood.foundation.text.lines import escape_name
from elwood.foundation.text.regex import BadRegex, compile_regex

# Lines, or names, shown by one call.
MAX_MATCHES = 200
MAX_NAMES = 500
# Characters of a shown line before the end of the match, and after it.
BEFORE, AFTER = 200, 100
# Seconds of one search.
MAX_SECONDS = 12.0
# Bytes of a line searched at a time.
PART = 1 << 16
# Characters of an expression.
MAX_PATTERN = 500

_Name = Annotated[str, Meta(max_length=255, pattern="^[^/]*$")]


class Grep(msgspec.Struct, forbid_unknown_fields=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN,
            description=(
                "Regular expression (RE2), matched against each line; no look-around, no "
                "back-references. Escape special characters with \\"
            ),
        ),
    ]
    path: Annotated[str, Meta(description="Folder or file, relative to the workspace")] = "."
    ignore_case: Annotated[bool, Meta(description="Ignore case")] = False
    glob: Annotated[_Name, Meta(description="Only files with a name like '*.py'; no folders")] = "*"


class Find(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[
        _Name, Meta(min_length=1, description="Name with * ? [abc], like '*.md'; no folders")
    ]
    path: Annotated[str, Meta(description="Folder to search, relative to the workspace")] = "."


class FileSearch:
    def __init__(self, files: WorkspaceFiles, blocking: Blocking) -> None:
        self._files = files
        self._blocking = blocking

    async def grep(self, given: Grep, context: ToolContext) -> str | Output:
        with convert_refusals(given.path):
            reached = partial(self._files.resolve, given.path, context.route)
            result = await self._blocking(lambda: matches(reached(), given))
        if result.why_cut:
            result.lines.append(f"[{result.why_cut}; choose a smaller folder, or a glob]")
        elif not result.lines:
            result.lines.append(f"no match in {result.files} text files")
        text = "\n".join(result.lines)
        return text if result.origin is None else Output(text, untrusted=True, origin=result.origin)

    async def find(self, given: Find, context: ToolContext) -> str | Output:
        pattern = re.compile(translate(given.name))

        def list_items() -> tuple[list[Item], bool, str]:
            root, path, start = self._files.resolve(given.path, context.route)
            items, more = root.walk(path)
            matching = [item for item in items if pattern.match(item.name.rsplit("/", 1)[-1])]
            return matching, more, start

        with convert_refusals(given.path):
            items, more, start = await self._blocking(list_items)
        listed = items[:MAX_NAMES]
        lines = [
            f"{escape_name(start + one.name)}{'/' if one.kind == 'folder' else ''}"
            for one in listed
        ]
        if len(listed) < len(items):
            lines.append(f"[{len(listed)} of {len(items)} are shown]")
        if more:
            lines.append(
                "[the folder has too many entries; not all were searched; choose a smaller one]"
            )
        return mark_names("\n".join(lines) or "no match", listed)


@attrs.define
class Matches:
    """Result of a search."""

    lines: list[str] = attrs.field(factory=list)
    files: int = 0
    room: int = MAX_PAGE  # characters left
    why_cut: str = ""  # why the search is incomplete
    origin: str | None = None  # name of a marked file that *lines* are from


def compile_search(pattern: str, *, ignore_case: bool = False) -> Callable[[bytes], int | None]:
    r"""Compile *pattern*; the function returns the end of its first match in a line, in bytes.

    Raises ToolFailure.

    >>> compile_search(r"b\w+")(b"a bee or two"), compile_search("B")(b"bee")
    (5, None)
    """
    try:
        search_part = compile_regex(pattern, ignore_case=ignore_case)
    except BadRegex as error:
        raise ToolFailure(f"pattern cannot be used: {error}") from error

    def search(line: bytes) -> int | None:
        for start in range(0, max(1, len(line)), PART):
            if (end := search_part(line[start : start + PART])) is not None:
                return start + end
        return None

    return search


class _Enough(Exception):
    """The search has reached a bound."""


def matches(
    reached: ReachedPath, given: Grep, clock: Callable[[], float] = time.monotonic
) -> Matches:
    """Search *reached* as *given* says, within the bounds.

    Raises ToolFailure, PathRefused, Unconfined.
    """
    search = compile_search(given.pattern, ignore_case=given.ignore_case)
    until = clock() + MAX_SECONDS
    result = Matches()
    items, more = reached.root.walk(reached.path)
    if more:
        result.why_cut = "the folder has too many entries; not all were searched"
    pattern = re.compile(translate(given.glob))

    def search_file(path: str, file: File) -> None:
        for number, raw in enumerate(raw_lines(path, file), 1):
            result.files += number == 1
            if clock() > until:
                raise _Enough("stopped: the search took too long")
            line = raw.rstrip(b"\r\n")
            if (end := search(line)) is None:
                continue
            shown = _cut_around(decode_line(line), len(decode_line(line[:end])))
            text = f"{escape_name(path)}:{number}: {shown}"
            result.room -= len(text) + 1
            if len(result.lines) == MAX_MATCHES or result.room <= 0:
                raise _Enough(f"the first {len(result.lines)} matches are shown; there are more")
            result.lines.append(text)
            if file.untrusted and result.origin is None:
                result.origin = escape_name(path)

    for item in items:
        if item.kind != "file" or not pattern.match(item.name.rsplit("/", 1)[-1]):
            continue
        try:
            with reached.root.file(item.name) as file:
                search_file(f"{reached.start}{item.name}", file)
        except PathRefused:
            continue  # binary, a second name, or removed since
        except _Enough as enough:
            result.why_cut = str(enough)
            break
    return result


def _cut_around(line: str, end: int) -> str:
    """Cut a long line to the part around *end*."""
    start = max(0, end - BEFORE)
    text = f"{'… ' if start else ''}{line[start : end + AFTER]}"
    return f"{text} …" if end + AFTER < len(line) else text


async def build(core: Core, others: Gathered) -> Parts:
    blocking = core.environment.blocking
    files = WorkspaceFiles(core.workspace, others.lent, others.map_path)
    return Parts(
        tools=[
            *reading_tools(files, blocking),
            *writing_tools(files, blocking),
            *search_tools(files, blocking),
        ]
    )


def search_tools(files: WorkspaceFiles, blocking: Blocking) -> tuple[Tool, ...]:
    search = FileSearch(files, blocking)
    return (
        reading_tool(
            name="find",
            id="files.name.find",
            description=(
                "Find files and folders of the workspace by name, in all subfolders. Links are not "
                "followed; names of secrets, and .git, are left out."
            ),
            input=Find,
            run=search.find,
            plan=partial(plan_look, "find"),
            scope=partial(scope_of_look, "find", files, blocking),
            target=lambda given: f"{escape_name(given.name)} in {escape_name(given.path)}",
        ),
        reading_tool(
            name="grep",
            id="files.text.search",
            description=(
                "Search text files of the workspace, in all subfolders, for lines that match a "
                "regular expression. Each line of the result is path:line: text. Links are not "
                "followed; files with secrets, and .git, are left out."
            ),
            input=Grep,
            run=search.grep,
            plan=partial(plan_look, "search"),
            scope=partial(scope_of_look, "search", files, blocking),
            target=lambda given: f"{escape_name(given.pattern)} in {escape_name(given.path)}",
        ),
    )
