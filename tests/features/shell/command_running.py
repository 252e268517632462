"""Run safe commands with the tool itself, without a sandbox; and plain git."""

import os
import subprocess
from pathlib import Path

import attrs
import trio

from elwood.agent.conversation.calls import RunCommand
from elwood.agent.conversation.route import NOWHERE
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.tools.tool import ToolContext, ToolFailure, WorkspaceFiles
from elwood.features.shell.tools import CommandTool, ShellCommand
from elwood.foundation.runtime import inline
from elwood.foundation.sandbox.command import Command, CommandOutcome, Rung
from elwood.foundation.storage.files import Root

# Seconds after which a command counts as hanging.
PATIENCE = 30
CONTEXT = ToolContext(session="s", route=NOWHERE, now=0.0)


def minimal(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}


@attrs.frozen
class Unwalled:
    """Runs commands in *folder* like a sandbox, without its walls: for harmless ones only."""

    folder: Path
    rung: Rung = "bubblewrap"

    def map_path(self, path: Path) -> str | None:
        return str(path)

    async def run(self, command: Command) -> CommandOutcome:
        def start() -> "subprocess.CompletedProcess[bytes]":
            return subprocess.run(
                command.argv,
                cwd=self.folder,
                env={**minimal(self.folder), **command.environment},
                input=command.stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if command.merge else subprocess.PIPE,
                timeout=PATIENCE,
                check=False,
            )

        done = await trio.to_thread.run_sync(start)
        return CommandOutcome(done.returncode, done.stdout, errors=done.stderr or b"")


def command_tool(folder: Path, policy: PolicySettings | None = None) -> CommandTool:
    """Create the tool for commands in *folder*; its state is next to that."""
    return CommandTool(
        Unwalled(folder),
        WorkspaceFiles(Root(folder)),
        folder.parent / f"{folder.name}-state",
        inline,
        policy or PolicySettings(),
        report=lambda changed: None,
    )


async def looked(folder: Path, command: str) -> str:
    """Run *command*, which must be safe, and return its output or its failure."""
    tool = command_tool(folder)
    given = ShellCommand(command)
    assert (await tool.examine(given, CONTEXT)).action == RunCommand("safe"), command
    try:
        made = await tool.run_command(given, CONTEXT)
        return made if isinstance(made, str) else made.text
    except ToolFailure as error:
        return str(error)


def git(folder: Path, *args: str, stdin: str = "") -> str:
    """Run git without any hardening."""
    environment = minimal(folder)
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "t", f"GIT_{who}_EMAIL": "t@example.org"}
    return subprocess.run(
        ("git", *args),
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    ).stdout


def repository(folder: Path) -> None:
    """Create a repository with two commits, and an uncommitted change."""
    git(folder, "init", "-q", "-b", "main")
    for text in ("one\n", "two\n"):
        (folder / "a.txt").write_text(text)
        git(folder, "add", "a.txt")
        git(folder, "commit", "-q", "-m", text.strip())
    (folder / "a.txt").write_text("three\n")
