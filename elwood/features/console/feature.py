"""The console, as the app sees it: terminals that join, and a house that somebody sits in."""

from elwood.agent.feature import Feature, imported
from elwood.features.console.cli import COMMANDS

FEATURE = Feature(
    name="console",
    build=imported("elwood.features.console.parts", "join"),
    cli=COMMANDS,
    owner=lambda config: "console",
    is_channel=True,
)
# What is typed, of which the app starts the house if none runs.
chat = imported("elwood.features.console.cli", "chat")
once = imported("elwood.features.console.cli", "once")
# Of a house of one's own: what is done there at a socket, in a conversation.
sit = imported("elwood.features.console.parts", "sit")
