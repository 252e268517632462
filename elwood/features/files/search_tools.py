"""The tools that search the workspace: by what is in files, and by their names.

RE2 searches in time linear in the text.  Python's own expressions could be made to hold all
threads for years.
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
    reaching,
)
from elwood.features.files.tools import (
    MAX_PAGE,
    looking,
    named,
    plan_look,
    reading_tools,
    scope_of_look,
    writing_tools,
)
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.storage.files import File, Item, decoded, raw_lines
from elwood.foundation.text.lines import escape_name
from elwood.foundation.text.regex import BadRegex, compile_regex

# Lines, and names, that one call shows.
MAX_MATCHES = 200
MAX_NAMES = 500
# Of a line that is shown, in characters: before the end of what was found, and after.
BEFORE, AFTER = 200, 100
# Seconds that one call may spend on searching.
MAX_SECONDS = 12.0
# Bytes of a line that are searched at once.
PART = 1 << 16
# Of an expression, in characters.
MAX_PATTERN = 500

_Name = Annotated[str, Meta(max_length=255, pattern="^[^/]*$")]


class Grep(msgspec.Struct, forbid_unknown_fields=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN,
            description=(
                "Regular expression (RE2), searched for in each line; no look-around, no "
                "back-references. Write \\ before a sign that is meant as it is"
            ),
        ),
    ]
    path: Annotated[str, Meta(description="Folder or file, relative to the workspace")] = "."
    ignore_case: Annotated[bool, Meta(description="Take capitals and small letters as one")] = False
    glob: Annotated[
        _Name, Meta(description="Only files with such a name, as '*.py'; without folders")
    ] = "*"


class Find(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[
        _Name, Meta(min_length=1, description="Name with * ? [abc], as '*.md'; without folders")
    ]
    path: Annotated[str, Meta(description="Folder to search, relative to the workspace")] = "."


class FileSearch:
    def __init__(self, files: WorkspaceFiles, blocking: Blocking) -> None:
        self._files = files
        self._blocking = blocking

    async def grep(self, given: Grep, context: ToolContext) -> str | Output:
        with reaching(given.path):
            reached = partial(self._files.reached, given.path, context.route)
            found = await self._blocking(lambda: matches(reached(), given))
        if found.why_cut:
            found.lines.append(f"[{found.why_cut}; choose a smaller path, or a glob]")
        elif not found.lines:
            found.lines.append(f"nothing found in {found.files} text files")
        text = "\n".join(found.lines)
        return text if found.origin is None else Output(text, untrusted=True, origin=found.origin)

    async def find(self, given: Find, context: ToolContext) -> str | Output:
        pattern = re.compile(translate(given.name))

        def look() -> tuple[list[Item], bool, str]:
            root, path, start = self._files.reached(given.path, context.route)
            items, more = root.walk(path)
            found = [item for item in items if pattern.match(item.name.rsplit("/", 1)[-1])]
            return found, more, start

        with reaching(given.path):
            items, more, start = await self._blocking(look)
        told = items[:MAX_NAMES]
        lines = [
            f"{escape_name(start + one.name)}{'/' if one.kind == 'folder' else ''}" for one in told
        ]
        if len(told) < len(items):
            lines.append(f"[{len(told)} of {len(items)} are shown]")
        if more:
            lines.append(
                "[the folder has too much in it, not all was searched; choose a smaller path]"
            )
        return named("\n".join(lines) or "nothing found", told)


@attrs.define
class Matches:
    """What a search found.

    *why_cut* says why not everything was searched; *origin* names a marked file that *lines* are
    from.  *room* counts characters.
    """

    lines: list[str] = attrs.field(factory=list)
    files: int = 0
    room: int = MAX_PAGE
    why_cut: str = ""
    origin: str | None = None


def searcher(pattern: str, *, ignore_case: bool = False) -> Callable[[bytes], int | None]:
    r"""Make what tells where the first match of *pattern* in a line ends, in bytes.

    Raises ToolFailure.

    >>> searcher(r"b\w+")(b"a bee or two"), searcher("B")(b"bee")
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
    """The search has come to a bound."""


def matches(
    reached: ReachedPath, given: Grep, clock: Callable[[], float] = time.monotonic
) -> Matches:
    """Search what is *reached* for what *given* says, as far as the bounds allow.

    Raises ToolFailure, PathRefused, Unconfined.
    """
    search = searcher(given.pattern, ignore_case=given.ignore_case)
    until = clock() + MAX_SECONDS
    found = Matches()
    items, more = reached.root.walk(reached.path)
    if more:
        found.why_cut = "the folder has too much in it, not all was searched"
    pattern = re.compile(translate(given.glob))

    def look(path: str, file: File) -> None:
        for number, raw in enumerate(raw_lines(path, file), 1):
            found.files += number == 1
            if clock() > until:
                raise _Enough("stopped: the search took too long")
            line = raw.rstrip(b"\r\n")
            if (end := search(line)) is None:
                continue
            shown = _around(decoded(line), len(decoded(line[:end])))
            text = f"{escape_name(path)}:{number}: {shown}"
            found.room -= len(text) + 1
            if len(found.lines) == MAX_MATCHES or found.room <= 0:
                raise _Enough(f"the first {len(found.lines)} matches are shown; there are more")
            found.lines.append(text)
            if file.untrusted and found.origin is None:
                found.origin = escape_name(path)

    for item in items:
        if item.kind != "file" or not pattern.match(item.name.rsplit("/", 1)[-1]):
            continue
        try:
            with reached.root.file(item.name) as file:
                look(f"{reached.start}{item.name}", file)
        except PathRefused:
            continue  # no text, a second name, or gone meanwhile
        except _Enough as enough:
            found.why_cut = str(enough)
            break
    return found


def _around(line: str, end: int) -> str:
    """Cut a long line to what stands around *end*."""
    start = max(0, end - BEFORE)
    text = f"{'… ' if start else ''}{line[start : end + AFTER]}"
    return f"{text} …" if end + AFTER < len(line) else text


async def build(core: Core, others: Gathered) -> Parts:
    blocking = core.environment.blocking
    files = WorkspaceFiles(core.workspace, others.lent, others.place)
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
        looking(
            name="find",
            id="files.name.find",
            description=(
                "Find files and folders of the workspace by name, folders in folders included. "
                "Links are not followed; names of secrets, and .git, are left out."
            ),
            input=Find,
            run=search.find,
            plan=partial(plan_look, "find"),
            scope=partial(scope_of_look, "find", files, blocking),
            target=lambda given: f"{escape_name(given.name)} in {escape_name(given.path)}",
        ),
        looking(
            name="grep",
            id="files.text.search",
            description=(
                "Search text files of the workspace, folders in folders included, for lines that "
                "match a regular expression. Each line of the result is path:line: text. Links are "
                "not followed; files that hold secrets, and .git, are left out."
            ),
            input=Grep,
            run=search.grep,
            plan=partial(plan_look, "search"),
            scope=partial(scope_of_look, "search", files, blocking),
            target=lambda given: f"{escape_name(given.pattern)} in {escape_name(given.path)}",
        ),
    )
