"""Files of the workspace, as the app sees them."""

from elwood.agent.feature import Feature, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.features.files.search_tools import FIND, GREP
from elwood.features.files.tools import LIST_FILES, READ_FILE
from elwood.features.files.write_tools import EDIT_FILE, WRITE_FILE


async def build(core: Core, others: Gathered) -> Parts:
    """List the tools."""
    return Parts(tools=[LIST_FILES, READ_FILE, WRITE_FILE, EDIT_FILE, FIND, GREP])


FEATURE = Feature(name="files", build=build)
