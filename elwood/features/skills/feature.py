"""Skills, as the app sees them."""

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import attrs

from elwood.agent.feature import Feature, imported
from elwood.foundation.command_line import CliCommand, json_switch
from elwood.foundation.settings import Complaint, Loaded, Section, between, setting


def _verify(loaded: Loaded) -> Iterator[Complaint]:
    if SkillSettings in loaded.config.values:
        settings = loaded.config.of(SkillSettings)
        for name in sorted(settings.chats.keys() & set(settings.always)):
            what = "stands in every prompt (skills.always), so it is for all chats"
            yield ("skills", "chats", name), what, "take it out of one of the two"


@attrs.frozen(kw_only=True)
class SkillSettings:
    """Skills beside those of the workspace, in *folders*; *always* names those in every prompt."""

    SECTION: ClassVar = Section(
        "skills", "Instructions for kinds of work, each a folder with a SKILL.md.", verify=_verify
    )

    folders: tuple[Path, ...] = setting(
        (),
        help="folders with skills beside those of the workspace; they are only read",
        example='["/srv/team-skills"]',
    )
    always: tuple[str, ...] = setting(
        (), help="skills whose instructions stand in every prompt", example='["style"]'
    )
    off: tuple[str, ...] = setting((), help="skills that are not used", example='["github"]')
    load: int = setting(
        1,
        help="skills at most that are loaded at once with a message that they clearly fit; 0: none",
        check=between(0, 3),
    )
    chats: Mapping[str, tuple[int, ...]] = setting(
        {},
        help="skills that only some chats may use, by their numbers; these stand in no prompt, and "
        "are found by what they are about, or by their names",
        example="{ taxes = [123456] }",
    )


CLI = "elwood.features.skills.cli"


def _of_install(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="a folder, or https://… of a git repository"
    )
    parser.add_argument("--folder", metavar="PATH", default=".", help="where it is in there")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _of_remove(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("--yes", action="store_true", help="do not ask")


COMMAND = CliCommand(
    "skills",
    "List, install or remove skills.",
    imported(CLI, "list_skills"),
    json_switch,
    within=(
        CliCommand(
            "list", "what there is, and what it lacks", imported(CLI, "list_skills"), json_switch
        ),
        CliCommand(
            "install",
            "show what is in one, ask, and install it",
            imported(CLI, "install_skill"),
            _of_install,
        ),
        CliCommand(
            "remove", "remove one from the workspace", imported(CLI, "remove_skill"), _of_remove
        ),
    ),
)

FEATURE = Feature(
    name="skills",
    build=imported("elwood.features.skills.parts", "build"),
    checks=(imported("elwood.features.skills.parts", "check"),),
    settings=(SkillSettings,),
    cli=(COMMAND,),
    tools={"activate_skill": "skills.skill.read"},
)
