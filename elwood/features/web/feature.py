from elwood.agent.feature import Feature, import_lazily

FEATURE = Feature(
    name="web",
    build=import_lazily("elwood.features.web.tools", "build"),
    settings=(
        "elwood.foundation.net.settings:EgressRules",
        "elwood.features.web.settings:SearchSettings",
    ),
    tools={
        "web_search": "web.page.search",
        "web_fetch": "web.page.read",
        "web_request": "web.request.send",
    },
)
