from elwood.agent.feature import Feature, import_lazily

FEATURE = Feature(
    name="health",
    build=import_lazily("elwood.features.health.actor", "build"),
    settings=("elwood.features.health.settings:HealthSettings",),
    checks=(import_lazily("elwood.features.health.check", "check"),),
)
