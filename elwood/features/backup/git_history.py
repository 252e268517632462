"""The history of a git repository as one file, and back.  Everything here blocks.

Git runs without any configuration but the repository's own, without hooks, helpers or a network.
"""

import os
import re
import signal
import stat
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from elwood.features.shell.git_commands import ENVIRONMENT

# Seconds for one command of git: the history of a large workspace, on a slow disk.
DEADLINE = 600.0
# What a repository may have that a bundle does not hold.
BEYOND = ("modules", "lfs", "shallow")
# What `head` gives: a branch, or a commit if none is checked out.
HEAD = re.compile(r"refs/heads/[^\s-][^\s]{0,250}|[0-9a-f]{40}|[0-9a-f]{64}")

_HARDENED = (
    "git", "--no-pager", "--no-optional-locks",
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "maintenance.auto=false", "-c", "fetch.recurseSubmodules=no",
)  # fmt: skip


class GitFailed(Exception):
    """The history was not taken, or not put back; the text says why."""


def is_repository(folder: Path) -> bool:
    """Tell whether *folder* has a repository of its own, and not a link to one elsewhere."""
    try:
        return stat.S_ISDIR(os.lstat(folder / ".git").st_mode)
    except OSError:
        return False


def bundle(folder: Path, target: Path) -> str:
    """Write all branches, tags and commits of the repository in *folder* into the file *target*.

    Return what is checked out (`HEAD`).  Raises GitFailed.
    """
    repository = folder / ".git"
    for name in BEYOND:
        if (repository / name).exists():
            raise GitFailed(f"it has .git/{name}, which a bundle does not hold")
    if not _git(repository, "for-each-ref", "--count=1"):
        raise GitFailed("it has no commits")
    try:
        commit = _git(repository, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    except GitFailed:
        commit = ""  # of a branch that has none yet
    more = ["HEAD"] if commit else []
    _git(repository, "bundle", "create", "--quiet", str(target), "--all", *more)
    try:
        head = _git(repository, "symbolic-ref", "--quiet", "HEAD")
    except GitFailed:
        head = commit
    if not HEAD.fullmatch(head):
        raise GitFailed("it has an unusual HEAD")
    return head


def unbundle(source: Path, folder: Path, head: str) -> None:
    """Make the repository of *folder* from the bundle *source*, with *head* checked out.

    The files of *folder* stay as they are; what differs from *head* shows as changed.  Raises
    GitFailed.
    """
    if not HEAD.fullmatch(head):
        raise GitFailed("its HEAD is none")
    repository = folder / ".git"
    form = "sha256" if len(head) == 64 else "sha1"
    _git(repository, "init", "--quiet", "--template=", f"--object-format={form}")
    specs = ["+refs/*:refs/*", *(["HEAD"] if not head.startswith("refs/") else [])]
    _git(repository, "fetch", "--quiet", "--update-head-ok", str(source), *specs, protocol="file")
    if head.startswith("refs/"):
        _git(repository, "symbolic-ref", "HEAD", head)
    else:
        _git(repository, "update-ref", "--no-deref", "HEAD", head)
    with suppress(GitFailed):  # a branch without commits has no files either
        _git(repository, "read-tree", "HEAD")


def _git(repository: Path, *words: str, protocol: str = "none") -> str:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        **ENVIRONMENT,
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_DIR": str(repository),
        "GIT_WORK_TREE": str(repository.parent),
    }
    return _run((*_HARDENED, *words), repository.parent, environment)


def _run(command: Sequence[str], folder: Path, environment: dict[str, str]) -> str:
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise GitFailed(f"git cannot be started: {error.strerror}") from error
    with process:
        try:
            output, said = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired as error:
            # With all that it started.
            os.killpg(process.pid, signal.SIGKILL)
            raise GitFailed(f"git needed more than {DEADLINE:.0f} s") from error
    if process.returncode != 0:
        why = said.decode("utf-8", "replace").strip().splitlines() or [f"{process.returncode}"]
        raise GitFailed(f"git failed: {why[-1][:200]}")
    return output.decode("utf-8", "replace").strip()
