"""Tries the sandbox that commands would run in."""

from elwood.app.config.settings import Config
from elwood.app.doctor.findings import Finding
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox import NoSandbox, pick


async def examine_sandbox(config: Config, blocking: Blocking) -> list[Finding]:
    """Take a rung as the service does, and say which; it is given back at once."""
    paths = config.paths
    if not (paths.state.is_dir() and paths.workspace.is_dir()):
        return []  # told with the folders
    if config.sandbox.kind == "docker":
        # Taking it removes the containers of a house before, perhaps of one that runs now.
        return [Finding("ok", "sandbox", "a container is tried when Elwood starts, not here")]
    try:
        folders = (paths.workspace, paths.state, config.skills.folders)
        picked = await pick(config.sandbox, *folders, blocking=blocking)
    except NoSandbox as error:
        if config.sandbox.kind == "none":
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
