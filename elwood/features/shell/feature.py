"""Commands in the sandbox, as the app sees them."""

import logging

from elwood.agent.feature import Feature, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import WorkspaceFiles
from elwood.features.shell.tools import tools
from elwood.foundation.sandbox.command import Executor, NoSandbox
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.running import reap
from elwood.foundation.sandbox.settings import SandboxSettings

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


FEATURE = Feature(name="shell", settings=(SandboxSettings,), build=build)
