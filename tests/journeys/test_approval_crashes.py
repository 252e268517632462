"""kill -9 at every step of gate and approval, singly and in pairs: no promise is broken."""

import random
from collections import Counter
from itertools import product
from pathlib import Path

import attrs
import pytest

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.message import INTERRUPTED
from elwood.agent.session.log.entries import CallDecided, CallEnded, Delivered, Received, Replied
from elwood.foundation.storage.journal import Verified, verify
from tests.journeys.approved import misjudged
from tests.journeys.asking import PAUSE, RESTART, AskingTrial

# Steps behind the first kill within which the second one falls: a recovery and more.
BEHIND = 60


@attrs.frozen
class Story:
    """What is said, and in which house."""

    said: tuple[str, ...]
    settings: ApprovalSettings = attrs.field(factory=ApprovalSettings)
    slow: float = 0.0

    def told(self, folder: Path, *kills: int) -> AskingTrial:
        """Tell it to a house that is killed at these steps."""
        return AskingTrial(folder, self.said, kills, self.settings, self.slow).run()


def story(*said: str) -> Story:
    return Story(said)


IN_TIME = story("call act soon a, act late b", "and?")
LEFT_OPEN = story("call act never a", "hello")
STORIES = {
    "in time, and late": IN_TIME,
    "denied, in time and late": story("call act no a, act tooLate b", "pause 120", "and?"),
    "while its neighbour runs": story("call act edge a, act soon b", "and?"),
    "while it is put aside": Story(("call act brink a",), slow=2.0),
    "denied while others run": story(
        "call act tooLate a", "pause 99.5", "!call look there, look here", "and?"
    ),
    "for good": story("call act always a", "call act always a"),
    "after a restart": story("call act next a", RESTART, "and?"),
    "stopped while it asks": story("call act never a", "pause 10", "/stop", "hello"),
    "stopped while it waits": story("call act never a", "pause 70", "/stop", "hello"),
    "stopped while it runs": story("call act soon a", "pause 5.5", "/stop", "hello"),
    "a new conversation while it waits": story("call act never a", "pause 70", "/new", "hello"),
    "a new conversation while it asks": story("call act never a", "pause 10", "/new", "hello"),
    "for a conversation": story(
        "call act here a", "call act here a", "pause 10", "/new", "call act here a"
    ),
    "strangers' words": story("call browse site.example", "call act trust a", "call act soon b"),
    "left open": LEFT_OPEN,
    "many at once": Story(
        ("call act soon a, act soon b, act soon c",), ApprovalSettings(group_after=1)
    ),
}


def broken(trial: AskingTrial) -> list[str]:
    """List the promises that were broken."""
    return [
        *trial.found,
        *misjudged(trial.entries, trial.rulings),
        *_answered(trial),
        *_shown(trial),
        *_uncertain(trial),
    ]


def _answered(trial: AskingTrial) -> list[str]:
    """P1: each message has one outcome; each answer is seen, and once without a mark."""
    found = []
    entries, posts = trial.entries, trial.world.posts
    replies = [entry for entry in entries if isinstance(entry, Replied)]
    for id_, text in trial.story:
        if text == RESTART or text.startswith(PAUSE):
            continue
        received = sum(isinstance(e, Received) and e.id == id_ for e in entries)
        outcomes = sum(id_ in reply.inputs for reply in replies)
        if (received, outcomes) != (1, 1):
            found.append(f"P1: {text!r} accepted {received} times, {outcomes} outcomes")
    said = Counter(post.part.text for post in posts if not post.buttons)
    plain = Counter(p.part.text for p in posts if not p.buttons and not p.repeat)
    texts = Counter("\n\n".join(filter(None, (r.text, r.footer))) for r in replies)
    for text, times in texts.items():
        if plain[text] > times or said[text] < times:
            found.append(f"P1: {times} replies {text!r}, seen {said[text]}, {plain[text]} unmarked")
    delivered = Counter(e.reply for e in entries if isinstance(e, Delivered))
    if delivered != Counter(reply.reply for reply in replies):
        found.append(f"P1: {len(replies)} replies, delivered {delivered}")
    return found


def _shown(trial: AskingTrial) -> list[str]:
    """Each open question was put to the owner; none twice without a mark."""
    posts = trial.world.posts
    prompts = Counter(b.data for p in posts if not p.repeat for b in p.buttons)
    found = [f"asked without a mark {n} times: {data}" for data, n in prompts.items() if n > 1]
    calls = trial.book().calls
    for case in calls.open():
        names = {case.id, *(id_ for id_, members in calls.groups.items() if case.id in members)}
        if not names & trial.owner.seen.keys():
            found.append(f"never shown: {case.question.call}")
    return found


def _uncertain(trial: AskingTrial) -> list[str]:
    """P3: what may have happened is told to the owner and the model, and nothing else is."""
    told = "\n".join(post.part.text for post in trial.world.posts)
    unknown = [e for e in trial.entries if isinstance(e, CallEnded) and e.outcome == "unknown"]
    found = [
        f"P3: {entry.target} is unknown, and was not told"
        for entry in unknown
        if f"? {entry.tool} {entry.target}" not in told
    ]
    stops = any(text.startswith("/") for _, text in trial.story)
    knows = any(INTERRUPTED in str(request.messages) for request in trial.world.asked)
    if knows != bool(unknown) and not stops:
        found.append(f"P3: {len(unknown)} calls are unknown, and the model knows of it: {knows}")
    return found


