"""kill -9 at every step of gate and approval, singly and in pairs: no promise is broken."""

from collections import Counter
from pathlib import Path

import pytest

from elwood.core.conversation import INTERRUPTED
from elwood.core.permissions import ApprovalSettings
from elwood.core.session import CallEnded, Delivered, Received, Replied
from tests.house.approved import misjudged
from tests.house.asking import RESTART, AskingTrial

STORIES = {
    "in time, and late": ["call act soon a, act late b", "and?"],
    "denied, in time and late": ["call act no a, act tooLate b", "pause 120", "and?"],
    "at the very end of the wait": ["call act edge a", "and?"],
    "for good": ["call act always a", "call act always a"],
    "after a restart": ["call act next a", RESTART, "and?"],
    "stopped while it asks": ["call act never a", "pause 10", "/stop", "hello"],
    "stopped while it waits": ["call act never a", "pause 70", "/stop", "hello"],
    "a new conversation while it waits": ["call act never a", "pause 70", "/new", "hello"],
    "a new conversation while it asks": ["call act never a", "pause 10", "/new", "hello"],
    "for a conversation": ["call act here a", "call act here a", "/new", "call act here a"],
    "strangers' words": ["call browse site.example", "call act trust a", "call act soon b"],
    "left open": ["call act never a", "hello"],
    "many at once": ["call act soon a, act soon b, act soon c"],
}


def judge(trial: AskingTrial) -> list[str]:
    """List the promises that were broken."""
    entries, world = trial.entries, trial.world
    found = [*trial.found, *misjudged(entries, trial.rulings)]
    replies = [entry for entry in entries if isinstance(entry, Replied)]
    for id_, text in trial.story:
        if text == RESTART or text.startswith("pause"):
            continue
        received = sum(isinstance(e, Received) and e.id == id_ for e in entries)
        outcomes = sum(id_ in reply.inputs for reply in replies)
        if (received, outcomes) != (1, 1):
            found.append(f"P1: {text!r} accepted {received} times, {outcomes} outcomes")
    said = Counter(post.part.text for post in world.posts if not post.buttons)
    plain = Counter(p.part.text for p in world.posts if not p.buttons and not p.repeat)
    texts = Counter("\n\n".join(filter(None, (r.text, r.footer))) for r in replies)
    for text, times in texts.items():
        if plain[text] > times or said[text] < times:
            found.append(f"P1: {times} replies {text!r}, seen {said[text]}, {plain[text]} unmarked")
    delivered = Counter(e.reply for e in entries if isinstance(e, Delivered))
    if delivered != Counter(reply.reply for reply in replies):
        found.append(f"P1: {len(replies)} replies, delivered {delivered}")
    prompts = Counter(b.data for p in world.posts if not p.repeat for b in p.buttons)
    found += [f"asked without a mark {n} times: {data}" for data, n in prompts.items() if n > 1]
    for case in trial.book().calls.open():
        if case.id not in trial.owner.seen and not trial.book().calls.groups:
            found.append(f"never shown: {case.question.call}")
    told = "\n".join(said)
    stops = any(text.startswith("/") for _, text in trial.story)
    for entry in entries:
        if isinstance(entry, CallEnded) and entry.outcome == "unknown":
            if f"? {entry.tool} {entry.target}" not in told:
                found.append(f"P3: {entry.target} is unknown, and was not told")
            if not stops and INTERRUPTED not in str([r.messages for r in world.asked]):
                found.append(f"P3: {entry.target} is unknown, and the model does not know")
    done = Counter(world.effects.done)
    starts = Counter(text for _, text in trial.story if text.startswith("call"))
    for effect, times in done.items():
        if effect.startswith("act") and times > sum(effect in text for text in starts.elements()):
            found.append(f"P2: {effect} {times} times")
    return found


def settings(name: str) -> ApprovalSettings:
    return ApprovalSettings(group_after=1 if name == "many at once" else 5)


@pytest.mark.parametrize("name", STORIES)
def test_a_kill_at_any_step_breaks_no_promise(tmp_path: Path, name: str) -> None:
    calm = AskingTrial(tmp_path / "calm", STORIES[name], settings=settings(name)).run()
    assert judge(calm) == []
    total = calm.steps.count
    broken = {}
    for at in range(1, total + 1):
        trial = AskingTrial(tmp_path / str(at), STORIES[name], [at], settings(name)).run()
        if found := judge(trial):
            broken[f"{at} ({trial.steps.names[at - 1]})"] = found
    print(f"{name}: killed at {total} steps")
    assert broken == {}
    assert total >= 40
