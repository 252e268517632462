from elwood.agent.feature import Feature, imported

FEATURE = Feature(
    name="health",
    build=imported("elwood.features.health.actor", "build"),
    settings=("elwood.features.health.settings:HealthSettings",),
    checks=(imported("elwood.features.health.check", "check"),),
)
