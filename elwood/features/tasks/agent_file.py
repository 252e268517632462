"""agent.toml: the tasks that were made in conversations, for people to read."""

import re
from collections.abc import Sequence
from pathlib import Path

from elwood.features.tasks.task import Task
from elwood.features.tasks.task_toml import write_task
from elwood.foundation.storage.disk import Disk

NAME = "agent.toml"
# Bytes; beyond is no file of ours.
_MOST = 16 << 20
_HEAD = """\
# Written by Elwood: the tasks that were made in conversations.  The truth is schedule.jsonl; what
# you change here is not read.  To make a task your own, move it to config.toml (the whole [[tasks]]
# part) and cancel it in a chat: /tasks.
"""
_VERSION = re.compile(r"^version = ([0-9]{1,18})$", re.MULTILINE)


class AgentFile:
    """The file *path*, which nobody else writes."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def write(self, tasks: Sequence[Task]) -> bool:
        """Let the file say *tasks*, with its version raised; False if it says so already; blocks.

        Without any there is no file, unless there were some before.  After a crash it is the old
        one or the new one.  Raises DiskFull and JournalBroken.
        """
        there = self._read()
        if not (there or tasks):
            return False
        found = _VERSION.search(there)
        version = int(found[1]) if found else 0
        if found and there == agent_toml(tasks, version):
            return False
        self._disk.make_folder(self._path.parent)
        self._disk.replace(self._path, agent_toml(tasks, version + 1).encode("utf-8", "replace"))
        return True

    def _read(self) -> str:
        try:
            with self._path.open("rb") as file:
                return file.read(_MOST).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""


def agent_toml(tasks: Sequence[Task], version: int) -> str:
    """Write *tasks*, by their ids, but for those of the house."""
    import tomli_w  # many houses never write one

    parts = [f"{_HEAD}version = {version}\n"]
    for task in sorted(tasks, key=lambda task: task.id):
        if task.chore:
            continue
        keys = {key: _escaped(value) for key, value in write_task(task).items()}
        # In TOML a carriage return cannot stand in a text of several lines.
        lines = not any("\r" in value for value in keys.values() if isinstance(value, str))
        parts.append(f"[[tasks]]\n{tomli_w.dumps(keys, multiline_strings=lines)}")
    return "\n".join(parts)


def _escaped(value: object) -> object:
    """Write ``${`` as config.toml wants it."""
    match value:
        case str():
            return value.replace("${", "$${")
        case tuple():
            return [_escaped(one) for one in value]
        case _:
            return value
