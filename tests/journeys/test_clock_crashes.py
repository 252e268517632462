"""kill -9 at every step of a run, in all of Elwood: done once, told once, with one outcome."""

import random
from collections import Counter
from pathlib import Path

import pytest

from elwood.agent.session.log.entries import CallEnded, Received, Replied
from elwood.features.tasks.run import message_of
from elwood.features.tasks.state import RunFinished, RunsMissed, RunStarted
from tests.fake_telegram import OWNER
from tests.journeys.clock_stories import STORIES
from tests.journeys.clocked import Trial, sample
from tests.journeys.home import MINE
from tests.journeys.judging import AGAIN, NEWS
from tests.journeys.outcomes import Judge

# Stories in which actors fall.
FALLS = ("acts", "reminder", "heartbeat", "fails twice", "allowed late")
# Steps behind the first kill within which the second one falls: a recovery and more.
BEHIND = 30


def broken(trial: Trial) -> list[str]:
    """List the promises that were broken."""
    judges = (_planned, _run, _once, _allowed, _acted, _noted)
    return [*trial.home.broken(), *(wrong for judge in judges for wrong in judge(trial))]


def _planned(trial: Trial) -> list[str]:
    """Each planned time has one outcome, and what went wrong was told once."""
    log = trial.log()
    judge = Judge(log, trial.ended_at)
    texts = [(text.removeprefix(AGAIN), text) for text in trial.home.fake.texts(OWNER)]
    judge.judge_news(log, [(bare, bare != text) for bare, text in texts if bare.startswith(NEWS)])
    running = [row.task.id for row in trial.table().tasks.values() if row.run is not None]
    return [*judge.broken, *(f"{id_} still runs" for id_ in running)]


def _run(trial: Trial) -> list[str]:
    """Each run that began is one message of one session, and ended as the session says."""
    replies = {
        id_: entry
        for entry in _entries(trial)
        if isinstance(entry, Replied)
        for id_ in entry.inputs
    }
    received = {e.id for e in _entries(trial) if isinstance(e, Received) and e.errand}
    tasks = {row.task.id for row in trial.table().tasks.values() if row.task.chore}
    runs = [
        e.run for _, _, e in trial.log() if isinstance(e, RunStarted) and e.run.task not in tasks
    ]
    begun = {message_of(run) for run in runs}
    found = [f"{id_} began, and nobody was asked" for id_ in begun - received]
    found += [f"{id_} never began" for id_ in received - begun if not id_.endswith(":note")]
    for _, _, entry in trial.log():
        reply = replies.get(message_of(entry.run)) if isinstance(entry, RunFinished) else None
        if isinstance(entry, RunFinished) and reply and (entry.result == "failed") != reply.failed:
            found.append(f"{entry} in the timetable, {reply} in the session")
    return found


def _once(trial: Trial) -> list[str]:
    """What its conversation has told of a run that failed, the timetable does not tell again."""
    replies = [e for e in _entries(trial) if isinstance(e, Replied) and e.failed and not e.quiet]
    told = {id_ for reply in replies for id_ in reply.inputs}
    ended = [
        e for _, _, e in trial.log() if isinstance(e, RunFinished) and message_of(e.run) in told
    ]
    return [f"told twice: {entry.tell}" for entry in ended if entry.tell]


def _allowed(trial: Trial) -> list[str]:
    """What came of a yes is told to the owner who said it: nobody else waits for that."""
    replies = [e for e in _entries(trial) if isinstance(e, Replied) and not e.inputs]
    return [f"the owner allowed it, and never heard: {e}" for e in replies if e.failed and e.quiet]


def _acted(trial: Trial) -> list[str]:
    """What was done stands in the records, and nothing else does."""
    done = Counter(trial.home.effects.done)
    ended = [e for e in _entries(trial) if isinstance(e, CallEnded) and e.tool == "act"]
    known = Counter(f"act {e.target}" for e in ended if e.outcome in ("ok", "unknown"))
    claimed = {f"act {e.target}" for e in ended if e.outcome == "ok"}
    found = [f"{what} was done {n} times" for what, n in done.items() if n > 1]
    found += [f"{what} is in no record" for what in done if not known[what]]
    found += [f"{what} has {n} records" for what, n in known.items() if n > 1]
    return found + [f"{what} was claimed" for what in claimed if not done[what]]


