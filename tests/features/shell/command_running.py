"""Runs the plan of a safe command, and git as it is."""

import os
import subprocess
from pathlib import Path

from elwood.features.shell.judge import READ_CONFIGURATION, Safe, Unclear, overridden, overrides
from elwood.foundation.sandbox.command import GIT_ENVIRONMENT

# Seconds after which a command counts as hanging.
PATIENCE = 30


def minimal(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}


def run(plan: Safe, folder: Path, words: tuple[str, ...] = ()) -> tuple[int, bytes]:
    """Run *plan* as it says, with *words* of `overrides`: the last status, and what was printed."""
    status, printed = 0, b""
    environment = {**minimal(folder), **GIT_ENVIRONMENT}
    for step in plan.steps:
        if (step.joined == "&&" and status) or (step.joined == "||" and not status):
            continue
        said = b""
        for argv in step.pipeline:
            done = subprocess.run(
                overridden(argv, words),
                cwd=folder,
                env=environment,
                input=said,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE,
                check=False,
            )
            status, said = done.returncode, done.stdout
        printed += said
    return status, printed


def found(folder: Path) -> tuple[str, ...] | Unclear:
    """Read the configuration of the repository in *folder*, and say how to switch it off."""
    listed = subprocess.run(
        READ_CONFIGURATION,
        cwd=folder,
        env={**minimal(folder), **GIT_ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert listed.returncode in (0, 1), listed.stderr
    return overrides(listed.stdout.splitlines())


def git(folder: Path, *args: str, stdin: str = "") -> str:
    """Run git as it is, without any hardening."""
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
    """Make a repository with two commits, and a change that is in none."""
    git(folder, "init", "-q", "-b", "main")
    for text in ("one\n", "two\n"):
        (folder / "a.txt").write_text(text)
        git(folder, "add", "a.txt")
        git(folder, "commit", "-q", "-m", text.strip())
    (folder / "a.txt").write_text("three\n")
