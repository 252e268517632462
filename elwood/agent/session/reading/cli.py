"""Implementation of ``elwood receipts`` and ``elwood session``: they show the journals.

They work whether Elwood runs or not, and open nothing for writing.
"""

import re
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from elwood.agent.conversation.settings import Owner
from elwood.agent.models.ledger import Charged, Ledger, dollars, spent
from elwood.agent.models.settings import Limits
from elwood.agent.models.spending import draw_days, in_table
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.state import Log, Session, account_name, describe_open_work
from elwood.agent.session.reading.export import export_conversation
from elwood.agent.session.reading.records import CallRecord, History, TurnRecord
from elwood.agent.session.reading.render import (
    CALLS,
    SPARE_OF_CALLS,
    SPARE_OF_TURNS,
    TURNS,
    call_cells,
    transcript,
    turn_cells,
)
from elwood.foundation.command_line import (
    USAGE,
    CliFailure,
    put_out,
    room,
    show_json,
    show_lines,
    show_list,
)
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.journal import JournalDamaged, S, entries_of, replay, segments
from elwood.foundation.text.lines import ago, size_text
from elwood.foundation.text.tables import Row, Styled

# Days in the chart of costs.
DAYS = 14
SESSIONS = (
    "conversation", "title", "last active", "time", "turns", "calls", "cost", "size", "to do",
)  # fmt: skip
SPARE_OF_SESSIONS = ("time", "size", "calls", "cost", "turns")
_AGO = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class SessionJournal(msgspec.Struct):
    """The log of one conversation; *damage* describes any fault found when reading it."""

    path: Path
    damage: str = ""

    def log(self) -> Log:
        """Yield its entries, up to the first damaged one."""
        with self.note_errors():
            yield from entries_of(self.path, Entry)

    def newest(self) -> tuple[Session, float]:
        """Return the present state, and the time of the newest entry."""
        with self.note_errors():
            return replay(self.path, Entry, Session)
        return Session(), 0.0

    @contextmanager
    def note_errors(self) -> Iterator[None]:
        try:
            yield
        except JournalDamaged as error:
            self.damage = f"{error.path}: DAMAGED: line {error.line}: {error.why}"
        except OSError as error:
            self.damage = f"{self.path}: cannot be read: {error.strerror}"


class ConversationListed(msgspec.Struct, frozen=True):
    """A conversation in the list of ``elwood session list``."""

    conversation: str
    title: str
    last_active: float  # Unix time
    turns: int
    calls: int
    usd: float  # so far, as far as the ledger remembers
    size: int  # of its log, in bytes
    to_do: tuple[str, ...] = ()  # open and remaining work, in words


def _journals(config: Config) -> dict[str, SessionJournal]:
    paths = sorted((config.get(Paths).state / "sessions").glob("*.jsonl"))
    return {path.stem: SessionJournal(path) for path in paths}


def _journal(config: Config, session: str) -> SessionJournal:
    journals = _journals(config)
    if session not in journals:
        names = ", ".join(journals) or "none"
        raise CliFailure(f"there is no conversation {session}; the conversations are: {names}")
    return journals[session]


def _complain(journals: Iterable[SessionJournal], what: str = "") -> int:
    """Print the faults of *journals*, each with its consequence *what*."""
    damages = [one.damage for one in journals if one.damage]
    for damage in damages:
        print(f"{damage}{what}", file=sys.stderr)
    return 1 if damages else 0


NOT_SHOWN = "; the entries after it are not shown"


def journal_state(path: Path, entries: Any, new: type[S]) -> S:
    """Return the state of a journal, a *new* one if it does not exist.  Raises CliFailure."""
    try:
        return replay(path, entries, new)[0]
    except FileNotFoundError:
        return new()
    except JournalDamaged as error:
        raise CliFailure(f"{path}: DAMAGED: line {error.line} {error.why}") from error


def budget(config: Config, given: Namespace) -> int:
    """Print the costs of models, and the distance to the limits."""
    path, zone, now = (
        config.get(Paths).state / "usage.jsonl",
        config.get(Owner).timezone,
        time.time(),
    )
    journal, ledger, entries = SessionJournal(path), Ledger(), list[Charged]()
    if path.exists():
        with journal.note_errors():
            ledger = replay(path, Charged, Ledger)[0]
            entries = [entry for _, _, entry in entries_of(path, Charged)]
    whole = spent(ledger, "", now, zone)
    if given.json:
        kinds = {
            "day": [(whole.today, whole.day)],
            "month": [(whole.today[:7], whole.month)],
            "job": whole.jobs,
            "conversation": whole.others,
            "model": whole.models,
        }
        told = [
            ({"of": of, "name": name, "tokens": used.tokens, "usd": used.usd}, ())
            for of, all_of_it in kinds.items()
            for name, used in all_of_it
        ]
        show_list((), told, given, "")
        return _complain([journal])
    days = (f"{DAYS} days", "", "", draw_days(entries, whole.today, DAYS))
    show_lines(in_table(whole, config.get(Limits), days, room()))
    return _complain([journal])


# --- receipts ------------------------------------------------------------------------------------


def receipts(config: Config, given: Namespace) -> int:
    newest, journals = newest_calls(
        config, given.since, given.session, given.limit, tool=given.tool, outcome=given.outcome
    )
    zone, now = config.get(Owner).zone, time.time()
    found = [(as_json(call), call_cells(call, zone, now)) for call in reversed(newest)]
    show_list(CALLS, found, given, "no call matches", SPARE_OF_CALLS)
    return _complain(journals, NOT_SHOWN)


