"""Skills, as the app sees them."""

from argparse import ArgumentParser

from elwood.agent.feature import Feature, imported
from elwood.features.skills.settings import SkillSettings
from elwood.foundation.command_line import CliCommand

CLI = "elwood.features.skills.cli"


def _of_install(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a folder, or https://… of a repository")
    parser.add_argument("--folder", metavar="PATH", default=".", help="of the repository")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _of_remove(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("--yes", action="store_true", help="do not ask")


COMMAND = CliCommand(
    "skills",
    "List, install or remove skills.",
    imported(CLI, "list_skills"),
    within=(
        CliCommand("list", "what there is, and what it lacks", imported(CLI, "list_skills")),
        CliCommand(
            "install",
            "show what is in one, ask, and install it",
            imported(CLI, "install"),
            _of_install,
        ),
        CliCommand("remove", "remove one from the workspace", imported(CLI, "remove"), _of_remove),
    ),
)

FEATURE = Feature(
    name="skills",
    build=imported("elwood.features.skills.parts", "build"),
    settings=(SkillSettings,),
    cli=(COMMAND,),
)
