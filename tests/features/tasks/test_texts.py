"""Descriptions of tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.features.tasks.task import Task, TaskStatus
from elwood.features.tasks.texts import MAX_BUTTONS, buttons, list_tasks, state
from elwood.features.tasks.when import Every, Once, When

PARIS = "Europe/Paris"
# Sunday 2026-11-22 12:00 in Paris.
NOW = 1_795_345_200.0
HOUR = 3600.0


def task(when: When) -> Task:
    return Task("mail", "Look for mail", when, PARIS, prompt="Look.")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (TaskStatus(task(Once(0.0))), "no further run"),
        (TaskStatus(task(Once(0.0)), running=NOW), "running since today, Sun 2026-11-22 12:00 CET"),
        (
            TaskStatus(task(Every(HOUR)), next=NOW + HOUR, last=NOW, result="failed", failures=2),
            "next today, Sun 2026-11-22 13:00 CET; last today, Sun 2026-11-22 12:00 CET: failed; "
            "failed 2 times in a row",
        ),
        (TaskStatus(task(Every(HOUR)), paused="paused by the owner"), "paused by the owner"),
        (TaskStatus(task(Every(HOUR)), paused="it\nbroke"), "paused: it broke"),
    ],
)
def test_a_change_of_a_task_is_described(seen: TaskStatus, said: str) -> None:
    assert state(seen, PARIS, NOW) == said


def test_each_button_has_an_effect() -> None:
    over = TaskStatus(Task("over", "Over", Once(0.0)))
    many = [TaskStatus(Task(f"t{n}", "T", Every(HOUR)), next=NOW) for n in range(20)]
    assert buttons([over]) == ()
    assert buttons([over, *many]) == tuple(f"/tasks pause t{n}" for n in range(MAX_BUTTONS))


@given(st.text(), st.text(), st.text())
def test_no_text_breaks_the_lines_of_the_list(title: str, prompt: str, why: str) -> None:
    """Text from strangers cannot imitate another task."""
    seen = TaskStatus(Task("mail", title, Every(HOUR), prompt=prompt), paused=why)
    first, *others = list_tasks([seen], "UTC", 0.0).splitlines()
    assert first.startswith("mail")
    assert len(others) == 3
    assert all(line.startswith("  ") for line in others)
