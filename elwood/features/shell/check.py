"""What the doctor asks about commands: is there a sandbox for them?"""

from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Paths


async def check(context: CheckContext) -> list[Finding]:
    """Take a sandbox as the service does, and say which; it is given back at once."""
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
