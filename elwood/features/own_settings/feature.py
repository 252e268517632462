"""The feature for settings that the assistant changes itself (agent.toml)."""

from elwood.agent.feature import Feature, import_lazily

FEATURE = Feature(
    name="own_settings",
    build=import_lazily("elwood.features.own_settings.parts", "build"),
    own=("elwood.features.own_settings.settings:Personality",),
    checks=(import_lazily("elwood.features.own_settings.check", "check"),),
    tools={"change_settings": "own_settings.file.change"},
)