def newest_calls(
    config: Config,
    when: str | None,
    session: str | None,
    limit: int,
    *,
    tool: str | None = None,
    outcome: str | None = None,
) -> tuple[list[CallRecord], list[SessionJournal]]:
    """Return the newest matching calls since *when*, oldest first, and their journals.

    Raises CliFailure.
    """
    begin = 0.0 if when is None else since(when, time.time(), config.get(Owner).zone)
    if begin is None:
        raise CliFailure(f"--since {when}: use 2h or 3d, or a date like 2026-11-01", USAGE)
    journals = _journals(config)
    if session is not None:
        journals = {session: _journal(config, session)}
    found = [
        call
        for name, journal in journals.items()
        for call in History(name, journal.log()).calls
        if call.at >= begin and tool in (None, call.tool) and outcome in (None, call.outcome)
    ]
    return sorted(found, key=attrgetter("at"))[-limit:], list(journals.values())


def _turn_as_json(turn: TurnRecord) -> dict[str, object]:
    heard = [{"who": one.received.principal, "text": one.received.text} for one in turn.heard]
    calls, answer = [as_json(call) for call in turn.calls], turn.answer
    return {
        "turn": turn.number,
        "at": turn.at,
        "heard": heard,
        "calls": calls,
        "answer": None if answer is None else answer.text,
        "failed": answer is not None and answer.failed,
        "answered_at": turn.answered_at or None,
    }


def as_json(call: CallRecord) -> dict[str, object]:
    fields = msgspec.structs.asdict(call)
    del fields["seq"]
    return fields


def since(text: str, now: float, zone: tzinfo) -> float | None:
    """Parse a time: ``2h`` ago, or a date and time in *zone*; None if it is neither."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}).total_seconds()
    try:
        then = datetime.fromisoformat(text)
        return (then if then.tzinfo else then.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        return None


# --- sessions ------------------------------------------------------------------------------------


def list_sessions(config: Config, given: Namespace) -> int:
    """Print a line for each conversation, the most recently active first."""
    found, journals = conversations(config)
    zone, now = config.get(Owner).zone, time.time()

    def cells(one: ConversationListed) -> Row:
        when = f"{datetime.fromtimestamp(one.last_active, zone):%Y-%m-%d %H:%M}"
        to_do = Styled("\n".join([*one.to_do, ""]), "warning")
        active, size = ago(now - one.last_active), size_text(one.size)
        counts = f"{one.turns:,}", f"{one.calls:,}", dollars(one.usd)
        return one.conversation, one.title, active, when, *counts, size, to_do

    listed = [(one, cells(one)) for one in found]
    show_list(SESSIONS, listed, given, "there are no conversations", SPARE_OF_SESSIONS)
    return _complain(journals)


def conversations(config: Config) -> tuple[list[ConversationListed], list[SessionJournal]]:
    """Return all conversations, the most recently active first, and their journals."""
    journals, usage = _journals(config), config.get(Paths).state / "usage.jsonl"
    costs = journal_state(usage, Charged, Ledger).sessions
    found = []
    for name, journal in journals.items():
        session, last = journal.newest()
        if not journal.damage:
            files = (journal.path, *segments(journal.path).values())
            size = sum(path.stat().st_size for path in files)
            turn = ["an open turn"] if session.turn is not None else []
            to_do = (*turn, *describe_open_work(session))
            parts = (account_name(name, n) for n in range(1, session.conversation + 1))
            usd = sum(costs[part].usd for part in parts if part in costs)
            counts = session.turns, session.calls, usd, size
            found.append(ConversationListed(name, session.title, last, *counts, to_do))
    return sorted(found, key=lambda one: -one.last_active), list(journals.values())


def export(config: Config, given: Namespace) -> int:
    """Write a conversation to a file that only its owner can read, or to stdout."""
    journal = _journal(config, given.id)
    history = History(given.id, journal.log())
    if journal.damage:
        return _complain([journal], "; nothing was exported")
    zone, redactor = config.get(Owner).zone, Redactor(config.secrets)
    title = journal.newest()[0].title or given.id
    content = export_conversation(title, history, zone, given.format, redactor)
    if not content:
        raise CliFailure("it has no messages, or it was archived; see elwood session show")
    if given.output is None:
        # The encoding of a pipe must not change the text.
        put_out(content.encode())
    else:
        given.output.touch(mode=0o600)
        given.output.write_text(content, encoding="utf-8")
    return 0


def show(config: Config, given: Namespace) -> int:
    journal, zone = _journal(config, given.session), config.get(Owner).zone
    history = History(given.session, journal.log())
    if given.json and given.turn is not None:
        show_json([_turn_as_json(one) for one in history.turns if one.number == given.turn])
    elif given.turn is None:
        rows = [(_turn_as_json(one), turn_cells(one, zone, time.time())) for one in history.turns]
        show_list(TURNS, rows, given, f"{given.session} has no turns yet", SPARE_OF_TURNS)
    elif (found := history.turn(given.turn)) is not None:
        for line in transcript(found, journal.log(), zone):
            print(line)
    elif not journal.damage:
        raise CliFailure(f"{given.session} has no turn {given.turn}")
    return _complain([journal], NOT_SHOWN)
