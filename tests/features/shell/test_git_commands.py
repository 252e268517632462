"""Read hostile repositories: programs in their configuration are not run.

Each repository is first read by plain git, which must run the planted program: so a passing test
has prevented something.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from elwood.features.shell.judge import Safe, judge
from elwood.foundation.sandbox.command import GIT_ENVIRONMENT, Command
from tests.features.shell.command_running import PATIENCE, Unwalled, git, looked, repository

Plant = Callable[[Path, str], None]


def _configured(*names: str, attributes: str = "", text: str = "two\n") -> Plant:
    """Set *names* to the planted program, and write *text* to the file that git rereads."""

    def plant(folder: Path, program: str) -> None:
        for name in names:
            key, _, value = name.partition("=")
            git(folder, "config", key, value or program)
        (folder / ".git/info/attributes").write_text(attributes)
        (folder / "a.txt").write_text(text)

    return plant


def _hook(folder: Path, program: str) -> None:
    hook = folder / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{program}\n")
    hook.chmod(0o755)
    (folder / "a.txt").write_text("two\n")  # as committed, and rewritten


def _signed(*names: str) -> Plant:
    """Add a commit with a signature."""

    def plant(folder: Path, program: str) -> None:
        commit = git(folder, "cat-file", "commit", "HEAD").replace(
            "\n\n",
            "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n",
            1,
        )
        made = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", stdin=commit).strip()
        git(folder, "update-ref", "HEAD", made)
        script = folder / ".git/gpg"
        script.write_text(f"#!/bin/sh\n{program}\n")
        script.chmod(0o755)
        git(folder, "config", "gpg.program", str(script))
        _configured(*names)(folder, program)

    return plant


def _promised(folder: Path, program: str) -> None:
    """Remove an object that a server, named by the repository, has promised."""
    blob = git(folder, "rev-parse", "HEAD:a.txt").strip()
    (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(folder),
        "remote.origin.uploadpack": f"{program};",
    }.items():
        git(folder, "config", name, value)


def _submodule(*names: str) -> Plant:
    """Add a submodule whose own configuration names the program."""

    def plant(folder: Path, program: str) -> None:
        inner = folder / "sub"
        inner.mkdir()
        repository(inner)
        git(folder, "add", "sub")
        (folder / ".gitmodules").write_text('[submodule "sub"]\n path = sub\n url = ./sub\n')
        git(folder, "add", ".gitmodules")
        git(folder, "commit", "-q", "-m", "sub")
        git(inner, "commit", "-q", "-a", "-m", "three")
        git(inner, "config", "core.fsmonitor", program)
        _configured(*names)(folder, program)

    return plant


# The refusal if the configuration names a program that no option disables.
REFUSED = "git could run other programs; to ask the owner instead, use bash -c"
CLEAN = {"attributes": "*.txt filter=x"}
PLANTS: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "fsmonitor": (_configured("core.fsmonitor"), ("git status", "git diff")),
    "external diff": (_configured("diff.external", text="3\n"), ("git diff",)),
    "driver": (_configured("diff.x.command", attributes="*.txt diff=x", text="3\n"), ("git diff",)),
    "textconv": (
        _configured("diff.x.textconv", attributes="*.txt diff=x", text="3\n"),
        ("git diff", "git log -p"),
    ),
    "clean filter": (_configured("filter.x.clean", **CLEAN), ("git status", "git diff")),
    "required filter": (
        _configured("filter.x.clean", "filter.x.required=true", **CLEAN),
        ("git status", "git diff"),
    ),
    "process filter": (
        _configured("filter.x.process", "filter.x.required=true", **CLEAN),
        ("git status", "git diff"),
    ),
    "hook": (_hook, ("git status",)),
    "signature": (_signed("log.showSignature=true"), ("git log", "git log --oneline")),
    "signature in the format": (_signed("format.pretty=%G?"), ("git log",)),
    "submodule": (_submodule(), ("git status", "git diff")),
    "submodule shown": (_submodule("diff.submodule=diff"), ("git diff", "git diff HEAD~1")),
    "summary of submodules": (_submodule("status.submoduleSummary=true"), ("git status",)),
}


def planted(tmp_path: Path, plant: Plant) -> tuple[Path, Path]:
    folder, mark = tmp_path / "work", tmp_path / "PWNED"
    folder.mkdir()
    repository(folder)
    plant(folder, f"touch '{mark}'")
    return folder, mark


@pytest.mark.parametrize(
    ("name", "command"),
    [(name, command) for name, (_, commands) in PLANTS.items() for command in commands],
)
async def test_a_hostile_repository_runs_nothing(tmp_path: Path, name: str, command: str) -> None:
    folder, mark = planted(tmp_path, PLANTS[name][0])
    printed = await looked(folder, command)
    assert not printed.startswith(("exit code 1", "the repository's")), printed
    assert not mark.exists()
    git(folder, *command.split()[1:])
    assert mark.exists(), "the planted program is no danger: this test shows nothing"


async def test_a_program_that_cannot_be_disabled_is_refused(tmp_path: Path) -> None:
    folder, mark = planted(tmp_path, _promised)
    assert REFUSED in await looked(folder, "git diff")
    assert not mark.exists()
    git(folder, "diff")
    assert mark.exists()


@pytest.mark.parametrize(
    "set_to",
    [
        "include.path",
        "includeIf.gitdir:/x/.path",
        "filter.a=b.clean=nothing",
        "core.worktree=..",
        "hook.x.command",
        "extensions.partialClone",
        "remote.origin.promisor",
    ],
)
async def test_such_names_are_not_run(tmp_path: Path, set_to: str) -> None:
    repository(tmp_path)
    assert REFUSED not in await looked(tmp_path, "git diff")
    name, _, value = set_to.rpartition("=")
    git(tmp_path, "config", name or value, value if name else "nowhere")
    assert REFUSED in await looked(tmp_path, "git diff")


async def test_a_promise_is_not_fetched_either(tmp_path: Path) -> None:
    """The environment prevents it, even if the configuration was not read."""
    folder, mark = planted(tmp_path, _promised)
    verdict = judge("git diff")
    assert isinstance(verdict, Safe)
    [[argv]] = [step.pipeline for step in verdict.steps]
    command = Command(argv=argv, timeout=PATIENCE, environment=GIT_ENVIRONMENT)
    await Unwalled(folder).run(command)
    assert not mark.exists()
