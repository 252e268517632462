"""The console, as the app sees it: a conversation, or one message and its answer."""

from elwood.agent.feature import Feature, imported

FEATURE = Feature(
    name="console",
    build=imported("elwood.features.console.parts", "talk"),
    owner=lambda config: "console",
)
# A feature of one run: it says one message, and ends the app at the answer.
one_message = imported("elwood.features.console.parts", "OneMessage")
