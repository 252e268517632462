"""The watch over the app, as the app sees it."""

from elwood.agent.feature import Feature, imported

FEATURE = Feature(
    name="health",
    build=imported("elwood.features.health.actor", "build"),
    settings=("elwood.features.health.settings:HealthSettings",),
    checks=(imported("elwood.features.health.check", "check"),),
)
