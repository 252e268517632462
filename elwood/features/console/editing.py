"""Line editing: a persistent history, completion, pasted blocks, files."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from elwood.foundation.text.characters import printable

# Entries of the history, and bytes of one; longer entries are not stored.
MAX_ENTRIES, MAX_ENTRY = 1000, 64 * 1024
# A pasted block of more lines or characters than these is folded.
MAX_LINES, MAX_PASTED = 3, 1000
# File names that a completion by substring looks at, and offers.
MAX_LOOKED_AT, MAX_OFFERED = 5000, 20
# A file to attach: `@notes.txt`, or `@"two words.txt"`.
_FILE = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')


class PersistentHistory(History):
    """The history of typed lines: a line of JSON each in *path*, readable by its owner only."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Yield the newest first; cut a file of more than twice `MAX_ENTRIES` to the newest."""
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except OSError:
            return
        if len(lines) > 2 * MAX_ENTRIES:
            with suppress(OSError):
                new = self._path.with_name(f"{self._path.name}.new")
                new.unlink(missing_ok=True)
                self._write(new, b"".join(lines[-MAX_ENTRIES:]))
                new.replace(self._path)
        for line in reversed(lines[-MAX_ENTRIES:]):
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # cut by a crash
                yield msgspec.json.decode(line, type=str)

    def store_string(self, string: str) -> None:
        line = msgspec.json.encode(string.encode("utf-8", "replace").decode()) + b"\n"
        if len(line) <= MAX_ENTRY:
            with suppress(OSError):  # a lost history entry must not stop the user
                self._write(self._path, line)

    def _write(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(fd, "ab") as file:
            file.write(data)


class LineCompleter(Completer):
    """Complete slash *commands* at the beginning, and file names after ``@``.

    The text of a command has its description in the first line, and its usage in the others.  A
    command that begins with ``@`` is a word that is completed like a file name.
    """

    def __init__(self, commands: Sequence[tuple[str, str]]) -> None:
        self._commands = list[tuple[str, str]]()
        self._words = [(name[1:], text) for name, text in commands if name.startswith("@")]
        for name, text in commands:
            if name.startswith("@"):
                continue
            about, _, usage = text.partition("\n")
            self._commands.append((f"/{name}", about))
            longer = re.findall(rf"/{re.escape(name)} [a-z]+", usage)
            self._commands += [(one, "") for one in dict.fromkeys(longer)]
        # Names with control characters, or that need quotes, are not completed.
        self._files = PathCompleter(
            expanduser=True,
            file_filter=lambda path: path == printable(path) and not re.search(r'[\s"]', path),
        )

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if before.startswith("/"):
            for name, about in self._commands:
                if name.startswith(before) and (" " in before) == (" " in name):
                    yield Completion(name, -len(before), display_meta=about)
        elif match := re.search(r"(?<!\S)@(\S*)$", before):
            yield from self._files.get_completions(Document(match[1]), event)
            for name, about in self._words:
                if match[1] and match[1].lower() in name.lower():
                    yield Completion(name, -len(match[1]), display_meta=about)
            if match[1] and not match[1].startswith(("/", "~", ".")):
                for path in islice(_find_names(match[1]), MAX_OFFERED):
                    yield Completion(path, -len(match[1]))


def _find_names(part: str) -> Iterator[str]:
    """Yield the files below the current folder whose paths contain, but do not begin with, *part*.

    Hidden files, and names that need quotes, are left out.
    """
    looked_at, part = 0, part.lower()
    for folder, folders, files in os.walk("."):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(files):
            path = os.path.join(folder, name).removeprefix("./")
            looked_at += 1
            if looked_at > MAX_LOOKED_AT:
                return
            is_plain = path == printable(path) and not re.search(r'[\s"]|(?:^|/)\.', path)
            if is_plain and path.lower().find(part) > 0:
                yield path


def find_files(text: str) -> list[str]:
    """Return the absolute paths of the existing files that *text* names."""
    paths: dict[str, None] = {}
    for quoted, bare in _FILE.findall(text):
        # A full stop after a name ends the sentence.
        for name in (quoted,) if quoted else (bare, bare.rstrip(".,;:!?)")):
            with suppress(OSError, ValueError, RuntimeError):
                path = Path(name).expanduser()
                if path.is_file():
                    paths[str(path.resolve())] = None
                    break
    return list(paths)


class PastedBlocks:
    """Pasted blocks, by the marks that replace them in the line."""

    def __init__(self) -> None:
        self._blocks: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return a mark for *text*, or *text* itself if it is short."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        count = text.rstrip("\n").count("\n") + 1
        if count <= MAX_LINES and len(text) <= MAX_PASTED:
            return text
        shown = f"{count} lines" if count > 1 else f"{len(text):,} characters"
        mark, number = f"[{shown} pasted]", 1
        while self._blocks.get(mark, text) != text:
            number += 1
            mark = f"[{shown} pasted, {number}]"
        self._blocks[mark] = text
        return mark

    def mark_at_end(self, text: str) -> str:
        """Return the mark at the end of *text*, which Backspace deletes as a whole, or ""."""
        return next((mark for mark in self._blocks if text.endswith(mark)), "")

    def unfold(self, text: str) -> str:
        if not self._blocks:
            return text
        marks = "|".join(map(re.escape, self._blocks))
        return re.sub(marks, lambda match: self._blocks[match[0]], text)

    def clear(self) -> None:
        self._blocks.clear()
