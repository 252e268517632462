"""Format log records as one redacted line of JSON each, on stderr and in a file.

`event` logs the end of an operation, so that monitors can count it.
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
# Number of rotated log files.
KEPT = 5
# Tool runs and model requests, but not their payloads.
TOOLS: Mapping[str, Level] = {"models": "info", "tools": "debug", "tools.payloads": "info"}


@attrs.frozen(kw_only=True)
class LogSettings:
    SECTION: ClassVar = Section("log", "The log.")

    level: Level = setting("info", help="lowest severity that is logged")
    levels: Mapping[str, Level] = setting(
        {},
        help="level of a single component: the name of a feature, or approvals, "
        "channels, models, records, sessions, tools",
        example='{ tools = "debug" }',
        names="component",
        named_by_key=True,
    )
    file: Path | None = setting(
        None,
        help="file for the log, in addition to stderr or the journal",
        default="none",
        example='"/var/log/elwood/elwood.log"',
    )
    rotate: float = setting(
        10.0,
        help=f"megabytes after which a new file begins; {KEPT} old ones are kept",
        check=at_least(0.01),
    )


# Characters of one line; journald splits at 48 KiB, and a character may take four bytes.
LINE = 12_000
# Characters of one field in a line that is too long.
FIELD = 2_000
# Priorities that systemd reads from the <N> at the beginning of a line: syslog(3).
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}

_bound: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("elwood_bound", default=())


@contextmanager
def bind(
    *, session: str | None = None, turn: str | None = None, message: str | None = None
) -> Iterator[None]:
    """Add *session* and *turn* to every line logged inside, also by tasks started there.

    *message* is the id of the message or scheduled task that caused the work inside; `get_bound`
    passes it to other actors.  None leaves a field unchanged.
    """
    before = _bound.get()
    fields = {"session": session, "turn": turn, "message": message}
    _bound.set((*before, *((key, value) for key, value in fields.items() if value is not None)))
    try:
        yield
    finally:
        _bound.set(before)


def get_bound() -> tuple[tuple[str, str], ...]:
    """Return the bound fields, for `bind(**dict(...))` in another actor."""
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
    """Log the end of an operation, with its duration in *seconds* if known.

    Monitors count events by *kind*: docs/guides/monitoring.md lists the kinds and fields (*about*).
    A failure is a warning unless *level* is set.
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

    A terminal gets a short form for people, anything else JSON lines, with priorities if it is the
    journal.  Third-party libraries log from WARNING upwards only: some log request URLs and headers
    below that.  Python warnings and uncaught exceptions are logged too.
    """
    stream = stream or sys.stderr
    formatter: logging.Formatter
    if stream.isatty():
        formatter = _ForPeople(redact)
    else:
        formatter = _JsonLines(redact, priorities=_is_journal(stream, environ))
    handler = _StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(_is_wanted)
    handler.setLevel("ERROR" if quiet else "NOTSET")
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for name in [name for name in root.manager.loggerDict if name.startswith("elwood.")]:
        logging.getLogger(name).setLevel("NOTSET")
    for name, level in settings.levels.items():
        logging.getLogger(f"elwood.{name}").setLevel(level.upper())
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught


def to_file(settings: LogSettings, redact: Redact) -> logging.Handler | None:
    """Log also to `settings.file`, if set; only the process that owns the state calls this.

    Raises OSError.
    """
    if settings.file is None:
        return None
    if not os.access(settings.file.parent, os.W_OK):
        raise OSError(0, "log.file cannot be written: create its folder", str(settings.file))
    size = round(settings.rotate * 1e6)
    lines = _PrivateFile(settings.file, maxBytes=size, backupCount=KEPT, delay=True)
    lines.setFormatter(_JsonLines(redact, priorities=False))
    lines.addFilter(_is_wanted)
    # The level of the terminal (--verbose, quiet) does not apply to the file.
    ranks = logging.getLevelNamesMapping()
    lines.setLevel(min(ranks[one.upper()] for one in (settings.level, *settings.levels.values())))
    logging.getLogger().addHandler(lines)
    return lines


class _PrivateFile(RotatingFileHandler):
    """A log file that only its owner can read; write errors are ignored."""

    def _open(self) -> TextIOWrapper:
        private = partial(os.open, mode=0o600)
        return open(self.baseFilename, "a", encoding="utf-8", opener=private)

    def close(self) -> None:
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:
        pass


class _JsonLines(logging.Formatter):
    """Format a record as one line of JSON, redacted as a whole, including tracebacks."""

    def __init__(self, redact: Redact, *, priorities: bool) -> None:
        super().__init__()
        self._redact = redact
        self._priorities = priorities

    def format(self, record: logging.LogRecord) -> str:
        line = self._redact(_encode(self._fields(record)))
        if len(line) > LINE:  # after redaction, which would miss half a secret
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
    """Format a record briefly for a terminal, without control sequences."""

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


class _StreamHandler(logging.StreamHandler[TextIO]):
    """Write records to a stream; never print a record raw if it cannot be formatted."""

    def handleError(self, record: logging.LogRecord) -> None:
        try:
            self.stream.write(
                f'{{"level":"error","event":"unloggable","logger":"{record.name}"}}\n'
            )
            self.flush()
        except (OSError, ValueError):
            pass  # the stream is closed


def _is_wanted(record: logging.LogRecord) -> bool:
    ours = record.name == "elwood" or record.name.startswith("elwood.")
    return ours or record.levelno >= logging.WARNING


def _is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return True if *stream* is the journal, not only inherited its environment."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _encode(fields: dict[str, object]) -> str:
    try:
        return msgspec.json.encode(fields, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError):  # odd keys, lone surrogates, a cycle
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
    """Cut out the middle: a traceback starts with the entry point and ends with the error."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} …{len(text) - 2 * half} characters omitted… {text[-half:]}"


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("elwood").critical("stopped by a bug", exc_info=(kind, error, trace))
