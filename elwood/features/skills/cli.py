"""What ``elwood skills`` does: lists, takes in after a look at everything that can act, removes."""

import sys
from pathlib import Path

import trio

from elwood.features.skills.git_client import Git, GitFailed
from elwood.features.skills.installer import OWN, SkillInstaller, SkillRefused
from elwood.features.skills.offered import review
from elwood.features.skills.settings import SkillSettings
from elwood.features.skills.skill import missing
from elwood.features.skills.store import SkillStore
from elwood.features.skills.tools import SkillTaking, there
from elwood.foundation.command_line import is_wanted
from elwood.foundation.net.egress import EgressRules
from elwood.foundation.runtime import in_thread
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.characters import escape_invisible

OK, FAILURE = 0, 1


def list_skills(config: Config) -> int:
    """Print all skills, where they lie, and what keeps them from being used."""
    _, found = _shelf(config).look()
    places = _places(config)
    for placed in found.skills:
        skill = placed.skill
        path = placed.root.path / placed.folder
        lacking = missing(skill.needs, there([placed]))
        state = "ready" if lacking is None else f"not usable: {lacking}"
        print(f"{skill.name}  ({state})\n    {skill.description}\n    {path}")
        record = places.record(skill.name) if placed.folder == f"{OWN}/{skill.name}" else None
        if record is not None:
            commit = f" at {record.commit[:12]}" if record.commit else ""
            print(f"    installed from {escape_invisible(record.source)}{commit}")
    for problem in found.problems:
        print(f"note: {escape_invisible(problem)}", file=sys.stderr)
    if not found.skills:
        print("There are no skills. Those that Elwood brings along are written by: elwood init")
    return OK


def install(config: Config, source: str, folder: str, *, agreed: bool) -> int:
    """Show what is in the skill at *source*, ask unless it was *agreed* to, and place it."""
    places = _places(config)

    here = Path.cwd() if "://" in source else Path(source).absolute()
    where = source if "://" in source else str(here)

    async def fetch() -> str:
        git = Git(config.of(EgressRules))
        taking = SkillTaking(_shelf(config), places, git, Root(here), in_thread)
        id_, _ = await taking.take(where, folder)
        return id_

    try:
        config.of(Paths).workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        id_ = trio.run(fetch)
        offered, offer = places.offered(id_)
        _, found = _shelf(config).look()
        hidden = found.place_of(offered.skill.name)
        print(escape_invisible(review(offered, offer.source, hidden)).replace("⏎\n", "\n"))
        if not agreed and not is_wanted(f"Install {offered.skill.name}?"):
            print("Nothing was installed.")
            return FAILURE
        places.place(offered, offer, by="command line")
    except (SkillRefused, GitFailed, PathRefused, Unconfined) as error:
        print(f"{escape_invisible(source)}: {escape_invisible(str(error))}", file=sys.stderr)
        return FAILURE
    print(f"Installed in {config.of(Paths).workspace / OWN / offered.skill.name}.")
    return OK


def remove(config: Config, name: str, *, agreed: bool) -> int:
    """Remove the skill *name* of the workspace, after asking unless it was *agreed* to."""
    if not agreed and not is_wanted(f"Remove {name} and all files in it?"):
        print("Nothing was removed.")
        return FAILURE
    try:
        _places(config).remove(name)
    except (SkillRefused, PathRefused, Unconfined) as error:
        print(escape_invisible(str(error)), file=sys.stderr)
        return FAILURE
    print(f"Removed {name}.")
    return OK


def _shelf(config: Config) -> SkillStore:
    settings = config.of(SkillSettings)
    return SkillStore(
        Root(config.of(Paths).workspace), in_thread, settings.folders, off=settings.off
    )


def _places(config: Config) -> SkillInstaller:
    return SkillInstaller(config.of(Paths).state / "skills", config.of(Paths).workspace)
