"""Format a server's answer for the model; large and binary parts go into files."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec

from elwood.foundation.text.characters import printable
from elwood.foundation.text.lines import one_line

# Characters of an answer shown to the model; longer ones are stored whole in a file.
MAX_SHOWN = 40_000
# Files of one answer.
MAX_FILES = 20
# Characters of a name, an address or a type in an answer.
MAX_WORDS = 500
# Resources and prompts of a server that a terminal completes; characters of a name and a text.
MAX_COMPLETED, MAX_NAME, MAX_ABOUT = 100, 200, 100

# Only suffixes of plain data: the server chooses the type.
ENDINGS = {
    "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp",
    "audio/wav": "wav", "audio/mpeg": "mp3", "audio/ogg": "ogg", "application/pdf": "pdf",
    "application/json": "json", "text/plain": "txt", "text/csv": "csv", "text/markdown": "md",
}  # fmt: skip

Block = Mapping[str, Any]  # parsed JSON
_SPACE = re.compile(r"\s")


class Rendered(msgspec.Struct, frozen=True):
    """A formatted answer."""

    text: str
    files: Mapping[str, bytes] = {}  # content by file name; the text mentions each name


def render(blocks: Iterable[Block], structured: object, folder: str) -> Rendered:
    """Format *blocks* and the *structured* result; binary parts go to files in *folder*."""
    files: dict[str, bytes] = {}
    parts = [_format_block(block, folder, files) for block in blocks]
    if structured is not None:
        text = json.dumps(structured, ensure_ascii=False)
        # Servers repeat it as text for clients without structured results.
        if not any(_has_value(part, structured) for part in parts):
            parts.append(text)
    return fit_text("\n\n".join(filter(None, parts)) or "(nothing)", folder, files)


def fit_text(text: str, folder: str, files: Mapping[str, bytes]) -> Rendered:
    """Cut a long *text* in the middle, and put the whole of it into a file."""
    if len(text) <= MAX_SHOWN:
        return Rendered(text, files)
    data = text.encode(errors="replace")
    name = _file_name(data, "text/plain", folder)
    half = MAX_SHOWN // 2
    left = len(text) - 2 * half
    shown = (
        f"{text[:half]}\n[{left:,} characters omitted; the full text is in {name}]\n{text[-half:]}"
    )
    return Rendered(shown, {**files, name: data})


def _has_value(part: str, structured: object) -> bool:
    try:
        return bool(json.loads(part) == structured)
    except (ValueError, RecursionError):
        return False


def _format_block(block: Block, folder: str, files: dict[str, bytes]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            return _add_file(kind, block.get("mimeType"), block.get("data"), folder, files)
        case "resource_link":
            about = one_line(f"{block.get('name', '')} {block.get('description', '')}", MAX_WORDS)
            uri = one_line(str(block.get("uri", "")), MAX_WORDS)
            return f"[link to {uri}: {about.strip()}; not fetched]"
        case "resource":
            return resource(block.get("resource") or {}, folder, files)
        case kind:
            return f"[{one_line(str(kind), 40)}, a type unknown to Elwood]"


def resource(block: Block, folder: str, files: dict[str, bytes]) -> str:
    uri = one_line(str(block.get("uri", "")), MAX_WORDS)
    if "blob" in block:
        return f"{uri}: {_add_file('file', block.get('mimeType'), block['blob'], folder, files)}"
    return f"{uri}:\n{block.get('text', '')}"


def format_listing(items: Iterable[Block], what: str) -> str:
    lines = [f"- {name}: {one_line(about, MAX_WORDS)}" for name, about in map(_describe, items)]
    return "\n".join(lines) or f"There are no {what}."


def format_completions(
    server: str, resources: Iterable[Block], prompts: Iterable[Block]
) -> dict[str, str]:
    """Return what a person types for each resource and prompt of *server*, with its description.

    Names that are long, have spaces or control characters are left out.
    """
    typed = [(f"@{server}:", *_describe(one)) for one in resources]
    typed += [(f"{server}:", *_describe(one)) for one in prompts]
    plain = (
        (f"{start}{name}", one_line(about, MAX_ABOUT))
        for start, name, about in typed
        if 0 < len(name) <= MAX_NAME and name == printable(name) and not _SPACE.search(name)
    )
    return dict(islice(plain, MAX_COMPLETED))


def _describe(item: Block) -> tuple[str, str]:
    """Return the address or name of a listed resource or prompt, and its description."""
    needs = [
        f"{each.get('name')}{'' if each.get('required') else '?'}"
        for each in item.get("arguments") or ()
    ]
    about = [item.get("title") or item.get("name"), item.get("description")]
    about += [f"arguments: {', '.join(needs)}"] if needs else []
    name = item.get("uri") or item.get("uriTemplate") or item.get("name")
    return str(name), "; ".join(map(str, filter(None, about)))


def messages(items: Iterable[Block], folder: str) -> Rendered:
    files: dict[str, bytes] = {}
    parts = [f"{one.get('role')}: {_format_block(one['content'], folder, files)}" for one in items]
    return fit_text("\n\n".join(parts), folder, files)


def resources(items: Iterable[Block], folder: str) -> Rendered:
    files: dict[str, bytes] = {}
    parts = [resource(one, folder, files) for one in items]
    return fit_text("\n\n".join(parts) or "(nothing)", folder, files)


def _add_file(kind: str, mime: object, data: object, folder: str, files: dict[str, bytes]) -> str:
    mime = one_line(str(mime or "application/octet-stream"), 100)
    try:
        content = base64.b64decode(str(data), validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind} of type {mime}, damaged]"
    if len(files) >= MAX_FILES:
        return f"[{kind} of type {mime}, omitted: an answer may have {MAX_FILES} files]"
    name = _file_name(content, mime, folder)
    files[name] = content
    return f"[{kind} of type {mime}, {len(content):,} bytes, in {name}]"


def _file_name(content: bytes, mime: str, folder: str) -> str:
    ending = ENDINGS.get(mime.partition(";")[0].strip().lower(), "bin")
    return f"{folder}/{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