@pytest.mark.parametrize("name", STORIES)
def test_a_kill_at_any_step_breaks_no_promise(
    tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    """At every second step, odd ones and even ones by turns; with --kill-every 1 at each."""
    every = request.config.getoption("--kill-every")
    calm = STORIES[name].told(tmp_path / "calm")
    assert broken(calm) == []
    found = {}
    steps = range(1 + [*STORIES].index(name) % every, calm.steps.count + 1, every)
    for at in steps:
        trial = STORIES[name].told(tmp_path / str(at), at)
        if wrong := broken(trial):
            found[f"{at} ({trial.steps.names[at - 1]})"] = wrong
    print(f"{name}: killed at {len(steps)} of {calm.steps.count} steps")
    assert found == {}
    assert calm.steps.count >= 25


@pytest.mark.parametrize("command", ["/stop", "/new"])
def test_a_command_and_a_yes_may_come_in_any_order(tmp_path: Path, command: str) -> None:
    """On a slow disk, so that every step of the one falls between steps of the other."""
    for number in range(36):
        said = ("call act late a, act late b", f"pause {100 + number / 8}", command, "hello")
        trial = Story(said, slow=0.5).told(tmp_path / str(number))
        assert broken(trial) == []
        assert isinstance(verify(tmp_path / str(number) / "sessions/s.jsonl"), Verified)


def test_two_kills_at_any_steps_break_no_promise(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Some of all pairs; --kill-pairs says how many, and 10000 is more than there are."""
    total = IN_TIME.told(tmp_path / "calm").steps.count
    pairs = [(a, b) for a in range(1, total + 1) for b in range(a + 1, a + BEHIND)]
    many = min(len(pairs), request.config.getoption("--kill-pairs"))
    found = {}
    for first, second in random.Random(3).sample(pairs, many):
        trial = IN_TIME.told(tmp_path / f"{first}-{second}", first, second)
        if wrong := broken(trial):
            found[first, second] = wrong
    print(f"{many} of {len(pairs)} pairs")
    assert found == {}


def test_what_is_given_up_asks_nobody_any_more(tmp_path: Path) -> None:
    """A turn that was killed each time while it asked is given up, with its question."""
    calm = LEFT_OPEN.told(tmp_path / "calm")
    asked = calm.steps.names.index("after a message was sent") + 1
    given_up = 0
    for second, third in product(range(1, 6), repeat=2):
        kills = (asked, asked + second, asked + second + third)
        trial = LEFT_OPEN.told(tmp_path / f"{second}-{third}", *kills)
        assert broken(trial) == []
        if any(isinstance(entry, Replied) and entry.failed for entry in trial.entries):
            given_up += 1
            assert not trial.asked()
    assert given_up


def test_the_stories_tell_what_they_are_named_after(tmp_path: Path) -> None:
    """So that a kill in them falls where it is meant to."""
    rulings = {}
    outcomes = {}
    for number, (name, one) in enumerate(STORIES.items()):
        trial = one.told(tmp_path / str(number))
        decided = [e.ruling for e in trial.entries if isinstance(e, CallDecided)]
        ended = [e.outcome for e in trial.entries if isinstance(e, CallEnded) and e.tool == "act"]
        rulings[name], outcomes[name] = decided, ended
    assert rulings == {
        "in time, and late": ["once", "once"],
        "denied, in time and late": ["denied", "denied"],
        "while its neighbour runs": ["once", "once"],
        "while it is put aside": ["once"],
        "denied while others run": ["denied"],
        "for good": ["always", "standing"],
        "after a restart": ["once"],
        "stopped while it asks": [],
        "stopped while it waits": ["withdrawn"],
        "stopped while it runs": ["once"],
        "a new conversation while it waits": ["withdrawn"],
        "a new conversation while it asks": [],
        "for a conversation": ["conversation", "standing", "conversation"],
        "strangers' words": ["source", "once"],
        "left open": [],
        "many at once": ["once", "once", "once"],
    }
    assert outcomes == {
        "in time, and late": ["ok", "waiting", "ok"],
        "denied, in time and late": ["denied", "waiting"],
        "while its neighbour runs": ["waiting", "ok", "ok"],
        "while it is put aside": ["waiting", "ok"],
        "denied while others run": ["waiting"],
        "for good": ["ok", "ok"],
        "after a restart": ["waiting", "ok"],
        "stopped while it asks": ["denied"],
        "stopped while it waits": ["waiting"],
        "stopped while it runs": ["unknown"],
        "a new conversation while it waits": ["waiting"],
        "a new conversation while it asks": ["denied"],
        "for a conversation": ["ok", "ok", "ok"],
        "strangers' words": ["ok", "ok"],
        "left open": ["waiting"],
        "many at once": ["ok", "ok", "ok"],
    }
