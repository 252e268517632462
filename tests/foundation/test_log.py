"""The format of a log record on stderr, and the text that never appears there."""

import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from elwood.app.config.names import COMPONENTS
from elwood.app.main import ALL
from elwood.foundation import log

OUR = logging.getLogger("elwood.test")


def redact(text: str) -> str:
    return text.replace("hunter2", "***")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, sys.excepthook)
    written = io.StringIO()
    log.set_up(log.LogSettings(), redact, stream=written, environ={})
    yield written
    logging.captureWarnings(False)
    root.handlers[:], level, sys.excepthook = before
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    texts = stream.getvalue().splitlines()
    return [msgspec.json.decode(text, type=dict[str, object]) for text in texts]


def test_a_record_is_one_json_line(stream: io.StringIO) -> None:
    OUR.info("turn %s", "ended", extra={"ms": 12, "path": Path("a")})
    (line,) = lines(stream)
    assert str(line.pop("at")).endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "elwood.test",
        "event": "turn ended",
        "ms": 12,
        "path": "a",
    }


def test_libraries_log_from_warnings_up(stream: io.StringIO) -> None:
    logging.getLogger("httpx2").info("HTTP Request: POST https://example.org/bot1:A/getMe")
    logging.getLogger("elwoodish").info("not ours either")
    logging.getLogger("httpx2").warning("odd answer")
    assert [line["event"] for line in lines(stream)] == ["odd answer"]


async def test_tasks_keep_session_and_turn(stream: io.StringIO) -> None:
    async def inside() -> None:
        await trio.lowlevel.checkpoint()
        OUR.info("in a task")

    async with trio.open_nursery() as nursery:
        with log.bind(session="tg-1"), log.bind(turn="t1"):
            nursery.start_soon(inside)
            OUR.info("here")
    OUR.info("outside")
    seen = {str(line["event"]): (line.get("session"), line.get("turn")) for line in lines(stream)}
    assert seen == {"in a task": ("tg-1", "t1"), "here": ("tg-1", "t1"), "outside": (None, None)}


def test_messages_fields_and_tracebacks_are_redacted(stream: io.StringIO) -> None:
    try:
        raise ValueError("bad key hunter2") from ExceptionGroup("g", [OSError("hunter2")])
    except ValueError:
        OUR.exception("failed with %s", "hunter2", extra={"url": "https://x/hunter2"})
    (line,) = lines(stream)
    assert "hunter2" not in stream.getvalue()
    assert line["url"] == "https://x/***"
    assert "ValueError: bad key ***" in str(line["traceback"])
    assert "OSError: ***" in str(line["traceback"])


def test_a_line_break_cannot_forge_a_line(stream: io.StringIO) -> None:
    OUR.info('x\n{"event": "forged"}\r\n<0>')
    (line,) = lines(stream)
    assert line["event"] == 'x\n{"event": "forged"}\r\n<0>'


@pytest.mark.parametrize(
    "odd", ["\ud800", {"a": "\ud800"}, {("a",): 1}, object, b"\xff", float("nan"), 2**70]
)
def test_odd_fields_are_logged(stream: io.StringIO, odd: object) -> None:
    OUR.info("odd", extra={"odd": odd})
    (line,) = lines(stream)
    assert line["event"] == "odd"


def test_a_long_line_is_cut_and_stays_json(stream: io.StringIO) -> None:
    OUR.info(
        "hunter2" + "x" * 50_000 + "end", extra={f"f{n}": ["y\n" * 20_000, n] for n in range(40)}
    )
    (line,) = lines(stream)
    assert len(stream.getvalue()) <= log.LINE + 1
    assert line["level"] == "info"
    assert "hunter2" not in stream.getvalue()


