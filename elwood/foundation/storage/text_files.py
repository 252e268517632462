"""What counts as a text file, and its lines."""

from collections.abc import Iterator

from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.storage.files import File

# Bytes of a file that is searched for its lines.
MAX_FILE = 64 << 20
# Bytes of a line that are read at once: a line without an end must not fill the memory.
_PART = 1 << 20
# Bytes at the start of a file that tell what it is.
_START = 4096
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


def raw_lines(path: str, file: File) -> Iterator[bytes]:
    """Read the lines of a text file, with their ends; very long ones come in parts.

    Raises PathRefused if it is no text, or too large.
    """
    size = file.stat.st_size
    if size > MAX_FILE:
        why = f"has {size:,} bytes; files of more than {MAX_FILE:,} bytes are not read"
        raise PathRefused(path, why)
    passed = 0
    with open(file.fd, "rb", closefd=False) as source:
        refuse_binary(path, source.peek(_START), size)
        # It may grow while it is read.
        while passed <= MAX_FILE and (raw := source.readline(_PART)):
            passed += len(raw)
            yield raw


def decoded(raw: bytes) -> str:
    """Make a line, without its end, text."""
    return raw.rstrip(b"\r\n").decode("utf-8", "replace")


def refuse_binary(path: str, start: bytes, size: int) -> None:
    """Raise PathRefused if a file that begins with *start* is no text."""
    kind = next((kind for magic, kind in _KINDS.items() if start.startswith(magic)), None)
    if kind is None and b"\0" in start:
        kind = "binary data"
    if kind is not None:
        raise PathRefused(path, f"is {kind} ({size:,} bytes), not a text file")
