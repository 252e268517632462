"""Check promises against the Bot API's record, the effects, and the logs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from elwood.agent.approvals.state import (
    ApprovalBook,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequested,
)
from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Delivered,
    Entry,
    Received,
    Replied,
)
from elwood.agent.session.log.state import Session
from elwood.agent.session.log.turns import call_key
from elwood.foundation.storage.journal import JournalDamaged, entries_of
from elwood.foundation.text.splitting import STANDARD, MessageSize, parts

AGAIN = "(again) "
# Characters of a call that are always shown: long calls are cut.
SHOWN = 24
YES = ("once", "conversation", "always", "source")
Journals = Mapping[str, Sequence[Entry]]


# --- content of the disk --------------------------------------------------------------------------


def read(path: Path, entries: Any) -> list[tuple[int, float, Any]]:
    """Read a journal of the union *entries* up to a torn or damaged end: number, time, entry."""
    found: list[tuple[int, float, Any]] = []
    with suppress(JournalDamaged, FileNotFoundError):  # `verify` reports damage
        found.extend(entries_of(path, entries))
    return found


def journals(state: Path) -> dict[str, list[Entry]]:
    """Read the logs of all sessions."""
    paths = sorted((state / "sessions").glob("*.jsonl"))
    return {path.stem: [entry for _, _, entry in read(path, Entry)] for path in paths}


def fold(state: Path, session: str) -> Session:
    """Fold a session's log."""
    folded = Session()
    for seq, at, entry in read(state / "sessions" / f"{session}.jsonl", Entry):
        folded.apply(seq, at, entry)
    return folded


def approvals(state: Path) -> tuple[list[ApprovalEntry], ApprovalBook]:
    """Read and fold the log of approvals."""
    book, found = ApprovalBook(), read(state / "approvals.jsonl", ApprovalEntry)
    for seq, at, entry in found:
        book.apply(seq, at, entry)
    return [entry for _, _, entry in found], book


Waits = set[tuple[str, str]]


def undecided_calls(book: ApprovalBook, states: Mapping[str, Session]) -> tuple[Waits, Waits]:
    """Return calls with an open question, and calls without a known decision."""
    asked = {(case.question.session, case.question.call) for case in book.calls.open()}
    waiting: Waits = set()
    for name, state in states.items():
        waiting |= {(name, key) for key, one in state.pending.items() if one.decided is None}
        waiting |= {
            (name, call_key(one.pending.turn, one.pending.call))
            for one in (state.turn.calls.values() if state.turn is not None else ())
            if one.pending is not None and one.decided is None and one.ended is None
        }
    return asked, waiting


# --- P1 to P4 -------------------------------------------------------------------------------------


def broken_promises(
    logs: Journals,
    sent: Iterable[tuple[int | str, str]],
    done: Iterable[str],
    size: MessageSize = STANDARD,
) -> list[str]:
    """List the broken promises: *sent* by chat, and *done* by `act`.

    Messages have *size*.
    """
    found, texts = [], [(str(chat), text) for chat, text in sent]
    for session, entries in logs.items():
        found += [f"{session}: {wrong}" for wrong in _outcomes(entries)]
    found += _answers([entry for entries in logs.values() for entry in entries], texts, size)
    acts = Counter(effect for effect in done if effect.startswith("act"))
    wanted = "\n".join(e.text for log in logs.values() for e in log if isinstance(e, Received))
    wanted = wanted.replace('act {"name": "x"}', "act x")  # from a task, without a model
    for effect, times in acts.items():
        if times > max(1, wanted.count(effect)):
            found.append(f"P2: {effect} was done {times} times")
    told = "\n".join(text for _, text in texts)
    ended = [e for entries in logs.values() for e in entries if isinstance(e, CallEnded)]
    for entry in ended:
        what = f"{entry.tool} {entry.target}".strip()
        if entry.outcome == "unknown" and f"? {what[:SHOWN]}" not in told:
            found.append(f"P3: it was not told that {what} is uncertain")
        if entry.outcome == "ok" and entry.tool == "act" and not acts[what]:
            found.append(f"P4: {what} was claimed, but not done")
    return found


def _outcomes(entries: Sequence[Entry]) -> list[str]:
    """P1: each message is accepted once and has one outcome; each reply is delivered once."""
    replies = [entry for entry in entries if isinstance(entry, Replied)]
    received = Counter(entry.id for entry in entries if isinstance(entry, Received))
    outcomes = Counter(id_ for reply in replies for id_ in reply.inputs)
    ends = {entry.reply: entry for entry in entries if isinstance(entry, Delivered)}
    delivered = Counter(e.reply for e in entries if isinstance(e, Delivered) and not e.away)
    delivered.update(reply for reply, entry in ends.items() if entry.away)
    wanted = Counter(reply.reply for reply in replies if not reply.quiet)
    found = [f"P1: {id_} was accepted {n} times" for id_, n in received.items() if n > 1]
    found += [f"P1: {id_} has {outcomes[id_]} outcomes" for id_ in received if outcomes[id_] != 1]
    return found + ([] if delivered == wanted else [f"P1: {wanted} replies, delivered {delivered}"])


