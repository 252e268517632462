"""What ``elwood receipts`` and ``elwood session`` do: they show what stands in the journals.

They work while Elwood runs, and when none can: nothing is opened for writing.  Each function
prints, and returns the exit code.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from operator import attrgetter
from pathlib import Path

import msgspec

from elwood.agent.conversation.message import Message, Prompt
from elwood.agent.models.client import ModelRequest
from elwood.agent.models.providers import encode
from elwood.agent.models.settings import ProviderSettings
from elwood.agent.session.log.entries import Entry, Said
from elwood.agent.session.log.state import Log, Session, is_command
from elwood.agent.session.reading.records import read_history
from elwood.agent.session.reading.render import (
    Format,
    calls_table,
    items_of,
    transcript,
    turns_table,
    written,
)
from elwood.foundation.storage.journal import JournalDamaged, Verified, entries_of
from elwood.foundation.storage.journal import verify as verify_journal
from elwood.foundation.text.lines import columns, duration

# Calls that are shown when nobody says how many.
SHOWN = 100
SESSIONS = ("conversation", "last active", "turns", "kB", "to do")
_AGO = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class _Journal(msgspec.Struct):
    """The log of one conversation; *damage* says what was wrong with it when it was read."""

    path: Path
    damage: str = ""

    def log(self) -> Log:
        """Yield its entries, up to where it is damaged."""
        try:
            yield from entries_of(self.path, Entry)
        except JournalDamaged as error:
            self.damage = f"{self.path}: DAMAGED: line {error.line}: {error.why}"
        except OSError as error:
            self.damage = f"{self.path}: cannot be read: {error.strerror}"


def _journals(state: Path) -> dict[str, _Journal]:
    paths = sorted((state / "sessions").glob("*.jsonl"))
    return {path.stem: _Journal(path) for path in paths}


def _complain(problems: Iterable[str]) -> int:
    """Print *problems*, if there are any."""
    found = [problem for problem in problems if problem]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


# --- receipts ------------------------------------------------------------------------------------


def receipts(
    state: Path,
    zone: tzinfo,
    *,
    since: float = 0.0,
    session: str | None = None,
    limit: int = SHOWN,
    as_json: bool = False,
) -> int:
    """Print the newest *limit* calls, oldest first.

    *since* is a Unix time; *session* is the name of a conversation, of which alone they are.
    """
    journals = _journals(state)
    if session is not None:
        journals = {name: one for name, one in journals.items() if name == session}
    if not journals:
        which = "no conversation" if session is None else f"no conversation called {session}"
        return _complain([f"there is {which} in {state}"])
    found = [
        call
        for name, journal in journals.items()
        for call in read_history(name, journal.log()).calls
        if call.at >= since
    ]
    newest = sorted(found, key=attrgetter("at"))[-limit:]
    if as_json:
        for call in newest:
            fields = msgspec.structs.asdict(call)
            del fields["seq"]
            print(msgspec.json.encode(fields).decode())
    elif newest:
        for line in calls_table(newest, zone):
            print(line)
    else:
        print("no tool was called", file=sys.stderr)
    return _complain(_not_shown(journal) for journal in journals.values())


def _not_shown(journal: _Journal) -> str:
    return f"{journal.damage}; what stands behind it is not shown" if journal.damage else ""


def since(text: str, now: float, zone: tzinfo) -> float | None:
    """Read a time: ``2h`` ago, or a date and time in *zone*; None if it is neither.

    >>> since("2h", 10_000.0, UTC), since("1970-01-02", 0.0, UTC), since("soon", 0.0, UTC)
    (2800.0, 86400.0, None)
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}).total_seconds()
    try:
        then = datetime.fromisoformat(text)
        return (then if then.tzinfo else then.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        return None


def verify(paths: Iterable[Path]) -> int:
    """Verify each journal of *paths*, or in it if it is a folder, from the files alone."""
    failed = found = 0
    for path in journals_in(paths):
        found += 1
        try:
            result = verify_journal(path)
        except OSError as error:
            failed += _complain([f"{path}: cannot be read: {error.strerror}"])
        except JournalDamaged as error:
            failed += _complain([f"{path}: DAMAGED: line {error.line} {error.why}"])
        else:
            print(f"{path}: {described(result)}")
    if not found:
        print("there are no journals", file=sys.stderr)
    return 1 if failed else 0


def journals_in(paths: Iterable[Path]) -> Iterator[Path]:
    """List the journals named by *paths*; in folders, those of the folders inside too."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.jsonl"))
        else:
            yield path


def described(result: Verified) -> str:
    """Say in one line what a verification has shown."""
    text = f"{result.entries} entries in {result.lines} lines"
    if result.first is not None and result.last is not None:
        text += f" from {_day(result.first)} to {_day(result.last)}"
    if result.torn:
        text += f", and {result.torn} bytes at the end that were never acknowledged"
    return f"{text}; head {result.head}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


# --- sessions ------------------------------------------------------------------------------------


def list_sessions(state: Path, zone: tzinfo, now: float) -> int:
    """Print a line for each conversation, the one active last at the end."""
    journals = _journals(state)
    found = [line for one in journals.values() for line in _described(one, zone, now)]
    if not journals:
        return _complain([f"there is no conversation in {state}"])
    for line in columns([SESSIONS, *(cells for _, cells in sorted(found))]):
        print(line)
    return _complain(journal.damage for journal in journals.values())


def _described(
    journal: _Journal, zone: tzinfo, now: float
) -> Iterator[tuple[float, tuple[str, ...]]]:
    session, last = Session(), 0.0
    for seq, at, entry in journal.log():
        session.apply(seq, at, entry)
        last = at
    if journal.damage:
        return
    size = journal.path.stat().st_size
    ago = duration(max(0.0, now - last))
    when = f"{datetime.fromtimestamp(last, zone):%Y-%m-%d %H:%M} ({ago} ago)"
    to_do = "; ".join(_left(session)) or "-"
    yield last, (journal.path.stem, when, str(session.turns), f"{size / 1000:.1f}", to_do)


def _left(session: Session) -> Iterator[str]:
    """Say what the session has left to do."""
    waiting = sum(not is_command(received) for received in session.waiting.values())
    if session.turn is not None:
        yield "a turn"
    if waiting:
        yield f"messages: {waiting}"
    if session.pending:
        yield f"approvals: {len(session.pending)}"
    if session.undelivered:
        yield f"deliveries: {len(session.undelivered)}"


def export(
    state: Path,
    session: str,
    zone: tzinfo,
    format_: Format,
    output: Path | None,
    redact: Callable[[str], str],
) -> int:
    """Write the present line of *session* into *output*, which nobody else can read, or to stdout.

    *redact* takes secrets out.
    """
    journal = _journals(state).get(session)
    if journal is None:
        return _complain([f"there is no conversation called {session} in {state}"])
    history = read_history(session, journal.log())
    if journal.damage:
        return _complain([f"{journal.damage}; nothing was exported"])
    content = written(session, items_of(history, redact), zone, format_)
    if output is None:
        # A terminal or a pipe of another encoding must not break on what somebody said.
        sys.stdout.buffer.write(content.encode())
        sys.stdout.flush()
        return 0
    try:
        output.touch(mode=0o600)
        output.write_text(content, encoding="utf-8")
    except OSError as error:
        return _complain([f"{output}: cannot be written: {error.strerror}"])
    return 0


class SentRequest(msgspec.Struct, frozen=True):
    """What a model was sent, and the response that was kept."""

    prompt: Prompt
    messages: tuple[Message, ...]
    said: Said


def show(
    state: Path,
    session: str,
    zone: tzinfo,
    *,
    turn: int | None = None,
    body: Callable[[SentRequest], tuple[bytes, str]] | None = None,
) -> int:
    """Print the turns of *session*, or one of them whole.

    With *body* it is what the model was sent in that turn, or in the newest one: each request on
    a line, byte for byte (see `body_of`).
    """
    journals = _journals(state)
    journal = journals.get(session)
    if journal is None:
        names = ", ".join(journals) or "none"
        return _complain([f"there is no conversation called {session}; there are: {names}"])
    history = read_history(session, journal.log(), whole=turn)
    found = history.turn(turn)
    is_shown = True
    if turn is None and body is None:
        for line in turns_table(history.turns, zone):
            print(line)
    elif found is not None and body is None:
        for line in transcript(found, zone):
            print(line)
    else:
        requests = sent(journal.log(), found.id) if found is not None else iter(())
        is_shown = body is not None and _print_sent(body, requests)
        if not is_shown and not journal.damage:
            what = "no answer of a model in" if body is not None else "no"
            number = found.number if found is not None else turn or 0
            print(f"there is {what} turn {number} of {session}", file=sys.stderr)
    return _complain([_not_shown(journal)]) or (0 if is_shown else 1)


def sent(log: Log, turn: str) -> Iterator[SentRequest]:
    """Yield the requests of a turn that led to responses, as the same code made them then.

    Those that led to none are not in the log: failures, and answers that were thrown away.
    """
    session = Session()
    for seq, at, entry in log:
        if isinstance(entry, Said) and entry.turn == turn:
            yield SentRequest(session.prompt or Prompt(""), session.messages, entry)
        session.apply(seq, at, entry)


def _print_sent(
    body: Callable[[SentRequest], tuple[bytes, str]], requests: Iterator[SentRequest]
) -> bool:
    """Print bodies: they are what is hashed and cached, so not a byte is changed for a reader."""
    found = False
    for one in requests:
        content, note = body(one)
        if note:
            print(note, file=sys.stderr)
        sys.stdout.flush()
        sys.stdout.buffer.write(content + b"\n")
        sys.stdout.buffer.flush()
        found = True
    return found


def body_of(
    one: SentRequest, providers: Mapping[str, ProviderSettings], default: str, max_tokens: int
) -> tuple[bytes, str]:
    """Make the body of a request anew; say what of it is not in the log, if anything is not.

    The form of its provider is taken from *providers* of today; *default* is the model, and
    *max_tokens* the limit, that they are asked for when the log does not say.
    """
    name, _, model = one.said.message.model.partition("/")
    notes = []
    if not model or name not in providers:
        name, _, model = default.partition("/")
        model = one.said.message.model or model
        notes.append(f"who answers for {model!r} is not known; shown as {name} is asked")
    if not one.said.max_tokens:
        notes.append("max_tokens is not in the log; shown as configured")
    request = ModelRequest(
        model=model,
        prompt=one.prompt,
        messages=one.messages,
        max_tokens=one.said.max_tokens or max_tokens,
    )
    return encode(providers[name], request), "; ".join(notes)
