from elwood.agent.feature import Feature, imported
from elwood.features.control.cli import COMMANDS

FEATURE = Feature(
    name="control", build=imported("elwood.features.control.actor", "build"), cli=COMMANDS
)
