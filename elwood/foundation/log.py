"""Knows how a log record becomes one line on stderr: JSON, redacted, with its session and turn."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import ClassVar, Literal, TextIO

import attrs
import msgspec

from elwood.foundation.settings import Section, setting
from elwood.foundation.text.characters import printable

Redact = Callable[[str], str]


@attrs.frozen(kw_only=True)
class LogSettings:
    SECTION: ClassVar = Section("log", "What is written to stderr.")

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", help="the least severe that is logged"
    )


# Characters of one line; journald splits at 48 KiB, a character may
# take four bytes.
LINE = 12_000
# Characters of one field in a line that is too long.
FIELD = 2_000
LEVELS = ("debug", "info", "warning", "error")
# What systemd takes from a line that begins with <N>: syslog(3).
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}

_bound: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("elwood_bound", default=())


@contextmanager
def bind(*, session: str | None = None, turn: str | None = None) -> Iterator[None]:
    """Name the *session* and the *turn* in every line logged inside, also by tasks begun there.

    What is None stays as it was.
    """
    before = _bound.get()
    named = {"session": session, "turn": turn}
    _bound.set((*before, *((key, value) for key, value in named.items() if value is not None)))
    try:
        yield
    finally:
        _bound.set(before)


def set_up(
    level: str, redact: Redact, *, stream: TextIO | None = None, environ: Mapping[str, str]
) -> None:
    """Send all logging to *stream* (stderr if None), from *level* upwards, redacted by *redact*.

    *level* is one of LEVELS.  A terminal gets a short form for people, anything else JSON lines,
    with priorities when it is the journal.  Other people's libraries are heard from WARNING
    upwards only: some write request URLs and headers below that.  Warnings and exceptions that
    nobody caught become lines like any other.
    """
    stream = stream or sys.stderr
    formatter: logging.Formatter
    if stream.isatty():
        formatter = _ForPeople(redact)
    else:
        formatter = _JsonLines(redact, priorities=_is_journal(stream, environ))
    outlet = _Outlet(stream)
    outlet.setFormatter(formatter)
    outlet.addFilter(_is_wanted)
    root = logging.getLogger()
    root.handlers[:] = [outlet]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught


class _JsonLines(logging.Formatter):
    """One record, one line; the line is stripped as a whole, tracebacks and all."""

    def __init__(self, redact: Redact, *, priorities: bool) -> None:
        super().__init__()
        self._redact = redact
        self._priorities = priorities

    def format(self, record: logging.LogRecord) -> str:
        line = self._redact(_encode(self._fields(record)))
        if len(line) > LINE:  # after the redact: half of a secret would not be known
            line = _shorten(line)
        if not self._priorities:
            return line
        return f"<{_PRIORITIES.get(record.levelname, 6)}>{line}"

    def _fields(self, record: logging.LogRecord) -> dict[str, object]:
        fields: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields |= dict(_bound.get())
        fields |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return fields


class _ForPeople(logging.Formatter):
    """A short form for a terminal; cannot make the terminal do anything."""

    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        shown = dict(_bound.get()) | extra
        fields = "".join(f" {key}={value}" for key, value in shown.items())
        line = f"{at} {record.levelname.lower():7} {record.getMessage()}{fields}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        line = printable(self._redact(line))
        return line if len(line) <= LINE else _cut(line, LINE)


class _Outlet(logging.StreamHandler[TextIO]):
    """Writes to a stream; a record that cannot be written is never shown raw."""

    def handleError(self, record: logging.LogRecord) -> None:
        try:
            self.stream.write(
                f'{{"level":"error","event":"unloggable","logger":"{record.name}"}}\n'
            )
            self.flush()
        except (OSError, ValueError):
            pass  # nobody listens any more


def _is_wanted(record: logging.LogRecord) -> bool:
    ours = record.name == "elwood" or record.name.startswith("elwood.")
    return ours or record.levelno >= logging.WARNING


def _is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether *stream* goes to the journal itself, not merely to something started by it."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _encode(fields: dict[str, object]) -> str:
    try:
        return msgspec.json.encode(fields, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError):  # odd keys, lone surrogates, a circle
        plain = {_clean(str(key)): _clean(str(value)) for key, value in fields.items()}
        return msgspec.json.encode(plain).decode()


def _shorten(line: str) -> str:
    """Cut the fields of a line until it fits; the line stays JSON."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, object])
    except msgspec.DecodeError:
        return _encode({"event": _cut(line, FIELD)})
    texts = {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in fields.items()
    }
    kept = dict(list(texts.items())[:20])
    while len(shorter := _encode({k: _cut(v, FIELD) for k, v in kept.items()})) > LINE:
        del kept[max(kept, key=lambda key: len(kept[key]))]
    return shorter


def _cut(text: str, limit: int) -> str:
    """Leave out the middle: a traceback begins with the way in and ends with the error."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} …{len(text) - 2 * half} characters left out… {text[-half:]}"


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("elwood").critical("ended by a bug", exc_info=(kind, error, trace))
