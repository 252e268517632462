"""Files of the workspace, as the app sees them."""

from elwood.agent.feature import Feature, imported

FEATURE = Feature(name="files", build=imported("elwood.features.files.search_tools", "build"))
