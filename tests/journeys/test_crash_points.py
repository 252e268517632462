"""kill -9 at every step, singly and in pairs: no promise is broken."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from tests.journeys.crashing import STORY, Message, Trial


def steps_of(folder: Path, story: Sequence[Message] = STORY) -> int:
    trial = Trial(folder / "calm", story=story).run()
    assert trial.broken() == []
    assert trial.lives == 1
    return trial.steps.count


def test_an_undisturbed_story_is_told_as_expected(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "calm").run()

    assert trial.world.said[0] == "re: hello"
    assert trial.world.said[1] == "I acted.\n\n— from the records —\n✓ look around\n✓ act boldly"
    assert len(trial.world.said) == 3


def test_a_kill_at_any_step_breaks_no_promise(tmp_path: Path) -> None:
    broken = {}
    total = steps_of(tmp_path)
    for at in range(1, total + 1):
        trial = Trial(tmp_path / str(at), [at]).run()
        assert trial.lives == 2
        if found := trial.broken():
            broken[f"{at} ({trial.steps.names[at - 1]})"] = found

    assert broken == {}
    assert total >= 50


def test_two_kills_at_any_steps_break_no_promise(tmp_path: Path) -> None:
    broken = {}
    numbers = count()
    story = STORY[:2]
    for first in range(1, steps_of(tmp_path, story) + 1):
        # After the first kill the count goes on: the second falls into the recovery or later.
        # Every other pair, as on a chess board: all of them take twice the time.
        for second in range(first + 1 + first % 2, first + 60, 2):
            trial = Trial(tmp_path / f"pair{next(numbers)}", [first, second], story).run()
            if trial.steps.at:
                break  # the story ended before the second kill
            if found := trial.broken():
                broken[first, second] = found

    assert broken == {}
    assert next(numbers) > 500
