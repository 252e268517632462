"""Judges a town by what its Bot API saw and its journals hold."""

from collections import Counter

from elwood.agent.session.log.entries import CallEnded, Delivered, Entry, Received, Replied
from elwood.agent.session.reading.receipts import HEAD
from elwood.features.telegram.outbox import UNFINISHED
from elwood.foundation.text.splitting import parts
from tests.fake_telegram import BOT
from tests.journeys.service import MARK, QUESTION, Town

AGAIN = "(again) "
# How the words about tasks begin, which no conversation has said.
NEWS = ("Failed", "Missed: ", "Paused: ")


def name(update: int) -> str:
    """Name an update as the journals do."""
    return f"tg:{BOT['id']}:{update}"


def broken(town: Town, pushed: dict[int, str]) -> list[str]:
    """List the promises that were broken; *pushed* are the marks of the messages by update."""
    entries = [entry for journal in town.journals().values() for entry in journal]
    found = [*_outcomes(town, entries, pushed), *_answers(town, entries)]
    found += _effects(town, entries)
    return found


def uncertain(town: Town) -> int:
    """Count the calls of `act` that a kill has cut off: those that a repeat would do twice."""
    entries = [entry for journal in town.journals().values() for entry in journal]
    return sum(isinstance(e, CallEnded) and e.outcome == "unknown" for e in entries)


def _outcomes(town: Town, entries: list[Entry], pushed: dict[int, str]) -> list[str]:
    """P1: each message has one outcome, which is delivered and seen."""
    found = []
    received = Counter(e.id for e in entries if isinstance(e, Received))
    replies = [entry for entry in entries if isinstance(entry, Replied)]
    outcomes = Counter(id_ for reply in replies for id_ in reply.inputs)
    failed = {id_ for reply in replies if reply.failed for id_ in reply.inputs}
    seen = Counter(
        mark
        for text in town.said()
        if not text.startswith(AGAIN)
        for mark in set(MARK.findall(text.partition(HEAD)[0]))  # not what ran later
    )
    seen_at_all = {mark for text in town.said() for mark in MARK.findall(text)}
    for update, mark in pushed.items():
        id_ = name(update)
        if received[id_] != 1 or outcomes[id_] != 1:
            found.append(f"{mark}: accepted {received[id_]} times, {outcomes[id_]} outcomes")
        if mark not in seen_at_all and id_ not in failed:
            found.append(f"{mark}: its answer was never seen")
        # What was given up stands unanswered before the model, which may come back to it.
        if seen[mark] > 1 and id_ not in failed:
            found.append(f"{mark}: answered {seen[mark]} times without a mark")
    return found


def _answers(town: Town, entries: list[Entry]) -> list[str]:
    """Each reply was delivered, was seen, and was seen once without the mark of a repeat."""
    found = []
    replies = [e for e in entries if isinstance(e, Replied) and e.text and not e.quiet]
    delivered = Counter(entry.why for entry in entries if isinstance(entry, Delivered))
    if delivered != {"": len(replies)}:
        found.append(f"{len(replies)} replies, delivered: {delivered}")
    wanted = Counter(
        (reply.route.chat, part.text.strip())
        for reply in replies
        for part in parts(reply.text, reply.footer)
    )
    plain: Counter[tuple[int, str]] = Counter()
    either: Counter[tuple[int, str]] = Counter()
    for sent in town.telegram.sent:
        if sent.text.endswith(UNFINISHED) or QUESTION in sent.text:
            continue
        text = sent.text.removeprefix(AGAIN)
        if text.startswith(NEWS):
            continue
        either[sent.chat, text] += 1
        if text == sent.text:
            plain[sent.chat, text] += 1
    found += [f"repeated silently: {key}" for key in plain if plain[key] > wanted[key]]
    found += [f"never seen: {key}" for key in wanted if either[key] < wanted[key]]
    found += [f"seen, but no reply: {key}" for key in either if key not in wanted]
    return found


def _effects(town: Town, entries: list[Entry]) -> list[str]:
    """P2 to P4: nothing was done twice, nothing is claimed, what is uncertain was told."""
    done = Counter(town.effects)
    found = [f"P2: {mark} was done {times} times" for mark, times in done.items() if times > 1]
    told = "\n".join(town.said())
    for entry in entries:
        if isinstance(entry, CallEnded) and entry.tool == "act":
            if entry.outcome == "unknown" and f"? act {entry.target}" not in told:
                found.append(f"P3: it was not told that {entry.target} is uncertain")
            if entry.outcome == "ok" and not done[entry.target]:
                found.append(f"P4: {entry.target} was claimed but not done")
    return found
