"""Commands in the sandbox, as the app sees them."""

from elwood.agent.feature import Feature, imported
from elwood.features.shell.cli import COMMANDS
from elwood.foundation.sandbox.settings import SandboxSettings

FEATURE = Feature(
    name="shell",
    build=imported("elwood.features.shell.parts", "build"),
    settings=(SandboxSettings,),
    cli=COMMANDS,
    checks=(imported("elwood.features.shell.parts", "check"),),
)
