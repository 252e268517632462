"""Store received files in the workspace, and convert them for a model."""

import hashlib
import os
import re
import sys
from functools import partial
from pathlib import PurePath

import msgspec
from msgspec.structs import replace

from elwood.agent.conversation.message import ReceivedFile
from elwood.agent.media.extract import MISSING
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.command import Command, Executor, SandboxFailed
from elwood.foundation.storage.confined import PathMissing, PathRefused
from elwood.foundation.storage.files import Root
from elwood.foundation.text.readable import decode_file, kind_of

FOLDER = "received"
# Maximum characters of a document that a message includes; the rest is in a file.
MAX_TEXT = 20_000
# Maximum bytes of a name that its sender chose, of the 255 that a disk allows; its end is kept.
MAX_NAME = 200
# Maximum seconds to read a PDF or an office document, and bytes of its text.
READ_LIMIT, MAX_PRINTED = 60.0, 8 << 20
# Maximum bytes of a picture or PDF that a model sees, and pages of a PDF; approximate tokens of a
# picture, and of a page.
MAX_LOOK, MAX_SCANNED, PICTURE, SCANNED_PAGE = 5 << 20, 10, 2500, 3000
# A page with fewer characters is a scan.
LEAST_TEXT = 20
# A path with the sender's file name behind a date and an id, or with these two only.
_RECEIVED = re.compile(rf"{FOLDER}/[^/]+/(?:\d{{4}}-\d\d-\d\d-(?:[\w-]{{15,16}}|[^-]+)-)?(\w[^/]*)")
# Suffixes of office documents that can be read.
_OFFICE = (".docx", ".docm", ".xlsx", ".xlsm")
_PICTURES = {
    "a JPEG picture": "image/jpeg",
    "a PNG picture": "image/png",
    "a GIF picture": "image/gif",
    "a WebP picture": "image/webp",
}


