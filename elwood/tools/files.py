"""The tools that look at files in the workspace."""

from functools import partial
from typing import Annotated

import attrs
import msgspec
from msgspec import Meta

from elwood.core.paths import holds_secrets, shown
from elwood.store.files import File, Item, PathMissing, PathRefused, Unconfined
from elwood.tools import Hands, Tool, ToolFailure

# Entries of a folder that one call shows.
MAX_ITEMS = 500
# Lines that one call shows, and what is shown of each, in characters: more is data, not text.
MAX_LINES = 2000
MAX_LINE = 2000
# Characters that one call shows, below the limit of the tool so that no line is cut there.
MAX_PAGE = 45_000
# Bytes of a file that is searched for its lines.
MAX_FILE = 64 << 20
# What a file starts with tells what it is; text has no zero byte.
_KINDS = {
    b"%PDF-": "a PDF document",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"PK\x03\x04": "a ZIP archive or an office document",
    b"\x1f\x8b": "a gzip archive",
    b"\x7fELF": "a program",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


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


async def list_files(given: ListFiles, hands: Hands) -> str:
    """List one folder, a line for each entry."""
    try:
        items, more = await hands.blocking(partial(hands.root.items, given.path))
    except (PathRefused, Unconfined) as error:
        raise _failure(given.path, error) from error
    if not items:
        return f"{shown(given.path)} is an empty folder"
    lines = [_line(item) for item in items[:MAX_ITEMS]]
    if more or len(items) > MAX_ITEMS:
        total = f"more than {len(items)}" if more else str(len(items))
        lines.append(f"[{MAX_ITEMS} of {total} entries are shown]")
    return "\n".join(lines)


async def read_file(given: ReadFile, hands: Hands) -> str:
    """Read some lines of a text file."""

    def read() -> _Page:
        with hands.root.file(given.path) as file:
            return _page(file, given)

    try:
        page = await hands.blocking(read)
    except (PathRefused, Unconfined) as error:
        raise _failure(given.path, error) from error
    name = shown(given.path)
    if page.total == 0:
        return f"{name} is empty"
    if not page.lines:
        raise ToolFailure(f"{name} has only {page.total} lines; choose a smaller offset")
    last = given.offset + len(page.lines) - 1
    text = "\n".join(page.lines)
    if given.offset == 1 and last == page.total:
        return text
    text += f"\n[lines {given.offset} to {last} of {page.total}"
    return f"{text}; read on with offset={last + 1}]" if last < page.total else f"{text}]"


@attrs.frozen
class _Page:
    lines: list[str]
    total: int


def _page(file: File, given: ReadFile) -> _Page:
    size = file.stat.st_size
    if size > MAX_FILE:
        why = f"has {size:,} bytes; files of more than {MAX_FILE:,} bytes are not read"
        raise PathRefused(given.path, why)
    lines: list[str] = []
    room, total, passed = MAX_PAGE, 0, 0
    with open(file.fd, "rb", closefd=False) as source:
        _refuse_binary(given.path, source.peek(), size)
        # A line without an end must not fill the memory: it is read in parts.
        while passed <= MAX_FILE and (raw := source.readline(1 << 20)):
            total += 1
            passed += len(raw)
            if total < given.offset or len(lines) == given.limit or room <= 0:
                continue
            line = _decoded(raw)
            room -= len(line) + 1
            if room > 0:
                lines.append(line)
    return _Page(lines, total)


def _decoded(raw: bytes) -> str:
    line = raw.rstrip(b"\r\n").decode("utf-8", "replace")
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]} [… line cut, it has {len(line):,} characters]"


def _refuse_binary(path: str, start: bytes, size: int) -> None:
    kind = next((kind for magic, kind in _KINDS.items() if start.startswith(magic)), None)
    if kind is None and b"\0" in start:
        kind = "binary data"
    if kind is not None:
        raise PathRefused(path, f"is {kind} ({size:,} bytes), not a text file")


def _line(item: Item) -> str:
    name = shown(item.name)
    secret = ", holds secrets, cannot be read" if holds_secrets(item.name) else ""
    match item.kind:
        case "folder":
            return f"{name}/"
        case "link":
            target = "outside" if item.target is None else shown(item.target)
            return f"{name} (link to {target}{secret})"
        case "file":
            return f"{name} ({item.size:,} bytes{secret})"
        case _:
            return f"{name} ({item.kind}, cannot be read)"


def _failure(path: str, error: PathRefused | Unconfined) -> ToolFailure:
    name = shown(path) or "the path"
    match error:
        case PathMissing():
            return ToolFailure(f"{name} {error.why}; list_files shows what is there")
        case PathRefused():
            return ToolFailure(f"{name}: {error.why}")
        case Unconfined():
            return ToolFailure(f"files cannot be read on this machine: {error}")


LIST_FILES = Tool(
    name="list_files",
    description=(
        "List one folder of the workspace: names, sizes, and what is a folder (ends with '/'). "
        "It does not descend: list a folder to see what is in it."
    ),
    input=ListFiles,
    run=list_files,
    risk="read",
    effect="pure",
    timeout=30.0,
    target=lambda given: shown(given.path),
)

READ_FILE = Tool(
    name="read_file",
    description=(
        "Read a text file of the workspace. Long files are given in pages: the last line says "
        "with which offset to read on. Binary files and files that hold secrets are refused."
    ),
    input=ReadFile,
    run=read_file,
    risk="read",
    effect="pure",
    timeout=30.0,
    target=lambda given: shown(given.path),
)
