"""The feature for settings that the assistant changes itself (agent.toml)."""

from elwood.agent.feature import Feature, imported

FEATURE = Feature(
    name="own_settings",
    build=imported("elwood.features.own_settings.parts", "build"),
    own=("elwood.features.own_settings.settings:Personality",),
    checks=(imported("elwood.features.own_settings.check", "check"),),
    tools={"change_settings": "own_settings.file.change"},
)