class FileKeeper(msgspec.Struct, frozen=True):
    """Stores files below *root*, at most *budget* bytes for each conversation.

    *child* runs the programs that read them.
    """

    root: Root
    blocking: Blocking
    budget: int
    child: Executor

    async def keep(
        self, session: str, name: str, kind: str, data: bytes
    ) -> tuple[ReceivedFile, list[str]]:
        """Store *data* under the untrusted *name*, once; return the file and the removed names.

        *kind* is a word for people.  Raises PathRefused and Unconfined.
        """
        folder, name = f"{FOLDER}/{session}", safe(name)
        removed = await self.blocking(
            partial(_write_file, self.root, self.budget, folder, name, data)
        )
        path, digest = f"{folder}/{name}", hashlib.sha256(data).hexdigest()
        about = f"{kind} {path}, {len(data):,} bytes"
        return ReceivedFile(path=path, size=len(data), sha256=digest, about=about), removed

    async def understand(self, session: str, file: ReceivedFile, data: bytes) -> ReceivedFile:
        """Add the content for a model: its text, or its type as a picture.

        Raises PathRefused and Unconfined.
        """
        kind = kind_of(data)
        if not kind:
            if (text := decode_file(data)) is None:
                return add_remark(file, "it is binary data; only a command can open it")
            # The tools read files in UTF-8 only.
            return await self.add_text(session, file, text, "" if b"\0" in data else file.path)
        if kind in _PICTURES:
            if not (media := _picture_type(data)):
                return add_remark(file, "too large for you to see; a photo of it would do")
            return replace(file, media=media, tokens=PICTURE)
        is_office = PurePath(file.path).suffix.lower() in _OFFICE
        if not (data.startswith(b"%PDF") or is_office):
            return add_remark(file, f"it is {kind}; only a command can open it")
        made = await self._extract(data)
        if isinstance(made, str):
            return add_remark(file, made)
        count, _, text = made.decode("utf-8", "replace").partition("\n")
        pages = int(count)
        if len(text.strip()) >= LEAST_TEXT * pages:
            return await self.add_text(session, file, text)
        if pages > MAX_SCANNED or len(data) > MAX_LOOK:
            return add_remark(file, f"a scan of {pages} pages, too long for you to see")
        scan = replace(file, media="application/pdf", tokens=SCANNED_PAGE * pages)
        return add_remark(scan, f"a scan of {pages} pages, without text")

    async def add_text(
        self, session: str, file: ReceivedFile, text: str, whole: str = ""
    ) -> ReceivedFile:
        """Add *text* of the file *whole*; a long text without a file gets one."""
        if len(text) > MAX_TEXT:
            if not whole:
                name = f"{PurePath(file.path).name}.txt"
                whole = (await self.keep(session, name, "text", text.encode()))[0].path
            file = add_remark(
                file, f"the first {MAX_TEXT:,} of {len(text):,} characters; the whole text: {whole}"
            )
        return replace(file, text=text[:MAX_TEXT])

    async def _extract(self, data: bytes) -> bytes | str:
        """Read *data* in a process that may crash; return its output, or why it failed."""
        command = Command(
            argv=(sys.executable, "-P", "-m", "elwood.agent.media.extract"),
            stdin=data,
            timeout=READ_LIMIT,
            limit=MAX_PRINTED,
            merge=False,
            environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            done = await self.child.run(command)
        except SandboxFailed as error:
            return f"it could not be read: {error}"
        if done.code == MISSING:
            return "it can be read only with the extra `media` (pip install 'elwood[media]')"
        if done.code != 0 or done.cut:
            return "it could not be read: it is damaged, protected by a password, or too large"
        return done.output


def find_picture(path: str, data: bytes) -> ReceivedFile | None:
    """Describe *data*, stored at *path*, as a picture that a model can see; None if it is none."""
    if not (media := _picture_type(data)):
        return None
    digest = hashlib.sha256(data).hexdigest()
    return ReceivedFile(
        path=path, size=len(data), sha256=digest, about="", media=media, tokens=PICTURE
    )


def add_remark(file: ReceivedFile, what: str) -> ReceivedFile:
    return replace(file, about=f"{file.about}; {what}")


def display_name(path: str) -> str:
    """Return the name that the sender gave to a received file; other paths are unchanged.

    >>> display_name("received/tg-1/2026-11-27-AgADx-plan.txt"), display_name("notes/plan.txt")
    ('plan.txt', 'notes/plan.txt')
    """
    found = _RECEIVED.fullmatch(path)
    return path if found is None else found[1]


def safe(name: str) -> str:
    """Convert *name* into a file name that is safe for shells and readers.

    >>> safe("../my report (1).pdf"), safe("a\\nb]")
    ('_my_report_1_.pdf', 'a_b_')
    >>> len(safe("ж" * 200 + ".pdf").encode()), safe("ж" * 200 + ".pdf")[-6:]
    (200, 'жж.pdf')
    """
    kept = re.sub(r"[^\w.-]+", "_", name).encode()[-MAX_NAME:].decode(errors="ignore")
    return kept.lstrip(".-") or "file"


def _picture_type(data: bytes) -> str:
    """Return the media type of a picture that a model can see, or ""."""
    return _PICTURES.get(kind_of(data), "") if len(data) <= MAX_LOOK else ""


def _write_file(root: Root, budget: int, folder: str, name: str, data: bytes) -> list[str]:
    """Write a file, then remove the oldest of *folder* if it is over the budget; blocks."""
    if len(data) > budget:
        raise PathRefused(name, f"has {len(data):,} bytes, which is more than media.budget allows")
    try:
        there = {found: about for found, about in root.stats(folder) if found != name}
    except PathMissing:
        there = {}
    root.write(f"{folder}/{name}", data, untrusted=True)
    removed: list[str] = []
    left = budget - len(data) - sum(about.st_size for about in there.values())
    for old in sorted(there, key=lambda one: there[one].st_mtime):
        if left >= 0:
            break
        root.remove(f"{folder}/{old}", untrusted=True)
        left += there[old].st_size
        removed.append(old)
    return removed
