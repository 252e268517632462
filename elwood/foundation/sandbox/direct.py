"""The rung that is none: commands see and touch what Elwood does.  Only when asked for by name."""

from pathlib import Path

import attrs

from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.command import (
    Command,
    Outcome,
    Rung,
    SandboxSettings,
)
from elwood.foundation.sandbox.launched import launch
from elwood.foundation.sandbox.running import Running


@attrs.frozen(kw_only=True)
class Direct:
    """Runs commands in *workspace*, with limits and a launcher that ends them, without walls."""

    workspace: Path
    settings: SandboxSettings
    running: Running
    blocking: Blocking

    @property
    def rung(self) -> Rung:
        return "direct"

    def place(self, path: Path) -> str | None:
        """Say where commands find *path*: where it is, as they find everything; blocks."""
        return str(path.resolve())

    async def run(self, command: Command) -> Outcome:
        """Run *command*; *writable* is not heeded.  Raises SandboxFailed."""
        return await launch(
            self.rung,
            command,
            workspace=self.workspace,
            settings=self.settings,
            running=self.running,
            blocking=self.blocking,
        )

    async def close(self) -> None:
        """Hold nothing."""
