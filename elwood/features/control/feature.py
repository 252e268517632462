from elwood.agent.feature import Feature, import_lazily
from elwood.features.control.cli import COMMANDS

FEATURE = Feature(
    name="control", build=import_lazily("elwood.features.control.actor", "build"), cli=COMMANDS
)
