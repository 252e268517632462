from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.foundation.command_line import CliCommand, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser

CLI = "elwood.features.skills.cli"


def _add_install_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="a folder, or the https:// address of a git repository"
    )
    parser.add_argument(
        "--folder", metavar="PATH", default=".", help="folder of the skill within SOURCE"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for consent")


def _add_remove_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("name", metavar="NAME", help="name of the skill")
    parser.add_argument("--yes", action="store_true", help="do not ask for consent")


COMMAND = CliCommand(
    "skills",
    "List, install or remove skills.",
    import_lazily(CLI, "list_skills"),
    json_switch,
    within=(
        CliCommand(
            "list",
            "List the skills and their missing programs.",
            import_lazily(CLI, "list_skills"),
            json_switch,
        ),
        CliCommand(
            "install",
            "Show the content of a skill, ask, and install it.",
            import_lazily(CLI, "install_skill"),
            _add_install_arguments,
        ),
        CliCommand(
            "remove",
            "Remove a skill from the workspace.",
            import_lazily(CLI, "remove_skill"),
            _add_remove_arguments,
        ),
    ),
)

FEATURE = Feature(
    name="skills",
    build=import_lazily("elwood.features.skills.parts", "build"),
    checks=(import_lazily("elwood.features.skills.parts", "check"),),
    settings=("elwood.features.skills.settings:SkillSettings",),
    cli=(COMMAND,),
    tools={"activate_skill": "skills.skill.read"},
    lent=import_lazily("elwood.features.skills.parts", "list_mounts"),
)
