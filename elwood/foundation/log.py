"""Knows how a log record becomes one line on stderr, and in a file: JSON, redacted, with its cause.

What ends is logged by `event`, so that monitors can count it.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Literal, TextIO

import attrs
import msgspec

from elwood.foundation.settings import Section, at_least, setting
from elwood.foundation.text.characters import printable

Redact = Callable[[str], str]
Level = Literal["debug", "info", "warning", "error"]
# Files of the log that were put aside.
KEPT = 5
# Tools as they run, and what models are asked, but not what goes in and comes out.
TOOLS: Mapping[str, Level] = {"models": "info", "tools": "debug", "tools.payloads": "info"}


@attrs.frozen(kw_only=True)
class LogSettings:
    SECTION: ClassVar = Section("log", "What is logged, and where to.")

    level: Level = setting("info", help="the least severe that is logged")
    levels: Mapping[str, Level] = setting(
        {},
        help="the same for a part alone: the name of a feature, or approvals, channels, models, "
        "records, sessions, tools",
        example='{ tools = "debug" }',
        names="component",
        named_by_key=True,
    )
    file: Path | None = setting(
        None,
        help="file that gets the same lines, beside stderr and the journal",
        default="none",
        example='"/var/log/elwood/elwood.log"',
    )
    rotate: float = setting(
        10.0, help=f"MB after which it is begun anew, and {KEPT} kept", check=at_least(0.01)
    )


# Characters of one line; journald splits at 48 KiB, a character may
# take four bytes.
LINE = 12_000
# Characters of one field in a line that is too long.
FIELD = 2_000
# What systemd takes from a line that begins with <N>: syslog(3).
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}

_bound: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("elwood_bound", default=())


@contextmanager
def bind(
    *, session: str | None = None, turn: str | None = None, message: str | None = None
) -> Iterator[None]:
    """Name *session* and *turn* in every line logged inside, also by tasks begun there.

    *message* is the id of what was said, or planned, and caused all that is done inside; who is
    asked to do something for it is told by `bound`.  What is None stays as it was.
    """
    before = _bound.get()
    named = {"session": session, "turn": turn, "message": message}
    _bound.set((*before, *((key, value) for key, value in named.items() if value is not None)))
    try:
        yield
    finally:
        _bound.set(before)


def bound() -> tuple[tuple[str, str], ...]:
    """Return what is named in every line logged here, for `bind(**dict(...))` in another actor."""
    return _bound.get()


def event(
    log: logging.Logger,
    kind: str,
    about: Mapping[str, object],
    *,
    success: bool,
    seconds: float | None = None,
    level: int | None = None,
) -> None:
    """Log that something has ended, after so many *seconds* if that is known.

    *kind* is what monitors count it by: docs/operating.md lists the kinds, with what they are
    *about*.  What did not succeed is a warning, unless *level* says otherwise.
    """
    took = {} if seconds is None else {"duration_ms": round(1000 * seconds)}
    level = level or (logging.INFO if success else logging.WARNING)
    log.log(level, kind, extra={**about, "success": success, **took})


def set_up(
    settings: LogSettings,
    redact: Redact,
    *,
    stream: TextIO | None = None,
    environ: Mapping[str, str],
    quiet: bool = False,
) -> None:
    """Send all logging to *stream* (stderr if None), redacted by *redact*; if *quiet*, errors only.

    A terminal gets a short form for people, anything else JSON lines, with priorities when it is
    the journal.  Other people's libraries are heard from WARNING upwards only: some write request
    URLs and headers below that.  Warnings and exceptions that nobody caught become lines like any
    other.
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
    outlet.setLevel("ERROR" if quiet else "NOTSET")
    root = logging.getLogger()
    root.handlers[:] = [outlet]
    root.setLevel(settings.level.upper())
    for name in [name for name in root.manager.loggerDict if name.startswith("elwood.")]:
        logging.getLogger(name).setLevel("NOTSET")
    for name, level in settings.levels.items():
        logging.getLogger(f"elwood.{name}").setLevel(level.upper())
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught


def to_file(settings: LogSettings, redact: Redact) -> logging.Handler | None:
    """Send the lines to `settings.file` as well, if there is one; for whoever holds the state.

    Raises OSError.
    """
    if settings.file is None:
        return None
    if not os.access(settings.file.parent, os.W_OK):
        raise OSError(0, "log.file cannot be written: make its folder", str(settings.file))
    size = round(settings.rotate * 1e6)
    lines = _PrivateFile(settings.file, maxBytes=size, backupCount=KEPT, delay=True)
    lines.setFormatter(_JsonLines(redact, priorities=False))
    lines.addFilter(_is_wanted)
    # What somebody wants to see on their terminal does not belong there.
    ranks = logging.getLevelNamesMapping()
    lines.setLevel(min(ranks[one.upper()] for one in (settings.level, *settings.levels.values())))
    logging.getLogger().addHandler(lines)
    return lines


class _PrivateFile(RotatingFileHandler):
    """A file for us alone; what the disk does not take is let go."""

    def _open(self) -> TextIOWrapper:
        private = partial(os.open, mode=0o600)
        return open(self.baseFilename, "a", encoding="utf-8", opener=private)

    def close(self) -> None:
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:
        pass


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
        shown = {key: value for key, value in _bound.get() if key == "session"} | extra
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
