"""Knows private keys in their armour: plain, escaped, indented, cut off, or in base64."""

import re
from base64 import b64encode
from collections.abc import Iterator

from elwood.foundation.secrets.token_patterns import Found

KIND = "private key"
# Characters of one armoured key, at most; RSA with 8192 bits takes 6 400.
LIMIT = 16 * 1024
# Characters between two runs of a key's body: a line break with what a log, a mail or a diff puts
# in front of each line, and the headers of old formats.
_GAP = 128
# How far before its name the base64 of an armour may begin: `-----BEGIN ENCRYPTED `.
_BEFORE_NAME = 32
# A body has runs at least this long; words do not.
_RUN = re.compile(r"[A-Za-z0-9+/=]{16,}")
_BEGIN = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"|Private-Lines: [0-9]{1,4}"  # PuTTY
)
# A heading that a growing text ends within.
_HALF_BEGIN = re.compile(r"-----B[A-Z0-9 ]{0,90}-{0,5}\Z")
_END = re.compile(r"-----END [A-Z0-9 ]{1,64}-----")
# In base64 only line breaks and an indent stand between two lines.
_NEXT_LINE = re.compile(r"(?:[\s\"'+>|]|\\[nrt]){0,24}([A-Za-z0-9+/=]*)")


def _cores(text: bytes) -> Iterator[str]:
    """Give the characters that *text* has in base64 wherever it stands, at each alignment."""
    for before in range(3):
        padded = bytes(before) + text
        yield b64encode(padded).decode("ascii")[-(-before * 8 // 6) : len(padded) * 8 // 6]


_NAME_IN_BASE64 = tuple(_cores(b" PRIVATE KEY"))
_IN_BASE64 = re.compile("|".join(map(re.escape, _NAME_IN_BASE64)))


def private_keys(text: str, at: int = 0) -> Iterator[Found]:
    """Find the private keys in *text* that begin at *at* or later.

    A key without an end is taken as far as its body goes; a heading without a body is none.

    >>> heading = "-----BEGIN PRIVATE" + " KEY-----"
    >>> [bool(found.kind) for found in private_keys(f"the {heading} line")]
    [False]
    >>> key = f"{heading} " + "q8Zr1vX0c2N4m6B8" * 4
    >>> [found.kind for found in private_keys(key) if found.kind]
    ['private key']
    """
    if "PRIVATE KEY" in text or "Private-Lines" in text:
        yield from _armoured(text, at)
    if any(core in text for core in _NAME_IN_BASE64):
        yield from _in_base64(text, at)
    if half := _HALF_BEGIN.search(text, max(at, len(text) - 100)):
        yield Found(half.start(), half.start(), len(text), "")


def _armoured(text: str, at: int) -> Iterator[Found]:
    while match := _BEGIN.search(text, at):
        begin, limit = match.start(), match.start() + LIMIT
        at = match.end()
        while at < limit and (run := _RUN.search(text, at, min(limit, at + _GAP + 16))):
            at = _end_of_run(text, run.start(), limit)
        has_body = at > match.end()
        end = _END.search(text, at, at + _GAP)
        if end is not None:
            yield Found(begin, begin, end.end(), KIND if has_body else "")
            at = end.end()
            continue
        if has_body:
            yield Found(begin, begin, at, KIND)
        # More of the body, or its end, may come within this distance.
        yield Found(begin, begin, min(len(text), limit, at + _GAP + 16), "")


def _in_base64(text: str, at: int) -> Iterator[Found]:
    while match := _IN_BASE64.search(text, at):
        begin, limit = match.start(), match.start() + LIMIT
        while begin > max(0, match.start() - _BEFORE_NAME) and (
            text[begin - 1].isalnum() or text[begin - 1] in "+/"
        ):
            begin -= 1
        end = _end_of_run(text, match.start(), limit)
        while end < limit:
            run = _NEXT_LINE.match(text, end, limit)
            if run is None or len(run[1]) < 16:
                break
            end = run.end()
        yield Found(begin, begin, end, KIND)
        if run is not None and run.end() == len(text):  # it may go on
            yield Found(begin, begin, len(text), "")
        at = end


def _end_of_run(text: str, start: int, limit: int) -> int:
    run = _RUN.match(text, start, limit)
    return start + 16 if run is None else run.end()
