from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, imported
from elwood.foundation.command_line import CliCommand, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser

CLI = "elwood.features.skills.cli"


def _add_install_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="a folder, or https://… of a git repository"
    )
    parser.add_argument("--folder", metavar="PATH", default=".", help="where it is in there")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_remove_arguments(parser: "ArgumentParser") -> None:
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
            _add_install_arguments,
        ),
        CliCommand(
            "remove",
            "remove one from the workspace",
            imported(CLI, "remove_skill"),
            _add_remove_arguments,
        ),
    ),
)

FEATURE = Feature(
    name="skills",
    build=imported("elwood.features.skills.parts", "build"),
    checks=(imported("elwood.features.skills.parts", "check"),),
    settings=("elwood.features.skills.settings:SkillSettings",),
    cli=(COMMAND,),
    tools={"activate_skill": "skills.skill.read"},
    lent=imported("elwood.features.skills.parts", "lend"),
)
