"""The web, as the app sees it."""

from elwood.agent.feature import Feature, imported
from elwood.features.web.settings import SearchSettings
from elwood.foundation.net.settings import EgressRules

FEATURE = Feature(
    name="web",
    build=imported("elwood.features.web.parts", "build"),
    settings=(EgressRules, SearchSettings),
)
