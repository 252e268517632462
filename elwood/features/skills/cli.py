"""``elwood skills``: list, install (after showing everything that can act) and remove skills."""

import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from elwood.features.skills.settings import SkillSettings
from elwood.features.skills.skill import Candidate, Unusable, build_candidate, review
from elwood.features.skills.store import (
    OWN,
    SkillRefused,
    SkillStore,
    describe_missing,
    install,
    read_installed,
    read_tree,
    refuse_second,
    uninstall,
)
from elwood.foundation.command_line import FAILURE, OK, CliFailure, is_wanted, show_list
from elwood.foundation.runtime import in_thread
from elwood.foundation.sandbox.command import GIT_ENVIRONMENT
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.tables import Styled

# Seconds to fetch a repository.
DEADLINE = 90.0


def list_skills(config: Config, given: Namespace) -> int:
    """Print all skills, their folders, and what makes some unusable."""
    listing, rows = _make_store(config).read_changes(), []
    for one in listing.skills:
        record = read_installed(one.path) if one.is_inside else None
        lacks, about = describe_missing(one.skill), [one.skill.description]
        fields = {"name": one.skill.name, "description": one.skill.description, "lacks": lacks}
        fields |= {"path": str(one.path), "source": None, "commit": None}
        if lacks is not None:
            about.append(f"It cannot be used: {lacks}.")
        if record is not None:
            fields |= {"source": record.source, "commit": record.commit or None}
            about.append(f"installed from {record.source} {record.commit[:12]}")
        state = Styled("ready", "good") if lacks is None else Styled("unusable", "warning")
        rows.append((fields, (one.skill.name, state, "\n".join(about), str(one.path))))
    none = "There are no skills. `elwood init` writes those that come with Elwood."
    show_list(("skill", "state", "description", "folder"), rows, given, none, ("folder",))
    for problem in listing.problems:
        print(f"note: {problem}", file=sys.stderr)
    return OK


def install_skill(config: Config, given: Namespace) -> int:
    """Show the content of a skill and install it, with consent or ``--yes``."""
    workspace = config.get(Paths).workspace
    try:
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        offered = _read_candidate(given.source, given.folder)
        refuse_second(workspace, offered.skill.name)
        hidden = _make_store(config).read_changes().place_of(offered.skill.name)
        print(escape_invisible(review(offered, hidden)).replace("⏎\n", "\n"))
        if not given.yes and not is_wanted(f"Install {offered.skill.name}?"):
            print("Nothing was installed.")
            return FAILURE
        install(workspace, offered)
    except (SkillRefused, PathRefused, Unconfined) as error:
        raise CliFailure(f"{given.source}: {error}") from error
    print(f"Installed in {workspace / OWN / offered.skill.name}.")
    return OK


def _read_candidate(source: str, folder: str) -> Candidate:
    """Read and check the skill in *folder* of *source*, a folder or a repository.

    Raises SkillRefused, PathRefused and Unconfined.
    """
    named = source if "://" in source else str(Path(source).absolute())
    if folder != ".":
        named = f"{named} ({folder})"
    with tempfile.TemporaryDirectory(prefix="elwood-skill-") as scratch:
        top, commit = Path(source).absolute(), ""
        if "://" in source:
            top = Path(scratch, "repository")
            _run_git(
                ["clone", "--quiet", "--depth=1", "--template=", "--", source, str(top)], scratch
            )
            commit = _run_git(["-C", str(top), "rev-parse", "HEAD"], scratch)
        offered = build_candidate(read_tree(Root(top), folder), named, commit)
    if isinstance(offered, Unusable):
        raise SkillRefused(offered.why)
    return offered


def _run_git(words: list[str], home: str) -> str:
    """Run git with our settings only, so that nothing in a repository runs; return its output.

    Without settings there are no hooks, filters or logins; submodules are not fetched.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, **GIT_ENVIRONMENT}
    environment["GIT_ALLOW_PROTOCOL"] = "https"
    command = ["git", *words]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=DEADLINE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SkillRefused(f"git could not fetch it: {error}") from error
    if done.returncode != 0:
        raise SkillRefused(f"git could not fetch it: {done.stderr.strip()}")
    return done.stdout.strip()


def remove_skill(config: Config, given: Namespace) -> int:
    """Remove a skill of the workspace, with consent or ``--yes``."""
    name: str = given.name
    if not given.yes and not is_wanted(f"Remove {name} and all files in it?"):
        print("Nothing was removed.")
        return FAILURE
    try:
        uninstall(config.get(Paths).workspace, name)
    except SkillRefused as error:
        raise CliFailure(error) from error
    print(f"Removed {name}.")
    return OK


def _make_store(config: Config) -> SkillStore:
    return SkillStore(Root(config.get(Paths).workspace), in_thread, config.get(SkillSettings))
