"""agent.toml shows the assistant's own tasks in the form of config.toml."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.app.config.load import load
from elwood.features.tasks.agent_file import AgentFile, agent_toml
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Cron, Every
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from tests.features.tasks.tasks import sensible

TEA = Task("tea", "Tea", Cron("0 16 * * *"), message='"Tea" is\nready\\!')
NEWS = Task("news", "Nachrichten für Zoë", Every(7200.0), prompt="Lies mir vor, was neu ist.")


def file(tmp_path: Path) -> tuple[Path, AgentFile]:
    path = tmp_path / "state" / "agent.toml"
    return path, AgentFile(path, Disk(blocking=inline, clock=lambda: 0.0))


def version(path: Path) -> object:
    return tomllib.loads(path.read_text())["version"]


def test_it_is_written_only_when_something_has_changed(tmp_path: Path) -> None:
    path, agent = file(tmp_path)
    assert agent.write([TEA, NEWS])
    assert version(path) == 1
    assert not agent.write([NEWS, TEA])
    assert not file(tmp_path)[1].write([NEWS, TEA])  # the next start
    assert agent.write([TEA])
    assert version(path) == 2
    assert agent.write([])
    assert version(path) == 3
    assert "tasks" not in tomllib.loads(path.read_text())


def test_what_somebody_else_wrote_is_replaced(tmp_path: Path) -> None:
    path, agent = file(tmp_path)
    agent.write([TEA])
    path.write_text(path.read_text().replace("16", "17"))
    assert agent.write([TEA])
    assert version(path) == 2
    path.write_bytes(b"\xff\xfe nonsense")
    assert agent.write([TEA])
    assert path.read_text() == agent_toml([TEA], 1)


def test_it_says_whose_it_is_and_chores_are_not_in_it() -> None:
    text = agent_toml([TEA, Task("sweep", "Sweep", Every(3600.0), chore="sweep")], 7)
    assert text.startswith("# Written by Elwood")
    assert text.count("\n[[tasks]]\n") == 1


def read(text: str, path: Path) -> tuple[Task, ...]:
    path.write_text(re.sub(r"^version = \d+$", "", text, count=1, flags=re.MULTILINE))
    tasks = load(path, {"HOME": "/home/ada"}).tasks
    return tuple(msgspec.structs.replace(task, origin="talk") for task in tasks)


@settings(max_examples=40)
@given(st.lists(sensible(), max_size=3, unique_by=lambda task: task.id))
def test_what_is_written_is_what_config_toml_would_say(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[Task]
) -> None:
    path = tmp_path_factory.getbasetemp() / "config.toml"
    assert read(agent_toml(tasks, 1), path) == tuple(sorted(tasks, key=lambda task: task.id))
