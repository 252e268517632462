"""Forms with a file in them, as HTTP carries them (RFC 7578)."""

import hashlib
import re
from collections.abc import Mapping

# What cannot stand in the name of a file: the Bot API's server cuts the name at a semicolon also
# between quotes, and knows no escapes (tdnet's HttpReader); the rest would mislead people.
_UNSENDABLE = re.compile(
    '[\x00-\x1f\x7f-\x9f";/\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]'
)
# Characters of a name that are sent; its ending is kept.
MAX_NAME = 120


def encode(fields: Mapping[str, str], field: str, name: str, data: bytes) -> tuple[bytes, bytes]:
    """Write a form of *fields* and one file in *field*; return its content type and its body.

    The boundary is a hash over the file, which therefore cannot contain it.
    """
    # 32 hexadecimal digits do: who could make a file that holds its own hash has other means.
    boundary = hashlib.sha256(b"elwood" + data).hexdigest()[:32].encode()
    parts = []
    for key, value in fields.items():
        head = f'Content-Disposition: form-data; name="{key}"'
        parts.append(_part(boundary, head, value.encode("utf-8", "replace")))
    head = f'Content-Disposition: form-data; name="{field}"; filename="{sendable(name)}"'
    parts.append(_part(boundary, f"{head}\r\nContent-Type: application/octet-stream", data))
    body = b"".join([*parts, b"--", boundary, b"--\r\n"])
    return b"multipart/form-data; boundary=" + boundary, body


def sendable(name: str) -> str:
    """Write the name of a file so that it arrives whole and means what it shows.

    >>> sendable('a;b".txt'), sendable("gnp\\u202e.exe"), sendable("..")
    ('a_b_.txt', 'gnp_.exe', 'file')
    """
    name = _UNSENDABLE.sub("_", name)
    if len(name) > MAX_NAME:
        stem, dot, ending = name.rpartition(".")
        short = dot and len(ending) < MAX_NAME // 2
        name = f"{stem[: MAX_NAME - len(ending) - 1]}.{ending}" if short else name[:MAX_NAME]
    return name if name.strip(". ") else "file"


def _part(boundary: bytes, head: str, value: bytes) -> bytes:
    return b"--%s\r\n%s\r\n\r\n%s\r\n" % (boundary, head.encode(), value)