def _answers(
    entries: Sequence[Entry], texts: Sequence[tuple[str, str]], size: MessageSize
) -> list[str]:
    """P1: each reply is sent, and only as often without the repeat mark as it was made."""
    wanted = expected_messages(entries, size)
    plain: Counter[tuple[str, str]] = Counter(texts)
    either: Counter[tuple[str, str]] = Counter(
        (chat, text.removeprefix(AGAIN)) for chat, text in texts
    )
    found = [f"P1: repeated silently: {key}" for key in wanted if plain[key] > wanted[key]]
    return found + [f"P1: never seen: {key}" for key in wanted if either[key] < wanted[key]]


def expected_messages(
    entries: Iterable[Entry], size: MessageSize = STANDARD
) -> Counter[tuple[str, str]]:
    """Count the messages made of the replies: chat and text."""
    ends = {e.reply: e.why for e in entries if isinstance(e, Delivered)}  # the last one
    undeliverable = {reply for reply, why in ends.items() if why}
    return Counter(
        (reply.route.chat, part.text.strip())
        for reply in entries
        if isinstance(reply, Replied) and not reply.quiet and reply.reply not in undeliverable
        for part in parts(reply.text, reply.footer, size)
    )


# --- approvals ------------------------------------------------------------------------------------


def key_of(entry: CallPending | CallDecided | CallStarted | CallEnded) -> str:
    """Return the same name for a call in the turn that proposed it and in those that run it."""
    return _first(call_key(entry.turn, entry.call))


def _first(key: str) -> str:
    """Return the call's name in its first turn: ``t2/t1/c0`` is ``t1/c0``, asked again in t2."""
    return "/".join(key.split("/")[-2:])


def wrong_decisions(
    logs: Journals, rulings: Sequence[ApprovalEntry], free: Sequence[str]
) -> list[str]:
    """List contradictions in the logs; the tools in *free* run without asking."""
    found = []
    for session, entries in logs.items():
        asked = [
            e for e in rulings if isinstance(e, ApprovalRequested) and e.question.session == session
        ]
        ids = {entry.id for entry in asked}
        ruled = [e for e in rulings if isinstance(e, ApprovalDecided) and e.id in ids]
        wrong = [
            *_contradictions(entries, asked, ruled),
            *_unapproved_runs(entries, asked, ruled, free),
        ]
        found += [f"{session}: {one}" for one in wrong]
    return found


def _contradictions(
    entries: Sequence[Entry], asked: Sequence[ApprovalRequested], ruled: Sequence[ApprovalDecided]
) -> list[str]:
    """List calls with two questions, decisions or runs, or that ran after a refusal.

    An allowed call must have run, be unknown, or have been abandoned before it began.
    """
    questions = {entry.id: entry.question for entry in asked}
    times = Counter((q.call, q.plan) for q in questions.values())
    found = [f"asked {n} times: {key}" for key, n in times.items() if n > 1]
    rules = Counter(rule.id for rule in ruled)
    found += [f"ruled {n} times: {questions[id].call}" for id, n in rules.items() if n > 1]
    started = Counter(
        key_of(e) for e in entries if isinstance(e, CallStarted) and _is_harmful_to_repeat(e)
    )
    found += [f"started {n} times: {key}" for key, n in started.items() if n > 1]
    ended = {key_of(e): e for e in entries if isinstance(e, CallEnded)}
    withdrawn = {
        key_of(e) for e in entries if isinstance(e, CallDecided) and e.ruling == "withdrawn"
    }
    decided = {key_of(e): e.plan for e in entries if isinstance(e, CallDecided)}
    newest = {_first(question.call): id for id, question in questions.items()}
    for rule in ruled:
        key = _first(questions[rule.id].call)
        if newest[key] != rule.id:
            continue  # its effect had changed, so another answer counted
        outcome = ended[key].outcome if key in ended else "none"
        if outcome in ("denied", "failed") and ended[key].text.startswith("stopped"):
            continue
        if outcome == "denied" and decided.get(key, rule.plan) != rule.plan:
            continue  # its effect had changed, and too many questions were open to ask again
        if rule.ruling in YES and outcome not in ("ok", "unknown") and key not in withdrawn:
            found.append(f"{key} was allowed, and its end is: {outcome}")
        if rule.ruling not in YES and rule.ruling != "standing" and started[key]:
            found.append(f"{key} was {rule.ruling}, and has run")
    return found


def _unapproved_runs(
    entries: Sequence[Entry],
    asked: Sequence[ApprovalRequested],
    ruled: Sequence[ApprovalDecided],
    free: Sequence[str],
) -> list[str]:
    """List calls that ran without a yes recorded in both logs before them."""
    plans = {entry.id: entry.question for entry in asked}
    yes = {(_first(plans[rule.id].call), rule.plan) for rule in ruled if rule.ruling in YES}
    allowed: set[str] = set()
    found = []
    for entry in entries:
        if isinstance(entry, CallDecided) and entry.allowed:
            if (key_of(entry), entry.plan) in yes or entry.ruling == "standing":
                allowed.add(key_of(entry))
            else:
                found.append(f"{key_of(entry)} is allowed here, and not by approvals")
        elif isinstance(entry, CallStarted) and _is_harmful_to_repeat(entry):
            if entry.tool in free or key_of(entry) in allowed:
                continue
            found.append(f"{key_of(entry)} {entry.target} was not allowed, and has run")
    return found


def _is_harmful_to_repeat(started: CallStarted) -> bool:
    """Return True if a repeat would do harm."""
    return started.effect == "once"
