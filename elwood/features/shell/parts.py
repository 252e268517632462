"""What shell brings to one run of the app."""

import logging

from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import WorkspaceFiles
from elwood.features.shell.tools import tools
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.sandbox.children import reap
from elwood.foundation.sandbox.command import Executor, NoSandbox
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Paths

log = logging.getLogger("elwood.shell")


async def build(core: Core, others: Gathered) -> Parts:
    """Find a sandbox.  Commands that an earlier process left running are ended first (CP-15)."""
    blocking, paths = core.environment.blocking, core.paths
    if left := await blocking(lambda: reap(paths.state / "running")):
        log.warning("ended commands of an earlier run", extra={"count": left})
    sandbox: Executor | NoSandbox
    try:
        folders = (paths.workspace, paths.state, tuple(root.path for root in others.lent))
        picked = await pick(core.config.of(SandboxSettings), *folders, blocking=blocking)
    except NoSandbox as error:
        log.warning("commands cannot be run", extra={"why": error.why})
        sandbox, status = error, f"Commands cannot be run: {error.why}"
    else:
        notes = "; ".join(picked.notes)
        log.info("sandbox ready", extra={"rung": picked.rung, "notes": notes})
        core.closing.push_async_callback(picked.executor.close)
        sandbox, status = picked.executor, f"Commands run in: {picked.rung}."
    files = WorkspaceFiles(core.workspace, others.lent, others.place)
    return Parts(
        tools=tools(sandbox, files, blocking),
        sandbox=sandbox,
        status=[lambda: status],
    )


async def check(context: CheckContext) -> list[Finding]:
    """For the doctor: take a sandbox as the service does, and say which; give it back at once."""
    settings, paths = context.config.of(SandboxSettings), context.config.of(Paths)
    if not (paths.state.is_dir() and paths.workspace.is_dir()):
        return []  # told with the folders
    if settings.kind == "docker":
        # Taking it removes the containers of a process before, perhaps of one that runs now.
        return [Finding("ok", "sandbox", "a container is tried when Elwood starts, not here")]
    try:
        folders = (paths.workspace, paths.state, ())
        picked = await pick(settings, *folders, blocking=context.blocking)
    except NoSandbox as error:
        if settings.kind == "none":
            return [Finding("ok", "sandbox", "commands are turned off in the configuration")]
        what = f"commands cannot be run: {error.why}"
        return [Finding("warning", "sandbox", what, "see docs/sandbox.md")]
    except OSError as error:
        what = f"it cannot be tried: {error.strerror}: {error.filename}"
        return [Finding("warning", "sandbox", what, "run the doctor as the user of Elwood")]
    await picked.executor.close()
    if picked.rung == "direct":
        what = "commands are not confined, so you are asked about each of them"
        return [Finding("warning", "sandbox", what, 'set sandbox.kind to "auto"')]
    notes = "".join(f"; {note}" for note in picked.notes)
    return [Finding("ok", "sandbox", f"commands run in {picked.rung}{notes}")]
