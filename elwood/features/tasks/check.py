"""What the doctor asks about tasks: is HEARTBEAT.md understood, and is there every tool?"""

from collections.abc import Collection, Iterator

from elwood.features.tasks.heartbeat import read_checklist
from elwood.features.tasks.settings import ConfiguredTasks
from elwood.features.tasks.store import HeartbeatFile
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.confined import Unconfined
from elwood.foundation.storage.files import Root


async def check(context: CheckContext) -> list[Finding]:
    """Look at all that is planned."""
    heartbeat = await context.blocking(lambda: list(_heartbeat(context.config)))
    return [*heartbeat, *_tasks(context.config, context.tools)]


def _heartbeat(config: Config) -> Iterator[Finding]:
    workspace = config.of(Paths).workspace
    if not workspace.is_dir():
        return  # told with the folders
    try:
        written = HeartbeatFile(Root(workspace)).read()
    except Unconfined as error:
        yield Finding("warning", "heartbeat", f"HEARTBEAT.md cannot be read: {error}")
        return
    checklist = read_checklist(config, written.text)
    for problem in filter(None, (written.problem, *checklist.problems)):
        yield Finding("warning", "heartbeat", problem, "correct it; that counts within a minute")
    if not checklist.problems and not written.problem:
        yield Finding("ok", "heartbeat", f"{len(checklist.tasks)} tasks in HEARTBEAT.md")


def _tasks(config: Config, known: Collection[str]) -> Iterator[Finding]:
    for task in config.of(ConfiguredTasks).tasks:
        if unknown := sorted(set(task.tools or ()) - set(known)):
            what = f"{task.id} may use what no tool is called: {', '.join(unknown)}"
            yield Finding("warning", "tasks", what, "docs/reference/tools.md lists the tools")
