"""kill -9 at every step of a story, in all of Elwood, singly and in pairs: no promise is broken."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from elwood.agent.conversation.message import INTERRUPTED
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import CallDecided, CallEnded, Received, Replied
from elwood.features.tasks.state import RunFinished, RunsMissed
from elwood.foundation.storage.journal import Verified, verify
from tests.fake_telegram import OWNER
from tests.journeys.crashing import Trial
from tests.journeys.home import MINE
from tests.journeys.judging import approvals, journals, key_of, wrong_decisions
from tests.journeys.outcomes import NEWS, wrong_outcomes
from tests.journeys.stories import OF_TALK, STORIES, tell_story

# Stories in which actors crash.
FALLS = ("in time, and late", "acts", "reminder", "heartbeat", "fails twice", "allowed late")
# An interrupted nested call has no record of its outcome: its run has failed.
CALLS = "a tool, and then a model"
# Steps after the first kill within which the second one happens: a recovery and more.
BEHIND = 30


def broken_promises(trial: Trial) -> list[str]:
    """List the broken promises."""
    h = trial.home
    logs, free = journals(h.state), h.config().get(PolicySettings).allow
    return [
        *h.broken_promises(),
        *wrong_decisions(logs, approvals(h.state)[0], free),
        *wrong_outcomes(trial.log(), trial.ended_at, h.fake.texts(OWNER), logs),
        *(f"{row.task.id} still runs" for row in trial.table().tasks.values() if row.run),
        *_check_questions(trial),
        *_check_records(trial),
        *_check_notes(trial),
    ]


def _check_questions(trial: Trial) -> list[str]:
    """Check that each open question was sent to the owner, none twice without a mark."""
    calls = approvals(trial.home.state)[1].calls
    shown = {data.split(":")[1] for data in trial.prompts}
    found = [f"asked without a mark {n} times: {one}" for one, n in trial.prompts.items() if n > 1]
    unseen = [case.question.call for case in calls.open() if case.id not in shown]
    return found + [f"never shown: {call}" for call in unseen]


def _check_records(trial: Trial) -> list[str]:
    """Check that each effect is in the records, once for each time."""
    done = Counter(what for what in trial.home.effects.done if what.startswith("act"))
    logs = journals(trial.home.state).values()
    ended = [e for log in logs for e in log if isinstance(e, CallEnded) and e.tool == "act"]
    known = Counter(f"act {e.target}" for e in ended if e.outcome in ("ok", "unknown"))
    return [f"{what}: done {n} times, {known[what]} records" for what, n in (done - known).items()]


def _check_notes(trial: Trial) -> list[str]:
    """Check that the owner's conversation has each answer posted from elsewhere once."""
    logs = journals(trial.home.state)
    replies = [e for name, log in logs.items() if name != MINE for e in log]
    told = {
        f"{id_}:note" for e in replies if isinstance(e, Replied) and not e.quiet for id_ in e.inputs
    }
    noted = Counter(
        e.id for e in logs.get(MINE, ()) if isinstance(e, Received) and e.id.endswith(":note")
    )
    return [] if noted == Counter(told) else [f"told {told}, noted {noted}"]


def results(trial: Trial) -> dict[tuple[str, float], str]:
    """Return the outcome of each planned time."""
    found: dict[tuple[str, float], str] = {}
    for _, _, entry in trial.log():
        if isinstance(entry, RunFinished) and entry.run.attempt:
            found[entry.run.task, entry.run.due] = entry.result
        elif isinstance(entry, RunsMissed):
            found[entry.task, entry.last] = f"{entry.result} {entry.count}"
    return found


def call_decisions(trial: Trial) -> list[str]:
    """Return the decisions about calls."""
    entries = [e for log in journals(trial.home.state).values() for e in log]
    found = dict.fromkeys((key_of(e), e.ruling) for e in entries if isinstance(e, CallDecided))
    return [ruling for _, ruling in found]


def act_outcomes(trial: Trial) -> list[str]:
    """Return the outcomes of the calls."""
    entries = [e for log in journals(trial.home.state).values() for e in log]
    return [e.outcome for e in entries if isinstance(e, CallEnded) and e.tool == "act"]


def choose_steps(total: int, name: str, request: pytest.FixtureRequest) -> Sequence[int]:
    """Choose some of *total* steps, different ones for each story; with --kill-every 1 all."""
    every = request.config.getoption("--kill-every")
    return range(1 + [*STORIES].index(name) % every, total + 1, every)


