"""What ``elwood skills`` does: lists, takes in after a look at everything that can act, removes."""

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

import trio

from elwood.features.skills.feature import SkillSettings
from elwood.features.skills.git_client import Git, GitFailed
from elwood.features.skills.skill import review
from elwood.features.skills.store import OWN, SkillInstaller, SkillRefused, SkillStore, lacking
from elwood.features.skills.tools import take
from elwood.foundation.command_line import is_wanted
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.runtime import in_thread
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.characters import escape_invisible

OK, FAILURE = 0, 1


def list_skills(config: Config, given: Namespace) -> int:
    """Print all skills, where they lie, and what keeps them from being used."""
    found = _shelf(config).look()
    installer = SkillInstaller(config.of(Paths).workspace)
    for one in found.skills:
        why = lacking(one.skill)
        state = "ready" if why is None else f"not usable: {why}"
        print(f"{one.skill.name}  ({state})\n    {one.skill.description}\n    {one.path}")
        is_own = one.folder == f"{OWN}/{one.skill.name}"
        if is_own and (record := installer.record(one.skill.name)) is not None:
            commit = f" at {record.commit[:12]}" if record.commit else ""
            print(f"    installed from {record.source}{commit}")
    for problem in found.problems:
        print(f"note: {problem}", file=sys.stderr)
    if not found.skills:
        print("There are no skills. Those that Elwood brings along are written by: elwood init")
    return OK


def install(config: Config, given: Namespace) -> int:
    """Show what is in a skill, ask unless it was agreed to, and place it."""
    source: str = given.source
    here = Path.cwd() if "://" in source else Path(source).absolute()
    where = source if "://" in source else str(here)
    workspace, git = config.of(Paths).workspace, Git(config.of(EgressRules))
    try:
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        offered = trio.run(partial(take, where, given.folder, git, Root(here), in_thread))
        hidden = _shelf(config).look().place_of(offered.skill.name)
        print(escape_invisible(review(offered, hidden)).replace("⏎\n", "\n"))
        if not given.yes and not is_wanted(f"Install {offered.skill.name}?"):
            print("Nothing was installed.")
            return FAILURE
        SkillInstaller(workspace).place(offered, by="command line")
    except (SkillRefused, GitFailed, PathRefused, Unconfined) as error:
        print(f"{source}: {error}", file=sys.stderr)
        return FAILURE
    print(f"Installed in {workspace / OWN / offered.skill.name}.")
    return OK


def remove(config: Config, given: Namespace) -> int:
    """Remove a skill of the workspace, after asking unless it was agreed to."""
    name: str = given.name
    if not given.yes and not is_wanted(f"Remove {name} and all files in it?"):
        print("Nothing was removed.")
        return FAILURE
    try:
        SkillInstaller(config.of(Paths).workspace).remove(name)
    except (SkillRefused, PathRefused, Unconfined) as error:
        print(error, file=sys.stderr)
        return FAILURE
    print(f"Removed {name}.")
    return OK


def _shelf(config: Config) -> SkillStore:
    settings = config.of(SkillSettings)
    return SkillStore(
        Root(config.of(Paths).workspace), in_thread, settings.folders, off=settings.off
    )