def test_a_secret_at_the_cut_is_redacted(stream: io.StringIO) -> None:
    for before in range(log.FIELD // 2 - 10, log.FIELD // 2 + 10):
        OUR.info("%shunter2%s", "a" * before, "b" * log.LINE)
    assert "hunt" not in stream.getvalue()
    assert "ter2" not in stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("stream")
def test_a_terminal_gets_a_short_harmless_line() -> None:
    terminal = Terminal()
    log.set_up(log.LogSettings(level="debug"), redact, stream=terminal, environ={})
    with log.bind(session="tg-1"):
        OUR.debug("said \x1b]0;title\x07 hunter2 \ud800", extra={"ms": 3})
    text = terminal.getvalue()
    assert text[8:] == " debug   said ⟨U+001B⟩]0;title⟨U+0007⟩ *** ⟨U+D800⟩ session=tg-1 ms=3\n"


def run_program(program: str, **kwargs: object) -> str:
    """Run *program* with stderr in a pipe and JOURNAL_STREAM set to `{stream}`."""
    read, write = os.pipe()
    status = os.fstat(write)
    environ = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
    with os.fdopen(read) as pipe:
        done = subprocess.run(
            [sys.executable, "-c", program], stderr=write, env=environ, check=False, timeout=60
        )
        os.close(write)
        assert done.returncode == kwargs.get("code", 0)
        return pipe.read()


PREPARE = """
import logging, os, sys, warnings
from elwood.foundation import log
from elwood.foundation.secrets import redaction
from elwood.foundation.secrets.redaction import Secret
settings = log.LogSettings(level="debug")
log.set_up(settings, lambda text: text.replace("hunter2", "***"), environ=os.environ)
ours = logging.getLogger("elwood.x")
"""


def test_the_journal_gets_priorities() -> None:
    text = run_program(
        PREPARE
        + "ours.debug('a'); ours.info('a'); ours.warning('a'); ours.error('a'); ours.critical('a')"
    )
    assert [line[:4] for line in text.splitlines()] == ["<7>{", "<6>{", "<4>{", "<3>{", "<2>{"]


def test_uncaught_exceptions_and_warnings_are_logged() -> None:
    text = run_program(PREPARE + "warnings.warn('hunter2'); raise ValueError('hunter2')", code=1)
    warned, ended = text.splitlines()
    assert warned.startswith("<4>")
    assert ended.startswith("<2>")
    assert "ValueError: ***" in ended
    assert "hunter2" not in text


def test_an_unformattable_record_is_not_shown_raw() -> None:
    text = run_program(PREPARE + "ours.info('one %d', 'hunter2')")
    assert text == '{"level":"error","event":"unloggable","logger":"elwood.x"}\n'


# --- spans, loggers and the file ------------------------------------------------------------------


def test_a_span_logs_its_time_and_outcome(stream: io.StringIO) -> None:
    log.event(OUR, "tool_call", {"tool": "read_file"}, success=True, seconds=0.0124)
    log.event(OUR, "llm_call", {"why": "offline"}, success=False, seconds=2)
    found = [(line["level"], line["event"], line["duration_ms"]) for line in lines(stream)]
    assert found == [("info", "tool_call", 12), ("warning", "llm_call", 2000)]
    assert [line["success"] for line in lines(stream)] == [True, False]


@pytest.mark.usefixtures("stream")
def test_a_logger_can_have_its_own_level() -> None:
    written = io.StringIO()
    settings = log.LogSettings(level="warning", levels={"tools": "debug", "models": "error"})
    log.set_up(settings, redact, stream=written, environ={})
    for part in ("tools", "tools.payloads", "models", "telegram"):
        logging.getLogger(f"elwood.{part}").debug("detail")
        logging.getLogger(f"elwood.{part}").warning("odd")
    found = [(line["logger"], line["event"]) for line in lines(written)]
    assert found == [
        ("elwood.tools", "detail"),
        ("elwood.tools", "odd"),
        ("elwood.tools.payloads", "detail"),
        ("elwood.tools.payloads", "odd"),
        ("elwood.telegram", "odd"),
    ]


def test_every_logger_can_have_a_level() -> None:
    found = set[str]()
    for path in Path(log.__file__).parents[1].rglob("*.py"):
        assert "getLogger(__name__)" not in path.read_text(), path
        found |= set(re.findall(r'getLogger\("elwood\.([\w.]+)"\)', path.read_text()))
    features = {feature.name for feature in ALL}
    assert found - features == {*COMPONENTS, "tools.payloads", "models.payloads"}


def test_the_file_gets_the_same_lines_and_is_rotated(stream: io.StringIO, tmp_path: Path) -> None:
    path = tmp_path / "elwood.log"
    rotated = log.to_file(log.LogSettings(file=path, rotate=0.001), redact)
    assert rotated is not None
    for number in range(80):
        OUR.info("said hunter2 %d", number)
    logging.getLogger("httpx2").info("not ours")
    rotated.close()
    parts = [path, *(tmp_path / f"elwood.log.{number}" for number in range(1, log.KEPT + 1))]
    assert sorted(tmp_path.iterdir()) == sorted(parts), "older ones are removed"
    assert all(part.stat().st_mode & 0o777 == 0o600 for part in parts)
    kept = "".join(part.read_text() for part in reversed(parts))
    assert kept
    assert stream.getvalue().endswith(kept)


def test_a_log_file_without_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"create its folder: .*/none/elwood.log"):
        log.to_file(log.LogSettings(file=tmp_path / "none" / "elwood.log"), redact)


def test_a_full_disk_loses_only_lines(tmp_path: Path, stream: io.StringIO) -> None:
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    rotated = log.to_file(log.LogSettings(file=path), redact)
    assert rotated is not None
    OUR.info("said")
    rotated.close()
    assert [line["event"] for line in lines(stream)] == ["said"]