@pytest.mark.parametrize("name", STORIES)
def test_a_kill_at_any_step_breaks_no_promise(
    tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    calm = Trial(tmp_path / "calm", STORIES[name]).run()
    assert broken_promises(calm) == []
    found = {}
    for at in choose_steps(len(calm.names), name, request):
        trial = Trial(tmp_path / str(at), STORIES[name], at).run()
        wrong = broken_promises(trial)
        if name not in (*OF_TALK, CALLS) and results(trial) != results(calm):
            wrong.append(f"{results(trial)} instead of {results(calm)}")
        if more := set(trial.home.effects.done) - set(calm.home.effects.done):
            wrong.append(f"{more} would not have been done")
        if wrong:
            found[f"{at} ({trial.names[at - 1]})"] = wrong
        # The order of tasks varies, so a story may have one step less the next time. A kill while
        # Elwood stops for the restart of a story causes no additional restart.
        lives = calm.lives + (not trial.disk.deaths)
        assert trial.lives == lives or trial.lives == calm.lives > 1
    assert found == {}


class Bug(Exception):
    """A programming error."""


@pytest.mark.parametrize("name", FALLS)
def test_an_actor_that_crashes_at_any_step_breaks_no_promise(
    tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    """Elwood keeps running: only the actor that writes or thinks restarts."""
    calm = Trial(tmp_path / "calm", STORIES[name]).run()
    found = {}
    for at in choose_steps(len(calm.names), name, request):
        trial = Trial(tmp_path / str(at), STORIES[name], at, bug=Bug).run()
        if wrong := broken_promises(trial):
            found[f"{at} ({trial.names[at - 1]})"] = wrong
        assert trial.lives == 1
        assert name in OF_TALK or results(trial) == results(calm)
    assert found == {}


def test_two_kills_at_any_steps_break_no_promise(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A sample of all pairs; --kill-pairs sets its size."""
    pairs = [
        (name, first, second)
        for name, story in STORIES.items()
        for first in range(1, len(Trial(tmp_path / name, story).run().names) + 1)
        for second in range(first + 1, first + BEHIND)
    ]
    many = min(len(pairs), request.config.getoption("--kill-pairs"))
    found = {}
    for name, first, second in random.Random(5).sample(pairs, many):
        trial = Trial(tmp_path / f"{name}-{first}-{second}", STORIES[name], first, second).run()
        if wrong := broken_promises(trial):
            found[name, first, second] = [
                trial.names[first - 1],
                trial.names[second - 1 : second],
                wrong,
            ]
    print(f"{many} of {len(pairs)} pairs")
    assert found == {}


def test_each_story_contains_its_events(tmp_path: Path) -> None:
    """So a kill in them happens where it is intended."""
    told = {name: Trial(tmp_path / name, story).run() for name, story in OF_TALK.items()}
    assert {name: (call_decisions(trial), act_outcomes(trial)) for name, trial in told.items()} == {
        "talk": ([], ["ok"]),
        "in time, and late": (["once", "once"], ["ok", "waiting", "ok"]),
        "denied, in time and late": (["denied", "denied"], ["denied", "waiting"]),
        "while its neighbour runs": (["once", "once"], ["waiting", "ok", "ok"]),
        "while it is put aside": (["once"], ["waiting", "ok"]),
        "denied while others run": (["denied"], ["waiting"]),
        "for good": (["always", "standing"], ["ok", "ok"]),
        "after a restart": (["once"], ["waiting", "ok"]),
        "stopped while it asks": (["withdrawn"], ["denied"]),
        "stopped while it waits": (["withdrawn"], ["waiting"]),
        "stopped while it runs": (["once"], ["unknown"]),
        "a new conversation while it waits": (["withdrawn"], ["waiting"]),
        "a new conversation while it asks": (["withdrawn"], ["denied"]),
        "for a conversation": (["conversation", "standing", "conversation"], ["ok", "ok", "ok"]),
        "strangers' words": (["source", "once"], ["ok", "ok"]),
        "left open": ([], ["waiting"]),
        "back and forth": ([], ["ok"]),
        "many together": (["once", "once", "once"], ["ok", "ok", "ok"]),
        "within a call": (["once", "denied"], ["ok", "denied"]),
        "within a call, too late": ([], ["denied"]),
        "stopped within a call": (["once"], ["unknown"]),
        "recordings": ([], []),
    }
    heard = [str(request.messages) for request in told["stopped while it runs"].home.asked]
    assert INTERRUPTED in heard[-1]


@pytest.mark.parametrize("command", ["/stop", "/new"])
def test_a_command_and_a_yes_work_in_any_order(tmp_path: Path, command: str) -> None:
    """On a slow disk, so that the steps of both interleave."""
    for number in range(12):
        pause = f"pause {100 + number / 2}"
        story = tell_story("call act late a, act late b", pause, command, "hello", slow=0.5)
        trial = Trial(tmp_path / str(number), story).run()
        assert broken_promises(trial) == []
        assert isinstance(verify(trial.home.journal()), Verified)


def test_an_abandoned_turn_closes_its_question(tmp_path: Path) -> None:
    """A turn killed each time while it asked is abandoned together with its question."""
    story = STORIES["left open"]
    asked = Trial(tmp_path / "calm", story).run().names.index("after a message was sent") + 1
    given_up = 0
    for second, third in product(range(1, 6), repeat=2):
        kills = (asked, asked + second, asked + second + third)
        trial = Trial(tmp_path / f"{second}-{third}", story, *kills).run()
        assert broken_promises(trial) == []
        if any(isinstance(entry, Replied) and entry.failed for entry in trial.home.entries()):
            given_up += 1
            assert approvals(trial.home.state)[1].calls.open() == []
    assert given_up


def test_a_yes_without_effect_is_reported(tmp_path: Path) -> None:
    """The turn that the owner allowed is interrupted twice before it does anything."""
    story = STORIES["allowed late"]
    begun = Trial(tmp_path / "calm", story).run().names.index("after write turn") + 1
    trial = Trial(tmp_path / "cut", story, begun, begun + 2).run()
    assert trial.names[begun + 1] == "after write turn"
    assert broken_promises(trial) == []
    assert trial.home.texts()[-1].startswith("I tried this several times")
    assert "(failed) · allowed once by you" in trial.home.texts()[-1]
    assert trial.home.effects.done == []


def test_an_interrupted_run_is_reported_once(tmp_path: Path) -> None:
    """By its conversation, from the records; the timetable would report less."""
    story = STORIES["acts and fails"]
    calm = Trial(tmp_path / "calm", story).run()
    acted = next(n for n, name in enumerate(calm.names, 1) if name.startswith("after act"))
    assert any(text.startswith(NEWS) for text in calm.home.texts())
    trial = Trial(tmp_path / "cut", story, acted).run()
    assert broken_promises(trial) == []
    about = [text for text in trial.home.texts() if "? act" in text or text.startswith(NEWS)]
    assert len(about) == 1, about
