"""Looks at what is planned: HEARTBEAT.md, the tools of tasks, and how old the last backup is."""

from collections.abc import Iterator

from elwood.app.builtin_tools import builtin
from elwood.app.config.settings import Config
from elwood.app.doctor.findings import Finding
from elwood.features.backup.settings import backup_folder
from elwood.features.backup.store import found
from elwood.features.tasks.heartbeat import read_checklist
from elwood.features.tasks.store import HeartbeatFile
from elwood.foundation.storage.confined import Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import duration

# Times as long as a backup takes to become due, after which the last one is too old.
OVERDUE = 2.5


def examine_plans(config: Config, now: float) -> list[Finding]:
    """Look at all of it, at Unix time *now*; blocks for a moment."""
    return [*_heartbeat(config), *_tasks(config), *_backups(config, now)]


def _heartbeat(config: Config) -> Iterator[Finding]:
    if not config.paths.workspace.is_dir():
        return  # told with the folders
    try:
        written = HeartbeatFile(Root(config.paths.workspace)).read()
    except Unconfined as error:
        yield Finding("warning", "heartbeat", f"HEARTBEAT.md cannot be read: {error}")
        return
    checklist = read_checklist(config, written.text)
    for problem in filter(None, (written.problem, *checklist.problems)):
        yield Finding("warning", "heartbeat", problem, "correct it; that counts within a minute")
    if not checklist.problems and not written.problem:
        yield Finding("ok", "heartbeat", f"{len(checklist.tasks)} tasks in HEARTBEAT.md")


def _tasks(config: Config) -> Iterator[Finding]:
    known = {tool.name for tool in builtin()}
    for task in config.tasks:
        if unknown := sorted(set(task.tools or ()) - known):
            what = f"{task.id} may use what no tool is called: {', '.join(unknown)}"
            yield Finding("warning", "tasks", what, "docs/reference/tools.md lists the tools")


def _backups(config: Config, now: float) -> Iterator[Finding]:
    folder, every = backup_folder(config), config.backup.every
    try:
        known = found(folder)
    except OSError as error:
        what = f"{folder} cannot be looked at: {error.strerror}"
        yield Finding("warning", "backup", what, "run this as the user of Elwood")
        return
    if not known:
        if every and (config.paths.state / "schedule.jsonl").exists():
            yield Finding("ok", "backup", "the first one is still to come")
        return
    newest = known[0]
    old = now - newest.at
    if not newest.whole:
        yield Finding("warning", "backup", f"{newest.path} is cut off", "run: elwood backup now")
    elif every and old > OVERDUE * every:
        what = f"the last one is {duration(old)} old"
        yield Finding("warning", "backup", what, "look at /tasks all; run: elwood backup now")
    else:
        yield Finding("ok", "backup", f"the last one is {duration(max(0.0, old))} old")
