"""What the doctor asks about tasks: is HEARTBEAT.md understood?"""

from collections.abc import Iterator

from elwood.features.tasks.heartbeat import read_checklist
from elwood.features.tasks.store import HeartbeatFile
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.confined import Unconfined
from elwood.foundation.storage.files import Root


async def check(context: CheckContext) -> list[Finding]:
    """Look at all that is planned."""
    return await context.blocking(lambda: list(_heartbeat(context.config)))


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
