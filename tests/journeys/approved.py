"""Judges what was done against what was allowed: from a session's log and that of approvals."""

from collections import Counter
from collections.abc import Sequence

from elwood.agent.approvals.state import (
    ApprovalBook,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequested,
)
from elwood.agent.session.log.entries import CallDecided, CallEnded, CallPending, CallStarted, Entry
from elwood.agent.session.log.turns import call_key

YES = ("once", "conversation", "always", "source")


def key_of(entry: CallPending | CallDecided | CallStarted | CallEnded) -> str:
    """Name a call the same in the turn that proposed it and in those that it runs in."""
    return _first(call_key(entry.turn, entry.call))


def _first(key: str) -> str:
    """Name a call as in the turn that proposed it: ``t2/t1/c0`` was asked about again in t2."""
    return "/".join(key.split("/")[-2:])


def unapproved(entries: Sequence[Entry], book: ApprovalBook) -> list[str]:
    """List the calls that run now without a yes in both logs, of those that had to ask."""
    decided: dict[str, CallDecided] = {}
    running: dict[str, CallStarted] = {}
    for entry in entries:
        match entry:
            case CallDecided():
                decided[key_of(entry)] = entry
            case CallStarted():
                running[key_of(entry)] = entry
            case CallEnded():
                running.pop(key_of(entry), None)
    asking = {key: started for key, started in running.items() if started.effect == "once"}
    if not asking:
        return ["an effect without a record"]
    found = []
    for key, started in asking.items():
        yes = decided.get(key)
        if yes is None or not yes.allowed:
            found.append(f"{key} {started.target} runs unapproved")
        elif yes.ruling == "standing":
            number = int(yes.by.split()[1])
            if number not in book.calls.permissions:
                found.append(f"{key} {started.target} runs by a permission that does not stand")
        elif not any(
            _first(case.question.call) == key
            and case.question.plan == yes.plan
            and case.ruling in YES
            for case in book.calls.requests.values()
        ):
            found.append(f"{key} {started.target} runs by a yes that approvals does not know")
    return found


def misjudged(entries: Sequence[Entry], rulings: Sequence[ApprovalEntry]) -> list[str]:
    """List what both logs say that must not be: asked, ruled or run twice, run after a no.

    What was allowed must have run, or be unknown, or have been given up before it began.
    """
    found = []
    questions = {
        entry.id: entry.question for entry in rulings if isinstance(entry, ApprovalRequested)
    }
    rules = [entry for entry in rulings if isinstance(entry, ApprovalDecided)]
    asked = Counter((q.call, q.plan) for q in questions.values())
    found += [f"asked {n} times: {key}" for key, n in asked.items() if n > 1]
    ruled = Counter(rule.id for rule in rules)
    found += [f"ruled {n} times: {questions[id].call}" for id, n in ruled.items() if n > 1]
    started = Counter(key_of(e) for e in entries if isinstance(e, CallStarted) and once(e))
    found += [f"started {n} times: {key}" for key, n in started.items() if n > 1]
    ended = {key_of(e): e for e in entries if isinstance(e, CallEnded)}
    withdrawn = {
        key_of(e) for e in entries if isinstance(e, CallDecided) and e.ruling == "withdrawn"
    }
    newest = {_first(question.call): id for id, question in questions.items()}
    for rule in rules:
        key = _first(questions[rule.id].call)
        if newest[key] != rule.id:
            continue  # what it would do had changed, so another answer counted
        outcome = ended[key].outcome if key in ended else "none"
        if outcome == "denied" and ended[key].text.startswith("stopped"):
            continue
        if rule.ruling in YES and outcome not in ("ok", "unknown") and key not in withdrawn:
            found.append(f"{key} was allowed, and its end is: {outcome}")
        if rule.ruling not in YES and rule.ruling != "standing" and started[key]:
            found.append(f"{key} was {rule.ruling}, and has run")
    return found


def once(started: CallStarted) -> bool:
    """Tell whether a repeat would do harm."""
    return started.effect == "once"


def unasked(entries: Sequence[Entry], rulings: Sequence[ApprovalEntry]) -> list[str]:
    """List the calls that ran without a yes in both logs, and before that in this one."""
    plans = {entry.id: entry.question for entry in rulings if isinstance(entry, ApprovalRequested)}
    yes = {
        (_first(plans[rule.id].call), rule.plan)
        for rule in rulings
        if isinstance(rule, ApprovalDecided) and rule.ruling in YES
    }
    allowed: set[str] = set()
    found = []
    for entry in entries:
        if isinstance(entry, CallDecided) and entry.allowed:
            if (key_of(entry), entry.plan) in yes:
                allowed.add(key_of(entry))
            else:
                found.append(f"{key_of(entry)} is allowed here, and not by approvals")
        elif isinstance(entry, CallStarted) and once(entry) and key_of(entry) not in allowed:
            found.append(f"{key_of(entry)} {entry.target} was not allowed, and has run")
    return found