def _noted(trial: Trial) -> list[str]:
    """The owner's conversation knows of each answer that was posted from elsewhere, once."""
    told = {
        f"{id_}:note"
        for session in trial.home.sessions
        if session != MINE
        for entry in trial.home.entries(session)
        if isinstance(entry, Replied) and not entry.quiet
        for id_ in entry.inputs
    }
    notes = Counter(
        e.id for e in trial.home.entries(MINE) if isinstance(e, Received) and e.id.endswith(":note")
    )
    return [] if notes == Counter(told) else [f"told {told}, noted {notes}"]


def _entries(trial: Trial) -> list[object]:
    return [e for session in trial.home.sessions for e in trial.home.entries(session)]


def results(trial: Trial) -> dict[tuple[str, float], str]:
    """Say what became of each planned time."""
    found: dict[tuple[str, float], str] = {}
    for _, _, entry in trial.log():
        if isinstance(entry, RunFinished) and entry.run.attempt:
            found[entry.run.task, entry.run.due] = entry.result
        elif isinstance(entry, RunsMissed):
            found[entry.task, entry.last] = f"{entry.result} {entry.count}"
    return found


@pytest.mark.parametrize("name", STORIES)
def test_a_kill_at_any_step_breaks_no_promise(
    tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    """At some of the steps, in each story at others; with --clock-every 1 at each."""
    every = request.config.getoption("--clock-every")
    story = STORIES[name]
    calm = Trial(tmp_path / "calm", story).run()
    assert broken(calm) == []
    found = {}
    steps = sample(len(calm.names), every, [*STORIES].index(name))
    for at in steps:
        trial = Trial(tmp_path / str(at), story, at).run()
        wrong = broken(trial)
        if results(trial) != results(calm):
            wrong.append(f"{results(trial)} instead of {results(calm)}")
        if wrong:
            found[f"{at} ({trial.names[at - 1]})"] = wrong
        assert trial.lives == 2
    print(f"{name}: killed at {len(steps)} of {len(calm.names)} steps")
    assert found == {}


class Bug(Exception):
    """A mistake of ours."""


@pytest.mark.parametrize("name", FALLS)
def test_an_actor_that_crashes_at_any_step_breaks_no_promise(
    tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    """Elwood goes on living: only the actor that writes, or thinks, begins anew."""
    every = request.config.getoption("--clock-every")
    story = STORIES[name]
    calm = Trial(tmp_path / "calm", story).run()
    found = {}
    for at in sample(len(calm.names), every, FALLS.index(name)):
        trial = Trial(tmp_path / str(at), story, at, bug=Bug).run()
        if wrong := broken(trial):
            found[f"{at} ({trial.names[at - 1]})"] = wrong
        assert trial.lives == 1
        assert results(trial) == results(calm)
    assert found == {}


def test_a_yes_that_came_to_nothing_is_told(tmp_path: Path) -> None:
    """The turn that the owner has allowed is cut off twice before anything was done."""
    story = STORIES["allowed late"]
    begun = Trial(tmp_path / "calm", story).run().names.index("after write turn") + 1
    trial = Trial(tmp_path / "cut", story, begun, begun + 2).run()
    assert trial.names[begun + 1] == "after write turn"
    assert broken(trial) == []
    assert trial.home.texts()[-1].startswith("I tried this several times")
    assert trial.home.effects.done == []


def test_a_run_that_was_cut_off_and_failed_is_told_once(tmp_path: Path) -> None:
    """By its conversation, from the records; the timetable would say less."""
    story = STORIES["acts and fails"]
    calm = Trial(tmp_path / "calm", story).run()
    acted = next(n for n, name in enumerate(calm.names, 1) if name.startswith("after act"))
    assert any(text.startswith(NEWS) for text in calm.home.texts())
    trial = Trial(tmp_path / "cut", story, acted).run()
    assert broken(trial) == []
    about = [text for text in trial.home.texts() if "? act" in text or text.startswith(NEWS)]
    assert len(about) == 1, about


def test_two_kills_at_any_steps_break_no_promise(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Some of all pairs: half as many as --kill-pairs says, as these are whole houses."""
    pairs = [
        (name, first, second)
        for name, story in STORIES.items()
        for first in range(1, len(Trial(tmp_path / name, story).run().names) + 1)
        for second in range(first + 1, first + BEHIND)
    ]
    many = min(len(pairs), request.config.getoption("--kill-pairs") // 2)
    found = {}
    for name, first, second in random.Random(5).sample(pairs, many):
        trial = Trial(tmp_path / f"{name}-{first}-{second}", STORIES[name], first, second).run()
        if wrong := broken(trial):
            found[name, first, second] = [
                trial.names[first - 1],
                trial.names[second - 1 : second],
                wrong,
            ]
    print(f"{many} of {len(pairs)} pairs")
    assert found == {}
